//! The learnt model of a robot, and the rollouts imagined with it (Thomas et al. 2021, section 5).

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::End;
use sskp_blocks::nets::ensemble::{Ensemble, EnsembleConfig, EnsembleTape};
use sskp_blocks::nets::standardiser::Standardiser;
use sskp_blocks::nets::{Mlp, Tape, gaussian};
use sskp_blocks::replay::{Replay, Transition};
use sskp_blocks::rng::Rng;

/// An ensemble that maps `[standardised s, a]` to a Gaussian over `[s' − s, r]`.
pub struct Dynamics {
    ensemble: Ensemble,
    standardiser: Standardiser,
    // Scratch: rows of inputs and targets.
    x: Vec<f32>,
    y: Vec<f32>,
    tape: EnsembleTape,
}

/// `[standardised s, a]` and `[s' − s, r]` of a transition.
fn example(standardiser: &Standardiser, t: Transition, x: &mut [f32], y: &mut [f32]) {
    let obs = t.state.len();
    standardiser.apply(t.state, &mut x[..obs]);
    x[obs..].copy_from_slice(t.action);
    for i in 0..obs {
        y[i] = t.next_state[i] - t.state[i];
    }
    y[obs] = t.reward;
}

impl Dynamics {
    /// A model that has learnt nothing yet.
    pub fn new(config: EnsembleConfig, obs: usize, action: usize, threads: usize, rng: &mut Rng) -> Result<Self> {
        Ok(Self {
            ensemble: Ensemble::new(config, obs + action, obs + 1, threads, rng)?,
            standardiser: Standardiser::new(obs),
            x: Vec::new(),
            y: Vec::new(),
            tape: EnsembleTape::default(),
        })
    }

    /// Numbers that learn.
    pub fn parameters(&self) -> usize {
        self.ensemble.params.len()
    }
    /// Updates done.
    pub fn updates(&self) -> u64 {
        self.ensemble.updates()
    }
    /// Transitions whose states the inputs are standardised with.
    pub fn known(&self) -> u64 {
        self.standardiser.count()
    }

    fn make_room(&mut self, rows: usize) {
        self.x.resize(rows * self.ensemble.inputs(), 0.0);
        self.y.resize(rows * self.ensemble.outputs(), 0.0);
    }

    /// Takes the states of the transitions `known()..pushed`, counted from the first one ever pushed, into the mean and
    /// deviation that inputs are standardised with. Gives the loss that a model which had learnt something had on those
    /// transitions, of which it had not seen any.
    pub fn meet(&mut self, replay: &Replay, pushed: u64) -> Option<f64> {
        let capacity = replay.capacity() as u64;
        let places: Vec<usize> = (self.known()..pushed).map(|k| (k % capacity) as usize).collect();
        let (inputs, outputs, rows) = (self.ensemble.inputs(), self.ensemble.outputs(), places.len());
        let mut loss = None;
        if rows > 0 && self.ensemble.updates() > 0 {
            self.make_room(rows);
            for (i, place) in places.iter().enumerate() {
                let (x, y) = (&mut self.x[i * inputs..][..inputs], &mut self.y[i * outputs..][..outputs]);
                example(&self.standardiser, replay.get(*place), x, y);
            }
            let members = self.ensemble.members();
            let sum: f64 = (0..members).map(|m| self.ensemble.loss(m, &self.x, &self.y, rows, &mut self.tape)).sum();
            loss = Some(sum / members as f64);
        }
        for place in places {
            self.standardiser.update(replay.get(place).state);
        }
        loss
    }

    /// One update of every member, each on its own `rows` transitions drawn with replacement. Gives the loss.
    pub fn update(&mut self, replay: &Replay, rows: usize, rng: &mut Rng) -> Result<f64> {
        self.make_room(self.ensemble.members() * rows);
        let (inputs, outputs) = (self.ensemble.inputs(), self.ensemble.outputs());
        for (x, y) in self.x.chunks_exact_mut(inputs).zip(self.y.chunks_exact_mut(outputs)) {
            example(&self.standardiser, replay.get(rng.below(replay.len())), x, y);
        }
        self.ensemble.update(&self.x, &self.y, rows)
    }

    /// One imagined step of all rows, with one member drawn for all of them: writes `next[rows, obs]` and `reward[rows]`.
    pub fn step(&mut self, state: &[f32], action: &[f32], rng: &mut Rng, next: &mut [f32], reward: &mut [f32]) {
        let (obs, rows) = (self.standardiser.columns(), reward.len());
        let dim = action.len() / rows;
        self.make_room(rows);
        for (i, x) in self.x.chunks_exact_mut(obs + dim).enumerate() {
            self.standardiser.apply(&state[i * obs..][..obs], &mut x[..obs]);
            x[obs..].copy_from_slice(&action[i * dim..][..dim]);
        }
        let member = rng.below(self.ensemble.members());
        self.ensemble.sample(member, &self.x, rows, rng, &mut self.tape, &mut self.y);
        for (i, y) in self.y.chunks_exact(obs + 1).enumerate() {
            for j in 0..obs {
                next[i * obs + j] = state[i * obs + j] + y[j];
            }
            reward[i] = y[obs];
        }
    }

