//! CPQ, constraints penalised Q-learning (Xu, Zhan and Zhu 2022), learnt on demonstrations and continued online.
//!
//! For a minibatch of transitions (s, a, r, c, s'), a' ~ π(·|s'), in this order:
//!
//! 1. an autoencoder of the data's actions ([`vae`]), whose latent divergence marks actions unlike them;
//! 2. reward critics: y = r + γ·(1 − c)·1[Q̄_c(s', a') ≤ l]·Q̄(s', a'), the penalised Bellman operator: what leads to more cost than l
//!    is worth nothing;
//! 3. cost critics: y_c = c + γ·(1 − c)·Q̄_c(s', a'), and −α·E[1[ã out of distribution]·min(Q_c(s, ã), l_c)] over actions ã ~ π(·|s):
//!    where the data cannot speak Q_c is pushed up to l_c, as hard as α says, which grows while Q_c is below l_c there;
//! 4. actor: minimises −E[1[Q_c(s, a) ≤ l]·Q(s, a)], a ~ π(·|s), and goes down Q_c where that is above l.
//!
//! l = cost limit·(1 − γ^T)/((1 − γ)·T), l_c = 1.5·l. Every departure from the public implementation (OSRL), with its reason, and the
//! switches that undo them: `docs/methods/cpq.md`.

pub mod vae;

use std::time::Instant;

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::{Demonstrations, Transition};
use sskp_blocks::env::Spec;
use sskp_blocks::judge::{Judgement, auc, held_out};
use sskp_blocks::nets::{Model, Tape, gaussian};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::join;
use sskp_blocks::twin::{Pick, Twin};
use sskp_blocks::{Error, Result};

use crate::sac::SacActor;
use crate::{Actor, Method, Setup, need};
use vae::{Vae, VaeConfig, VaeLoss};

/// Settings. Where nothing else is said, a default is OSRL's (github.com/liuzuxin/OSRL).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpqConfig {
    /// Updates per environment step; 0.1 is one every ten steps.
    pub updates_per_step: f64,
    /// Updates on the demonstrations before the first step.
    pub offline_updates: u64,
    /// Transitions per minibatch.
    pub batch: usize,
    /// Online transitions kept; the demonstrations are kept besides.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// Width of the hidden layers of actor and critics.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate of the actor.
    pub actor_rate: f64,
    /// Learning rate of the critics.
    pub critic_rate: f64,
    /// Discount γ.
    pub gamma: f64,
    /// Polyak rate of the target critics.
    pub tau: f64,
    /// Rewards are multiplied by this before they are learnt from.
    pub reward_scale: f64,
    /// The constraint.
    pub cost: CostConfig,
    /// The autoencoder.
    pub vae: VaeConfig,
}

/// Settings of the constraint and of the cost critics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostConfig {
    /// Cost allowed per episode, from which l follows.
    pub limit: f64,
    /// Whether nothing is expected after a violation. OSRL looks past the end.
    pub ends: bool,
    /// Whether the greater of both cost critics counts. OSRL takes the smaller, as for rewards.
    pub greatest: bool,
    /// Whether the actor goes down Q_c where Q_c > l. As published it learns nothing there.
    pub descend: bool,
    /// Whether Q_c is really pushed up on actions out of distribution. OSRL judges them by the target critics, outside the gradient (and
    /// before their tanh): only α moves, and nothing is learnt from it.
    pub ood_gradient: bool,
    /// Whether Q_c is pushed up online as well.
    pub ood_online: bool,
    /// Whether sampled actions are measured against the minibatch's own actions. OSRL measures them against each other.
    pub ood_by_data: bool,
    /// Sampled actions whose divergence is at this quantile or above are out of distribution.
    pub ood_quantile: f64,
    /// Actions sampled per state.
    pub ood_actions: usize,
    /// l_c/l.
    pub ood_scale: f64,
    /// α begins at 0 and stays within 0 and this.
    pub alpha_max: f64,
    /// Learning rate of α.
    pub alpha_rate: f64,
}

impl Default for CpqConfig {
    fn default() -> Self {
        Self {
            updates_per_step: 1.0,
            offline_updates: 100_000,
            // OSRL has 512; every other method here has 256, and an update costs half.
            batch: 256,
            replay: 1_000_000,
            log_every: 5000,
            width: 256,
            layers: 2,
            actor_rate: 1e-4,
            critic_rate: 1e-3,
            gamma: 0.99,
            tau: 0.005,
            reward_scale: 0.1,
            cost: CostConfig {
                // OSRL's 10 is for tasks with many costs per episode. Here an episode ends with its first: 10 would forbid nothing.
                limit: 1.0,
                ends: true,
                greatest: true,
                descend: true,
                ood_gradient: true,
                // Online the policy's actions are tried, and the error of Q_c speaks for them.
                ood_online: false,
                ood_by_data: true,
                // OSRL's 0.75, against each other, calls a quarter of the policy's actions foreign whatever they are. The push on them adds up along an
                // episode by 1/(1 − γ), until Q_c is l_c everywhere.
                ood_quantile: 0.99,
                ood_actions: 10,
                ood_scale: 1.5,
                alpha_max: 0.2,
                alpha_rate: 1e-4,
            },
            vae: VaeConfig::default(),
        }
    }
}

