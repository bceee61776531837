//! Replay: a ring of transitions in one flat array.

use crate::Result;
use crate::checkpoint::{Loader, Saver};
use crate::env::End;
use crate::ring::Ring;
use crate::rng::Rng;

/// Transitions `(s, a, r, end, s')`, each one row of contiguous numbers so that sampling touches memory once per
/// row. A row of Humanoid is 109 floats: a million of them are 436 MB.
///
/// ```
/// use sskp_blocks::env::End;
/// use sskp_blocks::replay::{Batch, Replay};
/// use sskp_blocks::rng::Rng;
///
/// let mut replay = Replay::new(2, 1, 1000);
/// replay.push(&[0.0, 1.0], &[0.5], 0.1, None, &[0.1, 0.9]);
/// replay.push(&[0.1, 0.9], &[0.5], 0.2, Some(End::Violation), &[0.2, 0.8]);
/// let mut batch = Batch::default();
/// replay.sample(64, &mut Rng::stream(0, "learner"), &mut batch);
/// assert_eq!(batch.state_action.len(), 64 * 3);
/// assert!((0..64).all(|row| batch.goes_on[row] == 1.0 - batch.violation[row]));
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    obs: usize,
    action: usize,
    ring: Ring,
}

// How a row keeps its end.
const GOES_ON: f32 = 0.0;
const VIOLATION: f32 = 1.0;
const TERMINATED: f32 = 2.0;

/// One transition, where it lies: in a ring, or in demonstrations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition<'a> {
    /// `s`.
    pub state: &'a [f32],
    /// `a`.
    pub action: &'a [f32],
    /// `r`.
    pub reward: f32,
    /// What it ended. A ring forgets time limits: for a learner they are no ends.
    pub end: Option<End>,
    /// `s'`.
    pub next_state: &'a [f32],
}

/// A minibatch, split into the matrices that networks take. Buffers are reused from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// `[s, a]`, the critics' input.
    pub state_action: Vec<f32>,
    /// `s`.
    pub state: Vec<f32>,
    /// `r`.
    pub reward: Vec<f32>,
    /// c: 1 where the episode ended in a violation, else 0.
    pub violation: Vec<f32>,
    /// 1 where a value function may look at s', 0 where nothing follows: a violation, or another end of the robot's own. Time
    /// limits are not ends.
    pub goes_on: Vec<f32>,
    /// `s'`.
    pub next_state: Vec<f32>,
}

impl Replay {
    /// An empty ring for `capacity` transitions. Memory is taken as it fills.
    pub fn new(obs: usize, action: usize, capacity: usize) -> Self {
        Self { obs, action, ring: Ring::new(2 * obs + action + 2, capacity) }
    }

    /// Lengths of an observation and of an action.
    pub fn sizes(&self) -> (usize, usize) {
        (self.obs, self.action)
    }
    /// The most transitions it can hold.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
    /// Transitions held.
    pub fn len(&self) -> usize {
        self.ring.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// The transition in place `index` ([`Ring::row`]).
    pub fn get(&self, index: usize) -> Transition<'_> {
        let (state, rest) = self.ring.row(index).split_at(self.obs);
        let (action, rest) = rest.split_at(self.action);
        Transition {
            state,
            action,
            reward: rest[0],
            end: match rest[1] {
                GOES_ON => None,
                VIOLATION => Some(End::Violation),
                _ => Some(End::Terminated),
            },
            next_state: &rest[2..],
        }
    }

    /// Adds a transition, over the oldest when full.
    pub fn push(&mut self, state: &[f32], action: &[f32], reward: f32, end: Option<End>, next_state: &[f32]) {
        assert!(state.len() == self.obs && action.len() == self.action && next_state.len() == self.obs);
        let (s, rest) = self.ring.place().split_at_mut(self.obs);
        let (a, rest) = rest.split_at_mut(self.action);
        s.copy_from_slice(state);
        a.copy_from_slice(action);
        rest[0] = reward;
        rest[1] = match end {
            None | Some(End::Truncated) => GOES_ON,
            Some(End::Violation) => VIOLATION,
            Some(End::Terminated) => TERMINATED,
        };
        rest[2..].copy_from_slice(next_state);
    }

    /// Draws `n` transitions uniformly, with replacement, into `batch`.
    pub fn sample(&self, n: usize, rng: &mut Rng, batch: &mut Batch) {
        batch.begin(n, self.obs, self.action);
        for i in 0..n {
            let index = rng.below(self.len());
            batch.set(i, self.ring.row(index), self.obs, self.action);
        }
    }

