//! The learner: SAC's networks, its replay, and what a violation is worth.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::Spec;
use sskp_blocks::policy::{Squashed, SquashedPolicy};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::{SoftActorCritic, ViolationValue, violation_cost};

use super::{SacConfig, ViolationConfig};
use crate::{Actor, Method, Setup};

/// SAC or safe SAC.
pub struct Sac {
    pub(super) config: SacConfig,
    /// Actor, critics and temperature.
    pub learner: SoftActorCritic,
    /// What they learn from.
    pub replay: Replay,
    pub(super) act_rng: Rng,
    learn_rng: Rng,
    /// Least and greatest reward so far; 0 counts as seen.
    pub(super) reward_range: [f64; 2],
    // Scratch.
    pub(super) squashed: Squashed,
    pub(super) state: Vec<f32>,
    pub(super) action: Vec<f32>,
    batch: Batch,
}

#[derive(Serialize, Deserialize)]
struct SacState {
    act_rng: RngState,
    learn_rng: RngState,
    reward_range: [f64; 2],
}

impl Sac {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: SacConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut init = Rng::stream(setup.seed, "init");
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        Ok(Self {
            learner: SoftActorCritic::new(config.learner.clone(), obs, action, setup.threads, &mut init)?,
            replay: Replay::new(obs, action, config.replay),
            act_rng: Rng::stream(setup.seed, "policy"),
            learn_rng: Rng::stream(setup.seed, "learner"),
            reward_range: [0.0, 0.0],
            squashed: Squashed::default(),
            state: vec![0.0; obs],
            action: vec![0.0; action],
            batch: Batch::default(),
            config,
        })
    }

    /// −C/(1−γ), or for plain SAC the reward and nothing after.
    fn violation_value(&self) -> ViolationValue {
        let ViolationConfig { penalised, cost, horizon } = self.config.violation;
        if !penalised {
            return ViolationValue::Terminal;
        }
        let gamma = self.config.learner.gamma;
        let cost = if cost > 0.0 { cost } else { violation_cost(self.reward_range, gamma, horizon) };
        ViolationValue::costing(cost, gamma)
    }

    /// One update on a minibatch of the replay.
    pub fn update(&mut self, metrics: Option<&mut Metrics>) -> Result<()> {
        self.replay.sample(self.config.batch, &mut self.learn_rng, &mut self.batch);
        let value = self.violation_value();
        self.learner.update(&self.batch, value, &mut self.learn_rng, metrics)
    }
}

impl Method for Sac {
    fn train(&mut self, run: &mut Run) -> Result<()> {
        self.online(run)
    }

    fn updates(&self) -> Option<u64> {
        Some(self.learner.updates())
    }

    fn actor(&self) -> Box<dyn Actor> {
        Box::new(SquashedPolicy::new(self.learner.actor(), &self.act_rng))
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.learner.save(to);
        self.replay.save("transitions", to);
        let (act_rng, learn_rng) = (self.act_rng.save(), self.learn_rng.save());
        to.json("sac", &SacState { act_rng, learn_rng, reward_range: self.reward_range });
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.learner.load(from)?;
        self.replay.load("transitions", from)?;
        let state: SacState = from.json("sac")?;
        self.act_rng = Rng::load(&state.act_rng)?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.reward_range = state.reward_range;
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.learner.load_policy(from)
    }
}