impl CpqConfig {
    fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| need(algo, key, fine, needed);
        let cost = &self.cost;
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("log_every", self.log_every > 0, "at least 1")?;
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("layers", (1..=64).contains(&self.layers), "between 1 and 64")?;
        need("actor_rate", self.actor_rate > 0.0 && self.actor_rate < 1.0, "between 0 and 1")?;
        need("critic_rate", self.critic_rate > 0.0 && self.critic_rate < 1.0, "between 0 and 1")?;
        need("gamma", (0.0..1.0).contains(&self.gamma), "at least 0 and below 1")?;
        need("tau", self.tau > 0.0 && self.tau <= 1.0, "above 0 and at most 1")?;
        need("reward_scale", self.reward_scale > 0.0 && self.reward_scale.is_finite(), "above 0")?;
        need("cost.limit", cost.limit > 0.0 && cost.limit.is_finite(), "above 0")?;
        need("cost.ood_quantile", (0.0..1.0).contains(&cost.ood_quantile), "at least 0 and below 1")?;
        need("cost.ood_actions", (1..=1000).contains(&cost.ood_actions), "between 1 and 1000")?;
        need("cost.ood_scale", cost.ood_scale >= 0.0 && cost.ood_scale.is_finite(), "0 or more")?;
        need("cost.alpha_max", cost.alpha_max >= 0.0 && cost.alpha_max.is_finite(), "0 or more")?;
        need("cost.alpha_rate", (0.0..1.0).contains(&cost.alpha_rate), "at least 0 and below 1")?;
        need("vae.width", (1..=1 << 14).contains(&self.vae.width), "between 1 and 16384")?;
        need("vae.layers", (1..=64).contains(&self.vae.layers), "between 1 and 64")?;
        need("vae.rate", self.vae.rate > 0.0 && self.vae.rate < 1.0, "between 0 and 1")?;
        need("vae.beta", self.vae.beta >= 0.0 && self.vae.beta.is_finite(), "0 or more")
    }
}

/// With one cost at most, and nothing after it, no true Q_c is above this.
const CEILING: f32 = 1.0;

/// The length of an episode that `cost.limit` speaks of, where the environment has none: that of the robots here.
const EPISODE: usize = 1000;

/// l: what a constant cost per step that adds up to `limit` in an episode of `steps` is worth when discounted.
fn discounted_limit(limit: f64, gamma: f64, steps: usize) -> f64 {
    limit * (1.0 - gamma.powi(steps as i32)) / ((1.0 - gamma) * steps as f64)
}

/// The value from which on `quantile` of `values` lie below. Puts them in another order.
fn quantile(values: &mut [f32], quantile: f64) -> f32 {
    let at = ((values.len() - 1) as f64 * quantile).ceil() as usize;
    *values.select_nth_unstable_by(at, f32::total_cmp).1
}

/// What one update gave; means over the minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// (a − â)² of the autoencoder.
    pub reconstruction: f64,
    /// Latent divergence of the minibatch's actions.
    pub divergence: f64,
    /// Squared error of the reward critics.
    pub reward_critic: f64,
    /// Their value.
    pub reward_value: f64,
    /// Squared error of the cost critics.
    pub cost_critic: f64,
    /// Their value.
    pub cost_value: f64,
    /// Share of sampled actions out of distribution.
    pub ood_share: f64,
    /// Q_c of those, their mean.
    pub ood_cost: f64,
    /// α.
    pub alpha: f64,
    /// The actor's loss.
    pub actor: f64,
    /// Share of the policy's actions with Q_c ≤ l.
    pub gate_open: f64,
}

impl Losses {
    /// With the names of their columns in `progress.csv`.
    fn named(&self) -> [(&'static str, f64); 11] {
        [
            ("Loss/Loss_vae_reconstruction", self.reconstruction),
            ("Value/vae_divergence", self.divergence),
            ("Loss/Loss_reward_critic", self.reward_critic),
            ("Value/reward_critic", self.reward_value),
            ("Loss/Loss_cost_critic", self.cost_critic),
            ("Value/cost_critic", self.cost_value),
            ("Value/ood_share", self.ood_share),
            ("Value/ood_cost", self.ood_cost),
            ("Value/alpha", self.alpha),
            ("Loss/Loss_pi", self.actor),
            ("Value/gate_open", self.gate_open),
        ]
    }
}

/// The networks and what trains them.
#[derive(Clone)]
struct Learner {
    config: CpqConfig,
    obs: usize,
    action: usize,
    /// l.
    limit: f32,
    actor: Model,
    rewards: Twin,
    costs: Twin,
    vae: Vae,
    alpha: f64,
    /// Whether Q_c is pushed up out of distribution, for which alone there is an autoencoder.
    push: bool,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    noise: Vec<f32>,
    choice: Vec<f32>,
    log_prob: Vec<f32>,
    input: Vec<f32>,
    /// Q̄_c(s', a') and Q̄(s', a').
    next_cost: Vec<f32>,
    next_value: Vec<f32>,
    ood_input: Vec<f32>,
    ood_divergence: Vec<f32>,
    order: Vec<f32>,
    open: Vec<bool>,
    d_action: Vec<f32>,
    d_closed: Vec<f32>,
    d_head: Vec<f32>,
    actor_tape: Tape,
    next_tape: Tape,
}

impl Learner {
    fn new(config: CpqConfig, spec: &Spec, rng: &mut Rng) -> Self {
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let sizes = |inputs: usize, outputs: usize| {
            let hidden = std::iter::repeat_n(config.width, config.layers);
            std::iter::once(inputs).chain(hidden).chain([outputs]).collect::<Vec<_>>()
        };
        let (rate, tau) = (config.critic_rate as f32, config.tau as f32);
        Self {
            obs,
            action,
            limit: discounted_limit(config.cost.limit, config.gamma, spec.time_limit.unwrap_or(EPISODE)) as f32,
            actor: Model::new(&sizes(obs, 2 * action), config.actor_rate as f32, rng),
            rewards: Twin::new(&sizes(obs + action, 1), rate, tau, rng),
            costs: Twin::new(&sizes(obs + action, 1), rate, tau, rng),
            vae: Vae::new(config.vae.clone(), obs, action, rng),
            alpha: 0.0,
            push: true,
            scratch: Scratch::default(),
            config,
        }
    }

