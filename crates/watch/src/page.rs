//! The page: one file, with the board as it is when it is asked for, so that the first picture needs no second request.

use crate::board::Row;

const TEMPLATE: &str = include_str!("page.html");
const DATA: &str = "{{data}}";

pub fn html(rows: &[Row], left_out: &str) -> String {
    let data = serde_json::json!({ "rows": rows, "left_out": left_out }).to_string();
    // Inside a script element only "<" could end it early, and in JSON "<" stands only in strings.
    TEMPLATE.replacen(DATA, &data.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_and_nothing_is_asked_of_a_network() {
        let nasty = "</script><script>alert(1)</script>";
        let page = html(&[Row { name: nasty.into(), why: nasty.into(), ..Row::default() }], nasty);
        assert!(!page.contains("alert(1)</script>"));
        assert_eq!(page.matches("</script>").count(), html(&[], "").matches("</script>").count());
        for mark in ["http:", "https:", "src=", "@import", "url(", "import("] {
            assert!(!page.contains(mark), "{mark}");
        }
    }
}
