//! The learner: the networks, and what they learn from.

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

use super::CpqConfig;
use super::networks::{Losses, Networks};
use crate::{Actor, Method, Setup};

/// CPQ.
pub struct Cpq {
    pub(super) networks: Networks,
    /// The transitions of the demonstrations.
    pub demos: Replay,
    pub(super) online: Replay,
    pub(super) act_rng: Rng,
    learn_rng: Rng,
    pub(super) updates: u64,
    // Scratch.
    pub(super) metrics: Metrics,
    pub(super) state: Vec<f32>,
    pub(super) chosen: Vec<f32>,
    pub(super) squashed: Squashed,
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
            networks: Networks::new(config, spec, &mut init),
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
        let n = self.networks.config.batch;
        Replay::sample_two([&self.demos, &self.online], None, n, &mut self.learn_rng, &mut self.batch);
        self.networks.update(&self.batch, &mut self.learn_rng)
    }

    /// Numbers that learn by gradient; α has a rule of its own.
    pub fn parameters(&self) -> usize {
        let Networks { actor, rewards, costs, vae, .. } = &self.networks;
        actor.net.params.len() + rewards.parameters() + costs.parameters() + vae.parameters()
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
        Box::new(SquashedPolicy::new(&self.networks.actor.net, &self.act_rng))
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.networks.actor.save("policy/actor", to);
        self.networks.rewards.save("weights", "critic", to);
        self.networks.costs.save("weights", "cost", to);
        self.networks.vae.save(to);
        self.demos.save("demonstrations", to);
        self.online.save("online", to);
        let state = CpqState {
            act_rng: self.act_rng.save(),
            learn_rng: self.learn_rng.save(),
            updates: self.updates,
            alpha: self.networks.alpha,
        };
        to.json("cpq", &state);
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.networks.actor.load("policy/actor", from)?;
        self.networks.rewards.load("weights", "critic", from)?;
        self.networks.costs.load("weights", "cost", from)?;
        self.networks.vae.load(from)?;
        self.demos.load("demonstrations", from)?;
        self.online.load("online", from)?;
        let state: CpqState = from.json("cpq")?;
        self.act_rng = Rng::load(&state.act_rng)?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.networks.alpha = state.alpha;
        self.updates = state.updates;
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/actor", &mut self.networks.actor.net.params)
    }
}
