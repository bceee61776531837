//! Two critics on `[s, a]` with slow copies: SAC's critics, the risk critic of Recovery RL, the critics of CPQ.
//!
//! Outputs are raw numbers; what they mean (a value, a logit) and which of the two counts is the caller's business. A learner
//! alone uses [`Twin`] by itself; the threads of a [`Team`] have a [`TwinTape`] and gradients each, and share its networks.

use crate::Result;
use crate::checkpoint::{Loader, Saver};
use crate::nets::{Mlp, Model, Tape, polyak};
use crate::rng::Rng;
use crate::team::Team;

/// Which of two outputs counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The smaller: cautious about rewards.
    Least,
    /// The greater: cautious about costs.
    Greatest,
    /// That of this critic, 0 or 1, in every row.
    Only(usize),
}

impl Pick {
    /// The output that counts.
    pub fn of(self, a: f32, b: f32) -> f32 {
        if self.takes_first(a, b) { a } else { b }
    }
    fn takes_first(self, a: f32, b: f32) -> bool {
        match self {
            Pick::Least => a <= b,
            Pick::Greatest => a >= b,
            Pick::Only(which) => which == 0,
        }
    }
    /// Whether this critic's output may count at all.
    fn asks(self, which: usize) -> bool {
        !matches!(self, Pick::Only(other) if other != which)
    }
}

/// Writes `[state, choice]` rows: a critic's input.
pub fn join(out: &mut Vec<f32>, state: &[f32], obs: usize, choice: &[f32], action: usize) {
    let n = state.len() / obs;
    out.resize(n * (obs + action), 0.0);
    for (i, row) in out.chunks_exact_mut(obs + action).enumerate() {
        row[..obs].copy_from_slice(&state[i * obs..][..obs]);
        row[obs..].copy_from_slice(&choice[i * action..][..action]);
    }
}

/// The two critics, their targets and their optimisers.
///
/// ```
/// use sskp_blocks::rng::Rng;
/// use sskp_blocks::twin::{Pick, Twin};
///
/// // Critics on [s, a] of 1 + 1 numbers, taught that Q = s·a at four points.
/// let mut critics = Twin::new(&[2, 32, 1], 1e-2, 0.05, &mut Rng::stream(0, "init"));
/// let input = [0.0, 0.5, 1.0, 0.5, -1.0, 1.0, 0.5, -0.5];
/// for _ in 0..500 {
///     critics.add_gradient(&input, 4, |row, q| {
///         let error = q - input[2 * row] * input[2 * row + 1];
///         (f64::from(error * error), 2.0 * error / 4.0)
///     });
///     critics.step(); // and the targets follow
/// }
/// let [a, b] = critics.forward(&input, 4);
/// assert!((Pick::Least.of(a[1], b[1]) - 0.5).abs() < 0.05);
/// ```
#[derive(Clone, Debug)]
pub struct Twin {
    critics: [Model; 2],
    targets: [Mlp; 2],
    tau: f32,
    tape: TwinTape,
}

impl Twin {
    /// Fresh critics of these layer sizes, learning at `rate`, followed by their targets at `tau`.
    pub fn new(sizes: &[usize], rate: f32, tau: f32, rng: &mut Rng) -> Self {
        let critics = [(); 2].map(|()| Model::new(sizes, rate, rng));
        let targets = [critics[0].net.clone(), critics[1].net.clone()];
        Self { critics, targets, tau, tape: TwinTape::default() }
    }

    /// The critics' networks.
    pub fn nets(&self) -> [&Mlp; 2] {
        [&self.critics[0].net, &self.critics[1].net]
    }

    /// The targets' networks.
    pub fn targets(&self) -> [&Mlp; 2] {
        [&self.targets[0], &self.targets[1]]
    }

    /// Numbers that learn.
    pub fn parameters(&self) -> usize {
        self.critics.iter().map(|critic| critic.grad.len()).sum()
    }

    /// The critics with their gradients, to be looked at.
    pub fn models_mut(&mut self) -> &mut [Model; 2] {
        &mut self.critics
    }

    /// Outputs of both critics for `rows` of `input`.
    pub fn forward(&mut self, input: &[f32], rows: usize) -> [&[f32]; 2] {
        let [a, b] = &self.critics;
        self.tape.forward([&a.net, &b.net], input, rows)
    }

    /// What the last [`Twin::forward`] gave.
    pub fn outputs(&self) -> [&[f32]; 2] {
        self.tape.outputs()
    }

    /// Outputs of both targets.
    pub fn forward_targets(&mut self, input: &[f32], rows: usize) -> [&[f32]; 2] {
        let [a, b] = &self.targets;
        self.tape.forward([a, b], input, rows)
    }

