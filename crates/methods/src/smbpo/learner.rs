//! The learner: the model, the policy's SAC, and the two replays it learns from.

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::{Constraint, Env, Spec};
use sskp_blocks::policy::{Squashed, SquashedPolicy};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::{SoftActorCritic, ViolationValue, violation_cost};
use sskp_blocks::{Error, Result};

use super::SmbpoConfig;
use super::dynamics::Dynamics;
use super::imagination::{Imagination, Imagined};
use crate::{Actor, Method, Setup};

/// SMBPO.
pub struct Smbpo {
    pub(super) config: SmbpoConfig,
    pub(super) dynamics: Dynamics,
    /// The safe SAC that learns the policy.
    pub learner: SoftActorCritic,
    /// Transitions of the robot.
    pub real: Replay,
    /// Transitions of the learnt model.
    pub imagined: Replay,
    pub(super) act_rng: Rng,
    pub(super) model_rng: Rng,
    pub(super) imagine_rng: Rng,
    learn_rng: Rng,
    pub(super) state: State,
    // Scratch.
    pub(super) imagination: Imagination,
    pub(super) squashed: Squashed,
    pub(super) observation: Vec<f32>,
    pub(super) action: Vec<f32>,
    batch: Batch,
}

/// The small numbers that a checkpoint must hold.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// Least and greatest real reward.
    pub(super) rewards: Option<[f64; 2]>,
    /// C as of the last fit of the model.
    pub(super) violation_cost: f64,
    /// A step has been taken and not all has been learnt from it.
    pub(super) unfinished: bool,
    /// A row of metrics is due.
    pub(super) log_due: bool,
    /// The model's loss at its last update, and before the last fit on the transitions new to it.
    pub(super) model_loss: Option<f64>,
    pub(super) fresh_loss: Option<f64>,
    /// Since the last row of metrics.
    pub(super) seen: Imagined,
}

#[derive(Serialize, Deserialize)]
struct SmbpoState {
    rngs: [RngState; 4],
    state: State,
}

impl Smbpo {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: SmbpoConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut init = Rng::stream(setup.seed, "init");
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let stream = |name| Rng::stream(setup.seed, name);
        Ok(Self {
            learner: SoftActorCritic::new(config.learner.clone(), obs, action, setup.threads, &mut init)?,
            dynamics: Dynamics::new(config.model.ensemble.clone(), obs, action, setup.threads, &mut init)?,
            real: Replay::new(obs, action, config.replay),
            imagined: Replay::new(obs, action, config.imagination.replay),
            act_rng: stream("policy"),
            model_rng: stream("model"),
            imagine_rng: stream("imagination"),
            learn_rng: stream("learner"),
            state: State::default(),
            imagination: Imagination::default(),
            squashed: Squashed::default(),
            observation: vec![0.0; obs],
            action: vec![0.0; action],
            batch: Batch::default(),
            config,
        })
    }

    /// C, from the real rewards so far.
    pub(super) fn violation_cost(&self) -> f64 {
        let (rewards, horizon) = (self.state.rewards.unwrap_or_default(), self.config.imagination.horizon);
        match self.config.violation_cost {
            0.0 => violation_cost(rewards, self.config.learner.gamma, horizon),
            cost => cost,
        }
    }

    /// One batch of rollouts, after the first ones with uniform actions.
    pub(super) fn imagine(&mut self, constraint: &dyn Constraint) -> Result<()> {
        let config = &self.config.imagination;
        let mut rollouts = |this: &mut Imagination, policy| {
            this.rollouts(
                &mut self.dynamics,
                policy,
                &|state| constraint.violates(state),
                &self.real,
                (config.rollouts, config.horizon),
                &mut self.imagine_rng,
                &mut self.imagined,
            )
        };
        let broken = || Error::other("the model's predictions are not finite: it has not learnt the robot");
        if self.learner.updates() == 0 {
            let mut first = Imagined::default();
            while first.transitions < config.first_transitions as u64 {
                first += rollouts(&mut self.imagination, None);
                if first.transitions < first.broken {
                    return Err(broken());
                }
            }
        }
        self.state.seen += rollouts(&mut self.imagination, Some(self.learner.actor()));
        if self.imagined.is_empty() { Err(broken()) } else { Ok(()) }
    }

    /// One update of the policy on a minibatch of real and imagined transitions.
    pub fn update_policy(&mut self, metrics: Option<&mut Metrics>) -> Result<()> {
        let n = self.config.batch;
        let real = (self.config.real_fraction * n as f64) as usize;
        Replay::sample_two([&self.real, &self.imagined], Some(real), n, &mut self.learn_rng, &mut self.batch);
        let value = ViolationValue::costing(self.state.violation_cost, self.config.learner.gamma);
        self.learner.update(&self.batch, value, &mut self.learn_rng, metrics)
    }
}

/// The robot's constraint, which imagined states are asked.
pub(super) fn constraint(env: &dyn Env) -> Result<&dyn Constraint> {
    env.constraint().ok_or_else(|| {
        let name = &env.spec().name;
        Error::other(format!(
            "smbpo asks imagined states whether they violate the constraint, and {name} cannot tell (Env::constraint)"
        ))
    })
}

impl Method for Smbpo {
    fn suits(&self, env: &dyn Env) -> Result<()> {
        constraint(env).map(|_| ())
    }

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
        self.dynamics.save(to);
        self.real.save("real", to);
        self.imagined.save("imagined", to);
        let rngs = [&self.act_rng, &self.model_rng, &self.imagine_rng, &self.learn_rng].map(Rng::save);
        to.json("smbpo", &SmbpoState { rngs, state: self.state });
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.learner.load(from)?;
        self.dynamics.load(from)?;
        self.real.load("real", from)?;
        self.imagined.load("imagined", from)?;
        let state: SmbpoState = from.json("smbpo")?;
        let [act, model, imagine, learn] = &state.rngs;
        self.act_rng = Rng::load(act)?;
        self.model_rng = Rng::load(model)?;
        self.imagine_rng = Rng::load(imagine)?;
        self.learn_rng = Rng::load(learn)?;
        self.state = state.state;
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.learner.load_policy(from)
    }
}
