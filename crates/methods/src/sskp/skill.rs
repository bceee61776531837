//! The skill model of section 4.1: encoder q_μ(z | a_t:t+H−1), decoder p_ν(a_t:t+H−1 | z) and prior q_ψ(z | s_t), after
//! SPiRL (Pertsch et al. 2021).
//!
//! For windows of H actions and the state they start in, the model minimises
//!
//! ```math
//! L = \tfrac12\, \overline{(a - \hat a)^2} + \beta\, \overline{\mathrm{KL}\left(q_\mu(z \mid a) \,\|\, N(0, 1)\right)}
//!     - \overline{\log q_\psi(\mathrm{stop}(z) \mid s)}
//! ```
//!
//! with means over rows, steps and coordinates in the first two terms, as SPiRL has them, and the skills of the last term
//! stopped: the prior follows the encoder and never pulls it. The decoder is a module of its own: [`super::decoder`].

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::lstm::{Lstm, LstmTape};
use sskp_blocks::nets::standardiser::Standardiser;
use sskp_blocks::nets::{Adam, Mlp, Tape, gaussian, layer_sizes};
use sskp_blocks::rng::Rng;

use super::config::SkillConfig;
use super::decoder::Decoder;

/// A linear layer, or the start state: parameters that learn by themselves.
#[derive(Clone, Debug)]
pub(super) struct Learnt<T> {
    pub part: T,
    pub grad: Vec<f32>,
    pub adam: Adam,
}

impl<T> Learnt<T> {
    pub fn new(part: T, n: usize, rate: f64) -> Self {
        Self { part, grad: vec![0.0; n], adam: Adam::new(n, rate as f32) }
    }
    pub fn step(&mut self, params: impl FnOnce(&mut T) -> &mut [f32]) {
        self.adam.step(params(&mut self.part), &self.grad);
        self.grad.fill(0.0);
    }
}

impl Learnt<Mlp> {
    pub fn mlp(net: Mlp, rate: f64) -> Self {
        let n = net.params.len();
        Self::new(net, n, rate)
    }
}

impl Learnt<Lstm> {
    pub fn lstm(cell: Lstm, rate: f64) -> Self {
        let n = cell.params.len();
        Self::new(cell, n, rate)
    }
}

/// Encoder, decoder and prior.
#[derive(Clone, Debug)]
pub struct SkillModel {
    config: SkillConfig,
    action: usize,
    encoder: Learnt<Lstm>,
    encoder_head: Learnt<Mlp>,
    /// p_ν.
    pub decoder: Decoder,
    prior: Learnt<Mlp>,
    /// States are standardised with the demonstrations' mean and deviation, and clipped.
    pub standardiser: Standardiser,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    encoder: LstmTape,
    encoder_head: Tape,
    prior: Tape,
    z: Vec<f32>,
    actions: Vec<f32>,
    d_z: Vec<f32>,
    d_head: Vec<f32>,
    d_prior: Vec<f32>,
    d_h: Vec<f32>,
}

/// The three terms of the loss, and the held-out figures reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SkillLoss {
    /// Mean of (a − â)² over rows, steps and coordinates.
    pub reconstruction: f64,
    /// KL(q_μ ‖ N(0, 1)) per row, summed over coordinates.
    pub kl: f64,
    /// log q_ψ(z | s) per row.
    pub prior_log_prob: f64,
}

/// A minibatch of windows: actions `[H][rows, action]` and standardised states `[H][rows, obs]`, step by step.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// Number of windows.
    pub rows: usize,
    /// Actions, all rows of step 0 first.
    pub actions: Vec<f32>,
    /// States, all rows of the start first.
    pub states: Vec<f32>,
}

impl SkillModel {
    /// A fresh model for a robot with these sizes.
    pub fn new(config: SkillConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let (h, d, rate) = (config.hidden, config.dim, config.rate);
        let encoder = Learnt::lstm(Lstm::new(action, h, rng), rate);
        let encoder_head = Learnt::mlp(Mlp::new(&[h, 2 * d], rng), rate);
        let decoder = Decoder::new(&config, obs, action, rng);
        let prior = layer_sizes(obs, config.prior_width, config.prior_layers, 2 * d);
        let prior = Learnt::mlp(Mlp::new(&prior, rng), rate);
        Self {
            action,
            encoder,
            encoder_head,
            decoder,
            prior,
            standardiser: Standardiser::new(obs),
            scratch: Scratch::default(),
            config,
        }
    }

