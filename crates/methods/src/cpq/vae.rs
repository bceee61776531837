//! The conditional autoencoder that tells CPQ which actions are unlike those of its data.
//!
//! Encoder q(z | s, a), decoder â = tanh(d(s, z)), 2·(action dimension) latents, and the loss
//!
//! ```math
//! L = \overline{(a - \hat a)^2} + \beta\, \overline{\mathrm{KL}\left(q(z \mid s, a) \,\|\, N(0, 1)\right)},
//! ```
//!
//! both means over rows and coordinates. On actions like the data the encoder has been taught to keep that divergence small; on
//! others nothing holds it, so a large one marks an action as out of distribution.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::{Model, Tape, layer_sizes};
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;

/// Settings of the autoencoder; the defaults are OSRL's but for β.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaeConfig {
    /// Width of the hidden layers of encoder and decoder.
    pub width: usize,
    /// Number of hidden layers of each.
    pub layers: usize,
    /// Learning rate.
    pub rate: f64,
    /// β, the weight of the divergence.
    pub beta: f64,
}

impl Default for VaeConfig {
    fn default() -> Self {
        // OSRL's β is 0.5. Actions of a demonstrator hardly vary within a state (variance 0.05 to 0.1 on the robots): there it is cheaper to encode
        // nothing than to rebuild them, every divergence falls to 0, and foreign actions are not noticed (AUC 0.6 on Ant and Hopper; 0.87 with this).
        Self { width: 400, layers: 2, rate: 1e-3, beta: 0.05 }
    }
}

/// Bounds of the encoder's log σ, OSRL's.
const LOG_STD: std::ops::RangeInclusive<f32> = -4.0..=15.0;

fn log_std(raw: f32) -> f32 {
    raw.clamp(*LOG_STD.start(), *LOG_STD.end())
}

/// What the loss of a minibatch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VaeLoss {
    /// Mean of (a − â)².
    pub reconstruction: f64,
    /// Mean divergence.
    pub kl: f64,
}

/// Encoder and decoder with what trains them.
#[derive(Clone, Debug)]
pub struct Vae {
    config: VaeConfig,
    obs: usize,
    action: usize,
    encoder: Model,
    decoder: Model,
    // Scratch.
    noise: Vec<f32>,
    input: Vec<f32>,
    d_input: Vec<f32>,
    d_out: Vec<f32>,
    d_head: Vec<f32>,
    encoder_tape: Tape,
    decoder_tape: Tape,
}

impl Vae {
    /// A fresh autoencoder for a robot with these sizes.
    pub fn new(config: VaeConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = |inputs: usize, outputs: usize| layer_sizes(inputs, config.width, config.layers, outputs);
        let (rate, latent) = (config.rate as f32, 2 * action);
        Self {
            encoder: Model::new(&sizes(obs + action, 2 * latent), rate, rng),
            decoder: Model::new(&sizes(obs + latent, action), rate, rng),
            config,
            obs,
            action,
            noise: Vec::new(),
            input: Vec::new(),
            d_input: Vec::new(),
            d_out: Vec::new(),
            d_head: Vec::new(),
            encoder_tape: Tape::default(),
            decoder_tape: Tape::default(),
        }
    }

    /// Numbers that learn.
    pub fn parameters(&self) -> usize {
        self.encoder.net.params.len() + self.decoder.net.params.len()
    }

    fn latent(&self) -> usize {
        2 * self.action
    }

    /// Divergences of rows `[s, a]` from the standard normal, the mean over latents, into `out`: how unlike the data an action is.
    pub fn divergence(&mut self, state_action: &[f32], out: &mut [f32]) {
        let latent = self.latent();
        let heads = self.encoder.net.forward(state_action, out.len(), &mut self.encoder_tape);
        for (kl, head) in out.iter_mut().zip(heads.chunks_exact(2 * latent)) {
            *kl = divergence(head);
        }
    }

    /// One update on a minibatch.
    pub fn update(&mut self, batch: &Batch, rng: &mut Rng) -> VaeLoss {
        self.noise.resize(batch.rows * self.latent(), 0.0);
        rng.fill_normal(&mut self.noise);
        let loss = self.gradient(batch);
        self.encoder.step();
        self.decoder.step();
        loss
    }