    /// Adds everything to a checkpoint.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.ensemble.save("model", to);
        self.standardiser.save("weights/model_inputs", to);
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        self.ensemble.load("model", from)?;
        self.standardiser.load("weights/model_inputs", from)
    }
}

/// How imagined rollouts went, since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Imagined {
    /// Rollouts begun.
    pub rollouts: u64,
    /// Transitions kept.
    pub transitions: u64,
    /// Rollouts that ended in a violation.
    pub violations: u64,
    /// Rollouts that ended because the model predicted numbers that are none. Their last transition is not kept.
    pub broken: u64,
}

/// Imagines rollouts; holds what that needs, so that nothing is allocated after the first time.
#[derive(Default)]
pub struct Imagination {
    state: Vec<f32>,
    action: Vec<f32>,
    noise: Vec<f32>,
    log_prob: Vec<f32>,
    next: Vec<f32>,
    reward: Vec<f32>,
    wide: Vec<f64>,
    tape: Tape,
}

impl Imagination {
    /// `rollouts` branches of at most `horizon` steps, from states drawn out of `real`, with the policy's sampled actions
    /// (uniform ones without a policy). Every transition goes into `imagined`; a branch ends where `violates` says so of
    /// its predicted state.
    pub fn rollouts(
        &mut self,
        dynamics: &mut Dynamics,
        policy: Option<&Mlp>,
        violates: &dyn Fn(&[f64]) -> bool,
        real: &Replay,
        (rollouts, horizon): (usize, u32),
        rng: &mut Rng,
        imagined: &mut Replay,
    ) -> Imagined {
        let (obs, dim) = real.sizes();
        let mut seen = Imagined { rollouts: rollouts as u64, ..Imagined::default() };
        for (buffer, columns) in [(&mut self.state, obs), (&mut self.next, obs), (&mut self.action, dim)] {
            buffer.resize(rollouts * columns, 0.0);
        }
        self.noise.resize(rollouts * dim, 0.0);
        self.log_prob.resize(rollouts, 0.0);
        self.reward.resize(rollouts, 0.0);
        self.wide.resize(obs, 0.0);
        for state in self.state.chunks_exact_mut(obs) {
            state.copy_from_slice(real.get(rng.below(real.len())).state);
        }
        let mut alive = rollouts;
        for _ in 0..horizon {
            if alive == 0 {
                break;
            }
            let (state, action) = (&self.state[..alive * obs], &mut self.action[..alive * dim]);
            match policy {
                Some(net) => {
                    let noise = &mut self.noise[..alive * dim];
                    rng.fill_normal(noise);
                    let head = net.forward(state, alive, &mut self.tape);
                    gaussian::squashed_sample(head, noise, dim, action, &mut self.log_prob[..alive]);
                }
                None => rng.fill_action(action),
            }
            let (next, reward) = (&mut self.next[..alive * obs], &mut self.reward[..alive]);
            dynamics.step(state, action, rng, next, reward);
            let mut left = 0;
            for i in 0..alive {
                let next = &self.next[i * obs..][..obs];
                if !next.iter().all(|x| x.is_finite()) || !self.reward[i].is_finite() {
                    seen.broken += 1;
                    continue;
                }
                self.wide.iter_mut().zip(next).for_each(|(w, x)| *w = f64::from(*x));
                let violation = violates(&self.wide);
                let (state, action) = (&self.state[i * obs..][..obs], &self.action[i * dim..][..dim]);
                imagined.push(state, action, self.reward[i], violation.then_some(End::Violation), next);
                seen.transitions += 1;
                if violation {
                    seen.violations += 1;
                } else {
                    // Branches that go on move together, in their order: row `left` has been used up already.
                    self.state[left * obs..][..obs].copy_from_slice(next);
                    left += 1;
                }
            }
            alive = left;
        }
        seen
    }
}

