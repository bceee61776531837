//! Soft actor-critic (Haarnoja et al. 2018), the update that SAC, safe SAC, skill-based SAC and others share.
//!
//! With a penalty D on the policy (the [`Regulariser`]), for a minibatch of transitions (s, a, r, end, s'):
//!
//! - target  y = r + γ·(min_i Q̄_i(s', a') − α·D(s')), a' ~ π(·|s'); where nothing follows y = r, and at a violation the value
//!   that [`ViolationValue`] says;
//! - critics minimise (Q_i(s, a) − y)²;
//! - the actor minimises α·D(s) − Q(s, a), a ~ π(·|s) reparameterised;
//! - the temperature α holds the mean penalty at its target (when `auto_alpha`).
//!
//! With `threads` above one the minibatch is cut into that many equal parts whose gradients are summed in order, so a
//! run's bytes depend on the number of threads but not on chance.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Loader, Saver};
use crate::nets::{Adam, Mlp, Model, Tape, gaussian, polyak};
use crate::record::Metrics;
use crate::replay::Batch;
use crate::rng::Rng;
use crate::team::{Shares, Team};
use crate::{Error, Result};

/// Sizes and rates of the update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftActorCriticConfig {
    /// Width of the hidden layers of actor and critics.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate of actor, critics and temperature.
    pub rate: f64,
    /// Discount γ per choice.
    pub gamma: f64,
    /// Polyak rate of the target critics.
    pub tau: f64,
    /// The first temperature α.
    pub alpha: f64,
    /// Whether α is learnt.
    pub auto_alpha: bool,
    /// The target entropy is −this·(action dimension).
    pub entropy_per_action: f64,
    /// The actor learns at every this many updates of the critics.
    pub actor_every: u64,
    /// Whether the actor climbs the smaller of both critics (SAC), or one drawn at random per update (SMBPO's SSAC).
    pub min_critic: bool,
}

impl Default for SoftActorCriticConfig {
    /// The constants of Haarnoja et al. 2018b (automatic temperature), as every later implementation has them.
    fn default() -> Self {
        Self {
            width: 256,
            layers: 2,
            rate: 3e-4,
            gamma: 0.99,
            tau: 0.005,
            alpha: 1.0,
            auto_alpha: true,
            entropy_per_action: 1.0,
            actor_every: 1,
            min_critic: true,
        }
    }
}

impl SoftActorCriticConfig {
    /// Says what is wrong with a setting; `prefix` is the name of the table they stand in.
    pub fn check(&self, prefix: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| match fine {
            true => Ok(()),
            false => Err(Error::other(format!("{prefix}.{key} must be {needed}"))),
        };
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("layers", (1..=64).contains(&self.layers), "between 1 and 64")?;
        need("rate", self.rate > 0.0 && self.rate < 1.0, "between 0 and 1")?;
        need("gamma", (0.0..1.0).contains(&self.gamma), "at least 0 and below 1")?;
        need("tau", self.tau > 0.0 && self.tau <= 1.0, "above 0 and at most 1")?;
        need("alpha", self.alpha > 0.0 && self.alpha.is_finite(), "above 0")?;
        need("actor_every", self.actor_every > 0, "at least 1")
    }

    fn sizes(&self, inputs: usize, outputs: usize) -> Vec<usize> {
        let mut sizes = vec![inputs];
        sizes.extend(std::iter::repeat_n(self.width, self.layers));
        sizes.push(outputs);
        sizes
    }
}

/// What holds the policy, and how its head becomes a choice.
#[derive(Clone, Debug)]
pub enum Regulariser {
    /// Entropy: the penalty is log π(a|s) of a Gaussian squashed by tanh.
    Entropy,
    /// Closeness to a frozen prior: the penalty is KL(π(·|s) ‖ q(·|s)) of plain Gaussians (Pertsch et al. 2021; section
    /// 4.2.2 of the paper).
    KlToPrior(Prior),
}

/// What a policy is held to, and the box its choices are kept in.
#[derive(Clone, Debug)]
pub struct Prior {
    /// Heads `[mean, log σ]` of q(·|s).
    pub net: Mlp,
    /// Choices are cut at ± this, coordinate by coordinate, and a cut coordinate has no gradient. Nothing outside is ever
    /// played, so critics know nothing of it: without the box, policy and critics talk each other up without end.
    pub bound: Vec<f32>,
}