    /// Its settings.
    pub fn config(&self) -> &SkillConfig {
        &self.config
    }
    /// Length of an action.
    pub fn action_dim(&self) -> usize {
        self.action
    }
    /// Numbers that learn.
    pub fn parameters(&mut self) -> usize {
        let decoder: usize = self.decoder.parts().iter().map(|(_, params, _)| params.len()).sum();
        self.encoder.grad.len() + self.encoder_head.grad.len() + decoder + self.prior.grad.len()
    }
    /// The prior's network on standardised states: the start and the anchor of the skill policy (section 4.2.2).
    pub fn prior_net(&self) -> &Mlp {
        &self.prior.part
    }

    /// q_ψ(z | s) for standardised states: heads `[mean, log σ]`.
    pub fn prior<'t>(&self, states: &[f32], rows: usize, tape: &'t mut Tape) -> &'t [f32] {
        self.prior.part.forward(states, rows, tape)
    }

    /// q_μ(z | a) for actions laid out as in [`Windows`]: heads `[mean, log σ]`. Any number of steps may be given.
    pub fn encode(&mut self, actions: &[f32], rows: usize, steps: usize) -> &[f32] {
        let s = &mut self.scratch;
        self.encoder.part.begin(None, rows, &mut s.encoder);
        for t in 0..steps {
            let x = &actions[t * rows * self.action..][..rows * self.action];
            self.encoder.part.step_forward(t, x, rows, &mut s.encoder);
        }
        self.encoder_head.part.forward(s.encoder.h(steps - 1), rows, &mut s.encoder_head)
    }

    /// Adds the gradient of the loss on `windows` with this `noise[rows, dim]`; gives its terms.
    pub fn gradient(&mut self, windows: &Windows, noise: &[f32]) -> SkillLoss {
        let (n, d, a, steps) = (windows.rows, self.config.dim, self.action, self.config.horizon);
        let beta = self.config.beta as f32;
        self.encode(&windows.actions, n, steps);
        let mut s = std::mem::take(&mut self.scratch);

        // Forward: z ~ q_μ, then the decoder and the prior.
        let mut z = std::mem::take(&mut s.z);
        z.resize(n * d, 0.0);
        gaussian::sample(s.encoder_head.output(), noise, d, &mut z);
        self.decoder.forward(&z, &windows.states, n, &mut s.actions);
        let start = &windows.states[..windows.states.len() / steps];
        self.prior.part.forward(start, n, &mut s.prior);

        // Prior: −mean log q_ψ(z | s); z is data here.
        let mut loss = SkillLoss::default();
        s.d_prior.resize(n * 2 * d, 0.0);
        for row in 0..n {
            let head = &s.prior.output()[row * 2 * d..][..2 * d];
            let z = &z[row * d..][..d];
            loss.prior_log_prob += f64::from(gaussian::log_prob(head, z)) / n as f64;
            gaussian::nll_backward(head, z, 1.0 / n as f32, &mut s.d_prior[row * 2 * d..][..2 * d]);
        }
        self.prior.part.backward(start, n, &mut s.prior, &s.d_prior, Some(&mut self.prior.grad), None);

        // Decoder: ½(a − â)², whose gradient in â is the error.
        let scale = 1.0 / (n * steps * a) as f32;
        for (action, wanted) in s.actions.iter_mut().zip(&windows.actions) {
            let error = *action - wanted;
            loss.reconstruction += f64::from(error * error) * f64::from(scale);
            *action = error * scale;
        }
        s.d_z.resize(n * d, 0.0);
        self.decoder.backward(&s.actions, n, &mut s.d_z);

        // Encoder: through z, and β·KL to the standard normal.
        s.d_h.resize(n * self.config.hidden, 0.0);
        s.d_head.resize(n * 2 * d, 0.0);
        let standard = vec![0.0; 2 * d];
        gaussian::sample_backward(s.encoder_head.output(), noise, d, &s.d_z, &mut s.d_head);
        for row in 0..n {
            let head = &s.encoder_head.output()[row * 2 * d..][..2 * d];
            loss.kl += f64::from(gaussian::kl(head, &standard)) / n as f64;
            let weight = beta / (n * d) as f32;
            gaussian::kl_backward(head, &standard, weight, &mut s.d_head[row * 2 * d..][..2 * d]);
        }
        let Scratch { encoder, encoder_head, d_head, d_h, .. } = &mut s;
        let grad = Some(&mut self.encoder_head.grad[..]);
        self.encoder_head.part.backward(encoder.h(steps - 1), n, encoder_head, d_head, grad, Some(d_h));
        for t in (0..steps).rev() {
            // Only the last step's output is used.
            let d_h = (t == steps - 1).then_some(&d_h[..]);
            self.encoder.part.step_backward(t, d_h, n, encoder, Some(&mut self.encoder.grad), None);
        }
        s.z = z;
        self.scratch = s;
        loss
    }

    /// One Adam step of every part.
    pub fn step(&mut self) {
        self.encoder.step(|p| &mut p.params);
        self.encoder_head.step(|p| &mut p.params);
        self.decoder.step();
        self.prior.step(|p| &mut p.params);
    }

    /// Forgets the gradient that [`Self::gradient`] has added.
    pub(super) fn clear_gradient(&mut self) {
        for grad in [&mut self.encoder.grad, &mut self.encoder_head.grad, &mut self.prior.grad] {
            grad.fill(0.0);
        }
        self.decoder.parts().into_iter().for_each(|(_, _, grad)| grad.fill(0.0));
    }

    /// Adds the model to a checkpoint; acting needs decoder, prior and standardiser.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.lstm("policy/skill.encoder", &self.encoder.part);
        to.mlp("policy/skill.encoder_head", &self.encoder_head.part);
        self.decoder.save(to);
        to.mlp("policy/skill.prior", &self.prior.part);
        self.standardiser.save("policy/skill.standardiser", to);
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/skill.encoder", &mut self.encoder.part.params)?;
        from.f32s_into("policy/skill.encoder_head", &mut self.encoder_head.part.params)?;
        self.decoder.load(from)?;
        from.f32s_into("policy/skill.prior", &mut self.prior.part.params)?;
        self.standardiser.load("policy/skill.standardiser", from)
    }

    /// Adds the optimisers too: what a fit under way needs beside the model.
    pub(super) fn save_optimisers<'a>(&'a self, to: &mut Saver<'a>) {
        let own =
            [("encoder", &self.encoder.adam), ("encoder_head", &self.encoder_head.adam), ("prior", &self.prior.adam)];
        let all = own.into_iter().chain(self.decoder.optimisers());
        all.for_each(|(name, adam)| adam.save(&format!("skill.{name}"), to));
    }

    /// Reads them back.
    pub(super) fn load_optimisers(&mut self, from: &Loader) -> Result<()> {
        let own = [
            ("encoder", &mut self.encoder.adam),
            ("encoder_head", &mut self.encoder_head.adam),
            ("prior", &mut self.prior.adam),
        ];
        let mut all = own.into_iter().chain(self.decoder.optimisers_mut());
        all.try_for_each(|(name, adam)| adam.load(&format!("skill.{name}"), from))
    }
}