impl std::ops::AddAssign for Imagined {
    fn add_assign(&mut self, other: Self) {
        self.rollouts += other.rollouts;
        self.transitions += other.transitions;
        self.violations += other.violations;
        self.broken += other.broken;
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::env::Env;
    use sskp_blocks::toy::Toy;

    use super::*;

    /// Real transitions of the toy under random actions.
    fn random_toy(n: usize) -> Replay {
        let mut rng = Rng::stream(3, "toy");
        let (mut toy, mut replay) = (Toy::default(), Replay::new(5, 2, n));
        let narrow = |toy: &Toy| -> Vec<f32> { toy.obs().iter().map(|x| *x as f32).collect() };
        toy.reset(&mut rng).unwrap();
        for _ in 0..n {
            let mut action = [0.0; 2];
            rng.fill_action(&mut action);
            let state = narrow(&toy);
            let step = toy.step(&action).unwrap();
            replay.push(&state, &action, step.reward as f32, step.end, &narrow(&toy));
            if step.end.is_some() {
                toy.reset(&mut rng).unwrap();
            }
        }
        replay
    }

    #[test]
    fn the_model_learns_the_toy_and_is_asked_about_what_it_has_not_seen() {
        let (replay, mut rng) = (random_toy(3000), Rng::stream(0, "model"));
        let config = EnsembleConfig { members: 3, width: 48, ..EnsembleConfig::default() };
        let mut dynamics = Dynamics::new(config, 5, 2, 1, &mut rng).unwrap();
        assert_eq!(dynamics.meet(&replay, 2000), None, "a model that has learnt nothing is not judged");
        assert_eq!(dynamics.known(), 2000);
        let untrained = dynamics.update(&replay, 64, &mut rng).unwrap();
        for _ in 0..1000 {
            dynamics.update(&replay, 64, &mut rng).unwrap();
        }
        // A Gaussian of standard deviation 0.05 in each of six numbers would have a loss of 6·(1 − 6) = −30.
        let fresh = dynamics.meet(&replay, 3000).unwrap();
        assert!(untrained > -6.0 && fresh < -20.0, "{untrained}, then {fresh}");
        // The deviations of the sampled next states are of the size of the noise the model believes in, far below the
        // distances walked.
        let (mut error, mut walked) = (0.0f64, 0.0f64);
        for i in 0..500 {
            let t = replay.get(i);
            let (mut next, mut reward) = ([0.0; 5], [0.0]);
            dynamics.step(t.state, t.action, &mut rng, &mut next, &mut reward);
            for j in 0..5 {
                error += f64::from(next[j] - t.next_state[j]).powi(2);
                walked += f64::from(t.state[j] - t.next_state[j]).powi(2);
            }
            assert!((reward[0] - t.reward).abs() < 0.25, "reward {} for {}", reward[0], t.reward);
        }
        assert!(error < 0.05 * walked, "{error} of {walked}");
    }

    /// A model that believes that nothing moves and nothing is earned, with next to no doubt.
    fn still(obs: usize, action: usize) -> Dynamics {
        let config = EnsembleConfig { width: 4, max_log_var: -30.0, min_log_var: -31.0, ..EnsembleConfig::default() };
        let mut dynamics = Dynamics::new(config, obs, action, 1, &mut Rng::stream(0, "t")).unwrap();
        let weights = dynamics.ensemble.params.len() - 2 * (obs + 1);
        dynamics.ensemble.params[..weights].fill(0.0);
        dynamics
    }

    #[test]
    fn a_branch_ends_at_its_first_violating_state_and_the_others_go_on() {
        let mut dynamics = still(2, 1);
        let mut real = Replay::new(2, 1, 20);
        // Half of the states to start from are such that whatever follows violates.
        for i in 0..20 {
            real.push(&[(i % 2) as f32, i as f32], &[0.0], 0.0, None, &[0.0; 2]);
        }
        let mut imagined = Replay::new(2, 1, 1000);
        let violates = |state: &[f64]| state[0] > 0.5;
        let mut rng = Rng::stream(1, "t");
        let mut imagination = Imagination::default();
        let seen = imagination.rollouts(&mut dynamics, None, &violates, &real, (60, 4), &mut rng, &mut imagined);
        let ended = seen.violations;
        assert!((15..45).contains(&ended), "{seen:?}");
        assert_eq!(
            seen,
            Imagined { rollouts: 60, transitions: ended + 4 * (60 - ended), violations: ended, broken: 0 }
        );
        assert_eq!(imagined.len() as u64, seen.transitions);
        // Afterwards only branches that may go on are left, in their order; each goes on from where it was.
        let alive = 60 - ended as usize;
        for i in 0..imagined.len() {
            let t = imagined.get(i);
            assert_eq!(t.end == Some(End::Violation), t.state[0] > 0.5, "{t:?}");
            assert!(t.end.is_none() || i < 60, "a branch went on after its violation: {t:?}");
            assert!((t.next_state[1] - t.state[1]).abs() < 1e-4 && t.reward.abs() < 1e-4);
            if i >= 60 + alive {
                assert!((t.state[1] - imagined.get(i - alive).next_state[1]).abs() < 1e-6);
            }
        }
        // The next batch begins anew.
        let more = imagination.rollouts(&mut dynamics, None, &|_| true, &real, (7, 4), &mut rng, &mut imagined);
        assert_eq!(more, Imagined { rollouts: 7, transitions: 7, violations: 7, broken: 0 });
    }

    #[test]
    fn numbers_that_are_none_are_not_kept() {
        let mut dynamics = still(2, 1);
        dynamics.ensemble.params.fill(f32::NAN);
        let mut real = Replay::new(2, 1, 1);
        real.push(&[0.0; 2], &[0.0], 0.0, None, &[0.0; 2]);
        let (mut imagined, mut rng) = (Replay::new(2, 1, 10), Rng::stream(1, "t"));
        let seen =
            Imagination::default().rollouts(&mut dynamics, None, &|_| false, &real, (5, 3), &mut rng, &mut imagined);
        assert_eq!(seen, Imagined { rollouts: 5, broken: 5, ..Imagined::default() });
        assert!(imagined.is_empty());
    }
}
