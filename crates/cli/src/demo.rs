//! `sskp demo`: SSkP+ on Cheetah, small enough to wait for and long enough to leave its demonstrator behind, and pages that show it.

use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::evaluate::Watched;
use sskp_lab::registry::Registry;
use sskp_lab::wording::plural;
use sskp_lab::{replay_page, run_page};

use crate::error::OrUsage;
use crate::options::{self, Signals};

/// SSkP's decoder is frozen, and it stays at its demonstrator's level; SSkP+ leaves it.
const ALGO: &str = "sskp-plus";
/// Where that is seen soonest.
const ROBOT: &str = "cheetah";

/// Train SSkP+ on Cheetah for a few minutes and write pages that show what it learnt
///
/// Begins with the shipped demonstrations, and prints the paper's measures. The pages are
/// learning curves beside the returns of the demonstrator and of an expert, and a replay of the trained policy with the predicted risk of each skill it chose.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the run and the pages
    #[arg(long, default_value = "runs/demo", value_name = "FOLDER")]
    out: PathBuf,
    /// Seed of every random stream
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Environment steps
    // About two minutes of two cores, after one for the demonstrations.
    #[arg(long, short = 'n', default_value_t = 60_000, value_parser = crate::options::whole)]
    total_steps: u64,
    /// One setting, as in `sskp train`; may be given many times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// No progress display
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("the folder {} cannot be made", self.out.display()))
            .or_usage()?;
        let mut overrides = Overrides::default();
        // A row for the curves every few episodes: the run is short.
        overrides.set("sskp-plus.log_every=1000").or_usage()?;
        for set in &self.set {
            overrides.set(set).or_usage()?;
        }
        let mut run = RunConfig::new(ALGO, ROBOT, self.seed, self.total_steps);
        // Somebody waits for this run.
        run.threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
        let config = Config::resolve(registry, run, &overrides).or_usage()?;
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let folder = self.out.join(format!("run-{seconds}"));
        let session = options::session(registry, Signals::listen()?.stop(), self.quiet);
        let prepared = sskp_lab::train::prepare(&config, session).or_usage()?;
        let summary = prepared.train(&folder)?;
        crate::train::report(&summary, &folder)?;
        if !summary.finished {
            return Ok(());
        }

        let curves = self.out.join("curves.html");
        run_page::write_html(registry, &folder, &curves)?;
        let page = self.out.join("replay.html");
        let watched = watch(registry, &folder, &page)?;
        let (steps, earned) = watched.rows.first().map_or((0, 0.0), |row| (row.length, row.total_reward));
        let risk = Watched::mean_risk(&watched.risks).map_or("none".into(), sskp_lab::wording::significant);
        let mut out = stdout().lock();
        writeln!(out, "{}", run_page::in_words(registry, &folder)?)?;
        writeln!(
            out,
            "the trained policy, played once: return {earned:.1} in {}, mean predicted risk {risk}",
            plural(steps, "step")
        )?;
        writeln!(out, "\nopen in a browser:")?;
        writeln!(out, "  {}  learning curves", curves.display())?;
        writeln!(out, "  {}  the trained policy, with the predicted risk of each chosen skill", page.display())?;
        Ok(())
    }
}

/// Plays the trained policy once and writes the page that shows it.
fn watch(registry: &Registry, run: &Path, page: &Path) -> Result<Watched> {
    let mut trained = sskp_lab::evaluate::load_policy(registry, run, |error| eprintln!("warning: {error}"))?;
    let mut watched = sskp_lab::evaluate::watch(&mut trained, 1, 0, false, true)?;
    let first = watched.episodes.pop().context("no episode was played")?;
    let algo = &trained.config.run.algo;
    let subtitle = format!("{algo} after {}", plural(trained.steps, "step"));
    replay_page::write_html(&first.into_page(&trained.env, subtitle), page)?;
    Ok(watched)
}
