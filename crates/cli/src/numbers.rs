//! CSV files of numbers, as users hand them in. Whatever is wrong is named by file, row and column. A table that has more columns
//! than are needed is read too, when those that are needed are among them by their names.

use std::path::Path;

use anyhow::Result;
use sskp_lab::wording::{plural, verb};

use crate::error::usage;

/// What a file must look like.
pub struct Form {
    /// What the columns are, in order.
    pub columns: Vec<String>,
    /// What a wider table calls them, where that is something else.
    pub in_tables: Vec<String>,
    /// What a row is, for messages: "one row per step".
    pub rows: &'static str,
    /// Smallest and largest number allowed.
    pub range: Option<(f64, f64)>,
    /// Whether there must be exactly one row.
    pub single: bool,
}

/// Reads the numbers below the header row.
pub fn read(path: &Path, form: &Form) -> Result<Vec<Vec<f64>>> {
    let file = path.display();
    let bytes = std::fs::read(path).map_err(|e| usage(format!("{file} cannot be read: {e}")))?;
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(&*bytes);
    let mut rows = Vec::new();
    let mut header: Option<Columns> = None;
    for record in reader.records() {
        let record = record.map_err(|e| usage(format!("{file} cannot be read: {e}")))?;
        let line = record.position().map_or(0, |p| line_number(&bytes, p));
        let Some(columns) = &header else {
            let place = |why| usage(format!("{file}, header row (line {line}), {why}"));
            header = Some(read_header(&record, form).map_err(place)?);
            continue;
        };
        let row = rows.len() + 1;
        let place = format!("{file}, row {row} (line {line})");
        if form.single && row > 1 {
            return Err(usage(format!("{place}: one row is needed, and this is one too many")));
        }
        check_width(&record, &columns.names).map_err(|why| usage(format!("{place}, {why}")))?;
        let numbers = columns.wanted.iter().map(|c| {
            let place = format!("{place}, column {} ({})", c + 1, columns.names[*c]);
            number(&record[*c], form.range).map_err(|why| usage(format!("{place}: {why}")))
        });
        rows.push(numbers.collect::<Result<Vec<f64>>>()?);
    }
    if header.is_none() {
        return Err(usage(format!("{file} is empty: a header row and then {} are needed", form.rows)));
    }
    if rows.is_empty() {
        return Err(usage(format!("{file} has a header row and nothing below it: {} is needed", form.rows)));
    }
    Ok(rows)
}

/// The line a row stands on. A row's position is where the one before it ended, which is above any empty lines.
fn line_number(bytes: &[u8], position: &csv::Position) -> u64 {
    let before = bytes[position.byte() as usize..].iter().take_while(|b| matches!(b, b'\r' | b'\n'));
    position.line() + before.filter(|b| **b == b'\n').count() as u64
}

/// The columns of a file.
struct Columns {
    /// All of them.
    names: Vec<String>,
    /// Where those that are needed stand.
    wanted: Vec<usize>,
}

/// A header of numbers is a missing header; a header of known names in another order would be read wrongly.
fn read_header(record: &csv::StringRecord, form: &Form) -> Result<Columns, String> {
    if record.iter().all(|cell| cell.parse::<f64>().is_ok()) {
        return Err("column 1: these are numbers, where the names of the columns are needed".into());
    }
    if record.len() > form.columns.len() {
        for names in [&form.in_tables, &form.columns] {
            let place = |name: &String| record.iter().position(|cell| cell == name);
            if let Some(wanted) = names.iter().map(place).collect::<Option<Vec<usize>>>().filter(|w| !w.is_empty()) {
                return Ok(Columns { names: record.iter().map(String::from).collect(), wanted });
            }
        }
    }
    check_width(record, &form.columns)?;
    for (c, cell) in record.iter().enumerate() {
        if let Some(right) = form.columns.iter().position(|name| name == cell).filter(|right| *right != c) {
            return Err(format!("column {}: {cell} belongs into column {}", c + 1, right + 1));
        }
    }
    Ok(Columns { names: form.columns.clone(), wanted: (0..form.columns.len()).collect() })
}

fn check_width(record: &csv::StringRecord, names: &[String]) -> Result<(), String> {
    let (got, needed) = (record.len(), names.len());
    let there = |n: usize| format!("there {} {}", verb(n as u64, "is", "are"), plural(n as u64, "column"));
    let needed_ones = format!("{needed} {} needed", verb(needed as u64, "is", "are"));
    if got < needed {
        let name = &names[got];
        return Err(format!("column {} ({name}) is missing: {}, and {needed_ones}", got + 1, there(got)));
    }
    if got > needed {
        return Err(format!("column {} is one too many: {}, and {needed_ones}", needed + 1, there(got)));
    }
    Ok(())
}

