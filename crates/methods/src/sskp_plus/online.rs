//! Algorithm 2 with a decoder that goes on learning.

use std::time::Instant;

use sskp_blocks::Result;
use sskp_blocks::record::Metrics;
use sskp_blocks::run::Run;

use super::SskpPlus;
use crate::Method as _;

impl SskpPlus {
    /// Algorithm 2 of the paper; lines marked + are new.
    pub fn online(&mut self, run: &mut Run) -> Result<()> {
        while run.next_episode()? {
            let skills_before = self.base.executed;
            while !run.over() {
                // Line 4: z_t ← Risk_Planning(π_θ(·|s_t), P_ζ(c|s_t, z)).
                let planning = Instant::now();
                self.base.observe(run.state());
                self.base.policy_now.widen(self.caution.spread(&self.config) as f32);
                let z = self.base.plan();
                run.add_time("planning", planning);
                // Lines 5–7: the skill, with noise on its actions.
                self.play(&z, run)?;
                // Lines 8–12.
                self.base.remember(&z);
                self.base.add_pairs(&z, run.over());
                // + The steps it was made of, and what there is to learn from them.
                let learning = Instant::now();
                self.remember_steps(run.over());
                self.catch_up()?;
                run.add_time("decoder", learning);
            }
            let mut metrics = Metrics::default();
            // Line 18.
            let learning = Instant::now();
            self.base.update_risk(skills_before, &mut metrics);
            run.add_time("risk", learning);
            // Line 19.
            let learning = Instant::now();
            self.base.update_policy(&mut metrics)?;
            run.add_time("policy", learning);
            if self.base.row_is_due(run.clock().steps) {
                self.metrics(&mut metrics);
                run.record(&metrics)?;
            }
            run.checkpoint(|to| self.save(to))?;
        }
        Ok(())
    }
}
