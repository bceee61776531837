//! `sskp curves`: the learning curves of a run as a page.

use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::registry::Registry;

use crate::error::OrUsage;

/// Write the learning curves of a run as a page
///
/// Return of the episodes beside the demonstrator's and the expert's, violations, predicted against actual risk, and where the time went; of any run, also of
/// one that is under way or was stopped.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory
    run: PathBuf,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "curves.html")]
    html: PathBuf,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let words = sskp_lab::run_page::in_words(registry, &self.run).or_usage()?;
        sskp_lab::run_page::write_html(registry, &self.run, &self.html).or_usage()?;
        println!("{words}\ncurves: {}", self.html.display());
        Ok(())
    }
}
