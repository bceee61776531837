//! `sskp fall-study`: when a trained policy's falls were decided.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use sskp_blocks::files::write_whole;
use sskp_lab::fall_study::{FallSearch, STRIDE, fall_study};
use sskp_lab::registry::Registry;
use sskp_lab::wording::{plural, significant};

use crate::error::OrUsage;
use crate::table::Table;

/// Find out when falls were decided, and whether the predicted risk knew
///
/// Plays the newest policy of a run as in training until it has fallen often enough. The simulator is then set back to the beginning of
/// the skill in which it fell, of the skill before it, and so on, and each is played again many times with fresh random
/// choices. Where nearly all tries fall again nothing could be done any more; where few do, another choice would have helped, and
/// a good risk predictor tells the tries that fell from those that stood.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, or one folder under its checkpoints/ or policies/
    run: PathBuf,
    /// Falls to look at
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    falls: u32,
    /// Times that a fall is played again from each place
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tries: u32,
    /// Skills to go back before the one in which it fell
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    back: u32,
    /// Episodes after which the search for falls ends
    #[arg(long, default_value_t = 2000)]
    episodes: u64,
    /// Seed of the start states
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Write a table with one row per fall and place
    #[arg(long, value_name = "FILE.csv")]
    out: Option<PathBuf>,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let mut trained =
            sskp_lab::evaluate::load_policy(registry, &self.run, crate::error::older_checkpoint).or_usage()?;
        let Self { falls, tries, back, episodes, seed, .. } = self;
        let study =
            fall_study(&mut trained, FallSearch { falls: falls as usize, tries, back: back as usize, episodes, seed })?;
        let mut table = Table::new(&["steps back", "falls", "fell again", "median", "risk: fell", "stood"]);
        table = table.right(&[0, 1, 2, 3, 4, 5]);
        for at in study.by_distance() {
            let share = |x: f64| format!("{:.0} %", 100.0 * x);
            let place = format!("{}-{}", at.back * STRIDE + 1, (at.back + 1) * STRIDE);
            let risks = at.risks.map(|risk| risk.map_or("–".into(), significant));
            let [fell, stood] = risks;
            table.row([place, at.falls.to_string(), share(at.mean), share(at.median), fell, stood]);
        }
        let run = &trained.config.run;
        let mut out = std::io::stdout().lock();
        let (n, of) = (plural(study.falls as u64, "fall"), plural(study.episodes, "episode"));
        writeln!(out, "{} on {} after {}: {n} in {of}", run.algo, run.env, plural(trained.steps, "step"))?;
        write!(out, "{table}")?;
        if let Some(path) = self.out {
            write_whole(&path, study.csv().as_bytes()).or_usage()?;
            writeln!(out, "wrote {}", path.display())?;
        }
        Ok(())
    }
}