#[cfg(test)]
mod tests {
    use super::super::decoder::DecoderKind;
    use super::*;

    fn tiny(decoder: DecoderKind) -> SkillConfig {
        SkillConfig {
            decoder,
            horizon: 3,
            dim: 2,
            hidden: 4,
            prior_width: 5,
            prior_layers: 1,
            beta: 0.1,
            batch: 2,
            ..Default::default()
        }
    }

    /// The loss as the module's documentation states it, computed from the model's outputs alone.
    fn loss(model: &mut SkillModel, windows: &Windows, noise: &[f32]) -> f64 {
        let (n, d, h, a) = (windows.rows, model.config.dim, model.config.horizon, model.action);
        let head = model.encode(&windows.actions, n, h).to_vec();
        let mut z = vec![0.0; n * d];
        gaussian::sample(&head, noise, d, &mut z);
        let mut actions = Vec::new();
        model.decoder.forward(&z, &windows.states, n, &mut actions);
        let square = |(x, y): (&f32, &f32)| 0.5 * f64::from(x - y).powi(2);
        let reconstruction = actions.iter().zip(&windows.actions).map(square).sum::<f64>() / (n * h * a) as f64;
        let mut kl = 0.0;
        for row in head.chunks_exact(2 * d) {
            for i in 0..d {
                let (mean, log_std) = (f64::from(row[i]), f64::from(row[d + i]));
                kl += 0.5 * ((2.0 * log_std).exp() + mean * mean - 1.0) - log_std;
            }
        }
        reconstruction + f64::from(model.config.beta as f32) * kl / (n * d) as f64
    }