    /// Draws `n` transitions with replacement into `batch`: the first `from_first` of them out of `first`, the others out of
    /// `second`; without a number, uniformly out of both together.
    pub fn sample_two(
        [first, second]: [&Replay; 2],
        from_first: Option<usize>,
        n: usize,
        rng: &mut Rng,
        batch: &mut Batch,
    ) {
        let (obs, action) = (first.obs, first.action);
        assert_eq!(first.ring.stride(), second.ring.stride(), "two rings of different robots");
        batch.begin(n, obs, action);
        for i in 0..n {
            let (ring, index) = match from_first {
                Some(count) if i < count => (first, rng.below(first.len())),
                Some(_) => (second, rng.below(second.len())),
                None => match rng.below(first.len() + second.len()) {
                    index if index < first.len() => (first, index),
                    index => (second, index - first.len()),
                },
            };
            batch.set(i, ring.ring.row(index), obs, action);
        }
    }

    /// Adds the ring to a checkpoint, without copying it.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        self.ring.save(name, to);
    }

    /// Reads it back.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        self.ring.load(name, from)
    }
}

impl Batch {
    fn begin(&mut self, n: usize, obs: usize, action: usize) {
        self.rows = n;
        self.state_action.resize(n * (obs + action), 0.0);
        self.state.resize(n * obs, 0.0);
        self.reward.resize(n, 0.0);
        self.violation.resize(n, 0.0);
        self.goes_on.resize(n, 0.0);
        self.next_state.resize(n * obs, 0.0);
    }

    fn set(&mut self, i: usize, row: &[f32], obs: usize, action: usize) {
        let both = obs + action;
        self.state_action[i * both..][..both].copy_from_slice(&row[..both]);
        self.state[i * obs..][..obs].copy_from_slice(&row[..obs]);
        self.reward[i] = row[both];
        self.violation[i] = f32::from(u8::from(row[both + 1] == VIOLATION));
        self.goes_on[i] = f32::from(u8::from(row[both + 1] == GOES_ON));
        self.next_state[i * obs..][..obs].copy_from_slice(&row[both + 2..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(n: usize, capacity: usize) -> Replay {
        let mut replay = Replay::new(2, 1, capacity);
        for i in 0..n {
            let end = [Some(End::Violation), Some(End::Truncated), Some(End::Terminated), None][i % 4];
            let i = i as f32;
            replay.push(&[i, -i], &[0.5 * i], 10.0 * i, end, &[i + 1.0, -i - 1.0]);
        }
        replay
    }

    #[test]
    fn the_ring_overwrites_the_oldest_and_keeps_rows_together() {
        let replay = filled(7, 4);
        assert_eq!(replay.len(), 4);
        // Of 0 to 6 the last four are left; the sixth pushed, 5, lies in place 5 mod 4.
        let (state, next_state) = (&[5.0, -5.0][..], &[6.0, -6.0][..]);
        assert_eq!(replay.get(1), Transition { state, action: &[2.5], reward: 50.0, end: None, next_state });
        assert_eq!([0, 2, 3].map(|i| replay.get(i).end), [Some(End::Violation), Some(End::Terminated), None]);
        let mut batch = Batch::default();
        replay.sample(200, &mut Rng::stream(0, "r"), &mut batch);
        let mut seen = [0; 7];
        for i in 0..200 {
            let s = batch.state[2 * i];
            seen[s as usize] += 1;
            assert_eq!(batch.state_action[3 * i..3 * i + 3], [s, -s, 0.5 * s]);
            assert_eq!(batch.reward[i], 10.0 * s);
            assert_eq!(batch.violation[i], f32::from(u8::from((s as usize).is_multiple_of(4))));
            assert_eq!(batch.goes_on[i], f32::from(u8::from(s as usize % 2 == 1)), "after a time limit, or none");
            assert_eq!(batch.next_state[2 * i], s + 1.0);
        }
        assert_eq!(seen[..3], [0, 0, 0]);
        assert!(seen[3..].iter().all(|n| (30..70).contains(n)), "{seen:?}");
    }

    #[test]
    fn two_rings_are_drawn_from_as_asked() {
        let (first, mut second) = (filled(5, 5), Replay::new(2, 1, 20));
        for i in 0..15 {
            second.push(&[100.0 + i as f32, 0.0], &[0.0], 0.0, None, &[0.0; 2]);
        }
        let (mut batch, mut rng) = (Batch::default(), Rng::stream(0, "two"));
        Replay::sample_two([&first, &second], Some(30), 100, &mut rng, &mut batch);
        assert!((0..100).all(|i| (batch.state[2 * i] < 100.0) == (i < 30)));
        // A quarter of all rows are in the first.
        Replay::sample_two([&first, &second], None, 4000, &mut rng, &mut batch);
        let from_first = (0..4000).filter(|i| batch.state[2 * i] < 100.0).count();
        assert!((850..1150).contains(&from_first), "{from_first}");
    }

    #[test]
    fn a_million_transitions_of_the_largest_robot_fit_in_600_megabytes() {
        let replay = Replay::new(45, 17, 1_000_000);
        assert!(replay.ring.stride() * 4 * replay.capacity() <= 600_000_000);
    }
}
