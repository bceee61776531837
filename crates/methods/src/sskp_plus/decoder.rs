//! The decoder's update: up the reward critics, down the risk critics, not far from the reference.
//!
//! ```text
//! L(ν) = mean over s, z ~ π_θ(·|s) of  −(1 − γ)·L_k(Q)(s, a) + λ·max(0, C(s, a) − ε) + w·m·max(1, M)·|a − ref(s, z)|²,  a = dec_ν(s, z)
//! dec ← dec + τ·(dec_ν − dec),  the decoder that is played
//! ref ← ref + (f/m)·(dec_ν − ref) where M < 1, ref + f·(M − 1)·(offline − ref) where M > 1
//! ```
//! m and M are those of [`super::caution`].

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::{Adam, Mlp, Tape, gaussian, polyak};
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::join;

use super::caution::Weights;
use super::config::AdaptConfig;
use super::critics::Critics;

/// What holds the decoder while it learns.
pub(super) struct Teacher {
    obs: usize,
    dim: usize,
    action: usize,
    /// What learns; what is played follows it.
    pub(super) net: Mlp,
    pub(super) reference: Mlp,
    /// What all of them began as.
    offline: Mlp,
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
    /// The share of its deviation that skills are drawn with.
    pub(super) spread: f32,
}

impl Teacher {
    pub(super) fn new(config: &AdaptConfig, decoder: &Mlp, dim: usize) -> Self {
        Self {
            obs: decoder.inputs() - dim,
            dim,
            action: decoder.outputs(),
            net: decoder.clone(),
            reference: decoder.clone(),
            offline: decoder.clone(),
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
        self.noise.iter_mut().for_each(|e| *e *= policy.spread);
        self.skills.resize(n * self.dim, 0.0);
        let head = policy.net.forward(state, n, &mut self.tapes[2]);
        gaussian::sample(head, &self.noise, self.dim, &mut self.skills);
        for z in self.skills.chunks_exact_mut(self.dim) {
            z.iter_mut().zip(policy.bound).for_each(|(z, bound)| *z = z.clamp(-bound, *bound));
        }
    }

    /// Actions of the decoder that is played in the next states of a minibatch, with TD3's noise.
    pub(super) fn next_actions(
        &mut self,
        config: &AdaptConfig,
        played: &Mlp,
        policy: &SkillPolicy,
        state: &[f32],
        rng: &mut Rng,
    ) {
        let n = state.len() / self.obs;
        self.choose(policy, state, rng);
        join(&mut self.input, state, self.obs, &self.skills, self.dim);
        let out = played.forward(&self.input, n, &mut self.tapes[0]);
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
        critics: &mut Critics,
        state: &[f32],
        weights: Weights,
    ) -> [f64; 2] {
        let n = state.len() / self.obs;
        join(&mut self.input, state, self.obs, &self.skills, self.dim);
        let [tape, other, _] = &mut self.tapes;
        let out = self.net.forward(&self.input, n, tape);
        let reference = self.reference.forward(&self.input, n, other);
        self.actions.clear();
        self.actions.extend(out.iter().map(|a| a.clamp(-1.0, 1.0)));
        let loss = critics.slope(config, weights, state, &self.actions, &mut self.d_action);
        let (scale, mut moved) = (1.0 / n as f32, 0.0);
        for (d, (a, r)) in self.d_action.iter_mut().zip(out.iter().zip(reference)) {
            // Descent goes against d: no further out where the robot's range has ended.
            if (*a >= 1.0 && *d < 0.0) || (*a <= -1.0 && *d > 0.0) {
                *d = 0.0;
            }
            moved += f64::from(a - r).powi(2);
            *d = scale * (*d + 2.0 * weights.hold * (a - r));
        }
        self.net.backward(&self.input, n, tape, &self.d_action, Some(&mut self.grad), None);
        [loss + f64::from(weights.hold) * moved / n as f64, moved / (n * self.action) as f64]
    }

    /// One step of the decoder, and those of its followers.
    pub(super) fn step(&mut self, config: &AdaptConfig, played: &mut Mlp, [follow, retreat]: [f32; 2]) {
        self.adam.step(&mut self.net.params, &self.grad);
        self.grad.fill(0.0);
        polyak(&mut played.params, &self.net.params, config.tau as f32);
        polyak(&mut self.reference.params, &self.net.params, follow);
        polyak(&mut self.reference.params, &self.offline.params, retreat);
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.f32s("weights/decoder_reference", &self.reference.params, 1);
        to.f32s("weights/decoder_learning", &self.net.params, 1);
        to.f32s("weights/decoder_offline", &self.offline.params, 1);
        self.adam.save("decoder_online", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("weights/decoder_reference", &mut self.reference.params)?;
        from.f32s_into("weights/decoder_learning", &mut self.net.params)?;
        from.f32s_into("weights/decoder_offline", &mut self.offline.params)?;
        self.adam.load("decoder_online", from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBS: usize = 3;
    const DIM: usize = 2;

    fn fixture() -> (AdaptConfig, Mlp, Critics, Teacher, Vec<f32>) {
        let config = AdaptConfig { width: 16, ..Default::default() };
        let mut rng = Rng::stream(4, "decoder");
        let decoder = Mlp::new(&[OBS + DIM, 12, 2], &mut rng);
        let critics = Critics::new(&config, 0.9, OBS, 2, &mut rng);
        let mut teacher = Teacher::new(&config, &decoder, DIM);
        // The decoder has moved since.
        teacher.net.params.iter_mut().for_each(|p| *p += 0.05 * rng.normal() as f32);
        let mut state = vec![0.0; 8 * OBS];
        rng.fill_normal(&mut state);
        teacher.skills.resize(8 * DIM, 0.0);
        rng.fill_normal(&mut teacher.skills);
        (config, decoder, critics, teacher, state)
    }

    #[test]
    fn the_decoders_gradient_agrees_with_finite_differences() {
        let (config, _, mut critics, mut teacher, state) = fixture();
        let weights = Weights { price: 3.0, hold: 0.7, near: 0.0 };
        teacher.gradient(&config, &mut critics, &state, weights);
        let found = std::mem::take(&mut teacher.grad);
        let mut loss = |teacher: &mut Teacher| {
            teacher.grad = vec![0.0; found.len()];
            teacher.gradient(&config, &mut critics, &state, weights)[0]
        };
        let mut largest = 0.0f64;
        for i in 0..found.len() {
            let old = teacher.net.params[i];
            teacher.net.params[i] = old + 1e-2;
            let up = loss(&mut teacher);
            teacher.net.params[i] = old - 1e-2;
            let down = loss(&mut teacher);
            teacher.net.params[i] = old;
            let expected = (up - down) / 2e-2;
            largest = largest.max(expected.abs());
            assert!((expected - f64::from(found[i])).abs() < 2e-3, "{i}: {expected} against {}", found[i]);
        }
        assert!(largest > 0.02, "a gradient of nothing proves nothing: {largest}");
    }

    #[test]
    fn the_hold_pulls_the_decoder_back_and_the_reference_follows_slowly() {
        let (mut config, mut decoder, mut critics, mut teacher, state) = fixture();
        config.decoder_rate = 1e-2;
        teacher.adam = Adam::new(decoder.params.len(), 1e-2);
        let mut moved = Vec::new();
        for _ in 0..300 {
            moved
                .push(teacher.gradient(&config, &mut critics, &state, Weights { price: 0.0, hold: 1e3, near: 0.0 })[1]);
            teacher.step(&config, &mut decoder, [0.0, 0.0]);
        }
        assert!(moved[299] < 0.05 * moved[0], "{} to {}", moved[0], moved[299]);
        let (reference, apart) = (teacher.reference.params[0], teacher.net.params[0] - teacher.reference.params[0]);
        let (before, behind) = (decoder.params[0], teacher.net.params[0] - decoder.params[0]);
        teacher.step(&config, &mut decoder, [0.25, 0.0]);
        assert!((teacher.reference.params[0] - reference - 0.25 * apart).abs() < 1e-2 * apart.abs() + 1e-4);
        let followed = decoder.params[0] - before;
        assert!(
            (followed - config.tau as f32 * behind).abs() < 1e-2 * behind.abs() + 1e-4,
            "what is played follows too"
        );
        let (reference, origin) = (teacher.reference.params[0], teacher.offline.params[0]);
        teacher.step(&config, &mut decoder, [0.0, 0.25]);
        let expected = reference + 0.25 * (origin - reference);
        assert!(
            reference != origin && (teacher.reference.params[0] - expected).abs() < 1e-6,
            "back where it came from"
        );
    }

    #[test]
    fn no_action_is_pushed_further_out_of_the_range() {
        let (config, _, mut critics, mut teacher, state) = fixture();
        // All actions far above 1.
        let n = teacher.net.params.len();
        teacher.net.params[n - 2..].fill(5.0);
        teacher.gradient(&config, &mut critics, &state, Weights { price: 0.0, hold: 0.0, near: 0.0 });
        let outwards = teacher.grad[n - 2..].iter().any(|g| *g < 0.0);
        assert!(!outwards, "{:?}", &teacher.grad[n - 2..]);
    }
}
