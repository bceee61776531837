//! What all HTML pages share: text that cannot become markup, and a head that keeps a page from asking anything of a network.

/// Text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A whole page without scripts. `style` is CSS, `body` markup.
pub fn page(title: &str, style: &str, body: &str) -> String {
    page_with(title, style, body, "")
}

/// A whole page with a script of its own, or none if it is empty.
pub fn page_with(title: &str, style: &str, body: &str, script: &str) -> String {
    let (allowed, script) = match script {
        "" => ("", String::new()),
        script => ("; script-src 'unsafe-inline'", format!("<script>{script}</script>\n")),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{allowed}\">\n\
         <title>{}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}{script}</body>\n</html>\n",
        escape(title)
    )
}
