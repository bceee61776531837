//! `sskp violations`: what a run has kept of its violations.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::registry::Registry;
use sskp_lab::violations::{self, TRIES, risk_in_words};

use crate::error::{OrUsage, usage};
use crate::table::Table;

/// List the last violations of a run, and play any of them again
///
/// Training keeps the simulator's state some seconds before the last violations, and before moments that came near one (run.keep_violations). With a number, as
/// listed, that one is written as a page: the robot, the quantity of the constraint and its bound, the predicted risk and the skills, and faint robots
/// that show what would have happened with other choices of the policy saved nearest to that moment.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory
    run: PathBuf,
    /// Number of the one to play again; without it they are listed
    number: Option<usize>,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "violation.html", requires = "number")]
    html: PathBuf,
    /// Also write it as a video without a browser: FILE.gif, FILE.mp4 or FILE.webm
    #[arg(long, value_name = "FILE", requires = "number")]
    video: Option<PathBuf>,
    /// List violations alone
    #[arg(long, conflicts_with = "number")]
    no_near: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let kept = violations::list(registry, &self.run).or_usage()?;
        let mut out = std::io::stdout().lock();
        let Some(number) = self.number else {
            if kept.is_empty() {
                writeln!(out, "{} has kept no violation", self.run.display())?;
                return Ok(());
            }
            let mut table =
                Table::new(&["number", "kind", "step", "episode", "length", "predicted risk", "constraint"])
                    .right(&[0, 2, 3, 4, 5]);
            for one in kept.iter().filter(|one| one.moment.violation || !self.no_near) {
                let moment = &one.moment;
                table.row([
                    one.number.to_string(),
                    if moment.violation { "violation" } else { "near" }.into(),
                    moment.steps.to_string(),
                    moment.episode.to_string(),
                    moment.length.to_string(),
                    risk_in_words(one.risk),
                    one.constraint.clone(),
                ]);
            }
            write!(out, "{table}")?;
            return Ok(());
        };
        let one = kept.iter().find(|one| one.number == number);
        let count = kept.len();
        let one = one.ok_or_else(|| {
            usage(format!(
                "there is no number {number}: {count} are kept, `sskp violations {}` lists them",
                self.run.display()
            ))
        })?;
        if let Some(path) = &self.video {
            sskp_lab::video::check(path).or_usage()?;
        }
        let studied = violations::study(registry, &self.run, one)?;
        sskp_lab::replay_page::write_html(&studied.page, &self.html)?;
        writeln!(out, "{}", one.constraint)?;
        for (back, fell) in &studied.again {
            writeln!(out, "played again from {back} steps before: {fell} of {TRIES} fell by then")?;
        }
        writeln!(out, "replay: {}", self.html.display())?;
        if let Some(path) = &self.video {
            sskp_lab::video::write(std::slice::from_ref(&studied.page), path, None)?;
            writeln!(out, "video: {}", path.display())?;
        }
        Ok(())
    }
}
