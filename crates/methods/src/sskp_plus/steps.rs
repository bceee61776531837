//! Single steps as the critics learn them: the rewards of the next few, whether a violation came among them, and where they led.

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::End;
use sskp_blocks::ring::Ring;
use sskp_blocks::rng::Rng;

/// What counts how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// n: steps that are summed.
    pub(super) steps: usize,
    /// γ.
    pub(super) gamma: f64,
    /// γ_c.
    pub(super) risk_gamma: f64,
    /// What a violation takes from the reward of its step, in rewards.
    pub(super) violation_cost: f64,
}

/// An episode: standardised states, one more than actions and rewards.
#[derive(Clone, Debug, Default)]
pub(super) struct Episode {
    pub(super) states: Vec<f32>,
    pub(super) actions: Vec<f32>,
    pub(super) rewards: Vec<f32>,
}

impl Episode {
    pub(super) fn clear(&mut self) {
        self.states.clear();
        self.actions.clear();
        self.rewards.clear();
    }
}

/// A ring of rows `[s, a, R, d, y, e, s_m]`, m steps on: m = n, or fewer where the episode ended before.
///
/// R: discounted rewards of those steps. d: γᵐ, 0 where nothing follows. y: γ_c^k where the violation came k steps after this one, else 0. e:
/// γ_cᵐ, 0 where nothing follows. Time limits are not ends.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    obs: usize,
    action: usize,
    ring: Ring,
}

/// A minibatch; its buffers are reused.
#[derive(Clone, Debug, Default)]
pub(super) struct StepBatch {
    pub(super) rows: usize,
    /// `[s, a]`.
    pub(super) state_action: Vec<f32>,
    pub(super) state: Vec<f32>,
    /// R.
    pub(super) reward: Vec<f32>,
    /// d.
    pub(super) discount: Vec<f32>,
    /// y.
    pub(super) violation: Vec<f32>,
    /// e.
    pub(super) risk_discount: Vec<f32>,
    /// s_m.
    pub(super) next_state: Vec<f32>,
    /// N(s_m).
    pub(super) near: Vec<f32>,
}

/// R, d, y, e.
const NUMBERS: usize = 4;

impl Steps {
    pub(super) fn new(obs: usize, action: usize, capacity: usize) -> Self {
        Self { obs, action, ring: Ring::new(2 * obs + action + NUMBERS, capacity) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Adds the steps of an episode.
    pub(super) fn push(&mut self, ahead: Ahead, episode: &Episode, end: Option<End>) {
        let (obs, action, total) = (self.obs, self.action, episode.rewards.len());
        assert!(episode.states.len() == (total + 1) * obs && episode.actions.len() == total * action);
        for t in 0..total {
            let to = total.min(t + ahead.steps);
            let discounted = |sum: f64, reward: &f32| f64::from(*reward) + ahead.gamma * sum;
            let violated = to == total && end == Some(End::Violation);
            let rest = if violated { -ahead.violation_cost / ahead.gamma } else { 0.0 };
            let reward = episode.rewards[t..to].iter().rev().fold(rest, discounted);
            let steps = (to - t) as i32;
            let [discount, violation, risk_discount] = match end {
                Some(End::Violation) if violated => [0.0, ahead.risk_gamma.powi(steps - 1), 0.0],
                Some(End::Terminated) if to == total => [0.0; 3],
                _ => [ahead.gamma.powi(steps), 0.0, ahead.risk_gamma.powi(steps)],
            };
            let (s, rest) = self.ring.place().split_at_mut(obs);
            let (a, rest) = rest.split_at_mut(action);
            let (numbers, next) = rest.split_at_mut(NUMBERS);
            s.copy_from_slice(&episode.states[t * obs..][..obs]);
            a.copy_from_slice(&episode.actions[t * action..][..action]);
            numbers.copy_from_slice(&[reward, discount, violation, risk_discount].map(|x| x as f32));
            next.copy_from_slice(&episode.states[to * obs..][..obs]);
        }
    }

    /// Draws rows with replacement: the first `from_first` of `n` out of one ring, the others out of another.
    pub(super) fn sample([first, second]: [&Steps; 2], from_first: usize, n: usize, rng: &mut Rng, to: &mut StepBatch) {
        let (obs, action) = (first.obs, first.action);
        let both = obs + action;
        to.begin(n, obs, action);
        for i in 0..n {
            let ring = if i < from_first { &first.ring } else { &second.ring };
            let row = ring.row(rng.below(ring.len()));
            to.state_action[i * both..][..both].copy_from_slice(&row[..both]);
            to.state[i * obs..][..obs].copy_from_slice(&row[..obs]);
            (to.reward[i], to.discount[i]) = (row[both], row[both + 1]);
            (to.violation[i], to.risk_discount[i]) = (row[both + 2], row[both + 3]);
            to.next_state[i * obs..][..obs].copy_from_slice(&row[both + NUMBERS..]);
        }
    }

    pub(super) fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        self.ring.save(name, to);
    }

    pub(super) fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        self.ring.load(name, from)
    }
}

