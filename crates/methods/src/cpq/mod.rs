//! CPQ, constraints penalised Q-learning (Xu, Zhan and Zhu 2022), learnt on demonstrations and continued online.
//!
//! For a minibatch of transitions (s, a, r, c, s'), a' ~ π(·|s'), in this order:
//!
//! 1. an autoencoder of the data's actions ([`vae`]), whose latent divergence marks actions unlike them;
//! 2. reward critics, with the penalised Bellman operator: what leads to more cost than l is worth nothing,
//!
//!    ```math
//!    y = r + \gamma (1 - c)\, 1[\bar Q_c(s', a') \le l]\; \bar Q(s', a');
//!    ```
//!
//! 3. cost critics, pushed up to l_c on actions out of distribution, where the data cannot speak, as hard as α says, which grows
//!    while Q_c is below l_c there:
//!
//!    ```math
//!    y_c = c + \gamma (1 - c)\, \bar Q_c(s', a'), \qquad
//!    L_c = E\left[(Q_c(s, a) - y_c)^2\right]
//!        - \alpha\, E_{\tilde a \sim \pi(\cdot \mid s)}\left[1[\tilde a \text{ out of distribution}]\, \min(Q_c(s, \tilde a), l_c)\right];
//!    ```
//!
//! 4. actor, which goes down Q_c where that is above l (⟨|Q|⟩, the mean size of Q, puts both parts in one unit):
//!
//!    ```math
//!    L_\pi = -E_{a \sim \pi(\cdot \mid s)}\left[1[Q_c(s, a) \le l]\, Q(s, a) - 1[Q_c(s, a) > l]\, \langle |Q| \rangle\, Q_c(s, a)\right].
//!    ```
//!
//! Here l is what a constant cost per step is worth that adds up to the cost limit in an episode of T steps:
//!
//! ```math
//! l = \mathrm{limit} \cdot \frac{1 - \gamma^T}{(1 - \gamma)\, T}, \qquad l_c = 1.5\, l.
//! ```
//!
//! Every departure from the public implementation (OSRL), with its reason, and the
//! switches that undo them: `docs/methods/cpq.md`.

mod config;
mod critics;
mod learner;
mod offline;
mod online;
mod out_of_distribution;
mod policy;
#[cfg(test)]
mod tests;
pub mod vae;

pub use config::{CostConfig, CpqConfig};
pub use learner::Losses;

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Spec;
use sskp_blocks::offline::{OfflineReport, StageSeen};
use sskp_blocks::policy::{Squashed, SquashedPolicy};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;

use crate::{Actor, Method, Setup};
use learner::Learner;

/// CPQ.
pub struct Cpq {
    learner: Learner,
    /// The transitions of the demonstrations.
    pub demos: Replay,
    online: Replay,
    act_rng: Rng,
    learn_rng: Rng,
    updates: u64,
    // Scratch.
    metrics: Metrics,
    state: Vec<f32>,
    chosen: Vec<f32>,
    squashed: Squashed,
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
            squashed: Squashed::default(),
            batch: Batch::default(),
        })
    }

    /// One update on a minibatch drawn uniformly from demonstrations and online transitions together.
    pub fn update(&mut self) -> Result<Losses> {
        let n = self.learner.config.batch;
        Replay::sample_two([&self.demos, &self.online], None, n, &mut self.learn_rng, &mut self.batch);
        self.learner.update(&self.batch, &mut self.learn_rng)
    }

    /// Numbers that learn by gradient; α has a rule of its own.
    pub fn parameters(&self) -> usize {
        let Learner { actor, rewards, costs, vae, .. } = &self.learner;
        let critics: usize = [rewards.nets(), costs.nets()].iter().flatten().map(|net| net.params.len()).sum();
        actor.net.params.len() + critics + vae.parameters()
    }
}

impl Method for Cpq {
    fn accepts(&self, demos: &Demonstrations) -> Result<()> {
        self.refuse(demos)
    }

    fn pretrain(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.offline(demos, seen)
    }

    fn train(&mut self, run: &mut Run) -> Result<()> {
        self.online(run)
    }

    fn updates(&self) -> Option<u64> {
        Some(self.updates)
    }

    fn actor(&self) -> Box<dyn Actor> {
        // A Gaussian squashed by tanh, like SAC's.
        Box::new(SquashedPolicy::new(&self.learner.actor.net, &self.act_rng))
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
