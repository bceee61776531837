//! Plain text tables that line up.

use std::fmt;

/// Rows of cells; the first may be a header with a rule under it.
pub struct Table {
    header: bool,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// With a header.
    pub fn new(header: &[&str]) -> Self {
        Self { header: true, rows: vec![header.iter().map(ToString::to_string).collect()], right: Vec::new() }
    }

    /// Without one.
    pub fn bare() -> Self {
        Self { header: false, rows: Vec::new(), right: Vec::new() }
    }

    /// These columns hold numbers and are set to the right.
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (r, row) in self.rows.iter().enumerate() {
            let cells = row.iter().enumerate().map(|(c, cell)| match self.right.contains(&c) {
                true => format!("{cell:>0$}", widths[c]),
                false => format!("{cell:<0$}", widths[c]),
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            if self.header && r == 0 {
                let rules = widths.iter().map(|w| "-".repeat(*w));
                writeln!(f, "{}", rules.collect::<Vec<_>>().join("  "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["robot", "steps"]).right(&[1]);
        table.row(["toy", "7"]);
        table.row(["humanoid", "1000"]);
        assert_eq!(table.to_string(), "robot     steps\n--------  -----\ntoy           7\nhumanoid   1000\n");
    }
}
