//! The networks, and one update of all of them.

use sskp_blocks::env::Spec;
use sskp_blocks::nets::{Model, Tape, layer_sizes};
use sskp_blocks::policy::Squashed;
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, Twin, join};
use sskp_blocks::{Error, Result};

use super::config::CpqConfig;
use super::vae::{Vae, VaeLoss};

/// The length of an episode that `cost.limit` speaks of, where the environment has none: that of the robots here.
const EPISODE: usize = 1000;

/// l: what a constant cost per step that adds up to `limit` in an episode of `steps` is worth when discounted.
pub(super) fn discounted_limit(limit: f64, gamma: f64, steps: usize) -> f64 {
    limit * (1.0 - gamma.powi(steps as i32)) / ((1.0 - gamma) * steps as f64)
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
    pub(super) fn named(&self) -> [(&'static str, f64); 11] {
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
pub(super) struct Networks {
    pub(super) config: CpqConfig,
    pub(super) obs: usize,
    pub(super) action: usize,
    /// l.
    pub(super) limit: f32,
    pub(super) actor: Model,
    pub(super) rewards: Twin,
    pub(super) costs: Twin,
    pub(super) vae: Vae,
    pub(super) alpha: f64,
    /// Whether Q_c is pushed up out of distribution, for which alone there is an autoencoder.
    pub(super) push: bool,
    pub(super) scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub(super) noise: Vec<f32>,
    pub(super) choice: Vec<f32>,
    pub(super) log_prob: Vec<f32>,
    pub(super) input: Vec<f32>,
    /// Q̄_c(s', a') and Q̄(s', a').
    pub(super) next_cost: Vec<f32>,
    pub(super) next_value: Vec<f32>,
    pub(super) ood_input: Vec<f32>,
    pub(super) ood_divergence: Vec<f32>,
    pub(super) order: Vec<f32>,
    pub(super) open: Vec<bool>,
    pub(super) d_action: Vec<f32>,
    pub(super) d_closed: Vec<f32>,
    pub(super) d_head: Vec<f32>,
    pub(super) actor_tape: Tape,
    pub(super) next: Squashed,
}

impl Networks {
    pub(super) fn new(config: CpqConfig, spec: &Spec, rng: &mut Rng) -> Self {
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let sizes = |inputs: usize, outputs: usize| layer_sizes(inputs, config.width, config.layers, outputs);
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

    pub(super) fn cost_pick(&self) -> Pick {
        if self.config.cost.greatest { Pick::Greatest } else { Pick::Least }
    }

    /// One update on a minibatch, in the order of [the equations](super).
    pub(super) fn update(&mut self, batch: &Batch, rng: &mut Rng) -> Result<Losses> {
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

    /// Q_c(s, a) of one pair.
    pub(super) fn cost_of(&mut self, state: &[f32], action: &[f32]) -> f32 {
        let pick = self.cost_pick();
        join(&mut self.scratch.input, state, self.obs, action, self.action);
        let [a, b] = self.costs.forward(&self.scratch.input, 1);
        pick.of(a[0], b[0])
    }
}