    fn fixture(decoder: DecoderKind) -> (SkillModel, Windows, Vec<f32>) {
        let mut rng = Rng::stream(3, "skill");
        let model = SkillModel::new(tiny(decoder), 2, 2, &mut rng);
        let mut windows = Windows { rows: 2, actions: vec![0.0; 3 * 2 * 2], states: vec![0.0; 3 * 4] };
        rng.fill_normal(&mut windows.actions);
        rng.fill_normal(&mut windows.states);
        let mut noise = vec![0.0; 4];
        rng.fill_normal(&mut noise);
        (model, windows, noise)
    }

    #[test]
    fn gradients_of_encoder_and_either_decoder_agree_with_finite_differences() {
        for (decoder, decoders) in [(DecoderKind::OpenLoop, 3), (DecoderKind::ClosedLoop, 1)] {
            let (mut model, windows, noise) = fixture(decoder);
            let terms = model.gradient(&windows, &noise);
            let stated = loss(&mut model, &windows, &noise);
            let beta = f64::from(model.config.beta as f32);
            assert!((0.5 * terms.reconstruction + beta * terms.kl / 2.0 - stated).abs() < 1e-5);
            for part in 0..2 + decoders {
                // The parameters of this part, and the gradient just computed.
                fn find(model: &mut SkillModel, part: usize) -> (&mut [f32], &mut [f32]) {
                    match part {
                        0 => (&mut model.encoder.part.params, &mut model.encoder.grad),
                        1 => (&mut model.encoder_head.part.params, &mut model.encoder_head.grad),
                        _ => {
                            let (_, params, grad) = model.decoder.parts().swap_remove(part - 2);
                            (params, grad)
                        }
                    }
                }
                let grad = find(&mut model, part).1.to_vec();
                let mut steepest = 0.0f64;
                for (i, got) in grad.iter().enumerate() {
                    let step = 1e-3f32;
                    let old = find(&mut model, part).0[i];
                    find(&mut model, part).0[i] = old + step;
                    let up = loss(&mut model, &windows, &noise);
                    find(&mut model, part).0[i] = old - step;
                    let down = loss(&mut model, &windows, &noise);
                    find(&mut model, part).0[i] = old;
                    let here = loss(&mut model, &windows, &noise);
                    let expected = (up - down) / (2.0 * f64::from(step));
                    // Where a unit of the closed-loop decoder switches on between the two, its slopes on both sides differ.
                    let bend = ((up - here) - (here - down)).abs() / f64::from(step);
                    let wrong = (expected - f64::from(*got)).abs() - 0.5 * bend;
                    assert!(wrong < 2e-3 * expected.abs().max(0.1), "{decoder:?} {part} {i}: {got}, {expected}");
                    steepest = steepest.max(expected.abs());
                }
                assert!(steepest > 1e-3, "{decoder:?} {part}: no gradient to compare");
            }
        }
    }

    #[test]
    fn playing_a_skill_gives_the_actions_it_was_trained_on() {
        for decoder in [DecoderKind::OpenLoop, DecoderKind::ClosedLoop] {
            let (mut model, windows, noise) = fixture(decoder);
            let mut actions = Vec::new();
            model.decoder.forward(&noise, &windows.states, 2, &mut actions);
            for row in 0..2 {
                model.decoder.begin(&noise[row * 2..][..2]);
                for k in 0..3 {
                    let mut action = [0.0; 2];
                    model.decoder.act(k, &windows.states[(k * 2 + row) * 2..][..2], &mut action);
                    let expected = &actions[(k * 2 + row) * 2..][..2];
                    for (got, wanted) in action.iter().zip(expected) {
                        assert!((got - wanted.clamp(-1.0, 1.0)).abs() < 1e-6, "{decoder:?}: {got} {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_prior_learns_the_skills_and_never_pulls_the_encoder() {
        let (mut model, windows, noise) = fixture(DecoderKind::OpenLoop);
        model.gradient(&windows, &noise);
        let encoder = model.encoder.grad.clone();
        // Another prior, the same encoder gradient.
        let (mut other, ..) = fixture(DecoderKind::OpenLoop);
        other.prior.part.params.iter_mut().for_each(|p| *p *= -3.0);
        other.gradient(&windows, &noise);
        assert_eq!(encoder, other.encoder.grad);
        assert_ne!(model.prior.grad, other.prior.grad);
    }
}