impl StepBatch {
    fn begin(&mut self, n: usize, obs: usize, action: usize) {
        self.rows = n;
        self.state_action.resize(n * (obs + action), 0.0);
        self.state.resize(n * obs, 0.0);
        self.next_state.resize(n * obs, 0.0);
        for column in [&mut self.reward, &mut self.discount, &mut self.violation, &mut self.risk_discount] {
            column.resize(n, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: Ahead = Ahead { steps: 3, gamma: 0.5, risk_gamma: 0.8, violation_cost: 8.0 };

    /// R, d, y, e and s_m of every step of an episode of four, whose state at t is t and whose reward is t + 1.
    fn rows(end: Option<End>) -> Vec<[f32; 5]> {
        let mut steps = Steps::new(1, 1, 100);
        let episode = Episode {
            states: vec![0.0, 1.0, 2.0, 3.0, 4.0],
            actions: vec![0.0, 0.1, 0.2, 0.3],
            rewards: vec![1.0, 2.0, 3.0, 4.0],
        };
        steps.push(AHEAD, &episode, end);
        (0..4).map(|t| steps.ring.row(t)[2..].try_into().unwrap()).collect()
    }

    #[test]
    fn three_steps_ahead_by_hand() {
        // 1 + 2/2 + 3/4, 2 + 3/2 + 4/4, 3 + 4/2, 4.
        let rewards = [2.75, 4.5, 5.0, 4.0];
        let goes_on = rows(Some(End::Truncated));
        let expected =
            [[0.125, 0.0, 0.512, 3.0], [0.125, 0.0, 0.512, 4.0], [0.25, 0.0, 0.64, 4.0], [0.5, 0.0, 0.8, 4.0]];
        for (row, (reward, rest)) in goes_on.iter().zip(rewards.iter().zip(expected)) {
            assert!((row[0] - reward).abs() < 1e-6 && row[1..].iter().zip(rest).all(|(a, b)| (a - b).abs() < 1e-6));
        }
        let fell = rows(Some(End::Violation));
        assert_eq!(fell[0], goes_on[0], "the first does not see the end");
        // Two, one and no steps before the violating one: 0.64, 0.8, 1; nothing follows.
        // A violation costs 8, two, one and no steps later: 2, 4, 8.
        for ((row, y), (reward, cost)) in
            fell[1..].iter().zip([0.64, 0.8, 1.0]).zip(rewards[1..].iter().zip([2.0, 4.0, 8.0]))
        {
            assert!((row[0] - (reward - cost)).abs() < 1e-6, "{row:?}");
            assert!(row[1] == 0.0 && row[3] == 0.0 && (row[2] - y).abs() < 1e-6, "{row:?}");
        }
        let ended = rows(Some(End::Terminated));
        assert!(ended[1..].iter().all(|row| row[1..4] == [0.0; 3]), "{ended:?}");
    }

    #[test]
    fn the_ring_overwrites_the_oldest_and_minibatches_are_drawn_from_both() {
        let (mut first, mut second) = (Steps::new(1, 1, 3), Steps::new(1, 1, 10));
        let episode = |from: f32| Episode {
            states: (0..6).map(|t| from + t as f32).collect(),
            actions: vec![0.5; 5],
            rewards: vec![1.0; 5],
        };
        first.push(AHEAD, &episode(0.0), None);
        second.push(AHEAD, &episode(100.0), None);
        let mut batch = StepBatch::default();
        Steps::sample([&first, &second], 40, 100, &mut Rng::stream(0, "steps"), &mut batch);
        // Of five steps the ring of three has kept 2, 3 and 4.
        assert!(batch.state[..40].iter().all(|s| (2.0..=4.0).contains(s)), "{:?}", &batch.state[..40]);
        assert!(batch.state[40..].iter().all(|s| *s >= 100.0));
        assert!((0..100).all(|i| batch.state_action[2 * i..][..2] == [batch.state[i], 0.5]));
    }
}
