//! Algorithm 2: online safe policy learning.

use std::time::Instant;

use sskp_blocks::Result;
use sskp_blocks::record::Metrics;
use sskp_blocks::run::Run;

use super::Sskp;
use crate::Method as _;

impl Sskp {
    /// Algorithm 2, line by line. Lines 13–17 (leave the loop at a violation or the last step, t ← t') are the run's own
    /// clock: [`Run::over`].
    pub fn online(&mut self, run: &mut Run) -> Result<()> {
        // Lines 1–2: for each episode, start from a random state s_0.
        while run.next_episode()? {
            let skills_before = self.executed;
            // Line 3: for every H environment steps.
            while !run.over() {
                // Line 4: z_t ← Risk_Planning(π_θ(·|s_t), P_ζ(c|s_t, z)).
                let planning = Instant::now();
                self.observe(run.state());
                let z = self.plan();
                self.predicted_risk().into_iter().for_each(|risk| run.predict(risk));
                run.add_time("planning", planning);
                // Lines 5–7: a_t:t+H−1 from the decoder p_ν(·|z_t), executed until c > 0; gives r̃_t and s_t'.
                self.play(&z, run)?;
                // Line 8: add (s_t, z_t, r̃_t, s_t') to D.
                self.remember(&z);
                // Lines 9–12: the decision pairs of Eq. 7, to D^p if c > 0 and else to D^u.
                self.add_pairs(&z, run.over());
            }
            let mut metrics = Metrics::default();
            // Line 18: update P_ζ by minimising Eq. 4.
            let learning = Instant::now();
            self.update_risk(skills_before, &mut metrics);
            run.add_time("risk", learning);
            // Line 19: update θ by skill-based SAC on D.
            let learning = Instant::now();
            self.update_policy(&mut metrics)?;
            run.add_time("policy", learning);
            if self.row_is_due(run.clock().steps) {
                run.record(&metrics)?;
            }
            run.checkpoint(|to| self.save(to))?;
        }
        Ok(())
    }
}