/// What a violating transition is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ViolationValue {
    /// Its reward and nothing after: plain SAC.
    Terminal,
    /// This value, whatever its reward: SMBPO's −C/(1−γ).
    Fixed(f32),
}

/// SMBPO's C (Thomas et al. 2021, section 4): (r_max − r_min)/γ^H − r_max. With a violation worth −C/(1−γ), a state from
/// which a violation cannot be avoided any more, but comes within H steps only, is worth less than any safe one, which earns
/// r_min/(1−γ) at least: r_max·(1 − γ^H)/(1−γ) − γ^H·C/(1−γ) = r_min/(1−γ).
pub fn violation_cost([least, greatest]: [f64; 2], gamma: f64, horizon: u32) -> f64 {
    (greatest - least) / gamma.powi(horizon as i32) - greatest
}

/// Actor, twin critics with targets, temperature, and their optimisers.
pub struct SoftActorCritic {
    config: SoftActorCriticConfig,
    regulariser: Regulariser,
    /// Where α holds the mean penalty.
    target_penalty: f64,
    obs: usize,
    action: usize,
    actor: Model,
    critics: [Model; 2],
    targets: [Mlp; 2],
    log_alpha: Vec<f32>,
    alpha_adam: Adam,
    updates: u64,
    workers: Vec<Worker>,
    noise: [Vec<f32>; 2],
    team: Team,
}

/// Everything one thread needs for its part of a minibatch.
#[derive(Clone, Default)]
struct Worker {
    actor_tape: Tape,
    prior_tape: Tape,
    critic_tapes: [Tape; 2],
    choice: Vec<f32>,
    penalty: Vec<f32>,
    input: Vec<f32>,
    d_input: Vec<f32>,
    climbing: Vec<u32>,
    target: Vec<f32>,
    d_q: Vec<f32>,
    d_action: Vec<f32>,
    d_head: Vec<f32>,
    actor_grad: Vec<f32>,
    critic_grads: [Vec<f32>; 2],
    sums: Sums,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    critic_loss: f64,
    q: f64,
    actor_loss: f64,
    penalty: f64,
}

/// The part of the minibatch a worker has.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    rows: usize,
    of: usize,
}

fn rows<T>(values: &[T], part: Part, columns: usize) -> &[T] {
    &values[part.from * columns..(part.from + part.rows) * columns]
}

/// Writes `[state, choice]` rows: a critic's input.
pub fn join(out: &mut Vec<f32>, state: &[f32], obs: usize, choice: &[f32], action: usize) {
    let n = state.len() / obs;
    out.resize(n * (obs + action), 0.0);
    for (i, row) in out.chunks_exact_mut(obs + action).enumerate() {
        row[..obs].copy_from_slice(&state[i * obs..][..obs]);
        row[obs..].copy_from_slice(&choice[i * action..][..action]);
    }
}

impl SoftActorCritic {
    /// Fresh networks for observations and actions of these sizes, held by their entropy.
    pub fn new(
        config: SoftActorCriticConfig,
        obs: usize,
        action: usize,
        threads: usize,
        rng: &mut Rng,
    ) -> Result<Self> {
        let target = config.entropy_per_action * action as f64;
        let actor = Mlp::new(&config.sizes(obs, 2 * action), rng);
        Self::with(config, Regulariser::Entropy, target, actor, obs, threads, rng)
    }

    /// A policy that starts as a copy of `prior` and is held to it, α keeping their mean divergence at `divergence`.
    pub fn near_prior(
        config: SoftActorCriticConfig,
        prior: Prior,
        divergence: f64,
        threads: usize,
        rng: &mut Rng,
    ) -> Result<Self> {
        assert_eq!(prior.net.outputs(), 2 * prior.bound.len());
        let (actor, obs) = (prior.net.clone(), prior.net.inputs());
        Self::with(config, Regulariser::KlToPrior(prior), divergence, actor, obs, threads, rng)
    }

