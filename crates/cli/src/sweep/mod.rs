//! `sskp sweep`: a grid of runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

mod cells;
mod engine;

use anyhow::{Result, anyhow};
use sskp_lab::registry::Registry;
use sskp_lab::run_dir::claim::STALE;
use sskp_lab::sweep::{State, Sweep};

use crate::error::OrUsage;
use crate::options::Signals;
use crate::table::Table;

/// Run a grid of robots, methods and seeds
///
/// Every run is a process of its own, and finished runs are left alone, so the same command goes on after an interruption. Ctrl-C or
/// SIGTERM lets all runs write their checkpoints. The grid file is described in docs/experiments.md.
///
/// Beyond one machine: `--cell K` runs one cell wherever it is started, and ends with 0 when it is finished, 75 when it is to be
/// continued by the same command, 1 when it failed; `--engine` hands all cells to a scheduler; docs/cluster.md.
#[derive(clap::Args)]
pub struct Args {
    /// TOML file of the grid, for example configs/paper.toml
    file: PathBuf,
    /// Runs at the same time
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Folder of the runs, instead of the one the file names
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print the runs and how far they are, and leave; with --engine, print what the scheduler would be given
    #[arg(long)]
    dry_run: bool,
    /// Print one line per cell: number, name, state, estimated time left
    #[arg(long, conflicts_with_all = ["dry_run", "cell", "status", "jobs"])]
    list: bool,
    /// Print what is done, running where, failed with what, and the time left
    #[arg(long, conflicts_with_all = ["dry_run", "cell", "jobs"])]
    status: bool,
    /// Run this cell alone, in this process, unless another process has it
    #[arg(long, value_name = "K", conflicts_with_all = ["dry_run", "jobs"])]
    cell: Option<usize>,
    /// With --cell: seconds after which a process on another machine that was not heard of counts as dead
    #[arg(long, value_name = "SECONDS", requires = "cell", default_value_t = STALE.as_secs(), value_parser = clap::value_parser!(u64).range(2..))]
    stale: u64,
    /// No progress display
    #[arg(long, short)]
    quiet: bool,
    /// Stop when standard input ends
    #[arg(long, hide = true)]
    leash: bool,
    #[command(flatten)]
    engine: engine::Options,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let mut sweep = Sweep::read(registry, &self.file, self.out.as_deref()).or_usage()?;
        for warning in &sweep.warnings {
            eprintln!("warning: {warning}");
        }
        if let Some(engine) = self.engine.engine() {
            return self.engine.run(engine, &sweep, &self.file, self.dry_run);
        }
        if let Some(index) = self.cell {
            let stale = Duration::from_secs(self.stale);
            return cells::run(registry, &sweep, index, stale, self.quiet, self.leash);
        }
        if self.list {
            return cells::list(&sweep);
        }
        if self.status {
            return cells::status(&sweep);
        }
        if self.dry_run {
            return list(&sweep);
        }
        std::fs::create_dir_all(&sweep.out).map_err(|e| sskp_blocks::Error::io(&sweep.out, e)).or_usage()?;
        let stop = Signals::listen()?.or_end_of_input(self.leash).stop();
        // By this name the system finds the very program that is running, even if a newer one was built meanwhile.
        let myself = PathBuf::from("/proc/self/exe");
        let program = if myself.exists() { myself } else { std::env::current_exe()? };
        let outcome = sweep.run(&program, self.jobs.into(), &stop, self.quiet)?;
        let (finished, all) = (outcome.finished, sweep.cells.len());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{finished} of {all} runs finished in {}", sweep.out.display())?;
        if outcome.stopped {
            writeln!(out, "stopped; the same command goes on")?;
        }
        match outcome.failed.as_slice() {
            [] => Ok(()),
            [(name, why)] => Err(anyhow!("{name} failed: {why}")),
            [(name, why), ..] => Err(anyhow!("{} runs failed, {name} among them: {why}", outcome.failed.len())),
        }
    }
}

fn list(sweep: &Sweep) -> Result<()> {
    let mut table = Table::new(&["robot", "method", "seed", "steps", "state", "folder"]).right(&[2, 3]);
    for cell in &sweep.cells {
        let run = &cell.config.run;
        let state = match cell.state {
            State::New => "new".into(),
            State::Unfinished(steps) => format!("at {steps}"),
            State::Finished(_) => "finished".into(),
        };
        let row = [&run.env, &run.algo, &run.seed.to_string(), &run.total_steps.to_string(), &state];
        table.row(row.into_iter().cloned().chain([cell.folder.display().to_string()]));
    }
    write!(std::io::stdout().lock(), "{table}")?;
    Ok(())
}