    fn cost_pick(&self) -> Pick {
        if self.config.cost.greatest { Pick::Greatest } else { Pick::Least }
    }

    /// One update on a minibatch.
    fn update(&mut self, batch: &Batch, rng: &mut Rng) -> Result<Losses> {
        let mut losses = Losses::default();
        if self.push {
            let VaeLoss { reconstruction, kl } = self.vae.update(batch, rng);
            (losses.reconstruction, losses.divergence) = (reconstruction, kl);
        }
        self.look_ahead(batch, rng);
        self.reward_gradient(batch, &mut losses);
        self.rewards.step();
        self.cost_gradient(batch, &mut losses);
        self.ood_gradient(batch, rng, &mut losses);
        self.costs.step();
        self.actor_gradient(batch, rng, &mut losses);
        self.actor.step();
        losses.alpha = self.alpha;
        for (name, value) in losses.named() {
            if !value.is_finite() {
                return Err(Error::other(format!("{name} is {value}")));
            }
        }
        Ok(losses)
    }

    /// Q̄(s', a') and Q̄_c(s', a'), a' ~ π(·|s').
    fn look_ahead(&mut self, batch: &Batch, rng: &mut Rng) {
        let (n, dim, pick) = (batch.rows, self.action, self.cost_pick());
        let s = &mut self.scratch;
        s.noise.resize(n * dim, 0.0);
        s.choice.resize(n * dim, 0.0);
        s.log_prob.resize(n, 0.0);
        s.next_cost.resize(n, 0.0);
        s.next_value.resize(n, 0.0);
        rng.fill_normal(&mut s.noise);
        let head = self.actor.net.forward(&batch.next_state, n, &mut s.next_tape);
        gaussian::squashed_sample(head, &s.noise, dim, &mut s.choice, &mut s.log_prob);
        join(&mut s.input, &batch.next_state, self.obs, &s.choice, dim);
        let [a, b] = self.costs.forward_targets(&s.input, n);
        (0..n).for_each(|row| s.next_cost[row] = pick.of(a[row], b[row]));
        let [a, b] = self.rewards.forward_targets(&s.input, n);
        (0..n).for_each(|row| s.next_value[row] = Pick::Least.of(a[row], b[row]));
    }

    /// Adds the gradient of the reward critics' mean squared error.
    fn reward_gradient(&mut self, batch: &Batch, losses: &mut Losses) {
        let (n, s) = (batch.rows, &self.scratch);
        let (gamma, scale, limit) = (self.config.gamma as f32, self.config.reward_scale as f32, self.limit);
        let mut value = 0.0;
        let loss = self.rewards.add_gradient(&batch.state_action, n, |row, q| {
            let goes_on = batch.goes_on[row] > 0.0 && s.next_cost[row] <= limit;
            let y = scale * batch.reward[row] + if goes_on { gamma * s.next_value[row] } else { 0.0 };
            value += f64::from(q);
            (f64::from((q - y) * (q - y)), 2.0 * (q - y) / n as f32)
        });
        (losses.reward_critic, losses.reward_value) = (loss / (2 * n) as f64, value / (2 * n) as f64);
    }

    /// Adds the gradient of the cost critics' mean squared error.
    fn cost_gradient(&mut self, batch: &Batch, losses: &mut Losses) {
        let (n, s) = (batch.rows, &self.scratch);
        let (gamma, ends) = (self.config.gamma as f32, self.config.cost.ends);
        let mut value = 0.0;
        let loss = self.costs.add_gradient(&batch.state_action, n, |row, q| {
            let cost = batch.violation[row];
            // Without `ends` a violation is a cost like any other, after which costs go on; another end is always one.
            let over = batch.goes_on[row] == 0.0 && (ends || cost == 0.0);
            // With nothing after a violation no true cost is outside [0, 1], and none is bootstrapped from there.
            let next = if ends { s.next_cost[row].clamp(0.0, CEILING) } else { s.next_cost[row] };
            let y = cost + if over { 0.0 } else { gamma * next };
            value += f64::from(q);
            (f64::from((q - y) * (q - y)), 2.0 * (q - y) / n as f32)
        });
        (losses.cost_critic, losses.cost_value) = (loss / (2 * n) as f64, value / (2 * n) as f64);
    }

