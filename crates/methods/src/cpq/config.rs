//! CPQ's settings.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;

use super::vae::VaeConfig;
use crate::need;

/// Settings. Where nothing else is said, a default is OSRL's (github.com/liuzuxin/OSRL).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpqConfig {
    /// Updates per environment step; 0.1 is one every ten steps.
    pub updates_per_step: f64,
    /// Updates on the demonstrations before the first step.
    pub offline_updates: u64,
    /// Transitions per minibatch.
    pub batch: usize,
    /// Online transitions kept; the demonstrations are kept besides.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// Width of the hidden layers of actor and critics.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate of the actor.
    pub actor_rate: f64,
    /// Learning rate of the critics.
    pub critic_rate: f64,
    /// Discount γ.
    pub gamma: f64,
    /// Polyak rate of the target critics.
    pub tau: f64,
    /// Rewards are multiplied by this before they are learnt from.
    pub reward_scale: f64,
    /// The constraint.
    pub cost: CostConfig,
    /// The autoencoder.
    pub vae: VaeConfig,
}

/// Settings of the constraint and of the cost critics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostConfig {
    /// Cost allowed per episode, from which l follows.
    pub limit: f64,
    /// Whether nothing is expected after a violation. OSRL looks past the end.
    pub ends: bool,
    /// Whether the greater of both cost critics counts. OSRL takes the smaller, as for rewards.
    pub greatest: bool,
    /// Whether the actor goes down Q_c where Q_c > l. As published it learns nothing there.
    pub descend: bool,
    /// Whether Q_c is really pushed up on actions out of distribution. OSRL judges them by the target critics, outside the gradient (and
    /// before their tanh): only α moves, and nothing is learnt from it.
    pub ood_gradient: bool,
    /// Whether Q_c is pushed up online as well.
    pub ood_online: bool,
    /// Whether sampled actions are measured against the minibatch's own actions. OSRL measures them against each other.
    pub ood_by_data: bool,
    /// Sampled actions whose divergence is at this quantile or above are out of distribution.
    pub ood_quantile: f64,
    /// Actions sampled per state.
    pub ood_actions: usize,
    /// l_c/l.
    pub ood_scale: f64,
    /// α begins at 0 and stays within 0 and this.
    pub alpha_max: f64,
    /// Learning rate of α.
    pub alpha_rate: f64,
}

impl Default for CpqConfig {
    fn default() -> Self {
        Self {
            updates_per_step: 1.0,
            offline_updates: 100_000,
            // OSRL has 512; every other method here has 256, and an update costs half.
            batch: 256,
            replay: 1_000_000,
            log_every: 5000,
            width: 256,
            layers: 2,
            actor_rate: 1e-4,
            critic_rate: 1e-3,
            gamma: 0.99,
            tau: 0.005,
            reward_scale: 0.1,
            cost: CostConfig {
                // OSRL's 10 is for tasks with many costs per episode. Here an episode ends with its first: 10 would forbid nothing.
                limit: 1.0,
                ends: true,
                greatest: true,
                descend: true,
                ood_gradient: true,
                // Online the policy's actions are tried, and the error of Q_c speaks for them.
                ood_online: false,
                ood_by_data: true,
                // OSRL's 0.75, against each other, calls a quarter of the policy's actions foreign whatever they are. The push on them adds up along an
                // episode by 1/(1 − γ), until Q_c is l_c everywhere.
                ood_quantile: 0.99,
                ood_actions: 10,
                ood_scale: 1.5,
                alpha_max: 0.2,
                alpha_rate: 1e-4,
            },
            vae: VaeConfig::default(),
        }
    }
}

impl CpqConfig {
    pub(super) fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| need(algo, key, fine, needed);
        let cost = &self.cost;
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("log_every", self.log_every > 0, "at least 1")?;
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("layers", (1..=64).contains(&self.layers), "between 1 and 64")?;
        need("actor_rate", self.actor_rate > 0.0 && self.actor_rate < 1.0, "between 0 and 1")?;
        need("critic_rate", self.critic_rate > 0.0 && self.critic_rate < 1.0, "between 0 and 1")?;
        need("gamma", (0.0..1.0).contains(&self.gamma), "at least 0 and below 1")?;
        need("tau", self.tau > 0.0 && self.tau <= 1.0, "above 0 and at most 1")?;
        need("reward_scale", self.reward_scale > 0.0 && self.reward_scale.is_finite(), "above 0")?;
        need("cost.limit", cost.limit > 0.0 && cost.limit.is_finite(), "above 0")?;
        need("cost.ood_quantile", (0.0..1.0).contains(&cost.ood_quantile), "at least 0 and below 1")?;
        need("cost.ood_actions", (1..=1000).contains(&cost.ood_actions), "between 1 and 1000")?;
        need("cost.ood_scale", cost.ood_scale >= 0.0 && cost.ood_scale.is_finite(), "0 or more")?;
        need("cost.alpha_max", cost.alpha_max >= 0.0 && cost.alpha_max.is_finite(), "0 or more")?;
        need("cost.alpha_rate", (0.0..1.0).contains(&cost.alpha_rate), "at least 0 and below 1")?;
        need("vae.width", (1..=1 << 14).contains(&self.vae.width), "between 1 and 16384")?;
        need("vae.layers", (1..=64).contains(&self.vae.layers), "between 1 and 64")?;
        need("vae.rate", self.vae.rate > 0.0 && self.vae.rate < 1.0, "between 0 and 1")?;
        need("vae.beta", self.vae.beta >= 0.0 && self.vae.beta.is_finite(), "0 or more")
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::env::Env as _;

    use super::*;
    use crate::Setup;
    use crate::cpq::Cpq;

    #[test]
    fn settings_out_of_range_are_refused_with_their_name() {
        let spec = sskp_blocks::toy::Toy::default().spec().clone();
        let refused = |change: fn(&mut CpqConfig)| {
            let mut config = CpqConfig::default();
            change(&mut config);
            let setup = Setup::new("cpq", 0, 1);
            Cpq::new(&spec, config, setup).err().expect("refused").to_string()
        };
        assert_eq!(refused(|c| c.cost.limit = 0.0), "cpq.cost.limit must be above 0");
        assert_eq!(refused(|c| c.cost.ood_quantile = 1.0), "cpq.cost.ood_quantile must be at least 0 and below 1");
        assert_eq!(refused(|c| c.cost.ood_actions = 0), "cpq.cost.ood_actions must be between 1 and 1000");
        assert_eq!(refused(|c| c.vae.beta = f64::NAN), "cpq.vae.beta must be 0 or more");
        assert_eq!(refused(|c| c.actor_rate = 0.0), "cpq.actor_rate must be between 0 and 1");
    }
}