    fn with(
        config: SoftActorCriticConfig,
        regulariser: Regulariser,
        target_penalty: f64,
        actor: Mlp,
        obs: usize,
        threads: usize,
        rng: &mut Rng,
    ) -> Result<Self> {
        let rate = config.rate as f32;
        let action = actor.outputs() / 2;
        let actor = Model::of(actor, rate);
        let critics = [(); 2].map(|()| Model::new(&config.sizes(obs + action, 1), rate, rng));
        let targets = [critics[0].net.clone(), critics[1].net.clone()];
        let worker = Worker {
            actor_grad: vec![0.0; actor.grad.len()],
            critic_grads: [vec![0.0; critics[0].grad.len()], vec![0.0; critics[1].grad.len()]],
            ..Worker::default()
        };
        Ok(Self {
            regulariser,
            target_penalty,
            obs,
            action,
            actor,
            critics,
            targets,
            log_alpha: vec![(config.alpha as f32).ln()],
            alpha_adam: Adam::new(1, rate),
            updates: 0,
            workers: vec![worker; threads.max(1)],
            noise: Default::default(),
            team: Team::new(threads),
            config,
        })
    }

    /// α.
    pub fn alpha(&self) -> f32 {
        self.log_alpha[0].exp()
    }
    /// The actor's network: `[mean, log σ]` of a squashed Gaussian.
    pub fn actor(&self) -> &Mlp {
        &self.actor.net
    }
    /// Numbers that learn.
    pub fn parameters(&self) -> usize {
        let critics: usize = self.critics.iter().map(|critic| critic.grad.len()).sum();
        self.actor.grad.len() + critics + usize::from(self.config.auto_alpha)
    }
    /// Updates done.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Runs `work` on every part of the batch.
    fn each_part(&mut self, rows: usize, work: impl Fn(&Self, &mut Worker, Part) + Sync) {
        let mut workers = std::mem::take(&mut self.workers);
        let (shares, this) = (Shares::new(&mut workers), &*self);
        self.team.run(&|i| {
            let share = this.team.share(i, rows);
            // SAFETY: each member takes its own worker only.
            let worker = &mut unsafe { shares.part(i..i + 1) }[0];
            work(this, worker, Part { from: share.start, rows: share.len(), of: rows });
        });
        self.workers = workers;
    }

    /// One update on a minibatch.
    pub fn update(
        &mut self,
        batch: &Batch,
        violation: ViolationValue,
        rng: &mut Rng,
        metrics: Option<&mut Metrics>,
    ) -> Result<()> {
        let n = batch.rows;
        for noise in &mut self.noise {
            noise.resize(n * self.action, 0.0);
            rng.fill_normal(noise);
        }
        // Drawn always, so that switching `min_critic` moves no other draw.
        let coin = rng.below(2);

        self.each_part(n, |this, worker, part| this.critic_part(worker, part, batch, violation));
        for i in 0..2 {
            let target = Some((&mut self.targets[i].params[..], self.config.tau as f32));
            let grads = self.workers.iter_mut().map(|w| &mut w.critic_grads[i][..]);
            step_in_parts(&self.team, &mut self.critics[i], grads, target);
        }

        let learn_actor = self.updates.is_multiple_of(self.config.actor_every);
        if learn_actor {
            self.each_part(n, |this, worker, part| this.actor_part(worker, part, batch, coin));
            let grads = self.workers.iter_mut().map(|w| &mut w.actor_grad[..]);
            step_in_parts(&self.team, &mut self.actor, grads, None);
            if self.config.auto_alpha {
                let penalty = self.workers.iter().map(|w| w.sums.penalty).sum::<f64>() / n as f64;
                // Loss −log α·(D − D̄): α grows while the penalty is above its target. For entropy D is log π and D̄ is
                // −(target entropy).
                self.alpha_adam.step(&mut self.log_alpha, &[-(penalty - self.target_penalty) as f32]);
            }
        }
        self.updates += 1;

        let sum = |f: fn(&Sums) -> f64| self.workers.iter().map(|w| f(&w.sums)).sum::<f64>() / n as f64;
        let critic_loss = sum(|s| s.critic_loss);
        if !critic_loss.is_finite() || !self.log_alpha[0].is_finite() {
            return Err(Error::other(format!("the critics' loss is {critic_loss} at update {}", self.updates)));
        }
        if let Some(metrics) = metrics {
            metrics.push("Loss/Loss_reward_critic", critic_loss);
            metrics.push("Value/reward_critic", sum(|s| s.q));
            metrics.push("Loss/Loss_pi", sum(|s| s.actor_loss));
            let name = match self.regulariser {
                Regulariser::Entropy => "Value/log_pi",
                Regulariser::KlToPrior(_) => "Value/kl_to_prior",
            };
            metrics.push(name, sum(|s| s.penalty));
            metrics.push("Value/alpha", f64::from(self.alpha()));
        }
        Ok(())
    }

