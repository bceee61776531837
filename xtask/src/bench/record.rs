//! Where measurements are kept: `benches/runs/<date>-<machine>/`, raw rows as CSV and a page that explains them.
//!
//! The machine is named by its processor, which is what the numbers depend on; never by its host name.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

/// The processor's model as the kernel names it.
pub fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

/// A processor's name as part of a folder's name: "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz" gives
/// `intel-xeon-e5-2680-v4`.
pub fn slug(processor: &str) -> String {
    let name = processor.split('@').next().unwrap_or_default().replace("(R)", " ").replace("(TM)", " ").to_lowercase();
    let filler = |word: &&str| !word.is_empty() && *word != "cpu" && *word != "processor" && *word != "core";
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(filler).collect();
    words.join("-")
}

/// How many threads can run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The present time as `YYYY-MM-DDTHH:MM:SSZ`.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date that lies `days` after 1970-01-01. Counting years from March puts the leap day last, and makes
/// the lengths of the months follow one linear formula.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The commit that is measured, with `+` after it when tracked files were changed since.
pub fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match git(&["rev-parse", "--short", "HEAD"]) {
        None => "unknown".to_owned(),
        Some(commit) => match git(&["status", "--porcelain", "--untracked-files=no"]).as_deref() {
            Some("") => commit,
            _ => commit + "+",
        },
    }
}

/// The compiler's own line about itself.
pub fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The folder for measurements made now on this machine; it is created.
pub fn folder(root: &Path, time: &str) -> Result<PathBuf> {
    let folder = root.join("benches/runs").join(format!("{}-{}", &time[..10], slug(&processor())));
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    Ok(folder)
}

/// Appends rows to a CSV file in one write, after the header if the file is new.
pub fn append(file: &Path, header: &str, rows: &[String]) -> Result<()> {
    let present = fs::read_to_string(file).unwrap_or_default();
    ensure!(
        present.is_empty() || present.lines().next() == Some(header),
        "{} has other columns than this version writes: move it and run the command again",
        file.display()
    );
    let mut text = if present.is_empty() { format!("{header}\n") } else { String::new() };
    for row in rows {
        text.push_str(row);
        text.push('\n');
    }
    let write = || fs::OpenOptions::new().create(true).append(true).open(file)?.write_all(text.as_bytes());
    write().with_context(|| format!("{} cannot be written", file.display()))
}

/// Writes the section `## <name>` of the folder's README.md, in place of an earlier one. Several subjects measured on
/// the same day share the page.
pub fn explain(folder: &Path, name: &str, section: &str) -> Result<()> {
    let file = folder.join("README.md");
    let present = fs::read_to_string(&file).unwrap_or_default();
    let title = format!("# Measured on {}, {} cores\n", processor(), cores());
    let page = with_section(if present.is_empty() { &title } else { &present }, name, section);
    fs::write(&file, page).with_context(|| format!("{} cannot be written", file.display()))
}

fn with_section(page: &str, name: &str, section: &str) -> String {
    let heading = format!("## {name}");
    let mut kept = String::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("## ") {
            inside = line == heading;
        }
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    format!("{}\n\n{heading}\n\n{}\n", kept.trim_end(), section.trim_end())
}

/// The middle value, or the mean of the two middle ones. `values` must not be empty.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(59), (1970, 3, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(19_723), (2024, 1, 1));
        assert_eq!(date(20_819), (2027, 1, 1));
        assert_eq!(date(47_541), (2100, 3, 1)); // 2100 has no leap day
    }

    #[test]
    fn processors_become_short_folder_names() {
        assert_eq!(slug("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"), "intel-xeon-e5-2680-v4");
        assert_eq!(slug("AMD EPYC 7B13 64-Core Processor"), "amd-epyc-7b13-64");
        assert_eq!(slug("Intel(R) Core(TM) i7-1165G7"), "intel-i7-1165g7");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn rows_are_appended_under_one_header() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        append(&file, "a,b", &["1,2".into()]).unwrap();
        append(&file, "a,b", &["3,4".into(), "5,6".into()]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a,b\n1,2\n3,4\n5,6\n");
        assert!(append(&file, "a,b,c", &["1,2,3".into()]).is_err());
    }

    #[test]
    fn a_section_replaces_its_earlier_self_only() {
        let page = with_section("# Title\n", "envs", "one");
        let page = with_section(&page, "update", "other");
        let page = with_section(&page, "envs", "two");
        assert_eq!(page, "# Title\n\n## update\n\nother\n\n## envs\n\ntwo\n");
    }
}
