//! Options that several verbs share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use sskp_blocks::env::Env;
use sskp_blocks::registry::EnvOptions;
use sskp_lab::config::Overrides;
use sskp_lab::registry::Registry;
use sskp_lab::run_dir::Claim;
use sskp_lab::run_dir::claim::{Attempt, Claimed, STALE};
use sskp_lab::train::{Session, Stop, Summary};

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

/// What a run of the command line is given: these environments and methods, and the models that were fitted before.
pub fn session(registry: &Registry, stop: Stop, quiet: bool) -> Session {
    Session { stop, quiet, cache: sskp_lab::places::model_cache(), ..Session::of(registry) }
}

/// Does the work of a run that a sweep started under a claim of its folder, as `sskp sweep --cell` would: each leaves alone what the other has.
pub fn as_cell(
    leash: bool,
    folder: &Path,
    mut session: Session,
    work: impl FnOnce(Session) -> anyhow::Result<Summary>,
) -> anyhow::Result<Summary> {
    if !leash {
        return work(session);
    }
    let claim = match Claim::take(folder, STALE, &session.stop)? {
        Attempt::Mine(claim) => Arc::new(claim),
        Attempt::Theirs(Claimed::Held(holder) | Claimed::Perhaps(Some(holder), _)) => {
            anyhow::bail!("{} is being run by {holder}", folder.display())
        }
        Attempt::Theirs(_) => anyhow::bail!("{} is being run by another process", folder.display()),
    };
    session.claim = Some(Arc::clone(&claim));
    let summary = work(session);
    let word = match &summary {
        Ok(summary) if summary.finished => "finished".to_string(),
        Ok(_) => "stopped".into(),
        Err(e) => format!("failed: {e}"),
    };
    let back = Arc::into_inner(claim).map_or(Ok(()), |claim| claim.give_back(&word));
    let summary = summary?;
    back?;
    Ok(summary)
}

/// A whole number from 0 to 2^64 − 1, also written as `1_000_000` or `1e6`.
pub fn whole(text: &str) -> Result<u64, String> {
    let wanted =
        || "it must be a whole number from 0 to 18446744073709551615, like 1000000, 1_000_000 or 1e6".to_string();
    let digits = text.replace('_', "");
    let (mantissa, zeros) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.trim_start_matches('+').parse().map_err(|_| wanted())?),
        None => (digits.as_str(), 0u32),
    };
    // 1.5e6 is whole, too: its fraction takes as many of the zeros as it is long.
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let zeros = zeros.checked_sub(fraction.len() as u32).ok_or_else(wanted)?;
    let number: u64 = format!("{whole}{fraction}").parse().map_err(|_| wanted())?;
    10u64.checked_pow(zeros).and_then(|power| number.checked_mul(power)).ok_or_else(wanted)
}

/// Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP (a terminal that was closed): the first asks the run to write a checkpoint and leave, a second Ctrl-C leaves at once.
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
        // Schedulers send it before a time limit.
        signal_hook::flag::register(SIGUSR1, Arc::clone(&stop))?;
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
    pub fn stop(&self) -> Stop {
        Arc::clone(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        let texts = ["0", "1_000_000", "1e6", "1.5E6", "2e+3", "18446744073709551615", "7.0e0"];
        let numbers = [0, 1_000_000, 1_000_000, 1_500_000, 2000, u64::MAX, 7];
        assert_eq!(texts.map(|text| whole(text).unwrap()), numbers);
        for text in ["", "-1", "1.5", "1.55e1", "1e20", "18446744073709551616", "many", "1e-3", "e6"] {
            assert!(whole(text).unwrap_err().contains("whole number"), "{text}");
        }
    }
}
