//! Learning from the demonstrations, before the first step.

use sskp_blocks::demos::Demonstrations;
use sskp_blocks::judge::{Judgement, auc, held_out};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::replay::Transition;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::join;
use sskp_blocks::{Error, Result};

use super::Cpq;
use super::networks::Losses;

impl Cpq {
    /// Demonstrations that cannot be learnt from, before any work.
    pub(super) fn refuse(&self, demos: &Demonstrations) -> Result<()> {
        crate::same_robot(demos, self.state.len(), self.chosen.len())?;
        if demos.violations() == 0 {
            return Err(Error::other("the demonstrations hold no violation: there is no cost to learn from"));
        }
        if demos.trajectories().iter().all(|t| t.rewards.iter().all(|r| *r == 0.0)) {
            return Err(Error::other("the demonstrations hold no reward: there is nothing to learn a policy from"));
        }
        Ok(())
    }

    /// Learns policy, critics and autoencoder.
    pub(super) fn offline(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.refuse(demos)?;
        let held = held_out(demos.trajectories(), 10);
        for episode in (0..demos.trajectories().len()).filter(|e| !held.contains(e)) {
            self.remember(demos, episode);
        }
        let total = self.networks.config.offline_updates;
        let limit = f64::from(self.networks.limit);
        let mut report = OfflineReport {
            updates: total,
            transitions: self.demos.len(),
            violations: demos.violations() - held.iter().filter(|e| demos.trajectories()[**e].violates()).count(),
            ..OfflineReport::default()
        };
        let means = updates("policy, critics and autoencoder", total, seen, || {
            self.update().map(|losses| losses.named().map(|(_, value)| value))
        })?;
        for ((name, _), mean) in Losses::default().named().into_iter().zip(means) {
            report.note("updates", name, mean);
        }
        report.note("cost", "threshold", limit);
        report.held_out = Judgement::of(demos, &held, limit, |state, action| self.networks.cost_of(state, action));
        report.note("autoencoder", "auc", self.ood_auc(demos, &held).unwrap_or(f64::NAN));
        // They have done their duty: online everything is learnt from.
        for episode in held {
            self.remember(demos, episode);
        }
        Ok(report)
    }

    /// Adds the transitions of an episode to the demonstrations' replay.
    fn remember(&mut self, demos: &Demonstrations, episode: usize) {
        for Transition { state, action, reward, end, next_state } in demos.transitions(episode) {
            self.demos.push(state, action, reward, end, next_state);
        }
    }

    /// AUC of the latent divergence on these episodes: uniform random actions against the demonstrated ones.
    fn ood_auc(&mut self, demos: &Demonstrations, episodes: &[usize]) -> Option<f64> {
        let (mut like, mut unlike, mut divergence) = (Vec::new(), Vec::new(), [0.0]);
        // A stream of its own: judging moves nothing else.
        let mut rng = Rng::stream(0, "random actions");
        let (mut input, mut action) = (Vec::new(), vec![0.0; self.chosen.len()]);
        for step in episodes.iter().flat_map(|episode| demos.transitions(*episode)) {
            rng.fill_action(&mut action);
            for (action, kls) in [(step.action, &mut like), (&action, &mut unlike)] {
                join(&mut input, step.state, step.state.len(), action, action.len());
                self.networks.vae.divergence(&input, &mut divergence);
                kls.push(f64::from(divergence[0]));
            }
        }
        auc(&unlike, &like)
    }
}
