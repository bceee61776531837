//! Where a run's rows go. The recorder that writes files is `lab`'s run directory; the one here keeps them in memory.

use crate::Result;
use crate::checkpoint::Saver;
use crate::env::Anomaly;
use crate::keep::Moment;
use crate::run::{Clock, Times};

/// One finished episode: a row of `episodes.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeRow {
    /// Number of the episode, from 1.
    pub episode: u64,
    /// Environment steps of the run when it ended.
    pub steps: u64,
    /// Its own steps.
    pub length: u64,
    /// Sum of its rewards, undiscounted.
    pub total_reward: f64,
    /// Whether it ended in a violation.
    pub violation: bool,
    /// Violations of the run so far, this one included.
    pub cumulative_violations: u64,
    /// Set when the simulation itself broke.
    pub anomaly: Option<Anomaly>,
}

/// Named numbers of one moment, in the order they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(pub Vec<(&'static str, f64)>);

impl Metrics {
    /// Adds one.
    pub fn push(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }
    /// The value called `name`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
}

/// What a run reports to.
pub trait Recorder {
    /// An episode has ended, or the budget has cut it.
    fn episode(&mut self, row: &EpisodeRow) -> Result<()>;
    /// Losses and other quantities of a method.
    fn metrics(&mut self, at: Clock, metrics: &Metrics) -> Result<()>;
    /// Whether [`Recorder::moment`] wants any. Asked once, when the run begins.
    fn keeps_moments(&self) -> bool {
        false
    }
    /// A violation, or a moment that came near one, with what led there. Called before the episode's row.
    fn moment(&mut self, moment: &Moment) -> Result<()> {
        let _ = moment;
        Ok(())
    }
    /// Time spent by phase so far; called before every row of metrics.
    fn times(&mut self, at: Clock, times: &Times) -> Result<()> {
        let _ = (at, times);
        Ok(())
    }
    /// Whether a checkpoint or a snapshot of the policy should be written now.
    fn checkpoint_due(&self, at: Clock) -> bool {
        let _ = at;
        false
    }
    /// Writes what is due, adding what the recorder itself must remember; with `whole`, a checkpoint in any case.
    fn checkpoint(&mut self, at: Clock, state: &mut Saver, whole: bool) -> Result<()> {
        let _ = (at, state, whole);
        Ok(())
    }
    /// Whether somebody asked the run to stop (a signal): it checkpoints and leaves.
    fn stop_requested(&self) -> bool {
        false
    }
    /// Called after every step, for progress displays.
    fn step(&mut self, at: Clock) {
        let _ = at;
    }
}

/// Keeps everything in memory, for tests.
#[derive(Default)]
pub struct Memory {
    /// All episodes.
    pub episodes: Vec<EpisodeRow>,
    /// All metrics.
    pub metrics: Vec<(Clock, Metrics)>,
}

impl Recorder for Memory {
    fn episode(&mut self, row: &EpisodeRow) -> Result<()> {
        self.episodes.push(row.clone());
        Ok(())
    }
    fn metrics(&mut self, at: Clock, metrics: &Metrics) -> Result<()> {
        self.metrics.push((at, metrics.clone()));
        Ok(())
    }
}
