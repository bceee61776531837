//! What teaches the decoder: critics of single steps, of rewards and of violations.
//!
//! ```text
//! a' = clip(dec_slow(s', z') + noise),  z' ~ π_θ(·|s')
//! y_r = r/r̄ + γ·L(Q̄₁, Q̄₂)(s', a') where the episode goes on,  L = mean − k·|Q₁ − Q₂|/2
//! y_c = c + γ_c·max_i C̄_i(s', a') where it goes on,            C_i = sigmoid of network i
//! ```
//! r̄ is the demonstrations' mean reward: Q is in units of the demonstrator's.

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::layer_sizes;
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, Twin, join};
use sskp_blocks::{Error, Result};

use super::config::AdaptConfig;

/// Both pairs of critics.
pub(super) struct Critics {
    obs: usize,
    action: usize,
    pub(super) reward: Twin,
    pub(super) risk: Twin,
    /// |r̄|.
    pub(super) unit: f32,
    input: Vec<f32>,
    target: Vec<f32>,
    more: Vec<f32>,
}

/// Means over a minibatch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) reward: f64,
    pub(super) value: f64,
    pub(super) risk: f64,
    pub(super) chance: f64,
}

/// L: the mean of two estimates less k times half their distance.
pub(super) fn doubtful(a: f32, b: f32, doubt: f32) -> f32 {
    0.5 * (a + b) - 0.5 * doubt * (a - b).abs()
}

impl Critics {
    pub(super) fn new(config: &AdaptConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = layer_sizes(obs + action, config.width, config.layers, 1);
        let mut twin = || Twin::new(&sizes, config.rate as f32, config.tau as f32, rng);
        let (reward, risk) = (twin(), twin());
        Self { obs, action, reward, risk, unit: 1.0, input: Vec::new(), target: Vec::new(), more: Vec::new() }
    }

    /// One update of all four on a minibatch, given the actions in its next states.
    pub(super) fn update(&mut self, config: &AdaptConfig, batch: &Batch, next_actions: &[f32]) -> Result<Losses> {
        let n = batch.rows;
        join(&mut self.input, &batch.next_state, self.obs, next_actions, self.action);
        let mut losses = Losses::default();
        let (gamma, doubt) = (config.gamma as f32, config.doubt as f32);
        let [a, b] = self.reward.forward_targets(&self.input, n);
        self.target.clear();
        self.target.extend(
            (0..n).map(|i| batch.reward[i] / self.unit + gamma * batch.goes_on[i] * doubtful(a[i], b[i], doubt)),
        );
        let (target, scale) = (&self.target, 1.0 / n as f32);
        losses.reward = self.reward.add_gradient(&batch.state_action, n, |row, q| {
            let error = q - target[row];
            losses.value += f64::from(q);
            (f64::from(error * error), 2.0 * scale * error)
        });
        self.reward.step();

        let gamma = config.risk_gamma as f32;
        let [a, b] = self.risk.forward_targets(&self.input, n);
        self.target.clear();
        self.target.extend(
            (0..n).map(|i| batch.violation[i] + gamma * batch.goes_on[i] * sigmoid(Pick::Greatest.of(a[i], b[i]))),
        );
        let target = &self.target;
        // Cross-entropy: unlike the squared error it has a slope where the critic is sure and wrong.
        losses.risk = self.risk.add_gradient(&batch.state_action, n, |row, logit| {
            let (c, y) = (sigmoid(logit), target[row].min(1.0));
            losses.chance += f64::from(c);
            let surprise = -(y * c.max(1e-7).ln() + (1.0 - y) * (1.0 - c).max(1e-7).ln());
            (f64::from(surprise), scale * (c - y))
        });
        self.risk.step();
        for mean in [&mut losses.reward, &mut losses.value, &mut losses.risk, &mut losses.chance] {
            *mean /= 2.0 * n as f64;
        }
        match losses.reward.is_finite() && losses.risk.is_finite() {
            true => Ok(losses),
            false => Err(Error::other(format!("the critics' losses are {} and {}", losses.reward, losses.risk))),
        }
    }

    /// The gradient in the actions of −(1 − γ)·L(Q₁, Q₂) + λ·max_i C_i, summed over rows; gives the mean of that loss.
    pub(super) fn slope(
        &mut self,
        config: &AdaptConfig,
        price: f32,
        state: &[f32],
        actions: &[f32],
        d_action: &mut Vec<f32>,
    ) -> f64 {
        let n = state.len() / self.obs;
        let (scale, doubt) = (1.0 - config.gamma as f32, config.doubt as f32);
        join(&mut self.input, state, self.obs, actions, self.action);
        d_action.resize(n * self.action, 0.0);
        self.more.resize(n * self.action, 0.0);
        let [a, b] = self.reward.forward(&self.input, n);
        let value: f64 = (0..n).map(|i| f64::from(doubtful(a[i], b[i], doubt))).sum();
        self.reward.action_gradient(n, Pick::Least, self.obs, |_, _| -0.5 * scale * (1.0 + doubt), d_action);
        if doubt != 1.0 {
            self.reward.action_gradient(
                n,
                Pick::Greatest,
                self.obs,
                |_, _| -0.5 * scale * (1.0 - doubt),
                &mut self.more,
            );
            d_action.iter_mut().zip(&self.more).for_each(|(d, m)| *d += m);
        }
        let mut chance = 0.0;
        if price > 0.0 {
            self.risk.forward(&self.input, n);
            let slope = |_: usize, logit: f32| {
                let c = sigmoid(logit);
                chance += f64::from(c);
                price * c * (1.0 - c)
            };
            self.risk.action_gradient(n, Pick::Greatest, self.obs, slope, &mut self.more);
            d_action.iter_mut().zip(&self.more).for_each(|(d, m)| *d += m);
        }
        (f64::from(price) * chance - f64::from(scale) * value) / n as f64
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.reward.save("weights", "step_reward", to);
        self.risk.save("weights", "step_risk", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        self.reward.load("weights", "step_reward", from)?;
        self.risk.load("weights", "step_risk", from)
    }
}
