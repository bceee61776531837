//! The learner: the task policy's SAC, the guard (risk critic and recovery policy), and what each learns from.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Spec;
use sskp_blocks::nets::Mlp;
use sskp_blocks::offline::{OfflineReport, StageSeen};
use sskp_blocks::policy::{Squashed, SquashedPolicy};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::{SoftActorCritic, ViolationValue};

use super::RecoveryRlConfig;
use super::actor::{RecoveryRlActor, Switch};
use super::recovery_policy::RecoveryPolicy;
use super::risk_critic::RiskCritic;
use crate::{Actor, Method, Setup};

/// Recovery RL.
pub struct RecoveryRl {
    pub(super) config: RecoveryRlConfig,
    pub(super) task: SoftActorCritic,
    /// What the task policy learns from.
    pub replay: Replay,
    /// What the risk critic learns from: violating transitions and all others, with the actions played.
    pub memory: [Replay; 2],
    pub(super) guard: Guard,
    pub(super) act_rng: Rng,
    learn_rng: Rng,
    risk_rng: Rng,
    pub(super) updates: u64,
    /// Since the last row of metrics: steps, those in which the recovery policy acted, sum of Q_risk(s, a_task).
    pub(super) seen: [f64; 3],
    // Scratch.
    pub(super) metrics: Metrics,
    pub(super) state: Vec<f32>,
    pub(super) proposed: Vec<f32>,
    pub(super) played: Vec<f32>,
    pub(super) squashed: Squashed,
    pub(super) switch: Switch,
    batch: Batch,
}

#[derive(Serialize, Deserialize)]
struct RecoveryRlState {
    act_rng: RngState,
    learn_rng: RngState,
    risk_rng: RngState,
    updates: u64,
    seen: [f64; 3],
}

/// The risk critic and the recovery policy: learnt together, offline and online.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) risk: RiskCritic,
    pub(super) recovery: RecoveryPolicy,
}

/// What one update of the guard gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuardLosses {
    /// Mean squared error of both critics.
    pub(super) risk: f64,
    /// Mean risk of the minibatch's own actions.
    pub(super) value: f64,
    /// Mean risk of the recovery policy's actions.
    pub(super) recovery: f64,
}

impl Guard {
    fn new(config: &RecoveryRlConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        Self {
            risk: RiskCritic::new(&config.risk, obs, action, rng),
            recovery: RecoveryPolicy::new(&config.recovery, obs, action, rng),
        }
    }

    /// One update of the risk critic, then of the recovery policy, on a minibatch.
    fn update(&mut self, batch: &Batch, task: &Mlp, rng: &mut Rng) -> Result<GuardLosses> {
        let (risk, value) = self.risk.update(batch, task, rng)?;
        let recovery = self.recovery.update(batch, &mut self.risk, rng);
        Ok(GuardLosses { risk, value, recovery })
    }
}

impl RecoveryRl {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: RecoveryRlConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut init = Rng::stream(setup.seed, "init");
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        Ok(Self {
            task: SoftActorCritic::new(config.learner.clone(), obs, action, setup.threads, &mut init)?,
            guard: Guard::new(&config, obs, action, &mut init),
            replay: Replay::new(obs, action, config.replay),
            memory: [(); 2].map(|()| Replay::new(obs, action, config.risk.memory)),
            act_rng: Rng::stream(setup.seed, "policy"),
            learn_rng: Rng::stream(setup.seed, "learner"),
            risk_rng: Rng::stream(setup.seed, "risk"),
            updates: 0,
            seen: [0.0; 3],
            metrics: Metrics::default(),
            state: vec![0.0; obs],
            proposed: vec![0.0; action],
            played: vec![0.0; action],
            squashed: Squashed::default(),
            switch: Switch::default(),
            batch: Batch::default(),
            config,
        })
    }

    /// One update of task policy, risk critic and recovery policy; `note` keeps its metrics.
    pub fn update(&mut self, note: bool) -> Result<()> {
        if note {
            self.metrics.0.clear();
        }
        self.replay.sample(self.config.batch, &mut self.learn_rng, &mut self.batch);
        let metrics = note.then_some(&mut self.metrics);
        self.task.update(&self.batch, ViolationValue::Terminal, &mut self.learn_rng, metrics)?;
        let losses = self.update_guard()?;
        if note {
            self.metrics.push("Loss/Loss_risk_critic", losses.risk);
            self.metrics.push("Value/risk_critic", losses.value);
            self.metrics.push("Loss/Loss_recovery", losses.recovery);
        }
        Ok(())
    }

    /// One update of risk critic and recovery policy, `positive_fraction` of the minibatch violating. Drawn with replacement, so
    /// that a few dozen violations are enough: demonstrations hold no more.
    pub(super) fn update_guard(&mut self) -> Result<GuardLosses> {
        let n = self.config.batch;
        let wanted = (self.config.risk.positive_fraction * n as f64) as usize;
        let [positive, other] = &self.memory;
        let share = (wanted > 0 && !positive.is_empty() && !other.is_empty()).then_some(wanted);
        Replay::sample_two([positive, other], share, n, &mut self.risk_rng, &mut self.batch);
        self.guard.update(&self.batch, self.task.actor(), &mut self.risk_rng)
    }

    /// Numbers that learn.
    pub fn parameters(&self) -> usize {
        self.task.parameters() + self.guard.risk.critics.parameters() + self.guard.recovery.parameters()
    }
}

