//! What teaches the decoder: critics of single steps, two of rewards and one of violations.
//!
//! ```text
//! a' = clip(dec(s', z') + noise),  z' ~ π_θ(·|s'),  s' the state n steps on,  dec: the decoder that is played
//! y_r = R/r̄ + γⁿ·L(Q̄₁, Q̄₂)(s', a')    where the episode goes on,  L = mean − k·|Q₁ − Q₂|/2
//! y_c = γ_c^k where the violation came after k < n steps, γ_cⁿ·C̄(s', a') where the episode goes on
//! ```
//! r̄ is the demonstrations' mean reward: Q is in units of the demonstrator's. C is the sigmoid of a network, taught by cross-entropy.

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::nets::{Mlp, Model, Tape, layer_sizes, polyak};
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, Twin, join};
use sskp_blocks::{Error, Result};

use super::caution::Weights;
use super::config::AdaptConfig;
use super::steps::StepBatch;

/// The critics.
pub(super) struct Critics {
    obs: usize,
    action: usize,
    pub(super) reward: Twin,
    pub(super) risk: Model,
    risk_target: Mlp,
    /// |r̄|.
    pub(super) unit: f32,
    /// C of the rows that [`Critics::slope`] was asked for.
    pub(super) chances: Vec<f32>,
    // Scratch.
    input: Vec<f32>,
    target: Vec<f32>,
    more: Vec<f32>,
    d_out: Vec<f32>,
    chosen: Vec<u32>,
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

/// The critics' logit before they have learnt anything: risks are small numbers, and from one half they would have to come down through
/// thousands of targets.
const FIRST_LOGIT: f32 = -4.0;

/// L: the mean of two estimates less k times half their distance.
fn doubtful(a: f32, b: f32, doubt: f32) -> f32 {
    0.5 * (a + b) - 0.5 * doubt * (a - b).abs()
}

impl Critics {
    pub(super) fn new(config: &AdaptConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = layer_sizes(obs + action, config.width, config.layers, 1);
        let reward = Twin::new(&sizes, config.rate as f32, config.tau as f32, rng);
        let mut risk = Model::new(&sizes, config.rate as f32, rng);
        *risk.net.params.last_mut().expect("the last bias") = FIRST_LOGIT;
        Self {
            obs,
            action,
            reward,
            risk_target: risk.net.clone(),
            risk,
            unit: 1.0,
            chances: Vec::new(),
            input: Vec::new(),
            target: Vec::new(),
            more: Vec::new(),
            d_out: Vec::new(),
            chosen: Vec::new(),
            tape: Tape::default(),
        }
    }

    pub(super) fn parameters(&self) -> usize {
        self.reward.parameters() + self.risk.grad.len()
    }

    /// One update of all on a minibatch, given the actions in its next states.
    pub(super) fn update(
        &mut self,
        config: &AdaptConfig,
        doubt: f32,
        batch: &StepBatch,
        next_actions: &[f32],
    ) -> Result<Losses> {
        join(&mut self.input, &batch.next_state, self.obs, next_actions, self.action);
        let mut losses = Losses::default();
        self.update_reward(doubt, batch, &mut losses);
        self.update_risk(config.tau as f32, batch, &mut losses);
        match losses.reward.is_finite() && losses.risk.is_finite() {
            true => Ok(losses),
            false => Err(Error::other(format!("the critics' losses are {} and {}", losses.reward, losses.risk))),
        }
    }

    /// Q₁ and Q₂ towards y_r.
    fn update_reward(&mut self, doubt: f32, batch: &StepBatch, losses: &mut Losses) {
        let (n, unit) = (batch.rows, self.unit);
        let [a, b] = self.reward.forward_targets(&self.input, n);
        let rest = |i: usize| batch.discount[i] * doubtful(a[i], b[i], doubt);
        self.target.clear();
        self.target.extend((0..n).map(|i| batch.reward[i] / unit + rest(i)));
        let (target, scale) = (&self.target, 1.0 / n as f32);
        let loss = self.reward.add_gradient(&batch.state_action, n, |row, q| {
            let error = q - target[row];
            losses.value += f64::from(q);
            (f64::from(error * error), 2.0 * scale * error)
        });
        self.reward.step();
        let both = 2.0 * n as f64;
        (losses.reward, losses.value) = (loss / both, losses.value / both);
    }

