//! Before the first step: risk critic and recovery policy learn from the demonstrations.

use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::End;
use sskp_blocks::judge::{Judgement, held_out};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::replay::Transition;
use sskp_blocks::{Error, Result};

use super::RecoveryRl;

impl RecoveryRl {
    /// Says what is wrong with demonstrations that nothing can be learnt from.
    pub(super) fn refuse(&self, demos: &Demonstrations) -> Result<()> {
        crate::same_robot(demos, self.state.len(), self.proposed.len())?;
        match demos.violations() {
            0 => Err(Error::other("the demonstrations hold no violation: there is nothing to learn risk from")),
            _ => Ok(()),
        }
    }

    /// Fills the memory, learns from it, and judges what was learnt on episodes held out of it.
    pub(super) fn offline(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.refuse(demos)?;
        let held = held_out(demos.trajectories(), 10);
        for episode in (0..demos.trajectories().len()).filter(|e| !held.contains(e)) {
            self.remember_demonstration(demos, episode);
        }
        let total = self.config.risk.offline_updates;
        let mut report = OfflineReport {
            updates: total,
            transitions: self.memory[0].len() + self.memory[1].len(),
            violations: self.memory[0].len(),
            ..OfflineReport::default()
        };
        let [risk, recovery] = updates("risk critic and recovery policy", total, seen, || {
            self.update_guard().map(|losses| [losses.risk, losses.recovery])
        })?;
        report.note("risk critic", "loss", risk);
        report.note("risk critic", "look_ahead", self.config.risk.threshold.ln() / self.config.risk.gamma.ln());
        report.note("recovery policy", "risk", recovery);
        report.held_out = Judgement::of(demos, &held, self.config.risk.threshold, |state, action| {
            self.switch.decide(&self.guard, state, action, None, &mut self.played).0
        });
        // They have done their duty: online the critic learns from all there is.
        for episode in held {
            self.remember_demonstration(demos, episode);
        }
        Ok(report)
    }

    /// Adds the transitions of an episode to the memory.
    fn remember_demonstration(&mut self, demos: &Demonstrations, episode: usize) {
        for Transition { state, action, reward, end, next_state } in demos.transitions(episode) {
            let ring = &mut self.memory[usize::from(end != Some(End::Violation))];
            ring.push(state, action, reward, end, next_state);
        }
    }
}