    /// [`TwinTape::add_gradient`], to the critics' own gradients.
    pub fn add_gradient(&mut self, input: &[f32], rows: usize, loss: impl FnMut(usize, f32) -> (f64, f32)) -> f64 {
        let [a, b] = &mut self.critics;
        self.tape.add_gradient([&a.net, &b.net], [&mut a.grad, &mut b.grad], input, rows, loss)
    }

    /// [`TwinTape::action_gradient`], after [`Twin::forward`].
    pub fn action_gradient(
        &mut self,
        rows: usize,
        pick: Pick,
        from: usize,
        slope: impl FnMut(usize, f32) -> f32,
        d_action: &mut [f32],
    ) {
        let [a, b] = &self.critics;
        self.tape.action_gradient([&a.net, &b.net], rows, pick, from, slope, d_action);
    }

    /// One Adam step of both critics, and their targets' step after them.
    pub fn step(&mut self) {
        for (critic, target) in self.critics.iter_mut().zip(&mut self.targets) {
            critic.step();
            polyak(&mut target.params, &critic.net.params, self.tau);
        }
    }

    /// The same on the sum of a team's gradients ([`Model::step_with`]); `grads(i, which)` is member i's for a critic.
    pub fn step_with<'g>(&mut self, team: &Team, grads: impl Fn(usize, usize) -> &'g [f32] + Sync) {
        for (which, (critic, target)) in self.critics.iter_mut().zip(&mut self.targets).enumerate() {
            critic.step_with(team, |member| grads(member, which), Some((target, self.tau)));
        }
    }

    /// Adds everything to a checkpoint: the critics as `{group}/{name}1` and `{group}/{name}2`.
    pub fn save<'a>(&'a self, group: &str, name: &str, to: &mut Saver<'a>) {
        for i in 0..2 {
            self.critics[i].save(&format!("{group}/{name}{}", i + 1), to);
            to.f32s(&format!("weights/{name}_target{}", i + 1), &self.targets[i].params, 1);
        }
    }

    /// Reads it back.
    pub fn load(&mut self, group: &str, name: &str, from: &Loader) -> Result<()> {
        for i in 0..2 {
            self.critics[i].load(&format!("{group}/{name}{}", i + 1), from)?;
            from.f32s_into(&format!("weights/{name}_target{}", i + 1), &mut self.targets[i].params)?;
        }
        Ok(())
    }

    /// Reads back the critics alone, out of a snapshot.
    pub fn load_nets(&mut self, group: &str, name: &str, from: &Loader) -> Result<()> {
        for i in 0..2 {
            from.f32s_into(&format!("{group}/{name}{}", i + 1), &mut self.critics[i].net.params)?;
        }
        Ok(())
    }
}

/// What one thread needs to pass through two critics and back. Grows to the largest batch seen and is then reused.
#[derive(Clone, Debug, Default)]
pub struct TwinTape {
    tapes: [Tape; 2],
    d_out: Vec<f32>,
    chosen: Vec<u32>,
    d_chosen: Vec<f32>,
}

impl TwinTape {
    /// Outputs of both networks for `rows` of `input`.
    pub fn forward(&mut self, nets: [&Mlp; 2], input: &[f32], rows: usize) -> [&[f32]; 2] {
        self.forward_picked(nets, Pick::Least, input, rows);
        self.outputs()
    }

    /// Passes forward through those networks that `pick` looks at.
    pub fn forward_picked(&mut self, nets: [&Mlp; 2], pick: Pick, input: &[f32], rows: usize) {
        for which in (0..2).filter(|which| pick.asks(*which)) {
            nets[which].forward(input, rows, &mut self.tapes[which]);
        }
    }

    /// What the last forward pass gave.
    pub fn outputs(&self) -> [&[f32]; 2] {
        [self.tapes[0].output(), self.tapes[1].output()]
    }

    /// Adds to both gradients that of a loss which, for a row's output, `loss` gives with its slope. Returns the sum of the losses
    /// of both critics over all rows.
    pub fn add_gradient(
        &mut self,
        nets: [&Mlp; 2],
        grads: [&mut [f32]; 2],
        input: &[f32],
        rows: usize,
        mut loss: impl FnMut(usize, f32) -> (f64, f32),
    ) -> f64 {
        self.d_out.resize(rows, 0.0);
        let mut total = 0.0;
        for ((net, grad), tape) in nets.into_iter().zip(grads).zip(&mut self.tapes) {
            let out = net.forward(input, rows, tape);
            for row in 0..rows {
                let (value, slope) = loss(row, out[row]);
                total += value;
                self.d_out[row] = slope;
            }
            net.backward(input, rows, tape, &self.d_out[..rows], Some(grad), None);
        }
        total
    }

