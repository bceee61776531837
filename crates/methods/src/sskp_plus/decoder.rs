//! The decoder's update: up the reward critics, down the risk critics, not far from the reference.
//!
//! ```text
//! L(ν) = mean over s, z ~ π_θ(·|s) of  −(1 − γ)·L(Q₁, Q₂)(s, a) + λ·C(s, a) + w·m·|a − ref(s, z)|²,  a = dec_ν(s, z)
//! ref ← ref + (f/m)·(dec − ref)
//! ```
//! m is the caution of [`super::caution`].

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::{Adam, Mlp, Tape, gaussian, polyak};
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::join;

use super::config::AdaptConfig;
use super::critics::Critics;

/// What holds the decoder while it learns.
pub(super) struct Teacher {
    obs: usize,
    dim: usize,
    action: usize,
    pub(super) reference: Mlp,
    pub(super) slow: Mlp,
    adam: Adam,
    pub(super) grad: Vec<f32>,
    // Scratch.
    noise: Vec<f32>,
    pub(super) skills: Vec<f32>,
    input: Vec<f32>,
    pub(super) actions: Vec<f32>,
    d_action: Vec<f32>,
    tapes: [Tape; 3],
}

/// The skill policy and the box of its skills.
pub(super) struct SkillPolicy<'a> {
    pub(super) net: &'a Mlp,
    pub(super) bound: &'a [f32],
}

impl Teacher {
    pub(super) fn new(config: &AdaptConfig, decoder: &Mlp, dim: usize) -> Self {
        Self {
            obs: decoder.inputs() - dim,
            dim,
            action: decoder.outputs(),
            reference: decoder.clone(),
            slow: decoder.clone(),
            adam: Adam::new(decoder.params.len(), config.decoder_rate as f32),
            grad: vec![0.0; decoder.params.len()],
            noise: Vec::new(),
            skills: Vec::new(),
            input: Vec::new(),
            actions: Vec::new(),
            d_action: Vec::new(),
            tapes: Default::default(),
        }
    }

    /// Skills of the policy in these states.
    pub(super) fn choose(&mut self, policy: &SkillPolicy, state: &[f32], rng: &mut Rng) {
        let n = state.len() / self.obs;
        self.noise.resize(n * self.dim, 0.0);
        rng.fill_normal(&mut self.noise);
        self.skills.resize(n * self.dim, 0.0);
        let head = policy.net.forward(state, n, &mut self.tapes[2]);
        gaussian::sample(head, &self.noise, self.dim, &mut self.skills);
        for z in self.skills.chunks_exact_mut(self.dim) {
            z.iter_mut().zip(policy.bound).for_each(|(z, bound)| *z = z.clamp(-bound, *bound));
        }
    }

    /// Actions of the slow decoder in the next states of a minibatch, with TD3's noise.
    pub(super) fn next_actions(&mut self, config: &AdaptConfig, policy: &SkillPolicy, state: &[f32], rng: &mut Rng) {
        let n = state.len() / self.obs;
        self.choose(policy, state, rng);
        join(&mut self.input, state, self.obs, &self.skills, self.dim);
        let out = self.slow.forward(&self.input, n, &mut self.tapes[0]);
        self.noise.resize(n * self.action, 0.0);
        rng.fill_normal(&mut self.noise);
        let (sigma, cut) = (config.target_noise as f32, config.target_clip as f32);
        self.actions.clear();
        let noisy = |(a, e): (&f32, &f32)| (a.clamp(-1.0, 1.0) + (sigma * e).clamp(-cut, cut)).clamp(-1.0, 1.0);
        self.actions.extend(out.iter().zip(&self.noise).map(noisy));
    }

    /// Adds the gradient of L on these states and the skills chosen; gives L and the mean squared distance from the reference.
    pub(super) fn gradient(
        &mut self,
        config: &AdaptConfig,
        decoder: &Mlp,
        critics: &mut Critics,
        state: &[f32],
        [price, hold]: [f32; 2],
    ) -> [f64; 2] {
        let n = state.len() / self.obs;
        join(&mut self.input, state, self.obs, &self.skills, self.dim);
        let [tape, other, _] = &mut self.tapes;
        let out = decoder.forward(&self.input, n, tape);
        let reference = self.reference.forward(&self.input, n, other);
        self.actions.clear();
        self.actions.extend(out.iter().map(|a| a.clamp(-1.0, 1.0)));
        let loss = critics.slope(config, price, state, &self.actions, &mut self.d_action);
        let (scale, mut moved) = (1.0 / n as f32, 0.0);
        for (d, (a, r)) in self.d_action.iter_mut().zip(out.iter().zip(reference)) {
            // Descent goes against d: no further out where the robot's range has ended.
            if (*a >= 1.0 && *d < 0.0) || (*a <= -1.0 && *d > 0.0) {
                *d = 0.0;
            }
            moved += f64::from(a - r).powi(2);
            *d = scale * (*d + 2.0 * hold * (a - r));
        }
        decoder.backward(&self.input, n, tape, &self.d_action, Some(&mut self.grad), None);
        [loss + f64::from(hold) * moved / n as f64, moved / (n * self.action) as f64]
    }

    /// One step of the decoder, and those of its followers.
    pub(super) fn step(&mut self, config: &AdaptConfig, decoder: &mut Mlp, follow: f32) {
        self.adam.step(&mut decoder.params, &self.grad);
        self.grad.fill(0.0);
        polyak(&mut self.slow.params, &decoder.params, config.tau as f32);
        polyak(&mut self.reference.params, &decoder.params, follow);
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.f32s("weights/decoder_reference", &self.reference.params, 1);
        to.f32s("weights/decoder_slow", &self.slow.params, 1);
        self.adam.save("decoder_online", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("weights/decoder_reference", &mut self.reference.params)?;
        from.f32s_into("weights/decoder_slow", &mut self.slow.params)?;
        self.adam.load("decoder_online", from)
    }
}
