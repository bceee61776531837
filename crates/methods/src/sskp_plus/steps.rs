//! Single steps as the critics learn them: the rewards of the next few, whether a violation came among them, and where they led.

use std::ops::Range;

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

/// A ring of rows `[s, a, R, d, y, e, o, s_m]`, m steps on: m = n, or fewer where the episode ended before.
///
/// R: discounted rewards of those steps. d: γᵐ, 0 where nothing follows. y: γ_c^k where the violation came k steps after this one, else 0. e:
/// γ_cᵐ, 0 where nothing follows. Time limits are not ends. o: what is known of the rest of the episode, γ_c^k where its violation came k steps
/// later, 0 where none came for long, −1 where it was cut too soon to tell.
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
    /// o.
    pub(super) outcome: Vec<f32>,
    /// What a row counts for; their expected mean is 1.
    pub(super) weight: Vec<f32>,
}

/// R, d, y, e, o.
const NUMBERS: usize = 5;

/// After this many risk horizons without a violation a step had none to do with the next one.
const LONG: f64 = 3.0;

impl Steps {
    pub(super) fn new(obs: usize, action: usize, capacity: usize) -> Self {
        Self { obs, action, ring: Ring::new(2 * obs + action + NUMBERS, capacity) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Adds the steps of an episode.
    pub(super) fn push(&mut self, ahead: Ahead, episode: &Episode, end: Option<End>) {
        self.push_some(0..episode.rewards.len(), ahead, episode, end);
    }

    /// Adds some steps of an episode.
    pub(super) fn push_some(&mut self, which: Range<usize>, ahead: Ahead, episode: &Episode, end: Option<End>) {
        let (obs, action, total) = (self.obs, self.action, episode.rewards.len());
        assert!(episode.states.len() == (total + 1) * obs && episode.actions.len() == total * action);
        for t in which {
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
            let left = (total - t) as i32;
            let outcome = match end {
                Some(End::Violation) => ahead.risk_gamma.powi(left - 1),
                Some(End::Terminated) => 0.0,
                _ if f64::from(left) * (1.0 - ahead.risk_gamma) > LONG => 0.0,
                _ => -1.0,
            };
            let (s, rest) = self.ring.place().split_at_mut(obs);
            let (a, rest) = rest.split_at_mut(action);
            let (numbers, next) = rest.split_at_mut(NUMBERS);
            s.copy_from_slice(&episode.states[t * obs..][..obs]);
            a.copy_from_slice(&episode.actions[t * action..][..action]);
            numbers.copy_from_slice(&[reward, discount, violation, risk_discount, outcome].map(|x| x as f32));
            next.copy_from_slice(&episode.states[to * obs..][..obs]);
        }
    }

    /// Draws rows with replacement out of all three: how many demonstrated and how many before falls of `n`, the others played elsewhere.
    ///
    /// Played steps are drawn in two strata, and weighted so that every one of them counts as often as if they had been drawn alike.
    pub(super) fn sample(
        [demos, falls, played]: [&Steps; 3],
        [from_demos, before_falls]: [usize; 2],
        n: usize,
        rng: &mut Rng,
        to: &mut StepBatch,
    ) {
        let (obs, action) = (demos.obs, demos.action);
        let both = obs + action;
        to.begin(n, obs, action);
        let others = n - from_demos;
        let before_falls = match () {
            () if falls.is_empty() => 0,
            () if played.is_empty() => others,
            () => before_falls.min(others.saturating_sub(1)),
        };
        let all = (falls.ring.len() + played.ring.len()).max(1) as f32;
        let weight = |ring: &Steps, drawn: usize| ring.ring.len() as f32 / all * others as f32 / drawn.max(1) as f32;
        let strata =
            [(demos, 1.0), (falls, weight(falls, before_falls)), (played, weight(played, others - before_falls))];
        for i in 0..n {
            let (Steps { ring, .. }, weight) =
                strata[usize::from(i >= from_demos) + usize::from(i >= from_demos + before_falls)];
            let row = ring.row(rng.below(ring.len()));
            to.state_action[i * both..][..both].copy_from_slice(&row[..both]);
            to.state[i * obs..][..obs].copy_from_slice(&row[..obs]);
            (to.reward[i], to.discount[i]) = (row[both], row[both + 1]);
            (to.violation[i], to.risk_discount[i]) = (row[both + 2], row[both + 3]);
            to.next_state[i * obs..][..obs].copy_from_slice(&row[both + NUMBERS..]);
            (to.outcome[i], to.weight[i]) = (row[both + 4], weight);
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
        for column in [
            &mut self.reward,
            &mut self.discount,
            &mut self.violation,
            &mut self.risk_discount,
            &mut self.outcome,
            &mut self.weight,
        ] {
            column.resize(n, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: Ahead = Ahead { steps: 3, gamma: 0.5, risk_gamma: 0.8, violation_cost: 8.0 };

    /// R, d, y, e, o and s_m of every step of an episode of four, whose state at t is t and whose reward is t + 1.
    fn rows(end: Option<End>) -> Vec<[f32; 6]> {
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
        let expected = [
            [0.125, 0.0, 0.512, -1.0, 3.0],
            [0.125, 0.0, 0.512, -1.0, 4.0],
            [0.25, 0.0, 0.64, -1.0, 4.0],
            [0.5, 0.0, 0.8, -1.0, 4.0],
        ];
        for (row, (reward, rest)) in goes_on.iter().zip(rewards.iter().zip(expected)) {
            assert!((row[0] - reward).abs() < 1e-6 && row[1..].iter().zip(rest).all(|(a, b)| (a - b).abs() < 1e-6));
        }
        let fell = rows(Some(End::Violation));
        // But for the outcome: 0.8³, 0.8², 0.8, 1.
        let but_outcome = |row: &[f32; 6]| [row[0], row[1], row[2], row[3], row[5]];
        assert_eq!(but_outcome(&fell[0]), but_outcome(&goes_on[0]), "the first does not see the end");
        assert!(fell.iter().zip([0.512, 0.64, 0.8, 1.0]).all(|(row, o)| (row[4] - o).abs() < 1e-6), "{fell:?}");
        // Two, one and no steps before the violating one: 0.64, 0.8, 1; nothing follows.
        // A violation costs 8, two, one and no steps later: 2, 4, 8.
        for ((row, y), (reward, cost)) in
            fell[1..].iter().zip([0.64, 0.8, 1.0]).zip(rewards[1..].iter().zip([2.0, 4.0, 8.0]))
        {
            assert!((row[0] - (reward - cost)).abs() < 1e-6, "{row:?}");
            assert!(row[1] == 0.0 && row[3] == 0.0 && (row[2] - y).abs() < 1e-6, "{row:?}");
        }
        let ended = rows(Some(End::Terminated));
        assert!(
            ended[1..].iter().all(|row| row[1..4] == [0.0; 3]) && ended.iter().all(|row| row[4] == 0.0),
            "{ended:?}"
        );
    }

    #[test]
    fn what_went_on_for_long_is_known_to_have_had_no_part_in_a_violation() {
        let mut steps = Steps::new(1, 1, 100);
        let episode = Episode { states: vec![0.0; 41], actions: vec![0.0; 40], rewards: vec![0.0; 40] };
        steps.push(AHEAD, &episode, Some(End::Truncated));
        // Three risk horizons of 1/(1 − 0.8) = 5 steps.
        let known = (0..40).filter(|t| steps.ring.row(*t)[6] == 0.0).count();
        assert!(
            (0..40).all(|t| steps.ring.row(t)[6] == if t < known { 0.0 } else { -1.0 }) && (24..=25).contains(&known),
            "{known}"
        );
    }

    /// A fifth of the played steps lies before falls and is half of those drawn: each kind counts as often as it was played.
    #[test]
    fn weights_make_up_for_what_is_drawn_more_often() {
        let mut rings = [Steps::new(1, 1, 100), Steps::new(1, 1, 100), Steps::new(1, 1, 100)];
        for (ring, (state, steps)) in rings.iter_mut().zip([(-1.0, 10), (1.0, 12), (2.0, 48)]) {
            let episode =
                Episode { states: vec![state; steps + 1], actions: vec![0.0; steps], rewards: vec![0.0; steps] };
            ring.push(AHEAD, &episode, None);
        }
        let mut batch = StepBatch::default();
        let mut rng = Rng::stream(1, "strata");
        let mut counted = |rings: [&Steps; 3], from: [usize; 2]| {
            Steps::sample(rings, from, 60, &mut rng, &mut batch);
            let rows = |state: f32| batch.state.iter().zip(&batch.weight).filter(move |(s, _)| **s == state);
            [-1.0, 1.0, 2.0].map(|state| (rows(state).count(), rows(state).map(|(_, w)| w).sum::<f32>()))
        };
        let [demos, falls, played] = &rings;
        let close = |[a, b, c]: [(usize, f32); 3], counts: [usize; 3], sums: [f32; 3]| {
            [a.0, b.0, c.0] == counts && [a.1, b.1, c.1].iter().zip(sums).all(|(x, y)| (x - y).abs() < 1e-4)
        };
        assert!(close(counted([demos, falls, played], [20, 20]), [20, 20, 20], [20.0, 8.0, 32.0]));
        let none = Steps::new(1, 1, 100);
        assert!(close(counted([demos, &none, played], [20, 20]), [20, 0, 40], [20.0, 0.0, 40.0]), "no falls yet");
        assert!(close(counted([demos, falls, &none], [20, 20]), [20, 40, 0], [20.0, 40.0, 0.0]), "nothing else yet");
        assert!(close(counted([demos, &none, &none], [60, 20]), [60, 0, 0], [60.0, 0.0, 0.0]), "demonstrations alone");
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
        let none = Steps::new(1, 1, 3);
        Steps::sample([&first, &none, &second], [40, 10], 100, &mut Rng::stream(0, "steps"), &mut batch);
        // Of five steps the ring of three has kept 2, 3 and 4.
        assert!(batch.state[..40].iter().all(|s| (2.0..=4.0).contains(s)), "{:?}", &batch.state[..40]);
        assert!(batch.state[40..].iter().all(|s| *s >= 100.0));
        assert!((0..100).all(|i| batch.state_action[2 * i..][..2] == [batch.state[i], 0.5]));
    }
}
