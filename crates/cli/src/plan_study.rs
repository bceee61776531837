//! `sskp plan-study`: Figure 5 of the paper for a trained run.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sskp_lab::plan_study::plan_study;
use sskp_lab::registry::Registry;
use sskp_lab::wording::{plural, significant};

use crate::error::OrUsage;
use crate::table::Table;

/// Measure what the iterations of risk planning do to the predicted risk (Figure 5)
///
/// Plays the newest policy of a run, draws states it comes through, runs Algorithm 1 in each, and measures the mean predicted
/// risk of skills drawn from the Gaussian of every iteration. Writes two tables and a figure. A run of sskp-np is asked what
/// risk planning would have done.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, or one folder under its checkpoints/ or policies/
    run: PathBuf,
    /// States to plan in
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    states: u32,
    /// Seed of the episodes, of the choice of states and of the planner
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Folder for the tables and the figure [default: plan-study in the run directory]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let mut trained =
            sskp_lab::evaluate::load_policy(registry, &self.run, crate::error::older_checkpoint).or_usage()?;
        let study = plan_study(&mut trained, self.states as usize, self.seed).or_usage()?;
        let folder = self.out.unwrap_or_else(|| {
            // Checkpoints and snapshots lie two folders down.
            let run = trained.checkpoint.parent().and_then(std::path::Path::parent).unwrap_or(&self.run);
            run.join("plan-study")
        });
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))
            .or_usage()?;
        let run = &trained.config.run;
        let title = format!("{} on {} after {}", run.algo, run.env, plural(trained.steps, "step"));
        let paths = study.write(&folder, &title)?;

        let mut table = Table::new(&["iteration", "mean risk", "change", "standard error", "median change"]);
        table = table.right(&[0, 1, 2, 3, 4]);
        for (i, (risk, change)) in study.by_iteration().into_iter().enumerate() {
            let cells = [risk.mean, change.mean, change.standard_error, change.median].map(significant);
            table.row(std::iter::once(i.to_string()).chain(cells));
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{title}: {} of {}",
            plural(study.risks.len() as u64, "state"),
            plural(study.episodes, "episode")
        )?;
        write!(out, "{table}")?;
        for path in paths {
            writeln!(out, "wrote {}", path.display())?;
        }
        Ok(())
    }
}
