//! What teaches the decoder: critics of single steps, several of rewards and one of violations.
//!
//! ```text
//! a' = clip(dec(s', z') + noise),  z' ~ π_θ(·|s'),  s' the state n steps on,  dec: the decoder that is played
//! y_r = R/r̄ − n·κ·N(s') + γⁿ·L_k'(Q̄₁ … Q̄_E)(s', a')    where the episode goes on,  L_k = mean − k·deviation
//! y_c = γ_c^j where the violation came after j < n steps, γ_cⁿ·C̄(s', a') where the episode goes on
//! ```
//! r̄ is the demonstrations' mean reward: Q is in units of the demonstrator's. C is the sigmoid of a network, taught by cross-entropy.

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::nets::{Mlp, Model, Tape, layer_sizes, polyak};
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::join;
use sskp_blocks::{Error, Result};

use super::caution::Weights;
use super::config::AdaptConfig;
use super::steps::StepBatch;

/// The critics.
pub(super) struct Critics {
    obs: usize,
    action: usize,
    /// γ.
    gamma: f32,
    rewards: Vec<Critic>,
    risk: Critic,
    /// |r̄|.
    pub(super) unit: f32,
    /// C of the rows that [`Critics::slope`] was asked for.
    pub(super) chances: Vec<f32>,
    // Scratch.
    input: Vec<f32>,
    target: Vec<f32>,
    more: Vec<f32>,
    d_out: Vec<f32>,
    every_row: Vec<u32>,
}

/// A critic and its slow copy.
struct Critic {
    model: Model,
    slow: Mlp,
    tape: Tape,
}

/// Means over a minibatch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) reward: f64,
    pub(super) value: f64,
    pub(super) risk: f64,
    pub(super) chance: f64,
}

/// The risk critic's logit before it has learnt anything: risks are small numbers, and from one half it would have to come down through
/// thousands of targets.
const FIRST_LOGIT: f32 = -4.0;

/// Keeps the slope of the deviation defined where all critics agree.
const AGREED: f32 = 1e-4;

/// Mean and deviation of what all critics last said of a row.
fn agreement(critics: &[Critic], row: usize) -> [f32; 2] {
    let (n, said) = (critics.len() as f32, || critics.iter().map(|c| c.tape.output()[row]));
    let mean = said().sum::<f32>() / n;
    let variance = said().map(|q| (q - mean) * (q - mean)).sum::<f32>() / n;
    [mean, (variance + AGREED * AGREED).sqrt()]
}

/// L_k of what all critics last said of a row: their mean less k times their deviation.
fn doubtful(critics: &[Critic], row: usize, doubt: f32) -> f32 {
    let [mean, deviation] = agreement(critics, row);
    mean - doubt * deviation
}

impl Critic {
    fn new(sizes: &[usize], rate: f32, rng: &mut Rng) -> Self {
        let model = Model::new(sizes, rate, rng);
        Self { slow: model.net.clone(), model, tape: Tape::default() }
    }

    /// Adds the gradient of a loss with this slope at each output of the last forward pass on `input`, and steps.
    fn learn(&mut self, input: &[f32], rows: usize, d_out: &[f32], tau: f32) {
        let Model { net, grad, .. } = &mut self.model;
        net.backward(input, rows, &mut self.tape, d_out, Some(grad), None);
        self.model.step();
        polyak(&mut self.slow.params, &self.model.net.params, tau);
    }

    fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        self.model.save(&format!("weights/{name}"), to);
        to.f32s(&format!("weights/{name}_target"), &self.slow.params, 1);
    }

    fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        self.model.load(&format!("weights/{name}"), from)?;
        from.f32s_into(&format!("weights/{name}_target"), &mut self.slow.params)
    }
}

impl Critics {
    pub(super) fn new(config: &AdaptConfig, gamma: f64, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = layer_sizes(obs + action, config.width, config.layers, 1);
        let rewards = (0..config.critics).map(|_| Critic::new(&sizes, config.rate as f32, rng)).collect();
        let mut risk = Critic::new(&sizes, config.rate as f32, rng);
        for net in [&mut risk.model.net, &mut risk.slow] {
            *net.params.last_mut().expect("the last bias") = FIRST_LOGIT;
        }
        Self {
            obs,
            action,
            gamma: gamma as f32,
            rewards,
            risk,
            unit: 1.0,
            chances: Vec::new(),
            input: Vec::new(),
            target: Vec::new(),
            more: Vec::new(),
            d_out: Vec::new(),
            every_row: Vec::new(),
        }
    }