    /// Choices of the policy in `state` rows with this noise, and their penalties.
    fn choose(&self, w: &mut Worker, state: &[f32], noise: &[f32]) {
        let (n, dim) = (state.len() / self.obs, self.action);
        w.choice.resize(n * dim, 0.0);
        w.penalty.resize(n, 0.0);
        let head = self.actor.net.forward(state, n, &mut w.actor_tape);
        match &self.regulariser {
            Regulariser::Entropy => gaussian::squashed_sample(head, noise, dim, &mut w.choice, &mut w.penalty),
            Regulariser::KlToPrior(prior) => {
                gaussian::sample(head, noise, dim, &mut w.choice);
                for choice in w.choice.chunks_exact_mut(dim) {
                    choice.iter_mut().zip(&prior.bound).for_each(|(z, bound)| *z = z.clamp(-bound, *bound));
                }
                let prior = prior.net.forward(state, n, &mut w.prior_tape);
                for (row, penalty) in w.penalty.iter_mut().enumerate() {
                    let [head, prior] = [head, prior].map(|h| &h[row * 2 * dim..][..2 * dim]);
                    *penalty = gaussian::kl(head, prior);
                }
            }
        }
    }

    fn critic_part(&self, worker: &mut Worker, part: Part, batch: &Batch, violation: ViolationValue) {
        let w = worker;
        let (obs, action, n) = (self.obs, self.action, part.rows);
        let next_state = rows(&batch.next_state, part, obs);
        let noise = rows(&self.noise[0], part, action);
        w.target.resize(n, 0.0);
        w.d_q.resize(n, 0.0);

        self.choose(w, next_state, noise);
        join(&mut w.input, next_state, obs, &w.choice, action);
        let [tape1, tape2] = &mut w.critic_tapes;
        let q1 = self.targets[0].forward(&w.input, n, tape1);
        let q2 = self.targets[1].forward(&w.input, n, tape2);
        let (gamma, alpha) = (self.config.gamma as f32, self.alpha());
        let [reward, goes_on, violated] =
            [&batch.reward, &batch.goes_on, &batch.violation].map(|column| rows(column, part, 1));
        for i in 0..n {
            let soft = q1[i].min(q2[i]) - alpha * w.penalty[i];
            w.target[i] = match violation {
                ViolationValue::Fixed(value) if violated[i] > 0.0 => value,
                _ if goes_on[i] > 0.0 => reward[i] + gamma * soft,
                _ => reward[i],
            };
        }

        let input = rows(&batch.state_action, part, obs + action);
        w.sums.critic_loss = 0.0;
        w.sums.q = 0.0;
        for (i, critic) in self.critics.iter().enumerate() {
            let q = critic.net.forward(input, n, &mut w.critic_tapes[i]);
            for j in 0..n {
                let error = q[j] - w.target[j];
                w.d_q[j] = 2.0 * error / part.of as f32;
                w.sums.critic_loss += 0.5 * f64::from(error * error);
                w.sums.q += 0.5 * f64::from(q[j]);
            }
            critic.net.backward(input, n, &mut w.critic_tapes[i], &w.d_q, Some(&mut w.critic_grads[i]), None);
        }
    }

