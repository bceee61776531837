//! The paper under every chart: texts, paths, legend, and the style that they share.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::COLOURS;
use crate::markup::escape;

/// Left edge of titles and legends.
pub const MARGIN: f64 = 16.0;
/// Width of a letter of the legend, roughly.
pub const LETTER: f64 = 7.0;

/// A picture that is being drawn.
pub struct Sheet {
    pub width: f64,
    pub height: f64,
    /// Where the head ends: titles, then the legend.
    pub head: f64,
    body: String,
    colours: BTreeSet<usize>,
    /// Whether some text lies over what is drawn.
    over: bool,
}

impl Sheet {
    /// With its titles.
    pub fn new(width: f64, title: &str, subtitle: &str) -> Self {
        let (body, colours) = (String::new(), BTreeSet::new());
        let mut sheet = Self { width, height: 0.0, head: 26.0, body, colours, over: false };
        sheet.text("title", MARGIN, sheet.head, title);
        if !subtitle.is_empty() {
            sheet.head += 18.0;
            sheet.text("soft", MARGIN, sheet.head, subtitle);
        }
        sheet
    }

    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
        }
    }

    /// A text that ends here and can be read over whatever is drawn there.
    pub fn text_over(&mut self, x: f64, y: f64, text: &str) {
        self.over = true;
        self.text("over end", x, y, text);
    }

    pub fn path(&mut self, class: &str, path: &str) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A path in one of the colours, with what a pointer on it is told.
    pub fn coloured(&mut self, class: &str, colour: usize, path: &str, about: &str) {
        let class = format!("{class} {}", self.colour(colour));
        if about.is_empty() {
            return self.path(&class, path);
        }
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>", escape(about));
    }

    /// The class of a colour, which the style then has.
    pub fn colour(&mut self, colour: usize) -> String {
        let colour = colour % COLOURS.len();
        self.colours.insert(colour);
        format!("c{colour}")
    }

    /// Names in rows below the head; `sign` draws what is before each, 24 wide and around the given height.
    pub fn legend(&mut self, names: &[&str], mut sign: impl FnMut(&mut Self, usize, f64, f64)) {
        if names.is_empty() {
            return;
        }
        let (mut x, mut y) = (MARGIN, self.head + 22.0);
        for (i, name) in names.iter().enumerate() {
            let width = 30.0 + LETTER * name.chars().count() as f64;
            if x + width > self.width - MARGIN && x > MARGIN {
                (x, y) = (MARGIN, y + 17.0);
            }
            sign(self, i, x, y - 4.0);
            self.text("legend", x + 30.0, y, name);
            x += width + 14.0;
        }
        self.head = y;
    }
}

/// Sheets beside one another as a file.
pub fn svg(label: &str, sheets: &[Sheet]) -> String {
    let width: f64 = sheets.iter().map(|s| s.width).sum();
    let height = sheets.iter().map(|s| s.height).fold(0.0, f64::max);
    let colours: BTreeSet<usize> = sheets.iter().flat_map(|s| s.colours.iter().copied()).collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n\
         <rect class=\"page\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"10\"/>\n",
        escape(label),
        style(&colours, sheets.iter().any(|s| s.over))
    );
    let mut x = 0.0;
    for sheet in sheets {
        match x {
            0.0 => out += &sheet.body,
            x => _ = writeln!(out, "<g transform=\"translate({x:.0})\">\n{}</g>", sheet.body),
        }
        x += sheet.width;
    }
    out + "</svg>\n"
}

/// No variables: not every program that reads SVG knows them.
fn style(colours: &BTreeSet<usize>, over: bool) -> String {
    let mut light = String::from(
        ".chart{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
         .chart .page{fill:#fff}.chart text{fill:#1d2126}.chart .title{font-size:15px;font-weight:600}\
         .chart .soft,.chart .tick{fill:#5b636c}.chart .tick{font-variant-numeric:tabular-nums}.chart .inside{fill:#fff}\
         .chart .middle{text-anchor:middle}.chart .end{text-anchor:end}.chart path{fill:none}\
         .chart .grid{stroke:#e4e2dc}.chart .zero,.chart .axis{stroke:#8a9098}\
         .chart .line{stroke-width:2;stroke-linejoin:round}.chart .dashed{stroke-dasharray:7 5}\
         .chart .dots{stroke-width:6;stroke-linecap:round}.chart .crosses{stroke-width:1.8;stroke-linecap:round}\
         .chart .band{fill-opacity:.17}.chart .thin{stroke-width:1;stroke-opacity:.45;stroke-linejoin:round}",
    );
    let mut dark = String::from(
        ".chart .page{fill:#191d23}.chart text{fill:#e8eaed}.chart .soft,.chart .tick{fill:#a2abb5}.chart .inside{fill:#111418}\
         .chart .grid{stroke:#2c323a}.chart .zero,.chart .axis{stroke:#69727c}.chart .band{fill-opacity:.22}",
    );
    if over {
        light += ".chart .over{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}\
                  .chart .level{stroke-width:1.5;stroke-dasharray:3 4}";
        dark += ".chart .over{stroke:#191d23}";
    }
    for i in colours {
        let (on_white, on_black, dashes) = COLOURS[*i];
        for (css, colour) in [(&mut light, on_white), (&mut dark, on_black)] {
            let _ = write!(
                css,
                ".chart .c{i}{{stroke:{colour}}}.chart .band.c{i},.chart .bar.c{i}{{fill:{colour};stroke:none}}"
            );
        }
        if !dashes.is_empty() {
            let _ = write!(light, ".chart .curve.c{i}{{stroke-dasharray:{dashes}}}");
        }
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}