    /// C towards y_c. Unlike the squared error, cross-entropy has a slope where the critic is sure and wrong.
    fn update_risk(&mut self, tau: f32, batch: &StepBatch, losses: &mut Losses) {
        let n = batch.rows;
        let slow = self.risk_target.forward(&self.input, n, &mut self.tape);
        self.target.clear();
        self.target.extend((0..n).map(|i| batch.violation[i] + batch.risk_discount[i] * sigmoid(slow[i])));
        let logits = self.risk.net.forward(&batch.state_action, n, &mut self.tape);
        self.d_out.clear();
        for (logit, y) in logits.iter().zip(&self.target) {
            let c = sigmoid(*logit);
            losses.chance += f64::from(c) / n as f64;
            losses.risk -= f64::from(y * c.max(1e-7).ln() + (1.0 - y) * (1.0 - c).max(1e-7).ln()) / n as f64;
            self.d_out.push((c - y) / n as f32);
        }
        let Model { net, grad, .. } = &mut self.risk;
        net.backward(&batch.state_action, n, &mut self.tape, &self.d_out, Some(grad), None);
        self.risk.step();
        polyak(&mut self.risk_target.params, &self.risk.net.params, tau);
    }

    /// The gradient in the actions of −(1 − γ)·L(Q₁, Q₂) + λ·max(0, C − ε), row by row. Gives the mean of that loss.
    pub(super) fn slope(
        &mut self,
        config: &AdaptConfig,
        Weights { price, doubt, .. }: Weights,
        state: &[f32],
        actions: &[f32],
        d_action: &mut Vec<f32>,
    ) -> f64 {
        let n = state.len() / self.obs;
        let (scale, least) = (1.0 - config.gamma as f32, config.negligible as f32);
        join(&mut self.input, state, self.obs, actions, self.action);
        d_action.resize(n * self.action, 0.0);
        self.more.resize(n * self.action, 0.0);
        let [a, b] = self.reward.forward(&self.input, n);
        let value: f64 = (0..n).map(|i| f64::from(doubtful(a[i], b[i], doubt))).sum();
        // L is (1 + k)/2 of the smaller and (1 − k)/2 of the greater.
        for (pick, share) in [(Pick::Least, 0.5 + 0.5 * doubt), (Pick::Greatest, 0.5 - 0.5 * doubt)] {
            let to = if pick == Pick::Least { &mut *d_action } else { &mut self.more };
            self.reward.action_gradient(n, pick, self.obs, |_, _| -scale * share, to);
        }
        d_action.iter_mut().zip(&self.more).for_each(|(d, more)| *d += more);
        let logits = self.risk.net.forward(&self.input, n, &mut self.tape);
        self.chances.clear();
        self.chances.extend(logits.iter().map(|logit| sigmoid(*logit)));
        self.d_out.clear();
        self.d_out.extend(self.chances.iter().map(|c| if *c > least { price * c * (1.0 - c) } else { 0.0 }));
        self.chosen.clear();
        self.chosen.extend(0..n as u32);
        self.risk.net.input_gradient(&self.chosen, &mut self.tape, &self.d_out, self.obs, &mut self.more);
        d_action.iter_mut().zip(&self.more).for_each(|(d, more)| *d += more);
        let chance: f64 = self.chances.iter().map(|c| f64::from((c - least).max(0.0))).sum();
        (f64::from(price) * chance - f64::from(scale) * value) / n as f64
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.reward.save("weights", "step_reward", to);
        self.risk.save("weights/step_risk", to);
        to.f32s("weights/step_risk_target", &self.risk_target.params, 1);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        self.reward.load("weights", "step_reward", from)?;
        self.risk.load("weights/step_risk", from)?;
        from.f32s_into("weights/step_risk_target", &mut self.risk_target.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_of_one_is_the_smaller_and_none_the_mean() {
        assert_eq!([0.0, 1.0, 2.0].map(|k| doubtful(3.0, 5.0, k)), [4.0, 3.0, 2.0]);
    }

    /// Two kinds of steps, by their action: one goes on for ever at reward 2, the other falls at once. Nothing else to tell.
    #[test]
    fn values_and_risks_reach_what_was_played() {
        let config =
            AdaptConfig { width: 32, rate: 3e-3, gamma: 0.9, risk_gamma: 0.9, tau: 0.05, ..Default::default() };
        let mut critics = Critics::new(&config, 1, 1, &mut Rng::stream(0, "critics"));
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
        };
        // Whoever goes on will go on.
        let next = vec![-1.0; n];
        for _ in 0..3000 {
            critics.update(&config, 1.0, &batch, &next).unwrap();
        }
        let [a, _] = critics.reward.forward(&batch.state_action[..4], 2);
        // Falling at once is worth its one reward, 1 demonstrator's; going on 1/(1 − 0.9).
        assert!((a[0] - 1.0).abs() < 0.2 && (a[1] - 10.0).abs() < 0.5, "{a:?}");
        let weights = Weights { price: 1.0, hold: 0.0, doubt: 1.0 };
        critics.slope(&config, weights, &[0.5, 0.5], &[1.0, -1.0], &mut Vec::new());
        assert!(critics.chances[0] > 0.95 && critics.chances[1] < 0.02, "{:?}", critics.chances);
    }
}
