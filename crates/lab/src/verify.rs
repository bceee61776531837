//! Playing the beginning of a run again: whether rows that somebody published come from the settings beside them.
//!
//! A learner that has not learnt yet gives the same rows whatever its settings, so the beginning reaches beyond the first updates
//! ([`Method::updates`](sskp_methods::Method::updates)), or says that it does not.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::run::{Clock, Run};
use sskp_blocks::{Error, Result};

use crate::display::Display;
use crate::episodes::line;
use crate::manifest::{Part, RunManifest};
use crate::run_rows::RunRows;
use crate::train::{Prepared, Session, Stop, prepare};

/// Episodes that are played where nobody says how many.
const EPISODES: usize = 20;
/// Further ones at a time, as long as no update was made.
const FURTHER: usize = 10;
/// Steps without an update after which it ends all the same: ten times as many as any method here waits.
const MOST_STEPS: u64 = 100_000;
/// Episodes after the first updates were seen: what these changed shows in the next actions.
const AFTER: usize = 5;

/// How the comparison came out.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Episodes that were the same.
    pub same: u64,
    /// Their steps.
    pub steps: u64,
    /// Updates that the learner made meanwhile; none where it does not count them.
    pub updates: Option<u64>,
    /// Hash of their rows.
    pub sha256: String,
    /// The first difference.
    pub difference: Option<String>,
    /// Whether it was asked to stop before it came so far.
    pub stopped: bool,
    /// Who made those rows.
    pub makers: Makers,
}

/// Who made rows, and who compared them.
#[derive(Clone, Debug, PartialEq)]
pub struct Makers {
    /// Who made them, as far as the manifest beside them says.
    pub made_by: Vec<Part>,
    /// The running program.
    pub here: Part,
}

impl Makers {
    /// Of the first `steps` of a run.
    fn of(rows: &RunRows, steps: u64) -> Self {
        let manifest: Option<RunManifest> = rows.manifest.clone().and_then(|value| serde_json::from_value(value).ok());
        let mut made_by = manifest.map_or(Vec::new(), |manifest| manifest.parts);
        made_by.retain(|part| part.steps < steps.max(1));
        Self { made_by, here: Part::here(None, 0) }
    }

    /// Whether all of them are this very program.
    pub fn this_one(&self) -> bool {
        let first = self.made_by.first().is_some_and(|part| part.steps == 0);
        first && self.made_by.iter().all(|part| part.binary_sha256 == self.here.binary_sha256)
    }

    /// A sentence, without its full stop: who made the rows, and whether that is who compared them.
    pub fn sentence(&self) -> String {
        let here = &self.here;
        let names: Vec<String> = self.made_by.iter().map(Part::to_string).collect();
        match self.made_by.first() {
            None => format!("who made the rows is not known, as they have no manifest; this is {here}"),
            Some(part) if part.steps > 0 => {
                format!(
                    "who made the first {} steps is not known, then {}; this is {here}",
                    part.steps,
                    names.join(", then ")
                )
            }
            Some(_) if self.this_one() => format!("the rows were made by {here}, which is this one"),
            Some(part) if part.commit.is_some() && self.made_by.iter().all(|p| p.commit == here.commit) => {
                format!(
                    "the rows were made by {}, another build of the same commit as this one, {here}",
                    names.join(", then ")
                )
            }
            Some(_) => {
                format!("the rows were made by {}, another version than this one, {here}", names.join(", then "))
            }
        }
    }
}

/// What has been compared so far. The run writes it while the loop around it reads it.
struct Compared<'a> {
    expected: &'a [EpisodeRow],
    /// Episodes to compare.
    goal: Cell<usize>,
    same: Cell<usize>,
    difference: RefCell<Option<String>>,
    display: RefCell<Display>,
    stop: Stop,
    quiet: bool,
}

impl Compared<'_> {
    fn steps(&self) -> u64 {
        self.expected[..self.same.get()].last().map_or(0, |row| row.steps)
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn aim(&self, goal: usize) {
        self.goal.set(goal.min(self.expected.len()));
        let mut display = self.display.borrow_mut();
        display.finish();
        *display = Display::new(self.expected[self.goal.get() - 1].steps, "steps", self.quiet);
    }
}

/// Compares rows as they come, and stops at the first difference or after enough of them.
struct Witness<'a>(&'a Compared<'a>);

impl Recorder for Witness<'_> {
    fn episode(&mut self, row: &EpisodeRow) -> Result<()> {
        let seen = self.0;
        let mut difference = seen.difference.borrow_mut();
        let Some(expected) = seen.expected.get(seen.same.get()).filter(|_| difference.is_none()) else {
            return Ok(());
        };
        let (ours, theirs) = (line(row), line(expected));
        if ours == theirs {
            seen.same.set(seen.same.get() + 1);
        } else {
            *difference = Some(format!("episode {} is {ours}, and the rows say {theirs}", row.episode));
        }
        Ok(())
    }
    fn metrics(&mut self, _at: Clock, _metrics: &Metrics) -> Result<()> {
        Ok(())
    }
    fn stop_requested(&self) -> bool {
        let seen = self.0;
        seen.difference.borrow().is_some() || seen.same.get() >= seen.goal.get() || seen.interrupted()
    }
    fn step(&mut self, at: Clock) {
        self.0.display.borrow_mut().step(at, f64::NAN);
    }
}