impl Method for RecoveryRl {
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
        let task = SquashedPolicy::new(self.task.actor(), &self.act_rng);
        Box::new(RecoveryRlActor::new(task, &self.guard, &self.risk_rng))
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.task.save(to);
        self.guard.risk.save(to);
        self.guard.recovery.save(to);
        self.replay.save("task", to);
        self.memory[0].save("violating", to);
        self.memory[1].save("other", to);
        let state = RecoveryRlState {
            act_rng: self.act_rng.save(),
            learn_rng: self.learn_rng.save(),
            risk_rng: self.risk_rng.save(),
            updates: self.updates,
            seen: self.seen,
        };
        to.json("recovery-rl", &state);
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.task.load(from)?;
        self.guard.risk.load(from)?;
        self.guard.recovery.load(from)?;
        self.replay.load("task", from)?;
        self.memory[0].load("violating", from)?;
        self.memory[1].load("other", from)?;
        let state: RecoveryRlState = from.json("recovery-rl")?;
        self.act_rng = Rng::load(&state.act_rng)?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.risk_rng = Rng::load(&state.risk_rng)?;
        (self.updates, self.seen) = (state.updates, state.seen);
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.task.load_policy(from)?;
        self.guard.risk.load_policy(from)?;
        self.guard.recovery.load_policy(from)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use sskp_blocks::nets::Tape;
    use sskp_blocks::twin::Twin;

    use super::*;

    pub(in super::super) const OBS: usize = 3;
    pub(in super::super) const ACTION: usize = 2;
    pub(in super::super) const ROWS: usize = 6;

    /// A guard, a task policy, and a minibatch whose rows 0 and 3 are violations and whose last one ended without.
    pub(in super::super) fn fixture() -> (Guard, Mlp, Batch) {
        let mut rng = Rng::stream(5, "fixture");
        let mut config = RecoveryRlConfig::default();
        (config.risk.width, config.recovery.width) = (8, 8);
        config.recovery.std = 0.2;
        let mut guard = Guard::new(&config, OBS, ACTION, &mut rng);
        // Targets that differ from the critics, and outputs far enough apart to have slopes.
        guard.risk.critics = Twin::new(&[OBS + ACTION, 8, 1], 0.05, 0.5, &mut rng);
        guard.risk.critics.add_gradient(&[0.3; 2 * (OBS + ACTION)], 2, |_, _| (0.0, 1.0));
        guard.risk.critics.step();
        let task = Mlp::new(&[OBS, 6, 2 * ACTION], &mut rng);
        let mut replay = Replay::new(OBS, ACTION, ROWS);
        for i in 0..ROWS {
            let mut row = [0.0; 2 * OBS];
            rng.fill_normal(&mut row);
            replay.push(&row[..OBS], &[0.2 * i as f32 - 0.5, 0.3], 0.0, None, &row[OBS..]);
        }
        let mut batch = Batch::default();
        replay.sample(ROWS, &mut rng, &mut batch);
        batch.violation = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        batch.goes_on = vec![0.0, 1.0, 1.0, 0.0, 1.0, 0.0]; // the last row ended without a violation
        (guard, task, batch)
    }

    /// max_i Q_i of a pair, written out anew in f64.
    pub(in super::super) fn risk_of(nets: [&Mlp; 2], pair: &[f32]) -> f64 {
        let [a, b] = nets.map(|net| f64::from(net.forward(pair, 1, &mut Tape::default())[0]));
        1.0 / (1.0 + (-a.max(b)).exp())
    }
}
