//! Who may ask: this machine alone, or whoever has the token; never a page of somebody else that the browser happens to show.

use std::io::Read as _;
use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

/// What a request must have.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The token, where one is needed: everywhere but on this machine's own address.
    pub token: Option<String>,
}

/// A token that nobody guesses: 128 bits of the system's random numbers.
pub fn token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The cookie that holds the token once the page was opened with it. Ports share cookies, so the port is in its name.
pub fn cookie_name(access: &Access) -> String {
    format!("sskp-watch-{}", access.address.port())
}

/// Longest address that is looked at; the page's own are below a hundred.
const LONGEST: usize = 512;

/// Whether a request is answered; else the status and the sentence it gets.
pub fn check(
    access: &Access,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), (StatusCode, &'static str)> {
    let refuse = |status, why| Err((status, why));
    if method != Method::GET && method != Method::HEAD {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "this page only shows: GET is all it answers");
    }
    if uri.to_string().len() > LONGEST {
        return refuse(StatusCode::URI_TOO_LONG, "no address here is so long");
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = text(header::HOST.as_str()) else {
        return refuse(StatusCode::BAD_REQUEST, "a request names its host");
    };
    if headers.get_all(header::HOST).iter().count() > 1 || uri.authority().is_some_and(|named| named.as_str() != host) {
        return refuse(StatusCode::BAD_REQUEST, "a request names one host");
    }
    // A name that somebody else points at this machine is not ours: without this, his page could read ours.
    if access.token.is_none() && !local(host, access.address.port()) {
        return refuse(StatusCode::FORBIDDEN, "asked for by another name than localhost");
    }
    if let Some(origin) = text("origin")
        && origin.strip_prefix("http://") != Some(host)
    {
        return refuse(StatusCode::FORBIDDEN, "another page may not ask");
    }
    if matches!(text("sec-fetch-site"), Some("cross-site" | "same-site")) && text("sec-fetch-mode") != Some("navigate")
    {
        return refuse(StatusCode::FORBIDDEN, "another page may not ask");
    }
    let Some(token) = &access.token else { return Ok(()) };
    let cookie = format!("{}={token}", cookie_name(access));
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let known = cookies.flat_map(|all| all.split(';')).any(|one| same(one.trim(), &cookie));
    if known || in_query(uri).is_some_and(|given| same(given, token)) {
        return Ok(());
    }
    refuse(StatusCode::UNAUTHORIZED, "the address needs its ?token=, as sskp watch printed it")
}

/// The token in an address.
pub fn in_query(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Takes the same time wherever the two differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
}

fn local(host: &str, port: u16) -> bool {
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| host == format!("{name}:{port}") || (port == 80 && host == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(access: &Access, method: &str, uri: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut all = HeaderMap::new();
        headers.iter().for_each(|(name, value)| _ = all.append(*name, value.parse().unwrap()));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        check(access, &method, &uri.parse().unwrap(), &all).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn on_this_machine_only_its_own_names_and_pages_may_ask() {
        let access = Access { address: ([127, 0, 0, 1], 8010).into(), token: None };
        let host = ("host", "127.0.0.1:8010");
        assert_eq!(ask(&access, "GET", "/", &[host]), 200);
        assert_eq!(ask(&access, "GET", "/", &[("host", "localhost:8010"), ("origin", "http://localhost:8010")]), 200);
        assert_eq!(ask(&access, "GET", "/", &[]), 400);
        for bad in ["evil.example:8010", "127.0.0.1:8011", "127.0.0.1.evil.example:8010", "localhost"] {
            assert_eq!(ask(&access, "GET", "/", &[("host", bad)]), 403, "{bad}");
        }
        for bad in ["http://evil.example", "null", "https://127.0.0.1:8010", "http://localhost:8010"] {
            assert_eq!(ask(&access, "GET", "/events", &[host, ("origin", bad)]), 403, "{bad}");
        }
        assert_eq!(ask(&access, "GET", "/events", &[host, ("sec-fetch-site", "cross-site")]), 403);
        let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(ask(&access, "GET", "/", &link), 200, "a link from elsewhere is a person");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert_eq!(ask(&access, method, "/", &[host]), 405);
        }
        assert_eq!(ask(&access, "GET", &format!("/{}", "x".repeat(600)), &[host]), 414);
    }

    #[test]
    fn elsewhere_the_token_is_needed_in_the_address_or_as_cookie() {
        let token = token().unwrap();
        assert_eq!(token.len(), 32);
        let access = Access { address: ([0, 0, 0, 0], 8010).into(), token: Some(token.clone()) };
        let host = ("host", "robots.lab:8010");
        assert_eq!(ask(&access, "GET", "/", &[host]), 401);
        assert_eq!(ask(&access, "GET", "/?token=", &[host]), 401);
        assert_eq!(ask(&access, "GET", &format!("/?token={token}x"), &[host]), 401);
        assert_eq!(ask(&access, "GET", &format!("/?token={token}"), &[host]), 200);
        let good = format!("a=b; sskp-watch-8010={token}");
        assert_eq!(ask(&access, "GET", "/events", &[host, ("cookie", &good)]), 200);
        assert_eq!(ask(&access, "GET", "/events", &[host, ("cookie", &format!("sskp-watch-8011={token}"))]), 401);
        assert_eq!(ask(&access, "GET", "/events", &[host, ("cookie", &good), ("origin", "http://evil.example")]), 403);
    }
}