    pub(super) fn parameters(&self) -> usize {
        self.rewards.iter().chain([&self.risk]).map(|critic| critic.model.grad.len()).sum()
    }

    /// One update of all on a minibatch, given the actions in its next states.
    pub(super) fn update(
        &mut self,
        config: &AdaptConfig,
        weights: Weights,
        batch: &StepBatch,
        next_actions: &[f32],
    ) -> Result<Losses> {
        join(&mut self.input, &batch.next_state, self.obs, next_actions, self.action);
        let mut losses = Losses::default();
        self.update_reward(config, weights, batch, &mut losses);
        self.update_risk(config.tau as f32, batch, &mut losses);
        match losses.reward.is_finite() && losses.risk.is_finite() {
            true => Ok(losses),
            false => Err(Error::other(format!("the critics' losses are {} and {}", losses.reward, losses.risk))),
        }
    }

    /// Every Q towards y_r.
    fn update_reward(&mut self, config: &AdaptConfig, weights: Weights, batch: &StepBatch, losses: &mut Losses) {
        let (n, doubt) = (batch.rows, config.target_doubt as f32);
        for Critic { slow, tape, .. } in &mut self.rewards {
            slow.forward(&self.input, n, tape);
        }
        self.target.clear();
        // N is asked in the last of the n states alone, for all of them: every state is the last one of some step.
        let near = weights.near * config.returns as f32;
        let target = |row| {
            let later = batch.discount[row] * doubtful(&self.rewards, row, doubt);
            batch.reward[row] / self.unit - near * batch.near[row] + later
        };
        self.target.extend((0..n).map(target));
        let all = (n * self.rewards.len()) as f64;
        for critic in &mut self.rewards {
            let out = critic.model.net.forward(&batch.state_action, n, &mut critic.tape);
            self.d_out.clear();
            for (q, y) in out.iter().zip(&self.target) {
                losses.value += f64::from(*q) / all;
                losses.reward += f64::from((q - y) * (q - y)) / all;
                self.d_out.push(2.0 * (q - y) / n as f32);
            }
            critic.learn(&batch.state_action, n, &self.d_out, config.tau as f32);
        }
    }

    /// C towards y_c. Unlike the squared error, cross-entropy has a slope where the critic is sure and wrong.
    fn update_risk(&mut self, tau: f32, batch: &StepBatch, losses: &mut Losses) {
        let n = batch.rows;
        let Critic { model, slow, tape } = &mut self.risk;
        let later = slow.forward(&self.input, n, tape);
        self.target.clear();
        self.target.extend((0..n).map(|i| batch.violation[i] + batch.risk_discount[i] * sigmoid(later[i])));
        let logits = model.net.forward(&batch.state_action, n, tape);
        self.d_out.clear();
        for (logit, y) in logits.iter().zip(&self.target) {
            let c = sigmoid(*logit);
            losses.chance += f64::from(c) / n as f64;
            losses.risk -= f64::from(y * c.max(1e-7).ln() + (1.0 - y) * (1.0 - c).max(1e-7).ln()) / n as f64;
            self.d_out.push((c - y) / n as f32);
        }
        self.risk.learn(&batch.state_action, n, &self.d_out, tau);
    }

