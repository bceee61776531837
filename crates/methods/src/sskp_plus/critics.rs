//! What teaches the decoder: critics of single steps, of rewards and of violations.
//!
//! ```text
//! a' = clip(dec_slow(s', z') + noise),  z' ~ π_θ(·|s')
//! y_r = r/r̄ + γ·L(Q̄₁, Q̄₂)(s', a') where the episode goes on,  L = mean − k·|Q₁ − Q₂|/2
//! y_c = c + γ_c·max_i C̄_i(s', a') where it goes on,            C_i = sigmoid of network i
//! ```
//! r̄ is the demonstrations' mean reward: Q is in units of the demonstrator's.

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::{Mlp, Model, Tape, layer_sizes, polyak};
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, Twin, join};
use sskp_blocks::{Error, Result};

use super::config::AdaptConfig;
use super::steps::StepBatch;

/// The critics of rewards and of violations.
pub(super) struct Critics {
    obs: usize,
    action: usize,
    pub(super) reward: Twin,
    pub(super) risk: Model,
    risk_target: Mlp,
    /// |r̄|.
    pub(super) unit: f32,
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

/// L: the mean of two estimates less k times half their distance.
pub(super) fn doubtful(a: f32, b: f32, doubt: f32) -> f32 {
    0.5 * (a + b) - 0.5 * doubt * (a - b).abs()
}

impl Critics {
    pub(super) fn new(config: &AdaptConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = layer_sizes(obs + action, config.width, config.layers, 1);
        let reward = Twin::new(&sizes, config.rate as f32, config.tau as f32, rng);
        let mut risk = Model::new(&sizes, config.rate as f32, rng);
        // Risks are small numbers: from one half they would have to come down through many updates of the target.
        *risk.net.params.last_mut().expect("a bias") = -4.0;
        let risk_target = risk.net.clone();
        let [input, target, more, d_out] = Default::default();
        let (chosen, tape) = (Vec::new(), Tape::default());
        Self { obs, action, reward, risk, risk_target, unit: 1.0, input, target, more, d_out, chosen, tape }
    }

    /// One update of all on a minibatch, given the actions in its next states.
    pub(super) fn update(&mut self, config: &AdaptConfig, batch: &StepBatch, next_actions: &[f32]) -> Result<Losses> {
        let n = batch.rows;
        join(&mut self.input, &batch.next_state, self.obs, next_actions, self.action);
        let mut losses = Losses::default();
        let doubt = config.target_doubt as f32;
        let [a, b] = self.reward.forward_targets(&self.input, n);
        self.target.clear();
        self.target.extend(
            (0..n).map(|i| batch.reward[i] / self.unit + batch.discount[i] * doubtful(a[i], b[i], doubt)),
        );
        let (target, scale) = (&self.target, 1.0 / n as f32);
        losses.reward = self.reward.add_gradient(&batch.state_action, n, |row, q| {
            let error = q - target[row];
            losses.value += f64::from(q);
            (f64::from(error * error), 2.0 * scale * error)
        });
        self.reward.step();

        let power = (config.risk_gamma.ln() / config.gamma.ln()) as f32;
        let out = self.risk_target.forward(&self.input, n, &mut self.tape);
        self.target.clear();
        self.target.extend((0..n).map(|i| match batch.discount[i] {
            0.0 => batch.danger[i],
            d => d.powf(power) * sigmoid(out[i]),
        }));
        let out = self.risk.net.forward(&batch.state_action, n, &mut self.tape);
        self.d_out.resize(n, 0.0);
        for i in 0..n {
            let (c, y) = (sigmoid(out[i]), self.target[i]);
            losses.chance += f64::from(c);
            losses.risk -= f64::from(y * c.max(1e-7).ln() + (1.0 - y) * (1.0 - c).max(1e-7).ln());
            self.d_out[i] = scale * (c - y);
        }
        let Model { net, grad, .. } = &mut self.risk;
        net.backward(&batch.state_action, n, &mut self.tape, &self.d_out, Some(grad), None);
        self.risk.step();
        polyak(&mut self.risk_target.params, &self.risk.net.params, config.tau as f32);
        for mean in [&mut losses.reward, &mut losses.value] {
            *mean /= 2.0 * n as f64;
        }
        for mean in [&mut losses.risk, &mut losses.chance] {
            *mean /= n as f64;
        }
        match losses.reward.is_finite() && losses.risk.is_finite() {
            true => Ok(losses),
            false => Err(Error::other(format!("the critics' losses are {} and {}", losses.reward, losses.risk))),
        }
    }

    /// C of these steps.
    pub(super) fn chances(&mut self, states: &[f32], actions: &[f32], out: &mut Vec<f32>) {
        let n = actions.len() / self.action;
        join(&mut self.input, &states[..n * self.obs], self.obs, actions, self.action);
        out.clear();
        out.extend(self.risk.net.forward(&self.input, n, &mut self.tape).iter().map(|x| sigmoid(*x)));
    }

    /// The gradient in the actions of −(1 − γ)·L(Q₁, Q₂) + λ·C, row by row, and C.
    pub(super) fn slope(
        &mut self,
        config: &AdaptConfig,
        price: f32,
        state: &[f32],
        actions: &[f32],
        d_action: &mut Vec<f32>,
        chances: &mut Vec<f32>,
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
        let out = self.risk.net.forward(&self.input, n, &mut self.tape);
        chances.clear();
        chances.extend(out.iter().map(|x| sigmoid(*x)));
        let chance: f64 = chances.iter().map(|c| f64::from(*c)).sum();
        self.chosen.clear();
        self.chosen.extend(0..n as u32);
        self.d_out.clear();
        self.d_out.extend(chances.iter().map(|c| price * c * (1.0 - c)));
        self.risk.net.input_gradient(&self.chosen, &mut self.tape, &self.d_out, self.obs, &mut self.more);
        d_action.iter_mut().zip(&self.more).for_each(|(d, m)| *d += m);
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
