//! Settings of SMBPO.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::nets::ensemble::EnsembleConfig;
use sskp_blocks::soft_actor_critic::SoftActorCriticConfig;

/// Settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmbpoConfig {
    /// Uniform random actions before the model is first fitted and the policy acts. Their violations count.
    pub random_steps: u64,
    /// Updates of the policy per environment step; 0.1 is one update every ten steps.
    pub updates_per_step: f64,
    /// Transitions per minibatch of the policy.
    pub batch: usize,
    /// Share of a minibatch that is real; the rest is imagined.
    pub real_fraction: f64,
    /// Real transitions kept.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// C of a violation's value −C/(1−γ); 0 for the formula (r_max − r_min)/γ^H − r_max.
    pub violation_cost: f64,
    /// When and how the model learns.
    pub model: ModelConfig,
    /// What is imagined.
    pub imagination: ImaginationConfig,
    /// The update of the policy.
    pub learner: SoftActorCriticConfig,
}

/// When and how the model learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Updates of the first fit.
    pub first_updates: u64,
    /// Environment steps from one fit to the next.
    pub refit_every: u64,
    /// Updates of every later fit, which goes on from the weights there are.
    pub refit_updates: u64,
    /// Transitions per update and member.
    pub batch: usize,
    /// The networks.
    pub ensemble: EnsembleConfig,
}

/// What is imagined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImaginationConfig {
    /// H: the most steps of a rollout, and the H of C's formula.
    pub horizon: u32,
    /// Rollouts imagined at once.
    pub rollouts: usize,
    /// Updates of the policy between one batch of rollouts and the next.
    pub updates_between: u64,
    /// Transitions imagined with uniform actions before the first update.
    pub first_transitions: usize,
    /// Imagined transitions kept.
    pub replay: usize,
}

impl Default for SmbpoConfig {
    /// Safe-MBPO's settings.
    fn default() -> Self {
        Self {
            random_steps: 5000,
            updates_per_step: 10.0,
            batch: 256,
            real_fraction: 0.1,
            replay: 1_000_000,
            // Safe-MBPO's epoch. At ten updates per step even these are minutes apart.
            log_every: 1000,
            violation_cost: 0.0,
            model: ModelConfig {
                first_updates: 10_000,
                refit_every: 250,
                refit_updates: 2000,
                batch: 256,
                ensemble: EnsembleConfig::default(),
            },
            imagination: ImaginationConfig {
                horizon: 10,
                rollouts: 100,
                // Safe-MBPO imagines once per environment step and then learns ten times. Tied to the updates instead, the
                // policy learns from equally fresh rollouts whatever the number of updates per step.
                updates_between: 10,
                first_transitions: 5000,
                replay: 1_000_000,
            },
            learner: SoftActorCriticConfig {
                // Half a nat per action, as Safe-MBPO has on Ant and Cheetah. It has other target entropies on other robots:
                // `configs/smbpo-published.toml`.
                entropy_per_action: 0.5,
                min_critic: false,
                ..SoftActorCriticConfig::default()
            },
        }
    }
}

impl SmbpoConfig {
    /// Says what is wrong with a setting; `algo` is the name of the table they stand in.
    pub(super) fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| crate::need(algo, key, fine, needed);
        let (model, imagination) = (&self.model, &self.imagination);
        let size = "between 1 and 2147483648";
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("real_fraction", (0.0..=1.0).contains(&self.real_fraction), "between 0 and 1")?;
        need("replay", (1..=1 << 31).contains(&self.replay), size)?;
        need("log_every", self.log_every > 0, "at least 1")?;
        need("violation_cost", self.violation_cost >= 0.0 && self.violation_cost.is_finite(), "0 or more")?;
        need("model.refit_every", model.refit_every > 0, "at least 1")?;
        need("model.batch", (1..=1 << 20).contains(&model.batch), "between 1 and 1048576")?;
        // What the model has not met yet must still be there when it does.
        let unmet = self.random_steps.max(1).max(model.refit_every);
        need("replay", self.replay as u64 >= unmet, "at least random_steps and model.refit_every")?;
        need("imagination.horizon", (1..=1000).contains(&imagination.horizon), "between 1 and 1000")?;
        need("imagination.rollouts", (1..=1 << 20).contains(&imagination.rollouts), "between 1 and 1048576")?;
        need("imagination.updates_between", imagination.updates_between > 0, "at least 1")?;
        need("imagination.replay", (1..=1 << 31).contains(&imagination.replay), size)?;
        let fits = imagination.first_transitions <= imagination.replay;
        need("imagination.first_transitions", fits, "at most imagination.replay")?;
        model.ensemble.check(&format!("{algo}.model.ensemble"))?;
        self.learner.check(&format!("{algo}.learner"))
    }

    /// Updates the model has after `steps` environment steps.
    pub(super) fn model_updates(&self, steps: u64) -> u64 {
        match steps.checked_sub(self.random_steps) {
            None => 0,
            Some(since) => self.model.first_updates + since / self.model.refit_every * self.model.refit_updates,
        }
    }

    /// Updates the policy has after `steps` environment steps.
    pub(super) fn policy_updates(&self, steps: u64) -> u64 {
        (steps.saturating_sub(self.random_steps) as f64 * self.updates_per_step) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_counted_as_in_the_reference_and_may_be_fewer_than_one_per_step() {
        let mut config = SmbpoConfig::default();
        // 5000 random steps, then 10 000 updates of the model and 2000 more every 250 steps; ten of the policy per step.
        for (steps, model, policy) in
            [(4999, 0, 0), (5000, 10_000, 0), (5001, 10_000, 10), (5249, 10_000, 2490), (5750, 16_000, 7500)]
        {
            assert_eq!((config.model_updates(steps), config.policy_updates(steps)), (model, policy), "{steps}");
        }
        config.updates_per_step = 0.1;
        let steps = [5000, 5009, 5010, 5019, 5030, 6000];
        assert_eq!(steps.map(|s| config.policy_updates(s)), [0, 0, 1, 1, 3, 100]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_in_one_sentence() {
        let refused = |change: fn(&mut SmbpoConfig), key: &str| {
            let mut config = SmbpoConfig::default();
            change(&mut config);
            let error = config.check("smbpo").expect_err(key).to_string();
            assert!(error.starts_with(&format!("smbpo.{key} must be ")), "{error}");
        };
        refused(|c| c.updates_per_step = -1.0, "updates_per_step");
        refused(|c| c.updates_per_step = f64::NAN, "updates_per_step");
        refused(|c| c.real_fraction = 1.5, "real_fraction");
        refused(|c| c.replay = 100, "replay");
        refused(|c| c.violation_cost = f64::INFINITY, "violation_cost");
        refused(|c| c.model.refit_every = 0, "model.refit_every");
        refused(|c| c.model.ensemble.members = 0, "model.ensemble.members");
        refused(|c| c.model.ensemble.min_log_var = 2.0, "model.ensemble.min_log_var");
        refused(|c| c.imagination.horizon = 0, "imagination.horizon");
        refused(|c| c.imagination.replay = 10, "imagination.first_transitions");
        refused(|c| c.learner.gamma = 1.0, "learner.gamma");
    }
}