fn number(cell: &str, range: Option<(f64, f64)>) -> Result<f64, String> {
    if cell.is_empty() {
        return Err("it is empty, and a number is needed".into());
    }
    let x: f64 = cell.parse().map_err(|_| format!("\"{cell}\" is not a number"))?;
    if !x.is_finite() {
        return Err(format!("\"{cell}\" is not a finite number"));
    }
    match range {
        Some((low, high)) if x < low || x > high => Err(format!("{cell} is outside [{low}, {high}]")),
        _ => Ok(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, single: bool) -> Result<Vec<Vec<f64>>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let columns = vec!["thigh".into(), "leg".into()];
        let in_tables = vec!["action_0".into(), "action_1".into()];
        let form = Form { columns, in_tables, rows: "one row per step", range: Some((-1.0, 1.0)), single };
        read(file.path(), &form).map_err(|e| e.to_string())
    }

    #[test]
    fn numbers_come_back_as_written() {
        let text = "\u{feff}thigh, leg\r\n 0.1,-1\r\n\r\n1e-3,+1\r\n";
        assert_eq!(read_text(text, false).unwrap(), [[0.1, -1.0], [0.001, 1.0]]);
        assert_eq!(read_text("a,b\n0,0", true).unwrap(), [[0.0, 0.0]], "any names will do, and no last newline");
    }

    #[test]
    fn the_columns_that_are_needed_are_taken_out_of_a_wider_table_by_their_names() {
        for text in [
            "step,action_0,action_1,end\n1,0.5,-1,\n2,0.25,1,fell\n",
            "action_1,reward,action_0\n-1,9,0.5\n1,-9,0.25\n",
            "leg,thigh,reward\n-1,0.5,9\n1,0.25,9\n",
        ] {
            assert_eq!(read_text(text, false).unwrap(), [[0.5, -1.0], [0.25, 1.0]], "{text}");
        }
        for (text, parts) in [
            ("step,action_0,end\n1,0.5,\n", vec!["header row (line 1)", "column 3 is one too many"]),
            ("step,action_0,action_1\n1,0.5,x\n", vec!["row 1 (line 2), column 3 (action_1)", "not a number"]),
            ("step,action_0,action_1\n1,2,0\n", vec!["row 1 (line 2), column 2 (action_0)", "outside [-1, 1]"]),
            ("step,action_0,action_1\n1,0\n", vec!["row 1 (line 2), column 3 (action_1) is missing"]),
            ("step,action_0,action_1\n1,0,0,0\n", vec!["row 1 (line 2), column 4 is one too many"]),
        ] {
            let error = read_text(text, false).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{text:?} gave: {error}");
            }
        }
    }

    #[test]
    fn every_fault_is_named_by_row_and_column() {
        for (text, single, parts) in [
            ("", false, vec!["is empty", "one row per step"]),
            ("\n\n", false, vec!["is empty"]),
            ("thigh,leg\n", false, vec!["nothing below"]),
            ("0.1,0.2\n0,0\n", false, vec!["header row (line 1)", "column 1", "numbers"]),
            ("thigh\n0\n", false, vec!["header row (line 1)", "column 2 (leg) is missing"]),
            ("leg,thigh\n0,0\n", false, vec!["header row (line 1)", "column 1: leg belongs into column 2"]),
            ("thigh,leg\n0,0\n0\n", false, vec!["row 2 (line 3)", "column 2 (leg) is missing"]),
            ("thigh,leg\n0,0,0\n", false, vec!["row 1 (line 2)", "column 3 is one too many"]),
            ("thigh,leg\n0,x1\n", false, vec!["row 1 (line 2), column 2 (leg)", "\"x1\" is not a number"]),
            ("thigh,leg\n\n\n0,\n", false, vec!["row 1 (line 4), column 2 (leg)", "empty"]),
            ("thigh,leg\nNaN,0\n", false, vec!["row 1 (line 2), column 1 (thigh)", "not a finite number"]),
            ("thigh,leg\n0,-inf\n", false, vec!["row 1 (line 2), column 2 (leg)", "not a finite number"]),
            ("thigh,leg\n0,1.0000001\n", false, vec!["row 1 (line 2), column 2 (leg)", "outside [-1, 1]"]),
            ("thigh,leg\n0,0\n0,0\n", true, vec!["row 2 (line 3)", "one row is needed"]),
        ] {
            let error = read_text(text, single).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{text:?} gave: {error}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_text_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"thigh,leg\n\xff\xfe,0\n").unwrap();
        let columns = vec!["a".into(); 2];
        let form = Form { columns, in_tables: Vec::new(), rows: "", range: None, single: false };
        let error = read(file.path(), &form).unwrap_err().to_string();
        assert!(error.contains("UTF-8"), "{error}");
    }
}