    fn actor_part(&self, worker: &mut Worker, part: Part, batch: &Batch, coin: usize) {
        let w = worker;
        let (obs, action, n) = (self.obs, self.action, part.rows);
        let state = rows(&batch.state, part, obs);
        let noise = rows(&self.noise[1], part, action);
        w.d_head.resize(n * 2 * action, 0.0);
        w.d_action.resize(n * action, 0.0);
        w.d_q.resize(n, 0.0);

        self.choose(w, state, noise);
        join(&mut w.input, state, obs, &w.choice, action);
        let alpha = self.alpha();
        let scale = 1.0 / part.of as f32;
        w.sums.actor_loss = 0.0;
        w.sums.penalty = w.penalty.iter().map(|l| f64::from(*l)).sum();

        // A row climbs one critic: the loss −Q has gradient −1/n there and none at the other, so each critic is asked only
        // for the rows that climb it.
        let used = if self.config.min_critic { 0..2 } else { coin..coin + 1 };
        for i in used.clone() {
            self.critics[i].net.forward(&w.input, n, &mut w.critic_tapes[i]);
        }
        w.d_q.fill(-scale);
        for i in used {
            let [q1, q2] = [w.critic_tapes[0].output(), w.critic_tapes[1].output()];
            w.climbing.clear();
            for j in 0..n {
                if !self.config.min_critic || (q1[j] <= q2[j]) == (i == 0) {
                    w.climbing.push(j as u32);
                    let q = if i == 0 { q1[j] } else { q2[j] };
                    w.sums.actor_loss += f64::from(alpha * w.penalty[j] - q);
                }
            }
            let m = w.climbing.len();
            w.d_input.resize(n * action, 0.0);
            let d_input = &mut w.d_input[..m * action];
            self.critics[i].net.input_gradient(&w.climbing, &mut w.critic_tapes[i], &w.d_q[..m], obs, d_input);
            for (d, row) in d_input.chunks_exact(action).zip(&w.climbing) {
                w.d_action[*row as usize * action..][..action].copy_from_slice(d);
            }
        }
        let (head, weight) = (w.actor_tape.output(), alpha * scale);
        match &self.regulariser {
            Regulariser::Entropy => {
                gaussian::squashed_backward(head, noise, action, &w.choice, &w.d_action, weight, &mut w.d_head);
            }
            Regulariser::KlToPrior(prior) => {
                for (d, choice) in w.d_action.chunks_exact_mut(action).zip(w.choice.chunks_exact(action)) {
                    for ((d, z), bound) in d.iter_mut().zip(choice).zip(&prior.bound) {
                        *d = if z.abs() < *bound { *d } else { 0.0 };
                    }
                }
                gaussian::sample_backward(head, noise, action, &w.d_action, &mut w.d_head);
                for (row, d_head) in w.d_head.chunks_exact_mut(2 * action).enumerate() {
                    let [head, prior] = [head, w.prior_tape.output()].map(|h| &h[row * 2 * action..][..2 * action]);
                    gaussian::kl_backward(head, prior, weight, d_head);
                }
            }
        }
        self.actor.net.backward(state, n, &mut w.actor_tape, &w.d_head, Some(&mut w.actor_grad), None);
    }

    /// Gives the policy its prior again, after a checkpoint has been read: the prior is kept with the skills it belongs to.
    pub fn set_prior(&mut self, prior: Prior) {
        self.regulariser = Regulariser::KlToPrior(prior);
    }

    /// Reads back only the policy, out of a snapshot.
    pub fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/actor", &mut self.actor.net.params)
    }

    /// Adds everything to a checkpoint.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.actor.save("policy/actor", to);
        for i in 0..2 {
            self.critics[i].save(&format!("weights/critic{}", i + 1), to);
            to.f32s(&format!("weights/target{}", i + 1), &self.targets[i].params, 1);
        }
        to.f32s("weights/log_alpha", &self.log_alpha, 1);
        self.alpha_adam.save("log_alpha", to);
        to.json("soft_actor_critic.updates", &self.updates);
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        self.actor.load("policy/actor", from)?;
        for i in 0..2 {
            self.critics[i].load(&format!("weights/critic{}", i + 1), from)?;
            from.f32s_into(&format!("weights/target{}", i + 1), &mut self.targets[i].params)?;
        }
        from.f32s_into("weights/log_alpha", &mut self.log_alpha)?;
        self.alpha_adam.load("log_alpha", from)?;
        self.updates = from.json("soft_actor_critic.updates")?;
        Ok(())
    }
}