    /// Adds the gradient of −α·E[1[ã out of distribution]·min(Q_c(s, ã), l_c)] and moves α.
    fn ood_gradient(&mut self, batch: &Batch, rng: &mut Rng, losses: &mut Losses) {
        let (n, dim, obs, pick) = (batch.rows, self.action, self.obs, self.cost_pick());
        let config = &self.config.cost;
        let (columns, all) = (obs + dim, n * config.ood_actions);
        let s = &mut self.scratch;
        // This tape stays as it is until the actor's own gradient.
        self.actor.net.forward(&batch.state, n, &mut s.actor_tape);
        if !self.push {
            return;
        }
        s.ood_input.resize(all * columns, 0.0);
        s.ood_divergence.resize(all, 0.0);
        // A minibatch at a time: its layers stay in the cache.
        for (input, divergence) in s.ood_input.chunks_exact_mut(n * columns).zip(s.ood_divergence.chunks_exact_mut(n)) {
            rng.fill_normal(&mut s.noise);
            let head = s.actor_tape.output();
            match config.ood_gradient {
                true => gaussian::squashed_sample(head, &s.noise, dim, &mut s.choice, &mut s.log_prob),
                false => gaussian::sample(head, &s.noise, dim, &mut s.choice),
            }
            for (row, input) in input.chunks_exact_mut(columns).enumerate() {
                input[..obs].copy_from_slice(&batch.state[row * obs..][..obs]);
                input[obs..].copy_from_slice(&s.choice[row * dim..][..dim]);
            }
            self.vae.divergence(input, divergence);
        }
        s.order.clear();
        if config.ood_by_data {
            s.order.resize(n, 0.0);
            self.vae.divergence(&batch.state_action, &mut s.order);
        } else {
            s.order.extend_from_slice(&s.ood_divergence);
        }
        let threshold = quantile(&mut s.order, config.ood_quantile);
        // Those out of distribution to the front.
        let mut count = 0;
        for row in 0..all {
            if s.ood_divergence[row] >= threshold {
                s.ood_input.copy_within(row * columns..(row + 1) * columns, count * columns);
                count += 1;
            }
        }
        losses.ood_share = count as f64 / all as f64;
        if count == 0 {
            return;
        }
        let input = &s.ood_input[..count * columns];
        let wanted = config.ood_scale * f64::from(self.limit);
        let below = if config.ood_gradient {
            let push = -(self.alpha / all as f64) as f32;
            let slope = |q: f32| if f64::from(q) < wanted { push } else { 0.0 };
            let sum = self.costs.add_gradient(input, count, |_, q| (f64::from(q), slope(q)));
            losses.ood_cost = sum / (2 * count) as f64;
            (wanted - losses.ood_cost) * losses.ood_share
        } else {
            let [a, b] = self.costs.forward_targets(input, count);
            let sum = (0..count).map(|row| f64::from(pick.of(a[row], b[row]))).sum::<f64>();
            losses.ood_cost = sum / count as f64;
            wanted - sum / all as f64
        };
        self.alpha = (self.alpha + config.alpha_rate * below).clamp(0.0, config.alpha_max);
    }

    /// Adds the gradient of −E[1[Q_c(s, a) ≤ l]·Q(s, a) − 1[Q_c(s, a) > l]·E|Q|·Q_c(s, a)], with the actor's outputs that [`Learner::ood_gradient`] left.
    fn actor_gradient(&mut self, batch: &Batch, rng: &mut Rng, losses: &mut Losses) {
        let (n, dim, pick, limit) = (batch.rows, self.action, self.cost_pick(), self.limit);
        let s = &mut self.scratch;
        rng.fill_normal(&mut s.noise);
        let head = s.actor_tape.output();
        gaussian::squashed_sample(head, &s.noise, dim, &mut s.choice, &mut s.log_prob);
        join(&mut s.input, &batch.state, self.obs, &s.choice, dim);
        let [a, b] = self.costs.forward(&s.input, n);
        s.open.clear();
        s.open.extend((0..n).map(|row| pick.of(a[row], b[row]) <= limit));
        self.rewards.forward(&s.input, n);
        s.d_action.resize(n * dim, 0.0);
        s.d_head.resize(n * 2 * dim, 0.0);
        let (open, scale, mut loss) = (&s.open, 1.0 / n as f32, 0.0);
        let slope = |row: usize, q: f32| {
            if !open[row] {
                return 0.0;
            }
            loss -= f64::from(q * scale);
            -scale
        };
        self.rewards.action_gradient(n, Pick::Least, self.obs, slope, &mut s.d_action);
        if self.config.cost.descend {
            // In units of the values that the other rows climb, so that neither drowns the other.
            let [a, b] = self.rewards.outputs();
            let unit = (0..n).map(|row| a[row].min(b[row]).abs()).sum::<f32>() * scale;
            s.d_closed.resize(n * dim, 0.0);
            let slope = |row: usize, _: f32| if open[row] { 0.0 } else { unit * scale };
            self.costs.action_gradient(n, pick, self.obs, slope, &mut s.d_closed);
            s.d_action.iter_mut().zip(&s.d_closed).for_each(|(d, closed)| *d += closed);
        }
        gaussian::squashed_backward(head, &s.noise, dim, &s.choice, &s.d_action, 0.0, &mut s.d_head);
        let grad = Some(&mut self.actor.grad[..]);
        self.actor.net.backward(&batch.state, n, &mut s.actor_tape, &s.d_head, grad, None);
        losses.actor = loss;
        losses.gate_open = s.open.iter().filter(|open| **open).count() as f64 / n as f64;
    }

    /// Q_c(s, a) of one pair.
    fn cost_of(&mut self, state: &[f32], action: &[f32]) -> f32 {
        let pick = self.cost_pick();
        join(&mut self.scratch.input, state, self.obs, action, self.action);
        let [a, b] = self.costs.forward(&self.scratch.input, 1);
        pick.of(a[0], b[0])
    }
}

/// CPQ.
pub struct Cpq {
    learner: Learner,
    pub(crate) demos: Replay,
    online: Replay,
    act_rng: Rng,
    learn_rng: Rng,
    updates: u64,
    // Scratch.
    metrics: Metrics,
    state: Vec<f32>,
    chosen: Vec<f32>,
    noise: Vec<f32>,
    tape: Tape,
    batch: Batch,
}

#[derive(Serialize, Deserialize)]
struct CpqState {
    act_rng: RngState,
    learn_rng: RngState,
    updates: u64,
    alpha: f64,
}

impl Cpq {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: CpqConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let mut init = Rng::stream(setup.seed, "init");
        Ok(Self {
            // Demonstrations are never overwritten: there is room for as many as there can be.
            demos: Replay::new(obs, action, usize::MAX),
            online: Replay::new(obs, action, config.replay),
            learner: Learner::new(config, spec, &mut init),
            act_rng: Rng::stream(setup.seed, "policy"),
            learn_rng: Rng::stream(setup.seed, "learner"),
            updates: 0,
            metrics: Metrics::default(),
            state: vec![0.0; obs],
            chosen: vec![0.0; action],
            noise: vec![0.0; action],
            tape: Tape::default(),
            batch: Batch::default(),
        })
    }

