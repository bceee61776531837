//! Learning online: every step is remembered and learnt from, together with the demonstrations.

use std::time::Instant;

use sskp_blocks::Result;
use sskp_blocks::run::Run;

use super::Cpq;
use crate::Method as _;

impl Cpq {
    /// Acts, remembers, learns.
    pub(super) fn online(&mut self, run: &mut Run) -> Result<()> {
        self.networks.push = self.networks.config.cost.ood_online;
        while run.next_episode()? {
            while !run.over() {
                self.state.copy_from_slice(run.state());
                let acting = Instant::now();
                let actor = Some(&self.networks.actor.net);
                self.squashed.explore(actor, &self.state, &mut self.act_rng, &mut self.chosen);
                run.add_time("acting", acting);
                let step = run.step(&self.chosen)?;
                self.online.push(&self.state, &self.chosen, step.reward as f32, step.end, run.state());

                let learning = Instant::now();
                let steps = run.clock().steps;
                self.learn(steps)?;
                run.add_time("learning", learning);
                // The first row names the columns of `progress.csv`: none is written before there are losses.
                let learns = self.networks.config.updates_per_step > 0.0;
                if steps.is_multiple_of(self.networks.config.log_every) && !(learns && self.metrics.0.is_empty()) {
                    run.record(&std::mem::take(&mut self.metrics))?;
                }
                run.checkpoint(|to| self.save(to))?;
            }
        }
        Ok(())
    }

    /// Online updates that should have been done after this many steps.
    fn due(&self, steps: u64) -> u64 {
        (steps as f64 * self.networks.config.updates_per_step) as u64
    }

    /// Learns what is due; notes the metrics of the last update before the next row.
    fn learn(&mut self, steps: u64) -> Result<()> {
        let noted = self.due(steps.next_multiple_of(self.networks.config.log_every));
        while self.updates < self.due(steps) {
            self.updates += 1;
            let losses = self.update()?;
            if self.updates == noted {
                self.metrics.0.clear();
                losses.named().into_iter().for_each(|(name, value)| self.metrics.push(name, value));
            }
        }
        Ok(())
    }
}