    /// Adds the gradient of the loss with the noise that is there.
    fn gradient(&mut self, batch: &Batch) -> VaeLoss {
        let (n, obs, action, latent) = (batch.rows, self.obs, self.action, self.latent());
        let heads = self.encoder.net.forward(&batch.state_action, n, &mut self.encoder_tape);
        self.input.resize(n * (obs + latent), 0.0);
        for (row, input) in self.input.chunks_exact_mut(obs + latent).enumerate() {
            let (head, noise) = (&heads[row * 2 * latent..][..2 * latent], &self.noise[row * latent..][..latent]);
            input[..obs].copy_from_slice(&batch.state[row * obs..][..obs]);
            for i in 0..latent {
                input[obs + i] = head[i] + log_std(head[latent + i]).exp() * noise[i];
            }
        }
        let out = self.decoder.net.forward(&self.input, n, &mut self.decoder_tape);
        let mut loss = VaeLoss::default();
        let scale = 1.0 / (n * action) as f32;
        self.d_out.resize(n * action, 0.0);
        for row in 0..n {
            let wanted = &batch.state_action[row * (obs + action) + obs..][..action];
            for i in 0..action {
                let rebuilt = out[row * action + i].tanh();
                let error = rebuilt - wanted[i];
                loss.reconstruction += f64::from(error * error * scale);
                self.d_out[row * action + i] = 2.0 * scale * error * (1.0 - rebuilt * rebuilt);
            }
        }
        self.d_input.resize(n * (obs + latent), 0.0);
        let (tape, grad) = (&mut self.decoder_tape, Some(&mut self.decoder.grad[..]));
        self.decoder.net.backward(&self.input, n, tape, &self.d_out, grad, Some(&mut self.d_input));

        let heads = self.encoder_tape.output();
        let weight = self.config.beta as f32 / (n * latent) as f32;
        self.d_head.resize(n * 2 * latent, 0.0);
        for (row, d_head) in self.d_head.chunks_exact_mut(2 * latent).enumerate() {
            let head = &heads[row * 2 * latent..][..2 * latent];
            let d_z = &self.d_input[row * (obs + latent) + obs..][..latent];
            let noise = &self.noise[row * latent..][..latent];
            loss.kl += f64::from(divergence(head)) / n as f64;
            for i in 0..latent {
                let raw = head[latent + i];
                let std = log_std(raw).exp();
                d_head[i] = d_z[i] + weight * head[i];
                let d_log_std = d_z[i] * std * noise[i] + weight * (std * std - 1.0);
                d_head[latent + i] = if LOG_STD.contains(&raw) { d_log_std } else { 0.0 };
            }
        }
        let (tape, grad) = (&mut self.encoder_tape, Some(&mut self.encoder.grad[..]));
        self.encoder.net.backward(&batch.state_action, n, tape, &self.d_head, grad, None);
        loss
    }

    /// Adds everything to a checkpoint.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.encoder.save("weights/vae_encoder", to);
        self.decoder.save("weights/vae_decoder", to);
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        self.encoder.load("weights/vae_encoder", from)?;
        self.decoder.load("weights/vae_decoder", from)
    }
}