    /// One update on a minibatch drawn uniformly from demonstrations and online transitions together.
    pub(crate) fn update(&mut self) -> Result<Losses> {
        let n = self.learner.config.batch;
        Replay::sample_two([&self.demos, &self.online], None, n, &mut self.learn_rng, &mut self.batch);
        self.learner.update(&self.batch, &mut self.learn_rng)
    }

    /// Numbers that learn by gradient; α has a rule of its own.
    pub(crate) fn parameters(&self) -> usize {
        let Learner { actor, rewards, costs, vae, .. } = &self.learner;
        let critics: usize = [rewards.nets(), costs.nets()].iter().flatten().map(|net| net.params.len()).sum();
        actor.net.params.len() + critics + vae.parameters()
    }

    /// Online updates that should have been done after this many steps.
    fn due(&self, steps: u64) -> u64 {
        (steps as f64 * self.learner.config.updates_per_step) as u64
    }

    /// Learns what is due; notes the metrics of the last update before the next row.
    fn learn(&mut self, steps: u64) -> Result<()> {
        let noted = self.due(steps.next_multiple_of(self.learner.config.log_every));
        while self.updates < self.due(steps) {
            self.updates += 1;
            let losses = self.update()?;
            if self.updates == noted {
                self.metrics.0.clear();
                losses.named().into_iter().for_each(|(name, value)| self.metrics.push(name, value));
            }
        }
        Ok(())
    }

    /// Adds the transitions of an episode to the demonstrations' replay.
    fn remember(&mut self, demos: &Demonstrations, episode: usize) {
        for Transition { state, action, reward, end, next_state } in demos.transitions(episode) {
            self.demos.push(state, action, reward, end, next_state);
        }
    }

    /// AUC of the latent divergence on these episodes: uniform random actions against the demonstrated ones.
    fn ood_auc(&mut self, demos: &Demonstrations, episodes: &[usize]) -> Option<f64> {
        let (mut like, mut unlike, mut divergence) = (Vec::new(), Vec::new(), [0.0]);
        // A stream of its own: judging moves nothing else.
        let mut rng = Rng::stream(0, "random actions");
        let (mut input, mut action) = (Vec::new(), vec![0.0; self.chosen.len()]);
        for step in episodes.iter().flat_map(|episode| demos.transitions(*episode)) {
            rng.fill_action(&mut action);
            for (action, kls) in [(step.action, &mut like), (&action, &mut unlike)] {
                join(&mut input, step.state, step.state.len(), action, action.len());
                self.learner.vae.divergence(&input, &mut divergence);
                kls.push(f64::from(divergence[0]));
            }
        }
        auc(&unlike, &like)
    }
}

impl Method for Cpq {
    fn accepts(&self, demos: &Demonstrations) -> Result<()> {
        crate::same_robot(demos, self.state.len(), self.chosen.len())?;
        if demos.violations() == 0 {
            return Err(Error::other("the demonstrations hold no violation: there is no cost to learn from"));
        }
        if demos.trajectories().iter().all(|t| t.rewards.iter().all(|r| *r == 0.0)) {
            return Err(Error::other("the demonstrations hold no reward: there is nothing to learn a policy from"));
        }
        Ok(())
    }

    fn pretrain(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.accepts(demos)?;
        let held = held_out(demos.trajectories(), 10);
        for episode in (0..demos.trajectories().len()).filter(|e| !held.contains(e)) {
            self.remember(demos, episode);
        }
        let total = self.learner.config.offline_updates;
        let limit = f64::from(self.learner.limit);
        let mut report = OfflineReport {
            updates: total,
            transitions: self.demos.len(),
            violations: demos.violations() - held.iter().filter(|e| demos.trajectories()[**e].violates()).count(),
            ..OfflineReport::default()
        };
        let means = updates("policy, critics and autoencoder", total, seen, || {
            self.update().map(|losses| losses.named().map(|(_, value)| value))
        })?;
        for ((name, _), mean) in Losses::default().named().into_iter().zip(means) {
            report.note("updates", name, mean);
        }
        report.note("cost", "threshold", limit);
        report.held_out = Judgement::of(demos, &held, limit, |state, action| self.learner.cost_of(state, action));
        report.note("autoencoder", "auc", self.ood_auc(demos, &held).unwrap_or(f64::NAN));
        // They have done their duty: online everything is learnt from.
        for episode in held {
            self.remember(demos, episode);
        }
        Ok(report)
    }

