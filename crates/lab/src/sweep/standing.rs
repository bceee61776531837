//! How every cell of a grid stands, read from the run folders alone: whoever runs them, and wherever.

use std::fs;
use std::path::Path;

use sskp_blocks::Result;

use super::Sweep;
use super::cell::State;
use super::runner::ERROR;
use super::time_left::Speeds;
use crate::run_dir::claim::{self, Claimed};

/// Where a cell is.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// It has not begun.
    Waiting,
    /// A process has it: which.
    Running(String),
    /// It was stopped, or its process ended without a word; it goes on at its checkpoint.
    Stopped,
    /// It failed: with what.
    Failed(String),
    /// It is finished.
    Finished,
}

impl Place {
    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "new",
            Self::Running(_) => "running",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
            Self::Finished => "finished",
        }
    }

    /// What else there is to say.
    pub fn note(&self) -> &str {
        match self {
            Self::Running(note) | Self::Failed(note) => note,
            _ => "",
        }
    }
}

/// How a cell stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// "sskp on hopper, seed 1".
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Steps taken, up to the last whole episode.
    pub steps: u64,
    /// Steps in all.
    pub total: u64,
    /// Seconds that are left of it, by the speed of its like; none where nothing was measured yet.
    pub left: Option<f64>,
}

impl Sweep {
    /// How every cell stands, in the order of their numbers.
    pub fn standing(&self) -> Result<Vec<Standing>> {
        let mut speeds = Speeds::default();
        for cell in &self.cells {
            match cell.state {
                State::Finished(seconds) => {
                    speeds.note(cell.kind(), cell.config.run.total_steps as f64 / seconds.max(1e-9))
                }
                State::Unfinished(_) => speeds.note(cell.kind(), speed(&cell.folder.join("progress.csv"))),
                State::New => {}
            }
        }
        let stand = |cell: &super::Cell| {
            let (steps, total) = (cell.steps(), cell.config.run.total_steps);
            let place = match (cell.state, claim::look(&cell.folder)?) {
                (State::Finished(_), _) => Place::Finished,
                (_, Claimed::Held(holder) | Claimed::Perhaps(Some(holder), _)) => Place::Running(holder.to_string()),
                (_, Claimed::Perhaps(None, _)) => Place::Running("a process that has just begun".into()),
                (state, Claimed::Free) => match fs::read_to_string(cell.folder.join(ERROR)) {
                    Ok(text) => Place::Failed(text.lines().next().unwrap_or("it did not say why").into()),
                    Err(_) if state == State::New => Place::Waiting,
                    Err(_) => Place::Stopped,
                },
            };
            let left = speeds.of(&cell.kind()).map(|speed| total.saturating_sub(steps) as f64 / speed);
            let left = if place == Place::Finished { Some(0.0) } else { left };
            Ok(Standing { name: cell.name(), place, steps, total, left })
        };
        self.cells.iter().map(stand).collect()
    }
}

/// Steps per second of a run that is under way, by its last row of progress; not finite where it has none.
fn speed(progress: &Path) -> f64 {
    let text = fs::read_to_string(progress).unwrap_or_default();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let last: Vec<&str> = lines.next_back().unwrap_or("").split(',').collect();
    let value =
        |name: &str| -> Option<f64> { last.get(columns.iter().position(|column| *column == name)?)?.parse().ok() };
    match (value("TotalEnvSteps"), value("Time/Total")) {
        (Some(steps), Some(seconds)) => steps / seconds,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_a_run_is_that_of_its_last_row() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("progress.csv");
        assert!(speed(&file).is_nan());
        fs::write(&file, "Train/Epoch,TotalEnvSteps,Time/Total\n1,1000,10\n2,2000,16\n").unwrap();
        assert_eq!(speed(&file), 125.0);
    }
}
