//! `sskp verify`: play the beginning of a run again and compare.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use sskp_lab::registry::Registry;
use sskp_lab::run_rows::RunRows;
use sskp_lab::verify::verify;
use sskp_lab::wording::plural;

use crate::error::OrUsage;
use crate::options::{self, Signals};

/// Play the first episodes of a run again, and compare them with its rows
///
/// Takes a run directory or committed rows (seed-N.csv.gz with seed-N.toml beside it). Rows are the same to the last bit on the same kind of CPU;
/// on another, last bits may differ, and with them, in time, everything. Says which version made the rows.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, or file of rows
    run: PathBuf,
    /// Episodes to play [default: 20, or as many as it takes to come beyond the first updates]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    episodes: Option<u64>,
    /// No progress display
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let rows = RunRows::read(&self.run).or_usage()?;
        let session = options::session(registry, Signals::listen()?.stop(), self.quiet);
        let verdict = verify(&rows, self.episodes, session)?;
        let (episodes, steps) = (plural(verdict.same, "episode"), plural(verdict.steps, "step"));
        let mut out = std::io::stdout().lock();
        if let Some(difference) = verdict.difference {
            let who =
                if verdict.makers.this_one() { String::new() } else { format!("; {}", verdict.makers.sentence()) };
            return Err(anyhow!("{} is not what its settings give: {difference}{who}", self.run.display()));
        }
        if verdict.stopped {
            writeln!(out, "stopped; {episodes}, {steps}: the same so far")?;
            return Ok(());
        }
        let learnt = match verdict.updates {
            Some(0) => "but no update was made in what was played: of the learner's settings this says nothing".into(),
            Some(n) => format!("with {}", plural(n, "update")),
            None => "but the method does not count its updates: there may have been none".into(),
        };
        writeln!(out, "{episodes}, {steps}: the same, {learnt}")?;
        writeln!(out, "SHA-256 of their rows {}", verdict.sha256)?;
        writeln!(out, "{}", verdict.makers.sentence())?;
        Ok(())
    }
}
