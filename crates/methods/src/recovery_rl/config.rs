//! Settings of Recovery RL.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::soft_actor_critic::SoftActorCriticConfig;

/// Settings. Where nothing else is said, a default is the authors' (github.com/abalakrishna123/recovery-rl).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryRlConfig {
    /// Uniform random actions of the task policy before it acts itself. The recovery switch guards them too.
    pub random_steps: u64,
    /// Updates of task policy, risk critic and recovery policy per environment step; 0.1 is one every ten steps.
    pub updates_per_step: f64,
    /// Transitions per minibatch.
    pub batch: usize,
    /// Transitions kept for the task policy.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// Whether the task policy's replay holds its own action where the recovery policy acted.
    pub relabel_actions: bool,
    /// The task policy.
    pub learner: SoftActorCriticConfig,
    /// The risk critic.
    pub risk: RiskCriticConfig,
    /// The recovery policy.
    pub recovery: RecoveryConfig,
}

/// Settings of the risk critic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskCriticConfig {
    /// γ_safe: a violation k steps ahead counts γ_safe^k.
    pub gamma: f64,
    /// ε_safe: above this risk the recovery policy acts. The switch looks ln ε/ln γ steps ahead.
    pub threshold: f64,
    /// Width of the hidden layers.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate.
    pub rate: f64,
    /// Polyak rate of the targets.
    pub tau: f64,
    /// Share of violating transitions in a minibatch, as soon as there is one; 0 to draw uniformly.
    pub positive_fraction: f64,
    /// Transitions kept, violating and other ones each.
    pub memory: usize,
    /// Updates of risk critic and recovery policy on the demonstrations.
    pub offline_updates: u64,
}

/// Settings of the recovery policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryConfig {
    /// Width of the hidden layers.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate.
    pub rate: f64,
    /// The first σ, the same in every state and learnt.
    pub std: f64,
}

impl Default for RecoveryRlConfig {
    fn default() -> Self {
        Self {
            random_steps: 100,
            updates_per_step: 1.0,
            batch: 256,
            replay: 1_000_000,
            log_every: 5000,
            relabel_actions: true,
            // The authors' SAC has a fixed temperature; everything else is as usual.
            learner: SoftActorCriticConfig { alpha: 0.2, auto_alpha: false, ..Default::default() },
            risk: RiskCriticConfig {
                // Those of the authors' first navigation task, a point that must keep off the walls. They choose both by task;
                // `configs/recovery-rl-published.toml` has what was published for the paper's robots.
                gamma: 0.8,
                threshold: 0.3,
                width: 256,
                layers: 2,
                rate: 3e-4,
                tau: 2e-4,
                // Their value for the maze and both extraction tasks.
                positive_fraction: 0.3,
                memory: 1_000_000,
                offline_updates: 10_000,
            },
            recovery: RecoveryConfig { width: 256, layers: 2, rate: 3e-4, std: 0.1 },
        }
    }
}

impl RecoveryRlConfig {
    /// Says what is wrong with a setting; `algo` is the name of the table they stand in.
    pub(super) fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| crate::need(algo, key, fine, needed);
        let (risk, recovery) = (&self.risk, &self.recovery);
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("log_every", self.log_every > 0, "at least 1")?;
        self.learner.check(&format!("{algo}.learner"))?;
        need("risk.gamma", (0.0..1.0).contains(&risk.gamma), "at least 0 and below 1")?;
        need("risk.threshold", (0.0..=1.0).contains(&risk.threshold), "between 0 and 1")?;
        need("risk.tau", risk.tau > 0.0 && risk.tau <= 1.0, "above 0 and at most 1")?;
        need("risk.positive_fraction", (0.0..1.0).contains(&risk.positive_fraction), "at least 0 and below 1")?;
        need("risk.memory", (1..=1 << 31).contains(&risk.memory), "between 1 and 2147483648")?;
        for (table, width, layers, rate) in
            [("risk", risk.width, risk.layers, risk.rate), ("recovery", recovery.width, recovery.layers, recovery.rate)]
        {
            need(&format!("{table}.width"), (1..=1 << 14).contains(&width), "between 1 and 16384")?;
            need(&format!("{table}.layers"), (1..=64).contains(&layers), "between 1 and 64")?;
            need(&format!("{table}.rate"), rate > 0.0 && rate < 1.0, "between 0 and 1")?;
        }
        need("recovery.std", (LEAST_STD..=1.0).contains(&recovery.std), "between 1e-6 and 1")
    }
}

/// The recovery policy's σ does not fall below this.
pub(super) const LEAST_STD: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_with_their_name() {
        let refused = |change: fn(&mut RecoveryRlConfig)| {
            let mut config = RecoveryRlConfig::default();
            change(&mut config);
            config.check("recovery-rl").unwrap_err().to_string()
        };
        assert_eq!(refused(|c| c.risk.threshold = 1.5), "recovery-rl.risk.threshold must be between 0 and 1");
        assert_eq!(refused(|c| c.risk.gamma = f64::NAN), "recovery-rl.risk.gamma must be at least 0 and below 1");
        assert_eq!(refused(|c| c.learner.tau = 0.0), "recovery-rl.learner.tau must be above 0 and at most 1");
        assert_eq!(refused(|c| c.recovery.width = 0), "recovery-rl.recovery.width must be between 1 and 16384");
        assert_eq!(refused(|c| c.updates_per_step = -1.0), "recovery-rl.updates_per_step must be between 0 and 100");
    }
}
