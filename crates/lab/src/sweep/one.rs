//! One cell of a grid, run by this process: what engines beyond this machine start, as often as they like and wherever they like.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use super::Sweep;
use super::cell::{Cell, State, state};
use super::runner::{CELL, ERROR};
use crate::config::Config;
use crate::run_dir::Claim;
use crate::run_dir::claim::{Attempt, Claimed, Holder};
use crate::train::{self, Session, Stop};

/// The cells of the grid that a folder was first used with, in order, with their folders: the numbers of cells mean something only with it.
pub const CELLS: &str = "cells.txt";
/// Between looks at a claim that may be a dead holder's.
const LOOK: Duration = Duration::from_millis(500);

/// How a cell ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It is finished, and was not before.
    Finished,
    /// It was finished already.
    Already,
    /// It was stopped and has its checkpoint; the same call goes on.
    Stopped,
    /// Another process runs it.
    Elsewhere(String),
}

impl Sweep {
    /// Runs a cell, from where it is, unless another process does. What goes wrong stands in its folder, too.
    pub fn run_cell(
        &self,
        index: usize,
        session: Session,
        stale: Duration,
        refused: impl FnMut(&Error),
    ) -> Result<Ended> {
        let Some(cell) = self.cells.get(index) else {
            let last = self.cells.len() - 1;
            return Err(Error::other(format!("there is no cell {index}: those of this grid are numbered 0 to {last}")));
        };
        self.number_cells()?;
        if matches!(cell.state, State::Finished(_)) {
            return Ok(Ended::Already);
        }
        run_claimed(&cell.config, &cell.folder, session, stale, refused)
    }

    /// Notes which cell has which number, or refuses a grid whose cells are numbered otherwise.
    pub fn number_cells(&self) -> Result<()> {
        let line = |cell: &Cell| {
            let folder = cell.folder.strip_prefix(&self.out).unwrap_or(&cell.folder);
            format!("{}\t{}\n", cell.name(), folder.display())
        };
        let text: String = self.cells.iter().map(line).collect();
        let path = self.out.join(CELLS);
        fs::create_dir_all(&self.out).map_err(|e| Error::io(&self.out, e))?;
        let there = match fs::read_to_string(&path) {
            // Of several at once any may be last: they write the same.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return write_whole(&path, text.as_bytes()),
            read => read.map_err(|e| Error::io(&path, e))?,
        };
        if there == text {
            return Ok(());
        }
        let (were, are): (Vec<&str>, Vec<&str>) = (there.lines().collect(), text.lines().collect());
        let at = were.iter().zip(&are).take_while(|(a, b)| a == b).count();
        let name = |line: &str| line.split('\t').next().unwrap_or(line).to_string();
        let word = |cells: &[&str]| cells.get(at).map_or("missing".into(), |line| name(line));
        Err(Error::other(format!(
            "{} holds another grid: cell {at} was \"{}\" and is \"{}\" now; name another --out, or remove {} when nothing runs there",
            self.out.display(),
            word(&were),
            word(&are),
            path.display()
        )))
    }
}

/// Runs what is wanted in a folder, from where it is, unless another process does. `config` has the hash of its demonstrations.
pub fn run_claimed(
    config: &Config,
    folder: &Path,
    session: Session,
    stale: Duration,
    refused: impl FnMut(&Error),
) -> Result<Ended> {
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let claim = match claim(folder, stale, &session.stop)? {
        Ok(claim) => Arc::new(claim),
        Err(ended) => return Ok(ended),
    };
    let now = state(folder, config);
    let ended = match &now {
        Ok(State::Finished(_)) => Ok(Ended::Already),
        Ok(now) => {
            let session = Session { claim: Some(Arc::clone(&claim)), ..session };
            let _ = fs::remove_file(folder.join(ERROR));
            go_on(config, folder, *now, session, refused)
        }
        Err(e) => Err(Error::other(e.to_string())),
    };
    if claim.lost() {
        let why = ended.err().map_or("it was taken over".into(), |e| e.to_string());
        return Ok(Ended::Elsewhere(why));
    }
    let word = match &ended {
        Ok(Ended::Stopped | Ended::Elsewhere(_)) => "stopped".into(),
        Ok(Ended::Finished | Ended::Already) => "finished".into(),
        Err(e) => {
            // On a full disk there may be no room for this either; the sentence is shown anyway.
            let _ = write_whole(&folder.join(ERROR), format!("{e}\n").as_bytes());
            format!("failed: {e}")
        }
    };
    let back = Arc::into_inner(claim).map_or(Ok(()), |claim| claim.give_back(&word));
    // A cell that failed failed for its own reason.
    ended.and_then(|ended| back.map(|()| ended))
}

fn go_on(config: &Config, folder: &Path, now: State, session: Session, refused: impl FnMut(&Error)) -> Result<Ended> {
    let summary = if now == State::New {
        write_whole(&folder.join(CELL), config.to_toml().as_bytes())?;
        train::prepare(config, session)?.train(folder)?
    } else {
        train::resume(folder, None, session, refused)?
    };
    Ok(if summary.finished { Ended::Finished } else { Ended::Stopped })
}

/// Claims a cell. A holder that may be dead is waited for, until it is heard of or was silent for too long.
fn claim(folder: &Path, stale: Duration, stop: &Stop) -> Result<std::result::Result<Claim, Ended>> {
    let mut before: Option<(Option<Holder>, Duration, Instant)> = None;
    loop {
        let claimed = match Claim::take(folder, stale, stop)? {
            Attempt::Mine(claim) => return Ok(Ok(claim)),
            Attempt::Theirs(claimed) => claimed,
        };
        let elsewhere =
            |holder: &Holder| Ok(Err(Ended::Elsewhere(format!("{} is being run by {holder}", folder.display()))));
        match claimed {
            Claimed::Held(holder) => return elsewhere(&holder),
            Claimed::Perhaps(Some(holder), age) => match &before {
                // It beat between the two looks: by its own silence it would be older now.
                Some((Some(first), then, when)) if *first == holder && age + LOOK < *then + when.elapsed() => {
                    return elsewhere(&holder);
                }
                Some((Some(first), ..)) if *first == holder => {}
                _ => {
                    eprintln!("waiting for a sign of {holder}, which may be dead");
                    before = Some((Some(holder), age, Instant::now()));
                }
            },
            _ => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Err(Ended::Stopped));
        }
        std::thread::sleep(LOOK);
    }
}