/// One Adam step on the sum of the workers' gradients (which are zeroed), and the target network's step towards it. Every
/// member of the team does it for its own share of the parameters, summing the workers in the same order.
fn step_in_parts<'a>(
    team: &Team,
    model: &mut Model,
    grads: impl Iterator<Item = &'a mut [f32]>,
    target: Option<(&mut [f32], f32)>,
) {
    let n = model.grad.len();
    let step = model.adam.begin();
    let (m, v) = model.adam.moments();
    let [params, total, m, v] = [&mut model.net.params[..], &mut model.grad[..], m, v].map(Shares::new);
    let grads: Vec<Shares<f32>> = grads.map(Shares::new).collect();
    let target = target.map(|(target, tau)| (Shares::new(target), tau));
    team.run(&|i| {
        let range = || team.share(i, n);
        // SAFETY: shares of different members do not overlap, and each array is taken once.
        let [params, total, m, v] = [&params, &total, &m, &v].map(|s| unsafe { s.part(range()) });
        if let [only] = &grads[..] {
            // SAFETY: as above.
            let only = unsafe { only.part(range()) };
            step.apply(params, only, m, v);
            only.fill(0.0);
        } else {
            for grad in &grads {
                // SAFETY: as above.
                for (t, g) in total.iter_mut().zip(unsafe { grad.part(range()) }) {
                    *t += std::mem::take(g);
                }
            }
            step.apply(params, total, m, v);
            total.fill(0.0);
        }
        if let Some((target, tau)) = &target {
            // SAFETY: as above.
            polyak(unsafe { target.part(range()) }, params, *tau);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Replay;

    #[test]
    fn the_cost_of_a_violation_by_hand() {
        // r in [−1.95, 1.79]: C = 3.74/0.99¹⁰ − 1.79 = 3.74/0.904382 − 1.79 = 2.34542; r in [−4, 14]: 18/0.904382 − 14.
        assert!((violation_cost([-1.95, 1.79], 0.99, 10) - 2.345_42).abs() < 1e-5);
        assert!((violation_cost([-4.0, 14.0], 0.99, 10) - 5.903_09).abs() < 1e-4);
        // γ = 1/2, H = 2, r in [−1, 3]: C = 4/(1/4) − 3 = 13. Two steps of the best reward and then the violation are worth
        // 3 + 3/2 − 13/(1/2)/4 = −2, exactly what a step of −1 for ever is worth.
        assert_eq!(violation_cost([-1.0, 3.0], 0.5, 2), 13.0);
    }

    const OBS: usize = 3;
    const ACTION: usize = 2;
    const ROWS: usize = 5;

    fn fixture(config: SoftActorCriticConfig, threads: usize) -> (SoftActorCritic, Batch) {
        let mut rng = Rng::stream(2, "fixture");
        let config = SoftActorCriticConfig { width: 6, alpha: 0.3, ..config };
        let mut sac = SoftActorCritic::new(config, OBS, ACTION, threads, &mut rng).unwrap();
        let mut replay = Replay::new(OBS, ACTION, 10);
        for i in 0..ROWS {
            let mut row = [0.0; 2 * OBS];
            rng.fill_normal(&mut row);
            replay.push(&row[..OBS], &[0.1 * i as f32, -0.2], i as f32 - 1.5, None, &row[OBS..]);
        }
        let mut batch = Batch::default();
        replay.sample(ROWS, &mut rng, &mut batch);
        // Whatever was drawn: a violation, another end, and rows that go on.
        (batch.violation[1], batch.goes_on[1], batch.goes_on[2]) = (1.0, 0.0, 0.0);
        for noise in &mut sac.noise {
            noise.resize(ROWS * ACTION, 0.0);
            rng.fill_normal(noise);
        }
        (sac, batch)
    }

    const ALL: Part = Part { from: 0, rows: ROWS, of: ROWS };

    fn value(net: &Mlp, input: &[f32]) -> f64 {
        f64::from(net.forward(input, 1, &mut Tape::default())[0])
    }

    /// One row's squashed action and its log-probability, written out anew in f64.
    fn act(net: &Mlp, state: &[f32], noise: &[f32]) -> (Vec<f32>, f64) {
        let mut tape = Tape::default();
        let head = net.forward(state, 1, &mut tape);
        let mut log_prob = 0.0;
        let action = (0..ACTION)
            .map(|i| {
                let std = f64::from(head[ACTION + i]).exp();
                let u = f64::from(head[i]) + std * f64::from(noise[i]);
                let density = (-0.5 * f64::from(noise[i]).powi(2)).exp() / (std * (2.0 * std::f64::consts::PI).sqrt());
                log_prob += (density / (1.0 - u.tanh().powi(2))).ln();
                u.tanh() as f32
            })
            .collect();
        (action, log_prob)
    }

    /// One row's plain choice and its divergence from the prior, written out anew in f64.
    fn act_near(net: &Mlp, prior: &Prior, state: &[f32], noise: &[f32]) -> (Vec<f32>, f64) {
        let (mut tape, mut prior_tape) = (Tape::default(), Tape::default());
        let (p, q) = (net.forward(state, 1, &mut tape), prior.net.forward(state, 1, &mut prior_tape));
        let mut kl = 0.0;
        let choice = (0..ACTION)
            .map(|i| {
                let [mp, lp, mq, lq] = [p[i], p[ACTION + i], q[i], q[ACTION + i]].map(f64::from);
                kl += lq - lp + ((2.0 * lp).exp() + (mp - mq).powi(2)) / (2.0 * (2.0 * lq).exp()) - 0.5;
                ((mp + lp.exp() * f64::from(noise[i])) as f32).clamp(-prior.bound[i], prior.bound[i])
            })
            .collect();
        (choice, kl)
    }

    #[test]
    fn a_policy_near_its_prior_has_the_gradients_of_the_equations() {
        let (plain, batch) = fixture(SoftActorCriticConfig::default(), 1);
        let mut rng = Rng::stream(4, "prior");
        let prior = Mlp::new(&[OBS, 5, 2 * ACTION], &mut rng);
        let config = SoftActorCriticConfig { width: 6, alpha: 0.3, ..Default::default() };
        // Tight enough to cut some of the choices.
        let bound = vec![0.4; ACTION];
        let prior = Prior { net: prior, bound };
        let mut sac = SoftActorCritic::near_prior(config, prior.clone(), 1.0, 1, &mut rng).unwrap();
        sac.noise = plain.noise.clone();
        // Away from the prior, so that the divergence has a gradient.
        sac.actor.net.params.iter_mut().enumerate().for_each(|(i, p)| *p += 0.6 * (i as f32).sin());
        let mut worker = sac.workers[0].clone();
        sac.critic_part(&mut worker, ALL, &batch, ViolationValue::Terminal);
        for r in 0..ROWS {
            let next = &batch.next_state[r * OBS..][..OBS];
            let (z, kl) = act_near(&sac.actor.net, &prior, next, &sac.noise[0][r * ACTION..][..ACTION]);
            let q = sac.targets.each_ref().map(|t| value(t, &[next, &z].concat()));
            let bootstrap = if batch.goes_on[r] == 0.0 { 0.0 } else { 0.99 * (q[0].min(q[1]) - 0.3 * kl) };
            assert!((f64::from(worker.target[r]) - f64::from(batch.reward[r]) - bootstrap).abs() < 1e-4, "row {r}");
        }
        sac.actor_part(&mut worker, ALL, &batch, 0);
        let cut = worker.choice.iter().filter(|z| z.abs() == 0.4).count();
        assert!(cut > 0 && cut < worker.choice.len(), "{cut} of {} are cut", worker.choice.len());
        differences(&sac.actor.net.params, &worker.actor_grad, |params| {
            let mut net = sac.actor.net.clone();
            net.params.copy_from_slice(params);
            let row = |r: usize| {
                let state = &batch.state[r * OBS..][..OBS];
                let (z, kl) = act_near(&net, &prior, state, &sac.noise[1][r * ACTION..][..ACTION]);
                let q = [0, 1].map(|i| value(&sac.critics[i].net, &[state, &z].concat()));
                0.3 * kl - q[0].min(q[1])
            };
            (0..ROWS).map(row).sum::<f64>() / ROWS as f64
        });
    }

    /// The critics' targets as the equation of the module's documentation has them, one row at a time.
    fn target(sac: &SoftActorCritic, batch: &Batch, row: usize, violation: ViolationValue) -> f64 {
        let next = &batch.next_state[row * OBS..][..OBS];
        let (action, log_prob) = act(&sac.actor.net, next, &sac.noise[0][row * ACTION..][..ACTION]);
        let input = [next, &action].concat();
        let q = value(&sac.targets[0], &input).min(value(&sac.targets[1], &input));
        match (row, violation) {
            (1, ViolationValue::Fixed(v)) => f64::from(v),
            (1 | 2, _) => f64::from(batch.reward[row]),
            _ => f64::from(batch.reward[row]) + 0.99 * (q - 0.3 * log_prob),
        }
    }

    /// Compares a gradient with central differences of `loss`. Where two step sizes disagree the loss has a kink (a ReLU
    /// switches) and there is nothing to compare.
    fn differences(params: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
        let mut at = params.to_vec();
        let (mut smooth, mut steepest) = (0, 0.0f64);
        for i in 0..at.len() {
            let old = at[i];
            let mut slope = |h: f32| {
                at[i] = old + h;
                let up = loss(&at);
                at[i] = old - h;
                let down = loss(&at);
                at[i] = old;
                (up - down) / (2.0 * f64::from(h))
            };
            let (wide, expected) = (slope(4e-3), slope(2e-3));
            if (wide - expected).abs() > 2e-3 * expected.abs().max(1.0) {
                continue;
            }
            let got = f64::from(gradient[i]);
            assert!((expected - got).abs() < 4e-3 * expected.abs().max(1.0), "{i}: {got}, differences {expected}");
            smooth += 1;
            steepest = steepest.max(expected.abs());
        }
        assert!(smooth * 10 > 8 * at.len(), "only {smooth} of {} could be compared", at.len());
        assert!(steepest > 0.1, "the gradient must not vanish for the test to mean anything: {steepest}");
    }

    #[test]
    fn targets_and_critic_gradients_agree_with_the_equations() {
        for violation in [ViolationValue::Terminal, ViolationValue::Fixed(-7.0)] {
            let (sac, batch) = fixture(SoftActorCriticConfig::default(), 1);
            let mut worker = sac.workers[0].clone();
            sac.critic_part(&mut worker, ALL, &batch, violation);
            let targets: Vec<f64> = (0..ROWS).map(|r| target(&sac, &batch, r, violation)).collect();
            for r in 0..ROWS {
                assert!((f64::from(worker.target[r]) - targets[r]).abs() < 1e-4, "row {r}");
            }
            for i in 0..2 {
                differences(&sac.critics[i].net.params, &worker.critic_grads[i], |params| {
                    let mut net = sac.critics[i].net.clone();
                    net.params.copy_from_slice(params);
                    let row = |r: usize| &batch.state_action[r * (OBS + ACTION)..][..OBS + ACTION];
                    (0..ROWS).map(|r| (value(&net, row(r)) - targets[r]).powi(2)).sum::<f64>() / ROWS as f64
                });
            }
        }
    }

    #[test]
    fn actor_gradients_agree_with_the_equations() {
        for (min_critic, coin) in [(true, 0), (false, 0), (false, 1)] {
            let (sac, batch) = fixture(SoftActorCriticConfig { min_critic, ..Default::default() }, 1);
            let mut worker = sac.workers[0].clone();
            sac.critic_part(&mut worker, ALL, &batch, ViolationValue::Terminal); // sizes the buffers
            sac.actor_part(&mut worker, ALL, &batch, coin);
            let loss = |params: &[f32]| {
                let mut net = sac.actor.net.clone();
                net.params.copy_from_slice(params);
                (0..ROWS)
                    .map(|r| {
                        let state = &batch.state[r * OBS..][..OBS];
                        let (action, log_prob) = act(&net, state, &sac.noise[1][r * ACTION..][..ACTION]);
                        let input = [state, &action].concat();
                        let q = [0, 1].map(|i| value(&sac.critics[i].net, &input));
                        0.3 * log_prob - if min_critic { q[0].min(q[1]) } else { q[coin] }
                    })
                    .sum::<f64>()
                    / ROWS as f64
            };
            differences(&sac.actor.net.params, &worker.actor_grad, loss);
            assert!((worker.sums.actor_loss / ROWS as f64 - loss(&sac.actor.net.params)).abs() < 1e-4);
        }
    }

    #[test]
    fn two_threads_give_the_gradients_of_one() {
        let update = |threads| {
            let (mut sac, batch) = fixture(SoftActorCriticConfig::default(), threads);
            let mut rng = Rng::stream(9, "u");
            for _ in 0..3 {
                sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
            }
            [sac.actor.net.params, sac.critics[1].net.params.clone(), sac.targets[0].params.clone()].concat()
        };
        let (one, two) = (update(1), update(2));
        assert_eq!(two, update(2), "and twice the same bytes");
        let worst = one.iter().zip(&two).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-4, "{worst}");
    }

    #[test]
    fn the_temperature_falls_while_entropy_is_above_its_target() {
        // A fresh policy is nearly uniform, far above the target entropy of −2: α must fall from its first update on.
        let (mut sac, batch) = fixture(SoftActorCriticConfig::default(), 1);
        let mut rng = Rng::stream(9, "u");
        let before = sac.alpha();
        sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
        assert!(sac.alpha() < before);
        let config = SoftActorCriticConfig { entropy_per_action: -5.0, ..Default::default() };
        let (mut sac, batch) = fixture(config, 1);
        sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
        assert!(sac.alpha() > before, "a target of +10 is above any entropy of two actions");
    }

    #[test]
    fn a_nan_reward_stops_learning_with_an_error() {
        let (mut sac, mut batch) = fixture(SoftActorCriticConfig::default(), 1);
        batch.reward[0] = f32::NAN;
        assert!(sac.update(&batch, ViolationValue::Terminal, &mut Rng::stream(0, "u"), None).is_err());
    }
}