    fn train(&mut self, run: &mut Run) -> Result<()> {
        self.learner.push = self.learner.config.cost.ood_online;
        while run.next_episode()? {
            while !run.over() {
                self.state.copy_from_slice(run.state());
                let acting = Instant::now();
                let head = self.learner.actor.net.forward(&self.state, 1, &mut self.tape);
                self.act_rng.fill_normal(&mut self.noise);
                gaussian::squashed_sample(head, &self.noise, self.noise.len(), &mut self.chosen, &mut [0.0]);
                run.add_time("acting", acting);
                let step = run.step(&self.chosen)?;
                self.online.push(&self.state, &self.chosen, step.reward as f32, step.end, run.state());

                let learning = Instant::now();
                let steps = run.clock().steps;
                self.learn(steps)?;
                run.add_time("learning", learning);
                // The first row names the columns of `progress.csv`: none is written before there are losses.
                let learns = self.learner.config.updates_per_step > 0.0;
                if steps.is_multiple_of(self.learner.config.log_every) && !(learns && self.metrics.0.is_empty()) {
                    run.record(&std::mem::take(&mut self.metrics))?;
                }
                run.checkpoint(|to| self.save(to))?;
            }
        }
        Ok(())
    }

    fn actor(&self) -> Box<dyn Actor> {
        // A Gaussian squashed by tanh, like SAC's.
        Box::new(SacActor::new(&self.learner.actor.net, &self.act_rng))
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.learner.actor.save("policy/actor", to);
        self.learner.rewards.save("weights", "critic", to);
        self.learner.costs.save("weights", "cost", to);
        self.learner.vae.save(to);
        self.demos.save("demonstrations", to);
        self.online.save("online", to);
        let state = CpqState {
            act_rng: self.act_rng.save(),
            learn_rng: self.learn_rng.save(),
            updates: self.updates,
            alpha: self.learner.alpha,
        };
        to.json("cpq", &state);
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.learner.actor.load("policy/actor", from)?;
        self.learner.rewards.load("weights", "critic", from)?;
        self.learner.costs.load("weights", "cost", from)?;
        self.learner.vae.load(from)?;
        self.demos.load("demonstrations", from)?;
        self.online.load("online", from)?;
        let state: CpqState = from.json("cpq")?;
        self.act_rng = Rng::load(&state.act_rng)?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.learner.alpha = state.alpha;
        self.updates = state.updates;
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/actor", &mut self.learner.actor.net.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::env::Env as _;
    use sskp_blocks::nets::Mlp;

    const OBS: usize = 3;
    const ACTION: usize = 2;
    const ROWS: usize = 8;

    fn fixture(change: impl Fn(&mut CpqConfig)) -> (Learner, Batch) {
        let mut rng = Rng::stream(4, "fixture");
        let mut config = CpqConfig { width: 8, ..CpqConfig::default() };
        config.vae.width = 8;
        config.critic_rate = 0.05;
        config.tau = 0.5;
        change(&mut config);
        let spec = Spec { name: "test".into(), obs_dim: OBS, action_dim: ACTION, time_limit: Some(100), dt: 0.1 };
        let mut learner = Learner::new(config, &spec, &mut rng);
        // Steeper than fresh critics are, and targets unlike them.
        for twin in [&mut learner.rewards, &mut learner.costs] {
            for model in twin.models_mut() {
                model.net.params.iter_mut().for_each(|p| *p *= 2.0);
            }
            twin.add_gradient(&[0.3; 2 * (OBS + ACTION)], 2, |_, _| (0.0, 1.0));
            twin.step();
        }
        let mut replay = Replay::new(OBS, ACTION, ROWS);
        for i in 0..ROWS {
            let mut row = [0.0; 2 * OBS];
            rng.fill_normal(&mut row);
            replay.push(&row[..OBS], &[0.2 * i as f32 - 0.7, 0.3], i as f32 - 3.0, None, &row[OBS..]);
        }
        let mut batch = Batch::default();
        replay.sample(ROWS, &mut rng, &mut batch);
        batch.violation = vec![0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        batch.goes_on = batch.violation.iter().map(|c| 1.0 - c).collect();
        (learner, batch)
    }

    /// Puts l in the middle of these values, so that some are above and some below.
    fn limit_amid(learner: &mut Learner, values: &[f32]) {
        let mut sorted = values.to_vec();
        sorted.sort_by(f32::total_cmp);
        learner.limit = 0.5 * (sorted[ROWS / 2 - 1] + sorted[ROWS / 2]);
    }

    fn values(nets: [&Mlp; 2], input: &[f32]) -> [f64; 2] {
        nets.map(|net| f64::from(net.forward(input, 1, &mut Tape::default())[0]))
    }

    #[test]
    fn the_limit_by_hand() {
        // γ 0.99, T 1000: (1 − 4.3e-5)/(0.01·1000) = 0.0999957.
        assert!((discounted_limit(1.0, 0.99, 1000) - 0.099_995_7).abs() < 1e-7);
        let mut x = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(quantile(&mut x, 0.75), 4.0);
        assert_eq!(quantile(&mut x, 0.0), 1.0);
    }

    #[test]
    fn targets_are_those_of_the_equations() {
        for (ends, greatest) in [(true, true), (false, false)] {
            let (mut learner, batch) = fixture(|c| (c.cost.ends, c.cost.greatest) = (ends, greatest));
            let mut rng = Rng::stream(1, "next");
            learner.look_ahead(&batch, &mut rng.clone());
            let next_cost = learner.scratch.next_cost.clone();
            limit_amid(&mut learner, &next_cost);
            let mut losses = Losses::default();
            learner.reward_gradient(&batch, &mut losses);
            learner.cost_gradient(&batch, &mut losses);

            let mut noise = [0.0; ROWS * ACTION];
            rng.fill_normal(&mut noise);
            let (mut reward_loss, mut cost_loss, mut gated) = (0.0, 0.0, 0);
            for row in 0..ROWS {
                let next = &batch.next_state[row * OBS..][..OBS];
                let (mut action, mut tape) = ([0.0; ACTION], Tape::default());
                let head = learner.actor.net.forward(next, 1, &mut tape);
                gaussian::squashed_sample(head, &noise[row * ACTION..][..ACTION], ACTION, &mut action, &mut [0.0]);
                let input = [next, &action].concat();
                let [a, b] = learner.costs.forward_targets(&input, 1).map(|q| f64::from(q[0]));
                let cost_ahead = if greatest { a.max(b) } else { a.min(b) };
                let [a, b] = learner.rewards.forward_targets(&input, 1).map(|q| f64::from(q[0]));
                let violated = batch.violation[row] > 0.0;
                let open = cost_ahead <= f64::from(learner.limit);
                gated += usize::from(!open);
                let mut y = 0.1 * f64::from(batch.reward[row]);
                let mut y_c = f64::from(batch.violation[row]);
                if !violated && open {
                    y += 0.99 * a.min(b);
                }
                if !ends {
                    y_c += 0.99 * cost_ahead;
                } else if !violated {
                    y_c += 0.99 * cost_ahead.clamp(0.0, 1.0);
                }
                let here = &batch.state_action[row * (OBS + ACTION)..][..OBS + ACTION];
                let squares = |q: [f64; 2], y: f64| q.iter().map(|q| (q - y).powi(2)).sum::<f64>() / (2 * ROWS) as f64;
                reward_loss += squares(values(learner.rewards.nets(), here), y);
                cost_loss += squares(values(learner.costs.nets(), here), y_c);
            }
            assert!((1..ROWS).contains(&gated), "the gate must be open and closed: {gated}");
            assert!((losses.reward_critic - reward_loss).abs() < 1e-5, "{} {reward_loss}", losses.reward_critic);
            assert!((losses.cost_critic - cost_loss).abs() < 1e-5, "{} {cost_loss}", losses.cost_critic);
        }
    }

    fn differences(params: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
        let (smooth, steepest) = crate::differences::compare(params, gradient, 2e-4, 5e-4, loss);
        assert!(smooth * 10 > 7 * params.len(), "only {smooth} of {} could be compared", params.len());
        assert!(steepest > 0.02, "the gradient must not vanish for the test to mean anything: {steepest}");
    }

    #[test]
    fn the_cost_critics_have_the_gradient_of_error_and_push() {
        let (mut learner, batch) = fixture(|c| {
            (c.cost.ood_actions, c.cost.ood_by_data, c.cost.ood_quantile) = (3, false, 0.75);
        });
        let rng = Rng::stream(1, "next");
        learner.look_ahead(&batch, &mut rng.clone());
        learner.alpha = 0.15;
        // l_c in the widest gap between the values it is compared with: some are above, some below, none so near that a difference
        // would cross it.
        let mut trial = learner.clone();
        trial.ood_gradient(&batch, &mut rng.clone(), &mut Losses::default());
        let ood = trial.scratch.ood_input[..6 * (OBS + ACTION)].to_vec();
        let mut pushed: Vec<f64> =
            ood.chunks_exact(OBS + ACTION).flat_map(|row| values(learner.costs.nets(), row)).collect();
        pushed.sort_by(f64::total_cmp);
        let gap = pushed.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
        learner.limit = (0.5 * (gap[0] + gap[1]) / 1.5) as f32;
        let wanted = 1.5 * f64::from(learner.limit);
        let next_cost = learner.scratch.next_cost.clone();
        let targets: Vec<f64> = (0..ROWS)
            .map(|r| match batch.violation[r] > 0.0 {
                true => 1.0,
                false => 0.99 * f64::from(next_cost[r].clamp(0.0, 1.0)),
            })
            .collect();
        for model in learner.costs.models_mut() {
            model.grad.fill(0.0);
        }
        let mut losses = Losses::default();
        learner.cost_gradient(&batch, &mut losses);
        learner.ood_gradient(&batch, &mut rng.clone(), &mut losses);
        // Three actions for each of eight states; those at or above the 75 % quantile, rounded up to a whole one: 18 … 23.
        assert_eq!(losses.ood_share, 6.0 / 24.0);
        assert_eq!(learner.scratch.ood_input[..ood.len()], ood);
        let gradients = learner.costs.models_mut().each_ref().map(|m| m.grad.clone());
        for i in 0..2 {
            let net = learner.costs.nets()[i].clone();
            differences(&net.params, &gradients[i], |params| {
                let mut net = net.clone();
                net.params.copy_from_slice(params);
                let q = |input: &[f32]| values([&net, &net], input)[0];
                let rows = batch.state_action.chunks_exact(OBS + ACTION);
                let error: f64 = rows.zip(&targets).map(|(row, y)| (q(row) - y).powi(2)).sum::<f64>() / ROWS as f64;
                let push: f64 = ood.chunks_exact(OBS + ACTION).map(|row| q(row).min(wanted)).sum();
                error - 0.15 * push / 24.0
            });
        }
        let expected = 0.15 + 1e-4 * (wanted - losses.ood_cost) * 0.25;
        assert!((learner.alpha - expected).abs() < 1e-12);
    }

    #[test]
    fn as_osrl_the_push_has_no_gradient() {
        let (mut learner, batch) = fixture(|c| {
            (c.cost.ood_gradient, c.cost.ood_by_data, c.cost.ood_quantile) = (false, false, 0.75);
        });
        let rng = Rng::stream(1, "next");
        learner.look_ahead(&batch, &mut rng.clone());
        learner.alpha = 0.15;
        let mut losses = Losses::default();
        learner.ood_gradient(&batch, &mut rng.clone(), &mut losses);
        assert!(learner.costs.models_mut().iter().all(|m| m.grad.iter().all(|g| *g == 0.0)));
        assert_eq!(losses.ood_share, 0.25);
        let expected = 0.15 + 1e-4 * (1.5 * f64::from(learner.limit) - 0.25 * losses.ood_cost);
        assert!((learner.alpha - expected).abs() < 1e-12);
    }

    #[test]
    fn actions_are_out_of_distribution_against_those_of_the_data() {
        let (mut learner, batch) = fixture(|c| c.cost.ood_quantile = 0.5);
        let rng = Rng::stream(1, "next");
        learner.look_ahead(&batch, &mut rng.clone());
        let mut like = [0.0; ROWS];
        learner.vae.divergence(&batch.state_action, &mut like);
        like.sort_by(f32::total_cmp);
        let mut losses = Losses::default();
        learner.ood_gradient(&batch, &mut rng.clone(), &mut losses);
        let unlike = &learner.scratch.ood_divergence;
        let outside = unlike.iter().filter(|d| **d >= like[4]).count();
        assert!((1..unlike.len()).contains(&outside), "{outside} of {}", unlike.len());
        assert_eq!(losses.ood_share, outside as f64 / unlike.len() as f64);
        // Data so unlike anything that no sample is out of distribution: nothing is pushed, and α stays.
        learner.costs.models_mut().iter_mut().for_each(|m| m.grad.fill(0.0));
        let mut far = batch.clone();
        far.state_action.iter_mut().for_each(|x| *x *= 1e3);
        let alpha = learner.alpha;
        learner.ood_gradient(&far, &mut rng.clone(), &mut losses);
        assert_eq!((losses.ood_share, learner.alpha), (0.0, alpha));
        assert!(learner.costs.models_mut().iter().all(|m| m.grad.iter().all(|g| *g == 0.0)));
    }

    #[test]
    fn without_the_push_neither_autoencoder_nor_multiplier_moves() {
        let (mut learner, batch) = fixture(|_| ());
        learner.alpha = 0.1;
        learner.push = false;
        let before = learner.vae.clone();
        let losses = learner.update(&batch, &mut Rng::stream(1, "next")).unwrap();
        assert_eq!((losses.alpha, losses.ood_share, losses.divergence), (0.1, 0.0, 0.0));
        let mut divergences = [[0.0; ROWS]; 2];
        for (mut vae, to) in [before, learner.vae.clone()].into_iter().zip(&mut divergences) {
            vae.divergence(&batch.state_action, to);
        }
        assert_eq!(divergences[0], divergences[1]);
    }

    #[test]
    fn the_actor_climbs_where_it_may_and_goes_down_the_cost_elsewhere() {
        for descend in [true, false] {
            let (mut learner, batch) = fixture(|c| c.cost.descend = descend);
            let mut rng = Rng::stream(1, "actor");
            learner.look_ahead(&batch, &mut rng.clone());
            let mut losses = Losses::default();
            learner.ood_gradient(&batch, &mut rng, &mut losses);
            let mut noise = [0.0; ROWS * ACTION];
            rng.clone().fill_normal(&mut noise);
            let choose = |actor: &Mlp, row: usize| {
                let state = &batch.state[row * OBS..][..OBS];
                let (mut action, mut tape) = ([0.0; ACTION], Tape::default());
                let head = actor.forward(state, 1, &mut tape);
                gaussian::squashed_sample(head, &noise[row * ACTION..][..ACTION], ACTION, &mut action, &mut [0.0]);
                [state, &action].concat()
            };
            let base = learner.actor.net.clone();
            let costs: Vec<f32> = (0..ROWS)
                .map(|row| values(learner.costs.nets(), &choose(&base, row)))
                .map(|[a, b]| a.max(b) as f32)
                .collect();
            limit_amid(&mut learner, &costs);
            learner.actor_gradient(&batch, &mut rng, &mut losses);
            let least = |input: &[f32]| {
                let [a, b] = values(learner.rewards.nets(), input);
                a.min(b)
            };
            let unit = (0..ROWS).map(|row| least(&choose(&base, row)).abs()).sum::<f64>() / ROWS as f64;
            differences(&base.params, &learner.actor.grad, |params| {
                let mut actor = base.clone();
                actor.params.copy_from_slice(params);
                let row = |row: usize| {
                    let input = choose(&actor, row);
                    let [a, b] = values(learner.costs.nets(), &input);
                    match (costs[row] <= learner.limit, descend) {
                        (true, _) => -least(&input),
                        (false, true) => unit * a.max(b),
                        (false, false) => 0.0,
                    }
                };
                (0..ROWS).map(row).sum::<f64>() / ROWS as f64
            });
            assert_eq!(losses.gate_open, 0.5);
        }
    }

    #[test]
    fn settings_out_of_range_are_refused_with_their_name() {
        let spec = sskp_blocks::toy::Toy::default().spec().clone();
        let refused = |change: fn(&mut CpqConfig)| {
            let mut config = CpqConfig::default();
            change(&mut config);
            let setup = Setup::new("cpq", 0, 1);
            Cpq::new(&spec, config, setup).err().expect("refused").to_string()
        };
        assert_eq!(refused(|c| c.cost.limit = 0.0), "cpq.cost.limit must be above 0");
        assert_eq!(refused(|c| c.cost.ood_quantile = 1.0), "cpq.cost.ood_quantile must be at least 0 and below 1");
        assert_eq!(refused(|c| c.cost.ood_actions = 0), "cpq.cost.ood_actions must be between 1 and 1000");
        assert_eq!(refused(|c| c.vae.beta = f64::NAN), "cpq.vae.beta must be 0 or more");
        assert_eq!(refused(|c| c.actor_rate = 0.0), "cpq.actor_rate must be between 0 and 1");
    }
}
