//! What a run's progress must come to, however often it was stopped. The tests of the command line use this file too.

use std::fs;
use std::path::Path;

/// `progress.csv` without its columns of time, which no two runs share. The event file must hold the same rows: none lost, none
/// twice.
pub fn rows(run: &Path) -> String {
    let text = fs::read_to_string(run.join("progress.csv")).unwrap_or_default();
    let events = fs::read(run.join(sskp_lab::events::FILE)).unwrap_or_default();
    assert!(events == sskp_lab::events::of_progress(&text), "{}: the events are not progress.csv", run.display());
    let header: Vec<&str> = text.lines().next().unwrap_or("").split(',').collect();
    let mut steady = String::new();
    for line in text.lines() {
        let cells = header.iter().zip(line.split(',')).filter(|(name, _)| !name.starts_with("Time/"));
        steady += &cells.map(|(_, cell)| cell).collect::<Vec<_>>().join(",");
        steady += "\n";
    }
    steady
}