    /// After a forward pass on `[s, a]` rows: the gradient in the actions (the columns from `from` on) of a loss whose slope at
    /// the picked output of a row is `slope`. Each critic is asked only for the rows it is picked in; rows with slope 0 cost
    /// nothing.
    pub fn action_gradient(
        &mut self,
        nets: [&Mlp; 2],
        rows: usize,
        pick: Pick,
        from: usize,
        mut slope: impl FnMut(usize, f32) -> f32,
        d_action: &mut [f32],
    ) {
        let dim = nets[0].inputs() - from;
        assert_eq!(d_action.len(), rows * dim);
        d_action.fill(0.0);
        for which in (0..2).filter(|which| pick.asks(*which)) {
            self.chosen.clear();
            self.d_out.clear();
            self.chosen.reserve(rows);
            self.d_out.reserve(rows);
            let [a, b] = [self.tapes[0].output(), self.tapes[1].output()];
            let out = [a, b][which];
            for row in 0..rows {
                let picked = matches!(pick, Pick::Only(_)) || pick.takes_first(a[row], b[row]) == (which == 0);
                let d = if picked { slope(row, out[row]) } else { 0.0 };
                if d != 0.0 {
                    self.chosen.push(row as u32);
                    self.d_out.push(d);
                }
            }
            if self.chosen.is_empty() {
                continue;
            }
            self.d_chosen.resize(rows * dim, 0.0);
            let d_chosen = &mut self.d_chosen[..self.chosen.len() * dim];
            nets[which].input_gradient(&self.chosen, &mut self.tapes[which], &self.d_out, from, d_chosen);
            for (d, row) in d_chosen.chunks_exact(dim).zip(&self.chosen) {
                d_action[*row as usize * dim..][..dim].copy_from_slice(d);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(seed: u64) -> (Twin, Vec<f32>) {
        let mut rng = Rng::stream(seed, "twin");
        let twin = Twin::new(&[3, 7, 1], 1e-2, 0.1, &mut rng);
        let mut input = vec![0.0; 6 * 3];
        rng.fill_normal(&mut input);
        (twin, input)
    }

    #[test]
    fn the_picked_critic_gives_the_action_gradient() {
        for pick in [Pick::Least, Pick::Greatest, Pick::Only(0), Pick::Only(1)] {
            // The first seed at which now one and now the other critic is greater.
            let mixed = |(twin, input): &mut (Twin, Vec<f32>)| {
                let [a, b] = twin.forward(input, 6);
                (2..5).contains(&(0..6).filter(|r| a[*r] <= b[*r]).count())
            };
            let (mut twin, mut input) = (0..).map(fixture).find_map(|mut f| mixed(&mut f).then_some(f)).unwrap();
            let weights = [0.5f32, -1.0, 0.0, 2.0, 1.0, -0.3];
            let loss = |twin: &mut Twin, input: &[f32]| {
                let [a, b] = twin.forward(input, 6);
                (0..6).map(|r| f64::from(weights[r]) * f64::from(pick.of(a[r], b[r]))).sum::<f64>()
            };
            twin.forward(&input, 6);
            let mut d = [9.0; 12];
            twin.action_gradient(6, pick, 1, |row, _| weights[row], &mut d);
            assert_eq!(d[4..6], [0.0; 2], "a row without slope");
            for row in 0..6 {
                for c in 0..2 {
                    let at = row * 3 + 1 + c;
                    let old = input[at];
                    input[at] = old + 1e-3;
                    let up = loss(&mut twin, &input);
                    input[at] = old - 1e-3;
                    let down = loss(&mut twin, &input);
                    input[at] = old;
                    let expected = (up - down) / 2e-3;
                    assert!((expected - f64::from(d[row * 2 + c])).abs() < 2e-3, "{row} {c}: {expected} {d:?}");
                }
            }
        }
    }

    #[test]
    fn both_critics_learn_and_their_targets_follow() {
        let (mut twin, input) = fixture(6);
        let wanted = [1.0f32, 0.0, -1.0, 0.5, 0.2, 2.0];
        let before = twin.targets[1].params.clone();
        let mut losses = Vec::new();
        for _ in 0..400 {
            losses.push(twin.add_gradient(&input, 6, |row, q| {
                let error = q - wanted[row];
                (f64::from(error * error), 2.0 * error)
            }));
            twin.step();
        }
        assert!(losses[399] < 0.05 * losses[0], "{} to {}", losses[0], losses[399]);
        let [a, b] = twin.forward(&input, 6).map(|q| q.to_vec());
        assert_ne!(a, b, "two critics of their own");
        assert_ne!(before, twin.targets[1].params);
        // The first step by hand: target += 0.1·(critic − target).
        let (mut one, _) = fixture(6);
        let old = one.targets[0].params[0];
        one.add_gradient(&input, 6, |_, q| (0.0, q));
        one.step();
        assert!((one.targets[0].params[0] - (old + 0.1 * (one.critics[0].net.params[0] - old))).abs() < 1e-7);
    }
}
