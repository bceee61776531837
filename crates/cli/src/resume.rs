//! `sskp resume`: go on with a run that was stopped.

use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::registry::Registry;

use crate::error::OrUsage;
use crate::options::{self, Signals};

/// Go on with a run that was stopped, exactly where it stopped
///
/// Takes the newest whole checkpoint; one that is damaged or belongs to another run is named and passed over.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory
    run: PathBuf,
    /// Go on to this many environment steps instead
    #[arg(long, short = 'n', visible_alias = "total-timesteps", value_parser = crate::options::whole)]
    total_steps: Option<u64>,
    /// No progress display
    #[arg(long, short)]
    quiet: bool,
    /// Stop when standard input ends
    #[arg(long, hide = true)]
    leash: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        sskp_lab::train::read_config(&self.run).or_usage()?;
        let stop = Signals::listen()?.or_end_of_input(self.leash).stop();
        let session = options::session(registry, stop, self.quiet);
        let summary = options::as_cell(self.leash, &self.run, session, |session| {
            Ok(sskp_lab::train::resume(&self.run, self.total_steps, session, crate::error::older_checkpoint)?)
        })?;
        crate::train::report(&summary, &self.run)
    }
}