/// Plays the first `episodes` of a run again, with its settings, from its demonstrations on. Where nobody says how many: 20, or as many as it
/// takes to come beyond the first updates.
pub fn verify(rows: &RunRows, episodes: Option<u64>, session: Session) -> Result<Verdict> {
    if rows.episodes.is_empty() {
        return Err(Error::other(format!("{} has no episode to compare", rows.source.display())));
    }
    let (stop, quiet) = (session.stop.clone(), session.quiet);
    let prepared = prepare(&rows.config, session).map_err(|problem| not_here(rows, problem))?;
    let seen = Compared {
        expected: &rows.episodes,
        goal: Cell::new(0),
        same: Cell::new(0),
        difference: RefCell::new(None),
        display: RefCell::new(Display::new(0, "steps", true)),
        stop,
        quiet,
    };
    seen.aim(episodes.map_or(EPISODES, |n| usize::try_from(n).unwrap_or(usize::MAX)));
    let updates = prepared.play(&seen, episodes.is_none())?;
    seen.display.borrow_mut().finish();
    let (same, steps) = (seen.same.get(), seen.steps());
    let text: String = rows.episodes[..same].iter().map(|row| line(row) + "\n").collect();
    let difference = seen.difference.take();
    // What differs is the episode after those.
    let compared = rows.episodes.get(same).filter(|_| difference.is_some()).map_or(steps, |row| row.steps);
    Ok(Verdict {
        same: same as u64,
        steps,
        updates,
        sha256: sskp_blocks::checkpoint::sha256(text),
        stopped: same < seen.goal.get() && difference.is_none(),
        makers: Makers::of(rows, compared),
        difference,
    })
}

/// Settings of another version may lack what this one wants to know, or say what it does not.
fn not_here(rows: &RunRows, problem: Error) -> Error {
    let makers = Makers::of(rows, 0);
    if makers.this_one() {
        return problem;
    }
    Error::other(format!("{} cannot be played again here: {problem}; {}", rows.source.display(), makers.sentence()))
}

impl Prepared {
    /// Everything a run does, without a folder; gives the learner's updates.
    fn play(self, seen: &Compared, beyond_updates: bool) -> Result<Option<u64>> {
        let (config, env, mut method, demos) = self.parts();
        if let Some(demos) = demos {
            let report = method.pretrain(&demos, &mut |stage, done, total| {
                seen.display.borrow_mut().stage(stage, done, total);
                match seen.interrupted() {
                    true => Err(Error::other("stopped")),
                    false => Ok(()),
                }
            });
            if seen.interrupted() {
                return Ok(method.updates());
            }
            report?;
        }
        let mut witness = Witness(seen);
        let mut run = Run::new(env, config.run.seed, config.run.total_steps, &mut witness);
        let mut learnt = false;
        loop {
            method.train(&mut run)?;
            let reached = seen.same.get() >= seen.goal.get() && seen.goal.get() < seen.expected.len();
            if !(beyond_updates && reached) || learnt || !run.stopped() || seen.interrupted() {
                return Ok(method.updates());
            }
            let further = match method.updates() {
                Some(0) if seen.steps() < MOST_STEPS => FURTHER,
                Some(0) | None => return Ok(method.updates()),
                Some(_) => {
                    learnt = true;
                    AFTER
                }
            };
            seen.aim(seen.goal.get() + further);
            run.go_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(steps: u64, commit: &str, binary: &str) -> Part {
        Part { steps, commit: Some(commit.into()), binary_sha256: Some(binary.into()), ..Part::here(None, 0) }
    }

    #[test]
    fn who_made_the_rows_is_said_and_whether_it_was_this_one() {
        let here = part(0, "c", "0123456789abcdef");
        let said = |made_by: Vec<Part>| Makers { made_by, here: here.clone() }.sentence();
        assert!(said(vec![here.clone()]).ends_with("commit c, binary 0123456789ab, which is this one"));
        assert!(said(vec![part(0, "c", "x")]).contains("binary x, another build of the same commit"));
        let other = said(vec![part(0, "b", "x")]);
        assert!(other.contains("commit b, binary x, another version than this one, sskp"), "{other}");
        let two = said(vec![here.clone(), part(300, "b", "x")]);
        assert!(two.contains(", then sskp") && two.contains("another version"), "{two}");
        assert!(said(vec![part(300, "b", "x")]).starts_with("who made the first 300 steps is not known, then sskp"));
        assert!(said(vec![]).contains("no manifest"));
    }
}
