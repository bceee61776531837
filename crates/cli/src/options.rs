//! Options that several verbs share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sskp_blocks::env::Env;
use sskp_blocks::registry::EnvOptions;
use sskp_lab::config::Overrides;
use sskp_lab::registry::Registry;

use crate::error::OrUsage;

/// Which robot, and how it departs from the paper's.
#[derive(clap::Args)]
pub struct Robot {
    /// Robot to play
    #[arg(long = "env", visible_aliases = ["env-id", "task"], value_name = "ROBOT")]
    pub env: String,
    /// Charge contact forces in Ant's and Humanoid's reward (the paper's runs did not)
    #[arg(long)]
    contact_costs: bool,
}

impl Robot {
    /// Builds it.
    pub fn make(&self, registry: &Registry) -> sskp_blocks::Result<Box<dyn Env>> {
        registry.make_env(&self.env, EnvOptions { contact_costs: self.contact_costs })
    }
}

/// What `--config` and `--set` change; `--set` wins.
pub fn overrides(config: Option<&Path>, sets: &[String]) -> anyhow::Result<Overrides> {
    let mut overrides = Overrides::default();
    if let Some(file) = config {
        overrides.file(file).or_usage()?;
    }
    for set in sets {
        overrides.set(set).or_usage()?;
    }
    Ok(overrides)
}

/// Ctrl-C, SIGTERM and SIGHUP (a terminal that was closed): the first asks the run to write a checkpoint and leave, a second Ctrl-C leaves at once.
pub struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Starts listening.
    pub fn listen() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        // Registered before the flag is set by the same signal, so that only the second Ctrl-C finds it set.
        signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;
        signal_hook::flag::register(SIGTERM, Arc::clone(&stop))?;
        signal_hook::flag::register(SIGHUP, Arc::clone(&stop))?;
        Ok(Self(stop))
    }

    /// Also stops when standard input ends, which is how `sskp sweep` stops its runs: a sweep that is killed leaves nobody
    /// running behind it.
    pub fn or_end_of_input(self, leash: bool) -> Self {
        if leash {
            let stop = Arc::clone(&self.0);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                stop.store(true, Ordering::Relaxed);
            });
        }
        self
    }

    /// What the run watches.
    pub fn stop(&self) -> sskp_lab::train::Stop {
        Arc::clone(&self.0)
    }
}
