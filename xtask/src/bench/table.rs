//! What every benchmark prints at its end.

/// A Markdown table of right-aligned cells; the first row is its header.
pub fn markdown<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if number == 0 {
            let rules = widths.map(|width| "-".repeat(width + 1) + ":");
            text += &format!("|{}|\n", rules.join("|"));
        }
    }
    text.trim_end().to_owned()
}

/// One line when all aims are met; otherwise each aim that was missed.
pub fn verdict(aims: impl Iterator<Item = (String, bool)>) -> String {
    let aims: Vec<(String, bool)> = aims.collect();
    let missed: Vec<&str> = aims.iter().filter(|(_, met)| !met).map(|(aim, _)| aim.as_str()).collect();
    if missed.is_empty() {
        return format!("passed: all {} aims are met", aims.len());
    }
    format!("failed: {} of {} aims are missed: {}", missed.len(), aims.len(), missed.join("; "))
}
