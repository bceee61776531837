//! One run of a grid, and how far it is.

use std::fs;
use std::path::{Path, PathBuf};

use sskp_blocks::{Error, Result};

use crate::config::Config;
use crate::episodes;
use crate::registry::Registry;
use crate::train::read_config;

/// How far a cell is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// Nothing is there.
    New,
    /// Begun; the steps of the last whole episode.
    Unfinished(u64),
    /// Finished, in so many seconds.
    Finished(f64),
}

/// One run of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its settings, complete, with the hash of its demonstrations.
    pub config: Config,
    /// Its method and, after a `-`, its variant.
    pub(super) named: String,
    /// Its run directory, `OUT/ROBOT/METHOD/seed-N` or `OUT/ROBOT/METHOD-VARIANT/seed-N`.
    pub folder: PathBuf,
    /// How far it is.
    pub state: State,
    /// What the skill model depends on, which cells share: a second cell would fit the same one at the same time.
    pub(super) fit: Option<String>,
}

impl Cell {
    /// "sskp on hopper, seed 1".
    pub fn name(&self) -> String {
        let run = &self.config.run;
        format!("{} on {}, seed {}", self.named, run.env, run.seed)
    }

    /// Robot and method with its variant: cells of a kind are equally fast.
    pub(super) fn kind(&self) -> (String, String) {
        (self.config.run.env.clone(), self.named.clone())
    }

    /// Steps it has taken.
    pub(super) fn steps(&self) -> u64 {
        match self.state {
            State::New => 0,
            State::Unfinished(steps) => steps,
            State::Finished(_) => self.config.run.total_steps,
        }
    }

    /// Whether it is still learning from demonstrations.
    pub(super) fn fitting(&self) -> bool {
        !self.folder.join("offline.json").exists()
    }
}

/// Demonstrations and settings of the skill model that a run fits; none where it fits none.
pub(super) fn shared_fit(registry: &Registry, config: &Config) -> Result<Option<String>> {
    let Some(skills) = registry.method(&config.run.algo)?.skills.filter(|_| config.run.skills.is_empty()) else {
        return Ok(None);
    };
    Ok(Some(format!("{} {:?}", config.run.demos_sha256, skills(&config.method_toml())?)))
}

/// How far the run in a folder is. One that is not this cell's is an error.
pub(super) fn state(folder: &Path, config: &Config) -> Result<State> {
    if !folder.join("config.toml").exists() {
        return Ok(State::New);
    }
    let there = read_config(folder)?;
    if let Some(difference) = config.difference(&there) {
        return Err(Error::other(format!(
            "{} holds a run with other settings than those asked for ({difference}); name another folder, or remove it",
            folder.display()
        )));
    }
    let (were, are) = (there.run.total_steps, config.run.total_steps);
    if were != are {
        // A run cut at another step is another run: its last episode, and whatever follows the budget.
        return Err(Error::other(format!(
            "{} holds a run of {were} steps, and {are} are asked for; name another folder, or remove it",
            folder.display()
        )));
    }
    let summary = fs::read(folder.join("summary.json")).ok();
    let summary: Option<serde_json::Value> = summary.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match summary {
        Some(summary) if summary["finished"] == true => {
            Ok(State::Finished(summary["wall_seconds"].as_f64().unwrap_or(0.0)))
        }
        _ => Ok(State::Unfinished(episodes::steps_so_far(&folder.join(episodes::FILE)))),
    }
}
