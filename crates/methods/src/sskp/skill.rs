//! The skill model of section 4.1: encoder q_μ(z | a_t:t+H−1), decoder p_ν(a_t:t+H−1 | z) and prior q_ψ(z | s_t), after
//! SPiRL (Pertsch et al. 2021).
//!
//! For windows of H actions and the state they start in, the model minimises
//!
//! ```text
//! mean ½(a − â)²  +  β · mean KL(q_μ(z|a) ‖ N(0, 1))  −  mean log q_ψ(stop(z) | s)
//! ```
//!
//! with means over rows, steps and coordinates in the first two terms, as SPiRL has them, and the skills of the last term
//! stopped: the prior follows the encoder and never pulls it. The decoder is a module of its own: [`super::decoder`].

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::nets::lstm::{Lstm, LstmTape};
use sskp_blocks::nets::standardiser::Standardiser;
use sskp_blocks::nets::{Adam, Mlp, Tape, gaussian};
use sskp_blocks::rng::Rng;

use super::decoder::{Decoder, DecoderKind};

/// Skills over which the reward ahead of a window is measured: what a skill leads to shows in the next ones.
const SKILLS_AHEAD: usize = 10;

/// Settings of the skill model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillConfig {
    /// H, actions per skill. Section 5.1.
    pub horizon: usize,
    /// Length of z. Section 5.1.
    pub dim: usize,
    /// What p_ν sees: the skill alone, as in the paper, or the state as well.
    pub decoder: DecoderKind,
    /// Hidden units of encoder and decoder. SPiRL has 128.
    pub hidden: usize,
    /// Width of the prior's layers. SPiRL has 128.
    pub prior_width: usize,
    /// Hidden layers of the prior. SPiRL has seven with batch normalisation; without it three learn the same.
    pub prior_layers: usize,
    /// β of the encoder's KL term. SPiRL's 5e-4.
    pub beta: f64,
    /// Windows per minibatch. SPiRL's 128.
    pub batch: usize,
    /// Gradient steps.
    pub steps: u64,
    /// Learning rate. SPiRL's 1e-3.
    pub rate: f64,
    /// Whether windows after which reward is lost (over the next ten skills, [`Demonstrations::reward_ahead`]) are left out:
    /// skills of a robot on its back. The paper learns from all.
    pub skip_losses: bool,
    /// Share of the episodes that is held out to measure the fit.
    pub held_out: f64,
    /// Seed of the model's own random streams. It is not the run's: runs of all seeds share one skill model, unless this
    /// differs.
    pub seed: u64,
}

impl Default for SkillConfig {
    fn default() -> Self {
        Self {
            horizon: 10,
            dim: 10,
            decoder: DecoderKind::OpenLoop,
            hidden: 128,
            prior_width: 128,
            prior_layers: 3,
            beta: 5e-4,
            batch: 128,
            steps: 20_000,
            rate: 1e-3,
            skip_losses: false,
            held_out: 0.05,
            seed: 0,
        }
    }
}

impl SkillConfig {
    /// Where the windows begin that skills are learnt from: (episode, t).
    fn windows(&self, demos: &Demonstrations) -> impl Iterator<Item = (usize, usize)> {
        let useful =
            |(episode, t): &(usize, usize)| demos.reward_ahead(*episode, *t, SKILLS_AHEAD * self.horizon) >= 0.0;
        demos.window_starts(self.horizon).filter(move |window| !self.skip_losses || useful(window))
    }

    /// Says why no skill can be learnt from a set.
    pub fn refuse(&self, demos: &Demonstrations) -> Result<()> {
        if self.windows(demos).next().is_some() {
            return Ok(());
        }
        let horizon = self.horizon;
        Err(sskp_blocks::Error::other(match demos.window_starts(horizon).next() {
            None => format!("no episode of the demonstrations has {horizon} steps, the length of a skill"),
            Some(_) => "reward is lost after every skill of the demonstrations: leave skill.skip_losses false".into(),
        }))
    }
}