/// Mean over coordinates of KL(N(m, σ²) ‖ N(0, 1)) = ½(m² + σ² − 1) − log σ.
fn divergence(head: &[f32]) -> f32 {
    let dim = head.len() / 2;
    let one = |i: usize| {
        let log_std = log_std(head[dim + i]);
        0.5 * (head[i] * head[i] + (2.0 * log_std).exp() - 1.0) - log_std
    };
    (0..dim).map(one).sum::<f32>() / dim as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::replay::Replay;

    fn fixture(beta: f64) -> (Vae, Batch) {
        let mut rng = Rng::stream(1, "vae");
        let mut vae = Vae::new(VaeConfig { width: 9, layers: 2, rate: 3e-3, beta }, 3, 2, &mut rng);
        let mut replay = Replay::new(3, 2, 5);
        for i in 0..5 {
            let mut row = [0.0; 3];
            rng.fill_normal(&mut row);
            replay.push(&row, &[0.3 * i as f32 - 0.6, 0.5], 0.0, None, &row);
        }
        let mut batch = Batch::default();
        replay.sample(5, &mut rng, &mut batch);
        vae.noise.resize(5 * 4, 0.0);
        rng.fill_normal(&mut vae.noise);
        (vae, batch)
    }

    #[test]
    fn the_divergence_by_hand() {
        // m = 1, σ = 1: ½; m = 0, σ = 2: ½·3 − ln 2 = 0.8068528. Their mean.
        let kl = divergence(&[1.0, 0.0, 0.0, std::f32::consts::LN_2]);
        assert!((kl - (0.5 + 0.806_852_8) / 2.0).abs() < 1e-6);
        assert_eq!(divergence(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (mut vae, batch) = fixture(0.7);
        let frozen = vae.clone();
        let loss = vae.gradient(&batch);
        let total = |encoder: &[f32], decoder: &[f32]| {
            let mut at = frozen.clone();
            at.encoder.net.params.copy_from_slice(encoder);
            at.decoder.net.params.copy_from_slice(decoder);
            let loss = at.gradient(&batch);
            loss.reconstruction + 0.7 * loss.kl
        };
        // The loss itself, written out anew for one row.
        let mut tape = Tape::default();
        let head = frozen.encoder.net.forward(&batch.state_action[..5], 1, &mut tape);
        let z: Vec<f32> = (0..4).map(|i| head[i] + head[4 + i].exp() * frozen.noise[i]).collect();
        let mut tape = Tape::default();
        let input = [&batch.state[..3], &z].concat();
        let rebuilt = frozen.decoder.net.forward(&input, 1, &mut tape);
        let error: f64 =
            (0..2).map(|i| f64::from(rebuilt[i].tanh() - batch.state_action[3 + i]).powi(2)).sum::<f64>() / 2.0;
        let mut one = batch.clone();
        one.rows = 1;
        one.state.truncate(3);
        one.state_action.truncate(5);
        assert!((frozen.clone().gradient(&one).reconstruction - error).abs() < 1e-6);

        let n = frozen.encoder.net.params.len();
        let params = [&frozen.encoder.net.params[..], &frozen.decoder.net.params].concat();
        let gradient = [&vae.encoder.grad[..], &vae.decoder.grad].concat();
        let at = |params: &[f32]| total(&params[..n], &params[n..]);
        let (smooth, steepest) = crate::differences::compare(&params, &gradient, 5e-4, 1e-3, at);
        assert!(smooth * 10 > 8 * params.len() && steepest > 0.05, "{smooth} of {}, {steepest}", params.len());
        assert!(loss.kl > 0.0);
    }

    #[test]
    fn actions_unlike_the_data_diverge_more() {
        // Data: a = (0.5·s₀, −0.4) and a little noise.
        let mut rng = Rng::stream(2, "vae");
        let mut vae = Vae::new(VaeConfig { width: 64, ..VaeConfig::default() }, 3, 2, &mut rng);
        let mut replay = Replay::new(3, 2, 2000);
        for _ in 0..2000 {
            let mut row = [0.0; 5];
            rng.fill_normal(&mut row);
            let action = [0.5 * row[0].clamp(-1.5, 1.5) + 0.05 * row[3], -0.4 + 0.05 * row[4]];
            replay.push(&row[..3], &action, 0.0, None, &row[..3]);
        }
        let mut batch = Batch::default();
        for _ in 0..1500 {
            replay.sample(64, &mut rng, &mut batch);
            vae.update(&batch, &mut rng);
        }
        replay.sample(500, &mut rng, &mut batch);
        let (mut like, mut unlike) = (vec![0.0; 500], vec![0.0; 500]);
        vae.divergence(&batch.state_action, &mut like);
        for row in batch.state_action.chunks_exact_mut(5) {
            rng.fill_action(&mut row[3..]);
        }
        vae.divergence(&batch.state_action, &mut unlike);
        let scores = |kls: &[f32]| kls.iter().map(|k| f64::from(*k)).collect::<Vec<_>>();
        let auc = sskp_blocks::judge::auc(&scores(&unlike), &scores(&like)).unwrap();
        assert!(auc > 0.8, "{auc}");
    }
}
