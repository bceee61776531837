//! `sskp skills`: fits a skill model to demonstrations.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use anyhow::Result;
use sskp_blocks::files::PendingFile;
use sskp_lab::config::{Config, RunConfig};
use sskp_lab::data::Set;
use sskp_lab::registry::Registry;

use crate::error::{OrUsage, usage};
use crate::options::{self, Signals};
use crate::table::Table;

/// Fit a skill model to demonstrations, or find the one that was
///
/// Runs do this by themselves and share the result: it depends on the demonstrations and on the settings sskp.skill, not on a
/// run's seed. With --out the model becomes a file that `sskp train --skills` takes, with other demonstrations too. Ctrl-C keeps what
/// was done, and the same command goes on with it.
#[derive(clap::Args)]
pub struct Args {
    /// Demonstrations, as `sskp train` takes them [default: the robot's medium-v0]
    #[arg(long, value_name = "PATH", required_unless_present = "env")]
    demos: Option<PathBuf>,
    /// Robot they are of [default: the one the set names]
    #[arg(long = "env", visible_aliases = ["env-id", "task"], value_name = "ROBOT")]
    env: Option<String>,
    /// TOML file of settings that differ from the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, for example sskp.skill.steps=5000; may be given many times, and wins over --config
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the model to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// No progress display
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let overrides = options::overrides(self.config.as_deref(), &self.set)?;
        let demos = self.demos.map(|path| path.display().to_string()).unwrap_or_default();
        let env = match self.env {
            Some(robot) => robot,
            None => Set::open(&sskp_lab::places::find_set(&demos).or_usage()?).or_usage()?.env,
        };
        if env.is_empty() {
            return Err(usage(format!("{demos} does not say which robot it is of; say it with --env")));
        }
        let mut run = RunConfig::new("sskp", &env, 0, 1);
        run.demos = demos;
        let mut config = Config::resolve(registry, run, &overrides).or_usage()?;
        if let Some(out) = &self.out {
            PendingFile::create(out).or_usage()?; // a place that cannot be written shows before the work
        }
        let stop = Signals::listen()?.stop();
        let session = options::session(registry, stop, self.quiet);
        let Some((fitted, demos)) = sskp_lab::skills::fit(&mut config, &session).or_usage()? else {
            let then = if session.cache.is_some() { "goes on with it" } else { "begins again" };
            writeln!(stdout().lock(), "stopped while fitting; the same command {then}")?;
            return Ok(());
        };

        let mut table = Table::bare();
        table.row(["demonstrations", config.run.demos.as_str()]);
        table.row(["".into(), sskp_lab::wording::set_contents(&demos)]);
        let held_out = fitted.held_out;
        let error = format!("{:.5} mean square per coordinate of an action", held_out.reconstruction);
        table.row(["held-out reconstruction".into(), error]);
        table.row(["held-out KL to N(0, 1)".into(), format!("{:.2} nats per skill", held_out.kl)]);
        table.row(["held-out log q(z|s)".into(), format!("{:.2} nats per skill", held_out.prior_log_prob)]);
        match (&fitted.found, &fitted.kept) {
            (Some(path), _) => table.row(["found".into(), path.display().to_string()]),
            (None, Some(path)) => table.row(["kept".into(), path.display().to_string()]),
            (None, None) => {}
        }
        let mut out = stdout().lock();
        write!(out, "{table}")?;
        if let Some(path) = &self.out {
            fitted.write(path)?;
            writeln!(out, "wrote {}", path.display())?;
        }
        Ok(())
    }
}
