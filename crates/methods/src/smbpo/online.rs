//! SMBPO's loop (their Algorithm 2): act, fit the model now and then, imagine, learn from both.

use std::time::Instant;

use sskp_blocks::Result;
use sskp_blocks::env::End;
use sskp_blocks::record::Metrics;
use sskp_blocks::run::Run;

use super::Smbpo;
use super::learner::constraint;
use crate::Method as _;

/// Updates of the model between two looks at whether the run was asked to stop: a fit takes minutes, a signal's grace less.
const LOOK_EVERY: u64 = 20;

impl Smbpo {
    /// Until the run is over: one real step, and all that is due after it.
    pub(super) fn online(&mut self, run: &mut Run) -> Result<()> {
        self.finish_step(run)?; // what a stop in the middle of a fit has left
        while run.next_episode()? {
            while !run.over() {
                // a_t ~ π(·|s_t); uniform before there is a model.
                let acting = Instant::now();
                self.observation.copy_from_slice(run.state());
                let policy = (run.clock().steps >= self.config.random_steps).then(|| self.learner.actor());
                self.squashed.explore(policy, &self.observation, &mut self.act_rng, &mut self.action);
                run.add_time("acting", acting);
                // To the real transitions.
                let step = run.step(&self.action)?;
                self.remember(step.reward, step.end, run.state());
                // The model, imagined rollouts, the policy.
                self.state.unfinished = true;
                self.finish_step(run)?;
            }
        }
        Ok(())
    }

    /// Keeps a real transition.
    fn remember(&mut self, reward: f64, end: Option<End>, next: &[f32]) {
        let [least, greatest] = self.state.rewards.unwrap_or([reward; 2]);
        self.state.rewards = Some([least.min(reward), greatest.max(reward)]);
        self.real.push(&self.observation, &self.action, reward as f32, end, next);
    }

    /// Learns all that is due after the step that was just taken. Leaves early, to be called again, when the run was asked to
    /// stop.
    fn finish_step(&mut self, run: &mut Run) -> Result<()> {
        if !self.state.unfinished {
            return Ok(());
        }
        let steps = run.clock().steps;
        self.fit_model(run, steps)?;
        if run.stopped() {
            return Ok(());
        }
        self.state.log_due |= steps > self.config.random_steps && steps.is_multiple_of(self.config.log_every);
        let mut metrics = Metrics::default();
        self.improve_policy(run, steps, self.state.log_due.then_some(&mut metrics))?;
        // With less than one update per step, a row waits for the next update: every row has all columns.
        if !metrics.0.is_empty() {
            self.describe(&mut metrics);
            run.record(&metrics)?;
            self.state.log_due = false;
        }
        self.state.unfinished = false;
        run.checkpoint(|to| self.save(to))
    }

    fn fit_model(&mut self, run: &mut Run, steps: u64) -> Result<()> {
        let due = self.config.model_updates(steps);
        if self.dynamics.updates() >= due {
            return Ok(());
        }
        let fitting = Instant::now();
        // A fit that goes on after a stop has met them already.
        if self.dynamics.known() < steps {
            self.state.fresh_loss = self.dynamics.meet(&self.real, steps);
            self.state.violation_cost = self.violation_cost();
        }
        while self.dynamics.updates() < due && !run.stopped() {
            let loss = self.dynamics.update(&self.real, self.config.model.batch, &mut self.model_rng)?;
            self.state.model_loss = Some(loss);
            // A run whose last step has been taken counts as finished, so it must be.
            if self.dynamics.updates().is_multiple_of(LOOK_EVERY) && !run.finished() {
                run.checkpoint(|to| self.save(to))?;
            }
        }
        run.add_time("model", fitting);
        Ok(())
    }

    fn improve_policy(&mut self, run: &mut Run, steps: u64, mut metrics: Option<&mut Metrics>) -> Result<()> {
        let due = self.config.policy_updates(steps);
        while self.learner.updates() < due {
            let done = self.learner.updates();
            if done.is_multiple_of(self.config.imagination.updates_between) {
                let imagining = Instant::now();
                self.imagine(constraint(run.env())?)?;
                run.add_time("imagining", imagining);
            }
            let learning = Instant::now();
            self.update_policy(metrics.as_deref_mut().filter(|_| done + 1 == due))?;
            run.add_time("learning", learning);
        }
        Ok(())
    }

    /// What is logged besides the learner's own.
    fn describe(&mut self, metrics: &mut Metrics) {
        let seen = std::mem::take(&mut self.state.seen);
        let per_rollout = |n: u64| n as f64 / seen.rollouts.max(1) as f64;
        let absent = f64::NAN;
        metrics.push("Loss/Loss_model", self.state.model_loss.unwrap_or(absent));
        metrics.push("Loss/Loss_model_fresh", self.state.fresh_loss.unwrap_or(absent));
        metrics.push("Model/updates", self.dynamics.updates() as f64);
        metrics.push("Model/imagined_length", per_rollout(seen.transitions));
        metrics.push("Model/imagined_violations", per_rollout(seen.violations));
        metrics.push("Model/imagined_broken", per_rollout(seen.broken));
        metrics.push("Value/violation", -self.state.violation_cost / (1.0 - self.config.learner.gamma));
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::env::Env as _;
    use sskp_blocks::nets::ensemble::EnsembleConfig;
    use sskp_blocks::toy::Toy;

    use super::super::SmbpoConfig;
    use super::super::imagination::Imagined;
    use super::*;
    use crate::Setup;

    fn small() -> SmbpoConfig {
        let mut config = SmbpoConfig::default();
        config.model.ensemble = EnsembleConfig { members: 2, width: 16, ..EnsembleConfig::default() };
        config.learner.width = 16;
        config.batch = 32;
        config
    }

    #[test]
    fn imagined_violations_are_learnt_at_their_value_by_hand() {
        let mut config = small();
        config.real_fraction = 0.0;
        config.imagination.horizon = 2;
        config.learner.gamma = 0.5;
        config.learner.rate = 1e-2;
        let mut smbpo = Smbpo::new(Toy::default().spec(), config, Setup::new("smbpo", 0, 1)).unwrap();
        // Rewards between −1 and 3: C = 4/(1/2)² − 3 = 13, and a violation is worth −13/(1 − 1/2) = −26.
        for reward in [-1.0, 2.0, 3.0, 0.5] {
            smbpo.act_rng.fill_action(&mut smbpo.action);
            smbpo.remember(reward, None, &[0.1; 5]);
        }
        assert_eq!(smbpo.violation_cost(), 13.0);
        smbpo.state.violation_cost = smbpo.violation_cost();
        // Off the bridge wherever it goes: every branch is one transition long, and no critic sees anything else.
        smbpo.dynamics.meet(&smbpo.real, 4);
        let seen = smbpo.imagination.rollouts(
            &mut smbpo.dynamics,
            None,
            &|_| true,
            &smbpo.real,
            (100, 2),
            &mut smbpo.imagine_rng,
            &mut smbpo.imagined,
        );
        assert_eq!(seen, Imagined { rollouts: 100, transitions: 100, violations: 100, broken: 0 });
        let mut metrics = Metrics::default();
        for _ in 0..600 {
            smbpo.update_policy(None).unwrap();
        }
        smbpo.update_policy(Some(&mut metrics)).unwrap();
        let q = metrics.get("Value/reward_critic").unwrap();
        assert!((q + 26.0).abs() < 0.5, "{q}");
        // A cost that is given is used.
        smbpo.config.violation_cost = 2.0;
        assert_eq!(smbpo.violation_cost(), 2.0);
    }
}
