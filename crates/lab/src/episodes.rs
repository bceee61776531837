//! `episodes.csv`, the record that everything else follows from: its columns, and the one writer and the one reader of its rows.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use sskp_blocks::record::EpisodeRow;
use sskp_blocks::{Error, Result};

/// Its name in a run directory.
pub const FILE: &str = "episodes.csv";
/// Its first line.
pub const COLUMNS: &str = "episode,steps,length,return,violation,cumulative_violations";

/// The line of an episode.
pub fn line(row: &EpisodeRow) -> String {
    let EpisodeRow { episode, steps, length, total_reward, violation, cumulative_violations, .. } = row;
    format!("{episode},{steps},{length},{total_reward},{},{cumulative_violations}", u8::from(*violation))
}

/// The whole lines of a file, plain or `.gz`, and the episodes they are. A run that is under way, or was killed, may have written
/// a part of a line, which is left out.
pub fn read(path: &Path) -> Result<(String, Vec<EpisodeRow>)> {
    let mut text = text(path)?;
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    let rows = parse(&text).map_err(|why| Error::other(format!("{}: {why}", path.display())))?;
    Ok((text, rows))
}

/// What a file says, plain or `.gz`.
pub(crate) fn text(path: &Path) -> Result<String> {
    let io = |e| Error::io(path, e);
    let mut file = File::open(path).map_err(io)?;
    let mut text = String::new();
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).map_err(io)?;
    } else {
        file.read_to_string(&mut text).map_err(io)?;
    }
    Ok(text)
}

/// Rows must follow from one another.
fn parse(text: &str) -> std::result::Result<Vec<EpisodeRow>, String> {
    let mut lines = text.lines();
    match lines.next() {
        Some(header) if header == COLUMNS => {}
        other => return Err(format!("the columns must be {COLUMNS}, not {}", other.unwrap_or("nothing"))),
    }
    let mut rows: Vec<EpisodeRow> = Vec::new();
    for (i, line) in lines.enumerate() {
        let row = parse_line(line).ok_or_else(|| format!("row {} is no episode: {line}", i + 1))?;
        let before = rows.last().map_or((0, 0, 0), |r| (r.episode, r.steps, r.cumulative_violations));
        let follows = (before.0 + 1, before.1 + row.length, before.2 + u64::from(row.violation));
        if (row.episode, row.steps, row.cumulative_violations) != follows {
            return Err(format!("row {} does not follow from the one before it: {line}", i + 1));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn parse_line(line: &str) -> Option<EpisodeRow> {
    let cells: Vec<&str> = line.split(',').collect();
    let [episode, steps, length, total_reward, violation, violations] = cells.as_slice() else { return None };
    let violation = match *violation {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some(EpisodeRow {
        episode: episode.parse().ok()?,
        steps: steps.parse().ok()?,
        length: length.parse().ok()?,
        total_reward: total_reward.parse().ok().filter(|r: &f64| r.is_finite())?,
        violation,
        cumulative_violations: violations.parse().ok()?,
        anomaly: None,
    })
}

/// The steps in the last whole row, without reading the others; 0 where there is none.
pub fn steps_so_far(path: &Path) -> u64 {
    let tail = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(400)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = tail().unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().next_back().and_then(parse_line).map_or(0, |row| row.steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_as_they_were_written_and_half_a_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let whole = format!("{COLUMNS}\n1,20,20,1.5,1,1\n2,50,30,-2,0,1\n");
        std::fs::write(&path, format!("{whole}3,6")).unwrap();
        let (text, rows) = read(&path).unwrap();
        assert_eq!((text.as_str(), rows.len()), (whole.as_str(), 2));
        assert_eq!(rows.iter().map(line).collect::<Vec<_>>(), ["1,20,20,1.5,1,1", "2,50,30,-2,0,1"]);
        assert_eq!(steps_so_far(&path), 50);
    }

    #[test]
    fn what_is_no_rows_is_refused() {
        for (text, needed) in [
            ("", "the columns must be"),
            ("steps,return\n", "not steps,return"),
            ("1,20,20,x,1,1\n", "row 1 is no episode"),
            ("1,20,20,inf,1,1\n", "row 1 is no episode"),
            ("1,20,20,1,1,1\n2,30,20,1,0,1\n", "row 2 does not follow"),
            ("1,20,20,1,1,2\n", "row 1 does not follow"),
            ("2,20,20,1,1,1\n", "row 1 does not follow"),
        ] {
            let header = if text.starts_with(|c: char| c.is_ascii_digit()) { COLUMNS } else { "" };
            let error = parse(format!("{header}\n{text}").trim_start()).unwrap_err();
            assert!(error.contains(needed), "{error}");
        }
    }

    #[test]
    fn the_last_whole_row_tells_the_steps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(steps_so_far(&path), 0);
        let many: String = (1..60).map(|i| format!("{i},{},10,0.12345678901,0,0\n", 10 * i)).collect();
        for (text, steps) in [("", 0), ("1,20,20,1,0,0\n2,45,25,1,0,0\n3,9", 45), (&many, 590)] {
            std::fs::write(&path, format!("{COLUMNS}\n{text}")).unwrap();
            assert_eq!(steps_so_far(&path), steps);
        }
    }
}