    /// The gradient in the actions of −(1 − γ)·L_k(Q) + λ·max(0, C − ε), row by row. Gives the mean of that loss.
    pub(super) fn slope(
        &mut self,
        config: &AdaptConfig,
        Weights { price, .. }: Weights,
        state: &[f32],
        actions: &[f32],
        d_action: &mut Vec<f32>,
    ) -> f64 {
        let n = state.len() / self.obs;
        let (scale, doubt, least) = (1.0 - self.gamma, config.doubt as f32, config.negligible as f32);
        join(&mut self.input, state, self.obs, actions, self.action);
        self.every_row.clear();
        self.every_row.extend(0..n as u32);
        d_action.clear();
        d_action.resize(n * self.action, 0.0);
        self.more.resize(n * self.action, 0.0);
        for Critic { model, tape, .. } in self.rewards.iter_mut().chain([&mut self.risk]) {
            model.net.forward(&self.input, n, tape);
        }
        let value: f64 = (0..n).map(|row| f64::from(doubtful(&self.rewards, row, doubt))).sum();
        let critics = self.rewards.len() as f32;
        for which in 0..self.rewards.len() {
            // ∂L_k/∂Q_i = (1 − k·(Q_i − mean)/deviation)/E.
            self.d_out.clear();
            let slope = |row| {
                let [mean, deviation] = agreement(&self.rewards, row);
                let apart = (self.rewards[which].tape.output()[row] - mean) / deviation;
                -scale * (1.0 - doubt * apart) / critics
            };
            self.d_out.extend((0..n).map(slope));
            let Critic { model, tape, .. } = &mut self.rewards[which];
            model.net.input_gradient(&self.every_row, tape, &self.d_out, self.obs, &mut self.more);
            d_action.iter_mut().zip(&self.more).for_each(|(d, more)| *d += more);
        }
        let Critic { model, tape, .. } = &mut self.risk;
        self.chances.clear();
        self.chances.extend(tape.output().iter().map(|logit| sigmoid(*logit)));
        self.d_out.clear();
        self.d_out.extend(self.chances.iter().map(|c| if *c > least { price * c * (1.0 - c) } else { 0.0 }));
        model.net.input_gradient(&self.every_row, tape, &self.d_out, self.obs, &mut self.more);
        d_action.iter_mut().zip(&self.more).for_each(|(d, more)| *d += more);
        let chance: f64 = self.chances.iter().map(|c| f64::from((c - least).max(0.0))).sum();
        (f64::from(price) * chance - f64::from(scale) * value) / n as f64
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        for (i, critic) in self.rewards.iter().enumerate() {
            critic.save(&format!("step_reward{}", i + 1), to);
        }
        self.risk.save("step_risk", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        for (i, critic) in self.rewards.iter_mut().enumerate() {
            critic.load(&format!("step_reward{}", i + 1), from)?;
        }
        self.risk.load("step_risk", from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Weights = Weights { price: 0.0, hold: 0.0, near: 0.0 };

    #[test]
    fn doubt_of_one_is_the_smaller_of_two_and_none_the_mean() {
        let mut rng = Rng::stream(0, "doubt");
        let mut critics = [3.0, 5.0].map(|value| {
            let mut critic = Critic::new(&[1, 1], 1e-3, &mut rng);
            critic.model.net.params.copy_from_slice(&[0.0, value]);
            critic.model.net.forward(&[1.0], 1, &mut critic.tape);
            critic
        });
        assert!(
            [0.0, 1.0, 2.0].into_iter().zip([4.0, 3.0, 2.0]).all(|(k, l)| (doubtful(&critics, 0, k) - l).abs() < 1e-3)
        );
        let Critic { model, tape, .. } = &mut critics[0];
        model.net.params[1] = 5.0;
        model.net.forward(&[1.0], 1, tape);
        assert!((doubtful(&critics, 0, 2.0) - 5.0).abs() < 1e-3, "nothing to doubt where they agree");
    }

    /// Two kinds of steps, by their action: one goes on for ever at reward 2, the other falls at once. Nothing else to tell.
    #[test]
    fn values_and_risks_reach_what_was_played() {
        let config = AdaptConfig { width: 32, rate: 3e-3, tau: 0.05, ..Default::default() };
        let mut critics = Critics::new(&config, 0.9, 1, 1, &mut Rng::stream(0, "critics"));
        critics.unit = 2.0;
        let n = 64;
        let falls = |i: usize| i.is_multiple_of(2);
        let column = |f: &dyn Fn(usize) -> f32| (0..n).map(f).collect::<Vec<f32>>();
        let batch = StepBatch {
            rows: n,
            state_action: (0..n).flat_map(|i| [0.5, if falls(i) { 1.0 } else { -1.0 }]).collect(),
            state: vec![0.5; n],
            reward: vec![2.0; n],
            discount: column(&|i| if falls(i) { 0.0 } else { 0.9 }),
            violation: column(&|i| if falls(i) { 1.0 } else { 0.0 }),
            risk_discount: column(&|i| if falls(i) { 0.0 } else { 0.9 }),
            next_state: vec![0.5; n],
            near: vec![0.0; n],
        };
        // Whoever goes on will go on.
        let next = vec![-1.0; n];
        for _ in 0..3000 {
            critics.update(&config, FREE, &batch, &next).unwrap();
        }
        let Critic { model, tape, .. } = &mut critics.rewards[0];
        let a = model.net.forward(&batch.state_action[..4], 2, tape);
        // Falling at once is worth its one reward, 1 demonstrator's; going on 1/(1 − 0.9).
        assert!((a[0] - 1.0).abs() < 0.2 && (a[1] - 10.0).abs() < 0.5, "{a:?}");
        let weights = Weights { price: 1.0, ..FREE };
        critics.slope(&config, weights, &[0.5, 0.5], &[1.0, -1.0], &mut Vec::new());
        assert!(critics.chances[0] > 0.95 && critics.chances[1] < 0.02, "{:?}", critics.chances);
    }
}