/// A linear layer, or the start state: parameters that learn by themselves.
#[derive(Clone, Debug)]
pub(super) struct Learnt<T> {
    pub part: T,
    pub grad: Vec<f32>,
    adam: Adam,
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
        let mut sizes = vec![obs];
        sizes.extend(std::iter::repeat_n(config.prior_width, config.prior_layers));
        sizes.push(2 * d);
        let prior = Learnt::mlp(Mlp::new(&sizes, rng), rate);
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
    pub(crate) fn parameters(&mut self) -> usize {
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

    /// Fits the model to the windows of the demonstrations; gives the losses on the held-out episodes. An error of `seen`
    /// stops it.
    pub fn fit(
        &mut self,
        demos: &Demonstrations,
        rng: &mut Rng,
        mut seen: impl FnMut(u64, SkillLoss) -> Result<()>,
    ) -> Result<SkillLoss> {
        self.config.refuse(demos)?;
        let states: Vec<f32> = demos.trajectories().iter().flat_map(|t| t.observations.iter().copied()).collect();
        self.standardiser = Standardiser::fit(demos.obs_dim, &states);
        // Every n-th episode is held out, so that early and late, short and long ones are in both parts.
        let every = if self.config.held_out > 0.0 {
            (1.0 / self.config.held_out).round().max(2.0) as usize
        } else {
            usize::MAX
        };
        let (held, learnt): (Vec<_>, Vec<_>) =
            self.config.windows(demos).partition(|(episode, _)| episode % every == every - 1);
        // Where only held-out episodes are long enough, nothing is held out.
        let (held, learnt) = if learnt.is_empty() { (learnt, held) } else { (held, learnt) };
        let held = if held.is_empty() { &learnt } else { &held };
        let mut windows = Windows::default();
        let mut noise = vec![0.0; self.config.batch * self.config.dim];
        for step in 0..self.config.steps {
            let loss = self.update(demos, &learnt, rng, &mut windows, &mut noise);
            seen(step + 1, loss)?;
        }
        // Held-out figures: a fixed number of windows, skills sampled as in training.
        let mut total = SkillLoss::default();
        let rounds = 8;
        for _ in 0..rounds {
            self.draw(demos, held, self.config.batch, rng, &mut windows);
            rng.fill_normal(&mut noise);
            let loss = self.gradient(&windows, &noise);
            total.reconstruction += loss.reconstruction / f64::from(rounds);
            total.kl += loss.kl / f64::from(rounds);
            total.prior_log_prob += loss.prior_log_prob / f64::from(rounds);
        }
        for grad in [&mut self.encoder.grad, &mut self.encoder_head.grad, &mut self.prior.grad] {
            grad.fill(0.0);
        }
        self.decoder.parts().into_iter().for_each(|(_, _, grad)| grad.fill(0.0));
        Ok(total)
    }

    /// One step on a minibatch of windows that begin at `starts`; `windows` and `noise[batch, dim]` are buffers.
    pub(crate) fn update(
        &mut self,
        demos: &Demonstrations,
        starts: &[(usize, usize)],
        rng: &mut Rng,
        windows: &mut Windows,
        noise: &mut [f32],
    ) -> SkillLoss {
        self.draw(demos, starts, self.config.batch, rng, windows);
        rng.fill_normal(noise);
        let loss = self.gradient(windows, noise);
        self.step();
        loss
    }

    /// Draws windows uniformly among `starts`.
    fn draw(&self, demos: &Demonstrations, starts: &[(usize, usize)], rows: usize, rng: &mut Rng, out: &mut Windows) {
        let (a, horizon) = (self.action, self.config.horizon);
        out.rows = rows;
        out.actions.resize(horizon * rows * a, 0.0);
        out.states.resize(horizon * rows * demos.obs_dim, 0.0);
        for row in 0..rows {
            let (episode, t) = starts[rng.below(starts.len())];
            let actions = demos.actions(episode, t, horizon);
            for k in 0..horizon {
                out.actions[(k * rows + row) * a..][..a].copy_from_slice(&actions[k * a..][..a]);
                let state = &mut out.states[(k * rows + row) * demos.obs_dim..][..demos.obs_dim];
                self.standardiser.apply(demos.state(episode, t + k), state);
            }
        }
    }

    /// Adds the model to a checkpoint; acting needs decoder, prior and standardiser.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.f32s("policy/skill.encoder", &self.encoder.part.params, 1);
        to.f32s("policy/skill.encoder_head", &self.encoder_head.part.params, 1);
        self.decoder.save(to);
        to.f32s("policy/skill.prior", &self.prior.part.params, 1);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::demos::{Ending, Trajectory};

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

    /// Two gaits, told apart by the state: slow and fast waves with a random phase.
    fn gaits() -> Demonstrations {
        let mut rng = Rng::stream(5, "gaits");
        let mut demos = Demonstrations::new("toy", 2, 2);
        for episode in 0..60 {
            let fast = episode % 2 == 0;
            let steps = 30;
            let (speed, mut phase) = (if fast { 1.2 } else { 0.4 }, rng.uniform(0.0, std::f64::consts::TAU));
            let (mut observations, mut actions) = (Vec::new(), Vec::new());
            for _ in 0..steps {
                observations.extend([if fast { 1.0 } else { -1.0 }, phase.sin() as f32]);
                actions.extend([(0.8 * phase.sin()) as f32, (0.8 * phase.cos()) as f32]);
                phase += speed;
            }
            observations.extend([0.0, 0.0]);
            let (rewards, costs) = (vec![0.0; steps], vec![0.0; steps]);
            demos.push(Trajectory { observations, actions, rewards, costs, end: Ending::Truncated }).unwrap();
        }
        demos
    }

    #[test]
    fn it_learns_to_rebuild_windows_it_has_not_seen() {
        let demos = gaits();
        let mut rng = Rng::stream(1, "fit");
        let config =
            SkillConfig { hidden: 32, prior_width: 32, prior_layers: 2, batch: 64, steps: 1500, ..Default::default() };
        let mut model = SkillModel::new(config, 2, 2, &mut rng);
        let mut first = None;
        let held_out = model.fit(&demos, &mut rng, |_, loss| {
            first = first.or(Some(loss));
            Ok(())
        });
        let held_out = held_out.unwrap();
        let first = first.unwrap();
        // Untrained, the error is the actions' own variance, 0.32; trained, a small part of it is left.
        assert!(first.reconstruction > 0.25, "{first:?}");
        assert!(held_out.reconstruction < 0.03, "{held_out:?}");
        assert!(held_out.prior_log_prob > first.prior_log_prob, "{first:?} {held_out:?}");
        assert!(held_out.kl > 1.0, "the skill says something: {held_out:?}");
    }

    #[test]
    fn demonstrations_without_a_whole_skill_are_refused() {
        let mut demos = Demonstrations::new("toy", 1, 1);
        let short = Trajectory {
            observations: vec![0.0; 5],
            actions: vec![0.0; 4],
            rewards: vec![0.0; 4],
            costs: vec![0.0; 4],
            end: Ending::Truncated,
        };
        demos.push(short).unwrap();
        let mut rng = Rng::stream(1, "fit");
        let mut model = SkillModel::new(SkillConfig::default(), 1, 1, &mut rng);
        let error = model.fit(&demos, &mut rng, |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("no episode of the demonstrations has 10 steps"), "{error}");
    }

    #[test]
    fn windows_after_which_reward_is_lost_can_be_left_out() {
        // Two steps per skill, so 20 steps ahead: 30 good ones, then 30 bad ones.
        let (good, bad) = (vec![1.0f32; 30], vec![-2.0f32; 30]);
        let mut demos = Demonstrations::new("toy", 1, 1);
        demos
            .push(Trajectory {
                observations: vec![0.0; 61],
                actions: vec![0.0; 60],
                rewards: [good, bad].concat(),
                costs: vec![0.0; 60],
                end: Ending::Truncated,
            })
            .unwrap();
        let config = |skip_losses| SkillConfig { horizon: 2, skip_losses, ..Default::default() };
        assert_eq!(config(false).windows(&demos).count(), 59);
        // At t = 23 seven good steps meet thirteen bad ones: with g good ones, g − 2·(20 − g) ≥ 0 from g = 14 on.
        let kept: Vec<_> = config(true).windows(&demos).collect();
        assert_eq!(kept, (0..=16).map(|t| (0, t)).collect::<Vec<_>>());
    }
}
