//! Soft actor-critic (Haarnoja et al. 2018), the update that SAC, safe SAC, skill-based SAC and others share.
//!
//! With a penalty D on the policy (the [`Regulariser`]), for a minibatch of transitions (s, a, r, end, s'):
//!
//! ```math
//! \begin{aligned}
//! y &= r + \gamma \left( \min_i \bar Q_i(s', a') - \alpha D(s') \right), & a' &\sim \pi(\cdot \mid s') \\
//! L_{Q_i} &= E\left[ (Q_i(s, a) - y)^2 \right] && \texttt{critics.rs} \\
//! L_\pi &= E\left[ \alpha D(s) - Q(s, a) \right], & a &\sim \pi(\cdot \mid s) \quad \texttt{actor.rs} \\
//! L_\alpha &= \log\alpha \cdot \left( \bar D - E[D(s)] \right) && \texttt{temperature.rs}
//! \end{aligned}
//! ```
//!
//! Where nothing follows y = r, and at a violation the value that [`ViolationValue`] says. Q is the smaller of both critics, or one
//! drawn at random. The temperature α holds the mean penalty at its target D̄, when `auto_alpha`.
//!
//! ```
//! use sskp_blocks::replay::{Batch, Replay};
//! use sskp_blocks::rng::Rng;
//! use sskp_blocks::soft_actor_critic::{SoftActorCritic, SoftActorCriticConfig, ViolationValue};
//!
//! let config = SoftActorCriticConfig { width: 16, ..Default::default() };
//! let mut learner = SoftActorCritic::new(config, 2, 1, 1, &mut Rng::stream(0, "init"))?;
//! let mut replay = Replay::new(2, 1, 100);
//! replay.push(&[0.0, 1.0], &[0.5], 1.0, None, &[0.1, 0.9]);
//! let (mut rng, mut batch) = (Rng::stream(0, "learner"), Batch::default());
//! replay.sample(32, &mut rng, &mut batch);
//! learner.update(&batch, ViolationValue::Terminal, &mut rng, None)?;
//! assert_eq!(learner.updates(), 1);
//! # Ok::<(), sskp_blocks::Error>(())
//! ```
//!
//! With `threads` above one the minibatch is cut into that many equal parts whose gradients are summed in order, so a
//! run's bytes depend on the number of threads but not on chance.

mod actor;
mod config;
mod critics;
mod regulariser;
mod temperature;
#[cfg(test)]
mod tests;
mod violation;

pub use config::SoftActorCriticConfig;
pub use regulariser::{Prior, Regulariser};
pub use violation::{ViolationValue, violation_cost};

use crate::checkpoint::{Loader, Saver};
use crate::nets::{Mlp, Model};
use crate::record::Metrics;
use crate::replay::Batch;
use crate::rng::Rng;
use crate::team::{Shares, Team};
use crate::twin::{Pick, Twin, TwinTape};
use crate::{Error, Result};
use regulariser::Choices;
use temperature::Temperature;

/// Actor, twin critics with targets, temperature, and their optimisers.
pub struct SoftActorCritic {
    config: SoftActorCriticConfig,
    obs: usize,
    action: usize,
    actor: Model,
    critics: Twin,
    regulariser: Regulariser,
    temperature: Temperature,
    updates: u64,
    /// Of the choices in s' and of those in s.
    noise: [Vec<f32>; 2],
    team: Team,
    workers: Vec<Worker>,
}

/// Everything one thread needs for its part of a minibatch.
#[derive(Clone, Default)]
struct Worker {
    chosen: Choices,
    critics: TwinTape,
    input: Vec<f32>,
    target: Vec<f32>,
    d_action: Vec<f32>,
    d_head: Vec<f32>,
    actor_grad: Vec<f32>,
    critic_grads: [Vec<f32>; 2],
    sums: Sums,
}

/// Sums over a part's rows, of the last update.
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

impl SoftActorCritic {
    /// Fresh networks for observations and actions of these sizes, held by their entropy.
    pub fn new(
        config: SoftActorCriticConfig,
        obs: usize,
        action: usize,
        threads: usize,
        rng: &mut Rng,
    ) -> Result<Self> {
        let regulariser = Regulariser::Entropy { target: config.entropy_per_action * action as f64 };
        let actor = Mlp::new(&config.sizes(obs, 2 * action), rng);
        Ok(Self::held_by(regulariser, actor, config, threads, rng))
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
        let actor = prior.net.clone();
        Ok(Self::held_by(Regulariser::KlToPrior { prior, target: divergence }, actor, config, threads, rng))
    }

