//! `sskp verify`: play the beginning of a run again and compare.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use sskp_lab::registry::Registry;
use sskp_lab::run_rows::RunRows;
use sskp_lab::train::Session;
use sskp_lab::verify::verify;

use crate::error::OrUsage;
use crate::options::Signals;

/// Play the first episodes of a run again, and compare them with its rows
///
/// Takes a run directory or committed rows (seed-N.csv.gz with seed-N.toml beside it). Rows are the same to the last bit on the same kind of CPU;
/// on another, last bits may differ, and with them, in time, everything.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, or file of rows
    run: PathBuf,
    /// Episodes to play
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    episodes: u64,
    /// No progress display
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let rows = RunRows::read(&self.run).or_usage()?;
        let session = Session {
            registry: registry.clone(),
            stop: Signals::listen()?.stop(),
            quiet: self.quiet,
            cache: sskp_lab::find::cache(),
        };
        let verdict = verify(&rows, self.episodes, session)?;
        let mut out = std::io::stdout().lock();
        match verdict.difference {
            Some(difference) => Err(anyhow!("{} is not what its settings give: {difference}", self.run.display())),
            None if verdict.stopped => Ok(writeln!(out, "stopped; {} episodes were the same", verdict.same)?),
            None => {
                let (episodes, steps) = (verdict.same, verdict.steps);
                writeln!(
                    out,
                    "{episodes} episodes, {steps} steps: the same, SHA-256 of their rows {}",
                    verdict.sha256
                )?;
                Ok(())
            }
        }
    }
}
