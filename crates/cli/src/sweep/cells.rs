//! Cells one by one: `sskp sweep --list`, `--status` and `--cell`.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use sskp_lab::registry::Registry;
use sskp_lab::sweep::engine::{ended_badly, queue};
use sskp_lab::sweep::{Ended, Place, Standing, Sweep};
use sskp_lab::wording::duration;

use crate::error::{OrUsage, older_checkpoint, to_be_continued, usage};
use crate::options::{self, Signals};
use crate::table::Table;

/// One line per cell, without a header, for scripts as for people.
pub fn list(sweep: &Sweep) -> Result<()> {
    let mut table = Table::bare().right(&[0, 3]);
    for (index, cell) in sweep.standing()?.iter().enumerate() {
        table.row([index.to_string(), cell.name.clone(), cell.place.word().into(), left(cell)]);
    }
    write!(std::io::stdout().lock(), "{table}")?;
    Ok(())
}

fn left(cell: &Standing) -> String {
    cell.left.map_or("?".into(), duration)
}

/// What is done, what runs where, what failed with what, and the time left.
pub fn status(sweep: &Sweep) -> Result<()> {
    let all = sweep.standing()?;
    // A machine that only looks at the folder need not have Slurm.
    let queued = queue(&sweep.out).unwrap_or_default();
    let ended = ended_badly(&sweep.out);
    let mut out = std::io::stdout().lock();
    let mut table = Table::new(&["cell", "name", "state", "steps", "left", "where, or why"]).right(&[0, 3, 4]);
    for (index, cell) in all.iter().enumerate().filter(|(_, cell)| cell.place != Place::Finished) {
        let slurm = queued.get(&index).or(ended.get(&index)).map_or("", String::as_str);
        let notes: Vec<&str> = [cell.place.note(), slurm].into_iter().filter(|note| !note.is_empty()).collect();
        let steps = format!("{}/{}", cell.steps, cell.total);
        let row = [index.to_string(), cell.name.clone(), cell.place.word().into(), steps, left(cell), notes.join("; ")];
        table.row(row);
    }
    let count = |word: &str| all.iter().filter(|cell| cell.place.word() == word).count();
    let finished = count("finished");
    if finished < all.len() {
        write!(out, "{table}")?;
    }
    let words = ["running", "stopped", "failed", "new"].map(|word| (count(word), word));
    let others: String = words.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!(", {n} {word}")).collect();
    writeln!(out, "{finished} of {} finished{others}", all.len())?;
    let lefts: Option<Vec<f64>> = all.iter().map(|cell| cell.left).collect();
    if finished < all.len() {
        let at_once = count("running").max(1);
        match lefts {
            None => writeln!(out, "time left not known yet")?,
            Some(seconds) => {
                let text = duration(seconds.iter().sum::<f64>() / at_once as f64);
                writeln!(out, "{text} left at {at_once} at a time, learning from demonstrations not counted")?;
            }
        }
    }
    Ok(())
}

/// Runs a cell in this process.
pub fn run(registry: &Registry, sweep: &Sweep, index: usize, stale: Duration, quiet: bool, leash: bool) -> Result<()> {
    let Some(cell) = sweep.cells.get(index) else {
        let last = sweep.cells.len() - 1;
        return Err(usage(format!("there is no cell {index}: those of this grid are numbered 0 to {last}")));
    };
    sweep.number_cells().or_usage()?;
    let stop = Signals::listen()?.or_end_of_input(leash).stop();
    let session = options::session(registry, stop, quiet);
    let name = cell.name();
    let word = match sweep.run_cell(index, session, stale, older_checkpoint)? {
        Ended::Finished => "finished",
        Ended::Already => "was finished already",
        Ended::Stopped => return Err(to_be_continued(format!("{name} was stopped; the same command goes on"))),
        Ended::Elsewhere(why) => return Err(to_be_continued(format!("{name} is not this process's to run: {why}"))),
    };
    writeln!(std::io::stdout().lock(), "{name} {word}")?;
    Ok(())
}
