//! Playing the beginning of a run again: whether rows that somebody published come from the settings beside them.

use std::sync::atomic::Ordering;

use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::run::{Clock, Run};
use sskp_blocks::{Error, Result};

use crate::display::Display;
use crate::episodes::line;
use crate::run_rows::RunRows;
use crate::train::{Prepared, Session, Stop, prepare};

/// How the comparison came out.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Episodes that were the same.
    pub same: u64,
    /// Their steps.
    pub steps: u64,
    /// Hash of their rows.
    pub sha256: String,
    /// The first difference.
    pub difference: Option<String>,
    /// Whether it was asked to stop before it came so far.
    pub stopped: bool,
}

/// Compares rows as they come, and stops at the first difference or after enough of them.
struct Witness<'a> {
    expected: &'a [EpisodeRow],
    same: usize,
    difference: Option<String>,
    stop: Stop,
    display: Display,
}

impl Recorder for Witness<'_> {
    fn episode(&mut self, row: &EpisodeRow) -> Result<()> {
        let Some(expected) = self.expected.get(self.same).filter(|_| self.difference.is_none()) else {
            return Ok(());
        };
        let (ours, theirs) = (line(row), line(expected));
        if ours == theirs {
            self.same += 1;
        } else {
            self.difference = Some(format!("episode {} is {ours}, and the rows say {theirs}", row.episode));
        }
        Ok(())
    }
    fn metrics(&mut self, _at: Clock, _metrics: &Metrics) -> Result<()> {
        Ok(())
    }
    fn stop_requested(&self) -> bool {
        self.difference.is_some() || self.same == self.expected.len() || self.stop.load(Ordering::Relaxed)
    }
    fn step(&mut self, at: Clock) {
        self.display.step(at, f64::NAN);
    }
}

/// Plays the first `episodes` of a run again, with its settings, from its demonstrations on.
pub fn verify(rows: &RunRows, episodes: u64, session: Session) -> Result<Verdict> {
    let expected = &rows.episodes[..rows.episodes.len().min(episodes as usize)];
    let Some(last) = expected.last() else {
        return Err(Error::other(format!("{} has no episode to compare", rows.source.display())));
    };
    let (stop, quiet) = (session.stop.clone(), session.quiet);
    let prepared = prepare(&rows.config, session)?;
    let display = Display::new(last.steps, "steps", quiet);
    let mut witness = Witness { expected, same: 0, difference: None, stop, display };
    let stopped = prepared.play(&mut witness)?;
    witness.display.finish();
    let same = witness.same;
    let text: String = expected[..same].iter().map(|row| line(row) + "\n").collect();
    Ok(Verdict {
        same: same as u64,
        steps: expected[..same].last().map_or(0, |row| row.steps),
        sha256: sskp_blocks::checkpoint::sha256(text),
        stopped: stopped && same < expected.len() && witness.difference.is_none(),
        difference: witness.difference,
    })
}

impl Prepared {
    /// Everything a run does, without a folder: false when all steps were taken.
    fn play(self, witness: &mut Witness) -> Result<bool> {
        let (config, env, mut method, demos) = self.parts();
        if let Some(demos) = demos {
            let report = method.pretrain(&demos, &mut |stage, done, total| {
                witness.display.stage(stage, done, total);
                match witness.stop.load(Ordering::Relaxed) {
                    true => Err(Error::other("stopped")),
                    false => Ok(()),
                }
            });
            if witness.stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            report?;
        }
        let mut run = Run::new(env, config.run.seed, config.run.total_steps, witness);
        method.train(&mut run)?;
        Ok(run.stopped())
    }
}
