//! Acting: the task policy proposes, and where that is too risky the recovery policy acts in its place.

use sskp_blocks::nets::Tape;
use sskp_blocks::policy::SquashedPolicy;
use sskp_blocks::rng::Rng;

use super::learner::Guard;
use crate::Actor;
use crate::portable::{Body, Network, Portable};

/// The decision of a step, for learner and actor alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Switch {
    tapes: [Tape; 2],
    pair: Vec<f32>,
    noise: Vec<f32>,
}

impl Switch {
    /// Q_risk(s, a_task), and what is played in its place if that is above the threshold. Whether it was is returned.
    pub(super) fn decide(
        &mut self,
        guard: &Guard,
        state: &[f32],
        proposed: &[f32],
        explore: Option<&mut Rng>,
        played: &mut [f32],
    ) -> (f32, bool) {
        self.pair.clear();
        self.pair.extend_from_slice(state);
        self.pair.extend_from_slice(proposed);
        let risk = guard.risk.risk(&self.pair, &mut self.tapes);
        let recovers = risk > guard.risk.config.threshold as f32;
        match recovers {
            true => guard.recovery.act(state, explore, &mut self.tapes[0], &mut self.noise, played),
            false => played.copy_from_slice(proposed),
        }
        (risk, recovers)
    }
}

/// The trained agent: task policy, risk critic and recovery policy together.
pub(super) struct RecoveryRlActor {
    task: SquashedPolicy,
    guard: Guard,
    rng: Rng,
    switch: Switch,
    proposed: Vec<f32>,
}

impl RecoveryRlActor {
    /// Copies of all three; `rng` is the stream of the recovery policy's noise.
    pub(super) fn new(task: SquashedPolicy, guard: &Guard, rng: &Rng) -> Self {
        Self { task, guard: guard.clone(), rng: rng.clone(), switch: Switch::default(), proposed: Vec::new() }
    }
}

impl Actor for RecoveryRlActor {
    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        self.proposed.resize(action.len(), 0.0);
        self.task.act(state, explore, &mut self.proposed);
        let explore = explore.then_some(&mut self.rng);
        self.switch.decide(&self.guard, state, &self.proposed, explore, action);
    }

    fn warm_up(&mut self, obs: usize, action: usize) {
        // The recovery policy may not have its turn for a long time.
        let (state, mut played) = (vec![0.0; obs], vec![0.0; action]);
        self.act(&state, false, &mut played);
        let Switch { tapes, noise, .. } = &mut self.switch;
        self.guard.recovery.act(&state, None, &mut tapes[0], noise, &mut played);
        self.begin();
    }

    fn portable(&self) -> Option<Portable> {
        let obs = self.task.net().inputs();
        let action = self.task.net().outputs() / 2;
        let [a, b] = self.guard.risk.critics.nets().map(Clone::clone);
        let network = |name, inputs, body| Network { name, inputs, body };
        Some(Portable {
            kind: "recovery",
            networks: vec![
                network("actor", vec![("state", obs)], Body::Tanh(self.task.net().clone(), action)),
                network("risk", vec![("state", obs), ("action", action)], Body::Greater(a, b)),
                network("recovery", vec![("state", obs)], Body::Tanh(self.guard.recovery.mean.net.clone(), action)),
            ],
            recipe: serde_json::json!({ "threshold": self.guard.risk.config.threshold }),
            noise: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::learner::tests::{ACTION, fixture, risk_of};
    use super::*;

    #[test]
    fn the_switch_opens_above_the_threshold_and_only_there() {
        let (mut guard, _, _) = fixture();
        let (state, proposed) = ([0.4, -0.2, 0.9], [0.7, -0.7]);
        let risk = risk_of(guard.risk.critics.nets(), &[&state[..], &proposed].concat());
        let mut switch = Switch::default();
        let mut played = [0.0; ACTION];
        guard.risk.config.threshold = risk + 1e-3;
        let (seen, recovers) = switch.decide(&guard, &state, &proposed, None, &mut played);
        assert!((f64::from(seen) - risk).abs() < 1e-6 && !recovers);
        assert_eq!(played, proposed);
        guard.risk.config.threshold = risk - 1e-3;
        let (_, recovers) = switch.decide(&guard, &state, &proposed, None, &mut played);
        let mut tape = Tape::default();
        let mean = guard.recovery.mean.net.forward(&state, 1, &mut tape);
        assert!(recovers);
        assert_eq!(played, [mean[0].tanh(), mean[1].tanh()]);
        let mut rng = Rng::stream(0, "explore");
        switch.decide(&guard, &state, &proposed, Some(&mut rng), &mut played);
        assert_ne!(played, [mean[0].tanh(), mean[1].tanh()], "in training the recovery policy explores");
    }
}