    fn held_by(
        regulariser: Regulariser,
        actor: Mlp,
        config: SoftActorCriticConfig,
        threads: usize,
        rng: &mut Rng,
    ) -> Self {
        let rate = config.rate as f32;
        let (obs, action) = (actor.inputs(), actor.outputs() / 2);
        let actor = Model::of(actor, rate);
        let critics = Twin::new(&config.sizes(obs + action, 1), rate, config.tau as f32, rng);
        let worker = Worker {
            actor_grad: vec![0.0; actor.grad.len()],
            critic_grads: critics.nets().map(|net| vec![0.0; net.params.len()]),
            ..Worker::default()
        };
        Self {
            obs,
            action,
            actor,
            critics,
            regulariser,
            temperature: Temperature::new(config.alpha, config.rate, config.auto_alpha),
            updates: 0,
            noise: Default::default(),
            team: Team::new(threads),
            workers: vec![worker; threads.max(1)],
            config,
        }
    }

    /// α.
    pub fn alpha(&self) -> f32 {
        self.temperature.alpha()
    }
    /// The actor's network: `[mean, log σ]` of a Gaussian, squashed or plain as the [`Regulariser`] has it.
    pub fn actor(&self) -> &Mlp {
        &self.actor.net
    }
    /// Numbers that learn.
    pub fn parameters(&self) -> usize {
        self.actor.grad.len() + self.critics.parameters() + self.temperature.parameters()
    }
    /// Updates done.
    pub fn updates(&self) -> u64 {
        self.updates
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
        let pick = if self.config.min_critic { Pick::Least } else { Pick::Only(coin) };

        self.each_part(n, |this, worker, part| this.critic_part(worker, part, batch, violation));
        let workers = &self.workers;
        self.critics.step_with(&self.team, |member, which| &workers[member].critic_grads[which]);
        if self.updates.is_multiple_of(self.config.actor_every) {
            self.each_part(n, |this, worker, part| this.actor_part(worker, part, batch, pick));
            let workers = &self.workers;
            self.actor.step_with(&self.team, |member| &workers[member].actor_grad, None);
            self.temperature.update(self.mean(n, |sums| sums.penalty), self.regulariser.target());
        }
        self.updates += 1;

        let critic_loss = self.mean(n, |sums| sums.critic_loss);
        if !critic_loss.is_finite() || !self.alpha().is_finite() {
            return Err(Error::other(format!("the critics' loss is {critic_loss} at update {}", self.updates)));
        }
        if let Some(metrics) = metrics {
            metrics.push("Loss/Loss_reward_critic", critic_loss);
            metrics.push("Value/reward_critic", self.mean(n, |sums| sums.q));
            metrics.push("Loss/Loss_pi", self.mean(n, |sums| sums.actor_loss));
            metrics.push(self.regulariser.metric(), self.mean(n, |sums| sums.penalty));
            metrics.push("Value/alpha", f64::from(self.alpha()));
        }
        Ok(())
    }

    /// Runs `work` on every part of the batch, one member of the team each.
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

    /// Mean over the minibatch of what the workers have summed.
    fn mean(&self, rows: usize, sum: fn(&Sums) -> f64) -> f64 {
        self.workers.iter().map(|worker| sum(&worker.sums)).sum::<f64>() / rows as f64
    }

    /// Reads back only the policy, out of a snapshot.
    pub fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/actor", &mut self.actor.net.params)
    }

    /// Adds everything to a checkpoint.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.actor.save("policy/actor", to);
        self.critics.save("weights", "critic", to);
        self.regulariser.save(to);
        self.temperature.save(to);
        to.json("soft_actor_critic.updates", &self.updates);
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        self.actor.load("policy/actor", from)?;
        self.critics.load("weights", "critic", from)?;
        self.regulariser.load(from)?;
        self.temperature.load(from)?;
        self.updates = from.json("soft_actor_critic.updates")?;
        Ok(())
    }
}
