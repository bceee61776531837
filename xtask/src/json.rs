//! Reading single fields out of JSON lines that Cargo or our own programs print.
//!
//! All such lines are machine-written objects in which the key asked for occurs once, so a full parser
//! (and its dependency) would buy nothing here.

use anyhow::{Context, Result, ensure};

/// The number under `key`. A value that is missing, not a number or not finite is an error that shows the line.
pub fn number(line: &str, key: &str) -> Result<f64> {
    let rest = value(line, key).with_context(|| format!("no \"{key}\" in: {line}"))?;
    let end = rest.find([',', '}', ' ']).unwrap_or(rest.len());
    let number: f64 = rest[..end].parse().with_context(|| format!("\"{key}\" is not a number in: {line}"))?;
    ensure!(number.is_finite(), "\"{key}\" is not finite in: {line}");
    Ok(number)
}

/// The string under `key`, or `None` when the key is missing or its value is not a string (`null`, for example).
pub fn text(line: &str, key: &str) -> Option<String> {
    let mut characters = value(line, key)?.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'u' => {
                    let code: String = characters.by_ref().take(4).collect();
                    text.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
                }
                escaped => text.push(escaped),
            },
            plain => text.push(plain),
        }
    }
}

/// What follows `"key":`, without leading spaces.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let quoted = format!("\"{key}\"");
    let after_key = &line[line.find(&quoted)? + quoted.len()..];
    Some(after_key.trim_start().strip_prefix(':')?.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"env": "hopper", "threads":1, "steps_per_second":1.5e4,"rss":null,"path":"/a \"b\"\\c\u0041"}"#;

    #[test]
    fn numbers_and_texts_are_read_by_key() {
        assert_eq!(number(LINE, "threads").unwrap(), 1.0);
        assert_eq!(number(LINE, "steps_per_second").unwrap(), 1.5e4);
        assert_eq!(text(LINE, "env").unwrap(), "hopper");
        assert_eq!(text(LINE, "path").unwrap(), "/a \"b\"\\cA");
    }

    #[test]
    fn a_missing_or_wrong_value_is_named() {
        assert!(number(LINE, "seconds").unwrap_err().to_string().contains("\"seconds\""));
        assert!(number(LINE, "rss").is_err());
        assert!(number(r#"{"x":NaN}"#, "x").is_err());
        assert_eq!(text(LINE, "rss"), None);
        assert_eq!(text(r#"{"cut":"off"#, "cut"), None);
    }
}
