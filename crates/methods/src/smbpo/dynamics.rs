//! The learnt model of a robot (Thomas et al. 2021, section 5).

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::ensemble::{Ensemble, EnsembleConfig, EnsembleTape};
use sskp_blocks::nets::standardiser::Standardiser;
use sskp_blocks::replay::{Replay, Transition};
use sskp_blocks::rng::Rng;

/// An ensemble that maps `[standardised s, a]` to a Gaussian over `[s' − s, r]`.
pub struct Dynamics {
    pub(super) ensemble: Ensemble,
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
}
