//! `sskp train`: one method on one robot.

use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::config::{Config, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::train::Summary;

use crate::error::OrUsage;
use crate::options::{self, Signals};
use crate::table::Table;

/// Train a method on a robot
///
/// Writes a run directory with one row per episode, progress, a summary and checkpoints. Ctrl-C or SIGTERM writes a
/// checkpoint and leaves; `sskp resume` goes on exactly where it stopped.
#[derive(clap::Args)]
pub struct Args {
    /// Method to train
    #[arg(long, value_name = "METHOD")]
    algo: String,
    /// Robot to train on
    #[arg(long = "env", visible_aliases = ["env-id", "task"], value_name = "ROBOT")]
    env: String,
    /// Seed of every random stream
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Environment steps
    #[arg(long, short = 'n', visible_alias = "total-timesteps", default_value_t = 1_000_000, value_parser = crate::options::whole)]
    total_steps: u64,
    /// Demonstrations to begin with: a Minari folder, a file that `sskp data` reads, or the name of a shipped set [default: the
    /// robot's medium-v0, for methods that begin with demonstrations]
    #[arg(long, value_name = "PATH")]
    demos: Option<PathBuf>,
    /// Skill model to use, a file of `sskp skills` [default: one is fitted to the demonstrations, once]
    #[arg(long, value_name = "FILE")]
    skills: Option<PathBuf>,
    /// Threads the learner may use; the bytes of a run depend on it
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Folder of the run, made new [default: `runs/ALGO-ENV/seed-N-TIME`]
    #[arg(long, short = 'f', visible_alias = "logdir")]
    log_dir: Option<PathBuf>,
    /// TOML file of settings that differ from the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, for example sac.batch=128; may be given many times, and wins over --config
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the resolved settings and leave
    #[arg(long)]
    show_config: bool,
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
        let overrides = options::overrides(self.config.as_deref(), &self.set)?;
        let mut run = RunConfig::new(&self.algo, &self.env, self.seed, self.total_steps);
        run.threads = self.threads;
        let mut config = Config::resolve(registry, run, &overrides).or_usage()?;
        if let Some(path) = &self.demos {
            (config.run.demos, config.run.demos_sha256) = (path.display().to_string(), String::new());
        }
        if let Some(path) = &self.skills {
            (config.run.skills, config.run.skills_sha256) = (path.display().to_string(), String::new());
        }
        sskp_lab::train::check(registry, &config).or_usage()?;
        if self.show_config {
            print!("{}", config.to_toml());
            return Ok(());
        }
        let path = self.log_dir.unwrap_or_else(|| config.default_folder());
        sskp_lab::run_dir::RunDir::refuse_existing(&path).or_usage()?;
        let stop = Signals::listen()?.or_end_of_input(self.leash).stop();
        let session = options::session(registry, stop, self.quiet);
        let summary = options::as_cell(self.leash, &path, session, |session| {
            Ok(sskp_lab::train::prepare(&config, session).or_usage()?.train(&path)?)
        })?;
        report(&summary, &path)
    }
}

/// What a run came to, for people.
pub fn report(summary: &Summary, path: &std::path::Path) -> Result<()> {
    use std::io::Write as _;
    if summary.steps == 0 && !summary.finished {
        let text = "stopped while learning from the demonstrations; go on with";
        writeln!(std::io::stdout().lock(), "{text}: sskp resume {}", path.display())?;
        return Ok(());
    }
    let mut table = Table::bare();
    table.row([format!("{} on {}", summary.algo, summary.env), format!("seed {}", summary.seed)]);
    table.row(["steps".to_string(), summary.steps.to_string()]);
    table.row(["episodes".to_string(), summary.episodes.to_string()]);
    table.row(["violations (#V)".to_string(), summary.violations.to_string()]);
    table.row(["reward per step (PtR)".to_string(), format!("{:.4}", summary.ptr)]);
    let ratio = summary.ptr_per_violation_x1000.map_or("undefined without violations".into(), |r| format!("{r:.4}"));
    table.row(["PtR/#V x 1000".to_string(), ratio]);
    let total: f64 = summary.time_split.values().sum();
    let split: Vec<String> =
        summary.time_split.iter().map(|(phase, s)| format!("{phase} {:.0} %", 100.0 * s / total.max(1e-9))).collect();
    table.row(["time".to_string(), format!("{:.1} s ({})", summary.wall_seconds, split.join(", "))]);
    let mut out = std::io::stdout().lock();
    write!(out, "{table}")?;
    if summary.finished {
        writeln!(out, "written to {}", path.display())?;
    } else {
        writeln!(out, "stopped; go on with: sskp resume {}", path.display())?;
    }
    Ok(())
}
