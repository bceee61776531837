//! SAC's loop: act, keep, learn.

use std::time::Instant;

use sskp_blocks::Result;
use sskp_blocks::env::Step;
use sskp_blocks::record::Metrics;
use sskp_blocks::run::Run;

use super::Sac;
use crate::Method as _;

impl Sac {
    /// Until the run is over: one action, one transition, and as many updates as are due after it.
    pub(super) fn online(&mut self, run: &mut Run) -> Result<()> {
        while run.next_episode()? {
            while !run.over() {
                // a_t ~ π(·|s_t); uniform at first.
                let acting = Instant::now();
                self.state.copy_from_slice(run.state());
                let policy = (run.clock().steps >= self.config.random_steps).then(|| self.learner.actor());
                self.squashed.explore(policy, &self.state, &mut self.act_rng, &mut self.action);
                run.add_time("acting", acting);
                // (s_t, a_t, r_t, end, s_t+1) to D.
                let step = run.step(&self.action)?;
                self.remember(&step, run.state());
                // Critics, actor and temperature on minibatches of D.
                let learning = Instant::now();
                let log = run.clock().steps.is_multiple_of(self.config.log_every);
                let metrics = self.learn(run.clock().steps, log)?;
                run.add_time("learning", learning);
                // The first row names the columns, so there is none before there is anything to say.
                if log && (!metrics.0.is_empty() || self.config.updates_per_step == 0.0) {
                    run.record(&metrics)?;
                }
                run.checkpoint(|to| self.save(to))?;
            }
        }
        Ok(())
    }

    fn remember(&mut self, step: &Step, next: &[f32]) {
        let [least, greatest] = self.reward_range;
        self.reward_range = [least.min(step.reward), greatest.max(step.reward)];
        self.replay.push(&self.state, &self.action, step.reward as f32, step.end, next);
    }

    /// All updates that are due after so many steps; with `log`, what the last of them gave.
    fn learn(&mut self, steps: u64, log: bool) -> Result<Metrics> {
        let mut metrics = Metrics::default();
        let due = (steps.saturating_sub(self.config.random_steps) as f64 * self.config.updates_per_step) as u64;
        while self.learner.updates() < due {
            let last = log && self.learner.updates() + 1 == due;
            self.update(last.then_some(&mut metrics))?;
        }
        Ok(metrics)
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::env::Env as _;
    use sskp_blocks::record::Memory;
    use sskp_blocks::toy::Toy;

    use super::super::SacConfig;
    use super::*;
    use crate::Setup;

    #[test]
    fn every_row_of_metrics_has_the_losses() {
        let mut config = SacConfig { random_steps: 50, log_every: 50, batch: 8, ..SacConfig::default() };
        config.learner.width = 8;
        let setup = Setup::new("sac", 0, 1);
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 0, 150, &mut memory);
        Sac::new(Toy::default().spec(), config, setup).unwrap().train(&mut run).unwrap();
        assert_eq!(memory.metrics.iter().map(|(at, _)| at.steps).collect::<Vec<_>>(), [100, 150]);
        assert!(memory.metrics.iter().all(|(_, m)| m.get("Loss/Loss_pi").is_some()));
    }
}
