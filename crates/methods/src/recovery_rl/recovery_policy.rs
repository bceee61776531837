//! The recovery policy's loss: the mean of max_i Q_i(s, a), a = clip(tanh(m(s)) + σ·noise).

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::{Adam, Model, Tape, layer_sizes};
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;

use super::RecoveryConfig;
use super::config::LEAST_STD;
use super::risk_critic::RiskCritic;

/// m(s) and σ, which is the same in every state.
#[derive(Clone, Debug)]
pub(super) struct RecoveryPolicy {
    pub(super) mean: Model,
    pub(super) log_std: Vec<f32>,
    log_std_grad: Vec<f32>,
    log_std_adam: Adam,
    // Scratch.
    noise: Vec<f32>,
    choice: Vec<f32>,
    d_action: Vec<f32>,
    tape: Tape,
}

impl RecoveryPolicy {
    pub(super) fn new(config: &RecoveryConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = layer_sizes(obs, config.width, config.layers, action);
        Self {
            mean: Model::new(&sizes, config.rate as f32, rng),
            log_std: vec![(config.std as f32).ln(); action],
            log_std_grad: vec![0.0; action],
            log_std_adam: Adam::new(action, config.rate as f32),
            noise: Vec::new(),
            choice: Vec::new(),
            d_action: Vec::new(),
            tape: Tape::default(),
        }
    }

    /// One update on a minibatch's states. Gives the mean risk of its actions.
    pub(super) fn update(&mut self, batch: &Batch, risk: &mut RiskCritic, rng: &mut Rng) -> f64 {
        let loss = self.add_gradient(batch, risk, rng);
        self.mean.step();
        self.log_std_adam.step(&mut self.log_std, &self.log_std_grad);
        self.log_std_grad.fill(0.0);
        let least = (LEAST_STD as f32).ln();
        self.log_std.iter_mut().for_each(|l| *l = l.max(least));
        loss
    }

    /// Adds the loss's gradient in m and log σ.
    fn add_gradient(&mut self, batch: &Batch, risk: &mut RiskCritic, rng: &mut Rng) -> f64 {
        let (n, dim) = (batch.rows, self.log_std.len());
        for buffer in [&mut self.noise, &mut self.choice, &mut self.d_action] {
            buffer.resize(n * dim, 0.0);
        }
        rng.fill_normal(&mut self.noise);
        let means = self.mean.net.forward(&batch.state, n, &mut self.tape);
        squash(means, &self.log_std, Some(&self.noise), &mut self.choice);
        let loss = risk.mean_risk(&batch.state, &self.choice, &mut self.d_action);
        for i in 0..n * dim {
            // Clipped actions have no slope.
            let free = self.choice[i].abs() < 1.0;
            let d = if free { self.d_action[i] } else { 0.0 };
            self.log_std_grad[i % dim] += d * self.log_std[i % dim].exp() * self.noise[i];
            self.d_action[i] = d * (1.0 - means[i].tanh().powi(2));
        }
        let grad = Some(&mut self.mean.grad[..]);
        self.mean.net.backward(&batch.state, n, &mut self.tape, &self.d_action, grad, None);
        loss
    }

    /// Its action in `state`; without `explore` the mean. `tape` and `noise` are room to work in.
    pub(super) fn act(
        &self,
        state: &[f32],
        explore: Option<&mut Rng>,
        tape: &mut Tape,
        noise: &mut Vec<f32>,
        action: &mut [f32],
    ) {
        let means = self.mean.net.forward(state, 1, tape);
        let noise = explore.map(|rng| {
            noise.resize(action.len(), 0.0);
            rng.fill_normal(noise);
            &noise[..]
        });
        squash(means, &self.log_std, noise, action);
    }

    /// Numbers that learn.
    pub(super) fn parameters(&self) -> usize {
        self.mean.net.params.len() + self.log_std.len()
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.mean.save("policy/recovery", to);
        to.f32s("policy/recovery_log_std", &self.log_std, 1);
        self.log_std_adam.save("recovery_log_std", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        self.mean.load("policy/recovery", from)?;
        from.f32s_into("policy/recovery_log_std", &mut self.log_std)?;
        self.log_std_adam.load("recovery_log_std", from)
    }

    /// Reads back what acting needs.
    pub(super) fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/recovery", &mut self.mean.net.params)?;
        from.f32s_into("policy/recovery_log_std", &mut self.log_std)
    }
}

/// a = clip(tanh(m) + σ·noise) for rows of raw means; without noise, tanh(m).
fn squash(means: &[f32], log_std: &[f32], noise: Option<&[f32]>, out: &mut [f32]) {
    let dim = log_std.len();
    for (i, (a, m)) in out.iter_mut().zip(means).enumerate() {
        let shaken = noise.map_or(0.0, |noise| log_std[i % dim].exp() * noise[i]);
        *a = (m.tanh() + shaken).clamp(-1.0, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::nets::Mlp;

    use super::super::learner::tests::{ACTION, OBS, ROWS, fixture, risk_of};
    use super::*;

    #[test]
    fn the_recovery_policy_has_the_gradient_of_the_risk() {
        let (guard, _, batch) = fixture();
        let (mut risk, mut recovery) = (guard.risk.clone(), guard.recovery.clone());
        let value = recovery.add_gradient(&batch, &mut risk, &mut Rng::stream(2, "noise"));
        let noise = recovery.noise.clone();
        let loss = |net: &Mlp, log_std: &[f32]| {
            let row = |r: usize| {
                let state = &batch.state[r * OBS..][..OBS];
                let mut tape = Tape::default();
                let means = net.forward(state, 1, &mut tape);
                let action: Vec<f32> = (0..ACTION)
                    .map(|i| (means[i].tanh() + log_std[i].exp() * noise[r * ACTION + i]).clamp(-1.0, 1.0))
                    .collect();
                risk_of(guard.risk.critics.nets(), &[state, &action].concat())
            };
            (0..ROWS).map(row).sum::<f64>() / ROWS as f64
        };
        let frozen = &guard.recovery;
        assert!((value - loss(&frozen.mean.net, &frozen.log_std)).abs() < 1e-6);
        let params = [&frozen.mean.net.params[..], &frozen.log_std].concat();
        let gradient = [&recovery.mean.grad[..], &recovery.log_std_grad].concat();
        let n = frozen.mean.net.params.len();
        let at = |params: &[f32]| {
            let mut net = frozen.mean.net.clone();
            net.params.copy_from_slice(&params[..n]);
            loss(&net, &params[n..])
        };
        // Besides a ReLU, the clip may switch.
        let (smooth, steepest) = crate::differences::compare(&params, &gradient, 1e-4, 2e-4, at);
        assert!(smooth * 10 > 8 * params.len() && steepest > 0.01, "{smooth} of {}, {steepest}", params.len());
    }
}
