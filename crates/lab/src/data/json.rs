//! JSON as Python writes it: with bare `Infinity` and `NaN`, which are no JSON.

use serde_json::Value;

/// Parses JSON in which `Infinity`, `-Infinity` and `NaN` may stand where numbers do; they become null, since nobody
/// here needs the bounds of a space.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c == '"' {
            string_length(rest)
        } else if let Some(word) = ["-Infinity", "Infinity", "NaN"].into_iter().find(|w| rest.starts_with(w)) {
            clean.push_str("null");
            rest = &rest[word.len()..];
            continue;
        } else {
            c.len_utf8()
        };
        clean.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    serde_json::from_str(&clean).map_err(|e| format!("is no JSON: {e}"))
}

/// Bytes of the string literal `text` begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_infinities_become_null_and_strings_stay() {
        let value = parse(r#"{"low": [-Infinity, 1.5], "high": Infinity, "x": NaN, "s": "NaN \" -Infinity"}"#).unwrap();
        assert_eq!(value["low"][0], Value::Null);
        assert_eq!(value["low"][1], 1.5);
        assert_eq!(value["high"], Value::Null);
        assert_eq!(value["s"], "NaN \" -Infinity");
    }

    #[test]
    fn what_is_no_json_stays_an_error() {
        for text in ["", "{", "\"open", "{\"a\": Infinit}", "\u{feff}", "[1,]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
