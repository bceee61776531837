//! Recovery RL's loop (their Algorithm 1).

use std::time::Instant;

use sskp_blocks::Result;
use sskp_blocks::env::Step;
use sskp_blocks::run::Run;

use super::RecoveryRl;
use crate::Method as _;

impl RecoveryRl {
    /// Until the run is over: the task policy proposes, the safer of both policies acts, and all three networks learn.
    pub(super) fn online(&mut self, run: &mut Run) -> Result<()> {
        while run.next_episode()? {
            while !run.over() {
                // a_task ~ π(·|s), uniform at first; where Q_risk(s, a_task) > ε_safe, the recovery policy acts in its place.
                let acting = Instant::now();
                self.state.copy_from_slice(run.state());
                self.act(run.clock().steps);
                run.add_time("acting", acting);
                // (s, a_task, r, s') to the task policy's replay, (s, a, c, s') to the risk critic's memory.
                let step = run.step(&self.played)?;
                self.remember(&step, run.state());
                // SAC on the replay; risk critic and recovery policy on the memory.
                let learning = Instant::now();
                self.learn(run.clock().steps)?;
                run.add_time("learning", learning);
                if run.clock().steps.is_multiple_of(self.config.log_every) {
                    self.record(run)?;
                }
                run.checkpoint(|to| self.save(to))?;
            }
        }
        Ok(())
    }

    fn act(&mut self, steps: u64) {
        let task = (steps >= self.config.random_steps).then(|| self.task.actor());
        self.squashed.explore(task, &self.state, &mut self.act_rng, &mut self.proposed);
        let explore = Some(&mut self.act_rng);
        let (risk, recovers) = self.switch.decide(&self.guard, &self.state, &self.proposed, explore, &mut self.played);
        self.seen[0] += 1.0;
        self.seen[1] += f64::from(u8::from(recovers));
        self.seen[2] += f64::from(risk);
    }

    fn remember(&mut self, step: &Step, next: &[f32]) {
        let (reward, end) = (step.reward as f32, step.end);
        let task_action = if self.config.relabel_actions { &self.proposed } else { &self.played };
        self.replay.push(&self.state, task_action, reward, end, next);
        self.memory[usize::from(!step.violated())].push(&self.state, &self.played, reward, end, next);
    }

    /// Updates that should have been done after this many steps. They begin as soon as there is a minibatch.
    fn due(&self, steps: u64) -> u64 {
        let begin = self.config.random_steps.max(self.config.batch as u64);
        (steps.saturating_sub(begin) as f64 * self.config.updates_per_step) as u64
    }

    /// Learns what is due; notes the metrics of the last update before the next row.
    fn learn(&mut self, steps: u64) -> Result<()> {
        let noted = self.due(steps.next_multiple_of(self.config.log_every));
        while self.updates < self.due(steps) {
            self.updates += 1;
            self.update(self.updates == noted)?;
        }
        Ok(())
    }

    fn record(&mut self, run: &mut Run) -> Result<()> {
        // The first row names the columns of `progress.csv`: none is written before there are losses.
        if self.metrics.0.is_empty() && self.config.updates_per_step > 0.0 {
            return Ok(());
        }
        let [steps, recovered, risk] = std::mem::take(&mut self.seen);
        let steps = steps.max(1.0);
        let mut metrics = std::mem::take(&mut self.metrics);
        metrics.push("Recovery/share", recovered / steps);
        metrics.push("Recovery/risk_of_task", risk / steps);
        metrics.push("Recovery/violations_in_memory", self.memory[0].len() as f64);
        run.record(&metrics)
    }
}
