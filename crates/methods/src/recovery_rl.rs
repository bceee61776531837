//! Recovery RL, model-free (Thananjeyan et al. 2021): a task policy learns by SAC; where the risk of its action is above a
//! threshold, a recovery policy that minimises risk acts instead.
//!
//! - risk critic: Q_risk(s, a) = E[c + (1 − c)·γ_safe·Q_risk(s', a')], a' ~ the task policy: the discounted chance of a violation;
//!   two networks with a sigmoid, of which the greater counts;
//! - recovery policy: a = clip(tanh(m(s)) + σ·noise), minimises the mean of Q_risk(s, a);
//! - acting: a_task ~ the task policy; if Q_risk(s, a_task) > ε_safe, the recovery policy's action is played;
//! - action relabelling: the task policy's replay holds a_task all the same, the risk critic's memory what was played;
//! - demonstrations: both are learnt from them before the first step.
//!
//! Every departure from the authors' code, with its reason: `docs/methods/recovery-rl.md`.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::{End, Spec};
use sskp_blocks::judge::{Judgement, held_out};
use sskp_blocks::nets::{Adam, Mlp, Model, Tape, gaussian};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay, Transition};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::{SoftActorCritic, SoftActorCriticConfig, ViolationValue, join};
use sskp_blocks::twin::{Pick, Twin};
use sskp_blocks::{Error, Result};

use crate::sskp::risk::sigmoid;
use crate::{Actor, Method, Setup, need};

/// Settings. Where nothing else is said, a default is the authors' (github.com/abalakrishna123/recovery-rl).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryRlConfig {
    /// Uniform random actions of the task policy before it acts itself. The recovery switch guards them too.
    pub random_steps: u64,
    /// Updates of task policy, risk critic and recovery policy per environment step; 0.1 is one every ten steps.
    pub updates_per_step: f64,
    /// Transitions per minibatch.
    pub batch: usize,
    /// Transitions kept for the task policy.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// Whether the task policy's replay holds its own action where the recovery policy acted.
    pub relabel_actions: bool,
    /// The task policy.
    pub learner: SoftActorCriticConfig,
    /// The risk critic.
    pub risk: RiskCriticConfig,
    /// The recovery policy.
    pub recovery: RecoveryConfig,
}

/// Settings of the risk critic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskCriticConfig {
    /// γ_safe: a violation k steps ahead counts γ_safe^k.
    pub gamma: f64,
    /// ε_safe: above this risk the recovery policy acts. The switch looks ln ε/ln γ steps ahead.
    pub threshold: f64,
    /// Width of the hidden layers.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate.
    pub rate: f64,
    /// Polyak rate of the targets.
    pub tau: f64,
    /// Share of violating transitions in a minibatch, as soon as there is one; 0 to draw uniformly.
    pub positive_fraction: f64,
    /// Transitions kept, violating and other ones each.
    pub memory: usize,
    /// Updates of risk critic and recovery policy on the demonstrations.
    pub offline_updates: u64,
}

/// Settings of the recovery policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryConfig {
    /// Width of the hidden layers.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate.
    pub rate: f64,
    /// The first σ, the same in every state and learnt.
    pub std: f64,
}

/// γ_safe and ε_safe per robot: what the first author of the paper used on these robots (README of github.com/jajajag/recovery-rl).
const PER_ROBOT: [(&str, f64, f64); 4] =
    [("ant", 0.6, 0.2), ("cheetah", 0.5, 0.2), ("hopper", 0.6, 0.3), ("humanoid", 0.6, 0.4)];

/// γ_safe and ε_safe of any other robot: those of the authors' first navigation task, a point that must keep off the walls.
const ELSEWHERE: (f64, f64) = (0.8, 0.3);

impl RecoveryRlConfig {
    /// The defaults for the robot of this name.
    pub fn of(robot: &str) -> Self {
        let known = PER_ROBOT.iter().find(|(name, ..)| *name == robot);
        let (gamma, threshold) = known.map_or(ELSEWHERE, |(_, gamma, threshold)| (*gamma, *threshold));
        Self {
            random_steps: 100,
            updates_per_step: 1.0,
            batch: 256,
            replay: 1_000_000,
            log_every: 5000,
            relabel_actions: true,
            // The authors' SAC has a fixed temperature; everything else is as usual.
            learner: SoftActorCriticConfig { alpha: 0.2, auto_alpha: false, ..Default::default() },
            risk: RiskCriticConfig {
                gamma,
                threshold,
                width: 256,
                layers: 2,
                rate: 3e-4,
                tau: 2e-4,
                // Their value for the maze and both extraction tasks.
                positive_fraction: 0.3,
                memory: 1_000_000,
                offline_updates: 10_000,
            },
            recovery: RecoveryConfig { width: 256, layers: 2, rate: 3e-4, std: 0.1 },
        }
    }

    fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| need(algo, key, fine, needed);
        let (risk, recovery) = (&self.risk, &self.recovery);
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("log_every", self.log_every > 0, "at least 1")?;
        self.learner.check(&format!("{algo}.learner"))?;
        need("risk.gamma", (0.0..1.0).contains(&risk.gamma), "at least 0 and below 1")?;
        need("risk.threshold", (0.0..=1.0).contains(&risk.threshold), "between 0 and 1")?;
        need("risk.tau", risk.tau > 0.0 && risk.tau <= 1.0, "above 0 and at most 1")?;
        need("risk.positive_fraction", (0.0..1.0).contains(&risk.positive_fraction), "at least 0 and below 1")?;
        need("risk.memory", (1..=1 << 31).contains(&risk.memory), "between 1 and 2147483648")?;
        for (table, width, layers, rate) in
            [("risk", risk.width, risk.layers, risk.rate), ("recovery", recovery.width, recovery.layers, recovery.rate)]
        {
            need(&format!("{table}.width"), (1..=1 << 14).contains(&width), "between 1 and 16384")?;
            need(&format!("{table}.layers"), (1..=64).contains(&layers), "between 1 and 64")?;
            need(&format!("{table}.rate"), rate > 0.0 && rate < 1.0, "between 0 and 1")?;
        }
        need("recovery.std", (LEAST_STD..=1.0).contains(&recovery.std), "between 1e-6 and 1")
    }
}

/// The recovery policy's σ does not fall below this.
const LEAST_STD: f64 = 1e-6;

/// The learner.
pub struct RecoveryRl {
    config: RecoveryRlConfig,
    task: SoftActorCritic,
    /// What the task policy learns from.
    pub(crate) replay: Replay,
    /// What the risk critic learns from: violating transitions and all others, with the actions played.
    pub(crate) memory: [Replay; 2],
    guard: Guard,
    act_rng: Rng,
    learn_rng: Rng,
    risk_rng: Rng,
    updates: u64,
    /// Since the last row of metrics: steps, those in which the recovery policy acted, sum of Q_risk(s, a_task).
    seen: [f64; 3],
    // Scratch.
    metrics: Metrics,
    state: Vec<f32>,
    proposed: Vec<f32>,
    played: Vec<f32>,
    noise: Vec<f32>,
    tape: Tape,
    switch: Switch,
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

/// The risk critic and the recovery policy, and what trains them.
#[derive(Clone, Debug)]
struct Guard {
    config: RiskCriticConfig,
    obs: usize,
    action: usize,
    critics: Twin,
    recovery: Model,
    log_std: Vec<f32>,
    log_std_grad: Vec<f32>,
    log_std_adam: Adam,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    noise: Vec<f32>,
    choice: Vec<f32>,
    log_prob: Vec<f32>,
    input: Vec<f32>,
    target: Vec<f32>,
    d_action: Vec<f32>,
    task_tape: Tape,
    recovery_tape: Tape,
}

/// What one update of the guard gave.
#[derive(Clone, Copy, Debug, Default)]
struct GuardLosses {
    /// Mean squared error of both critics.
    risk: f64,
    /// Mean risk of the minibatch's own actions.
    value: f64,
    /// Mean risk of the recovery policy's actions.
    recovery: f64,
}

impl Guard {
    fn new(config: &RecoveryRlConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = |inputs: usize, width: usize, layers: usize, outputs: usize| {
            let hidden = std::iter::repeat_n(width, layers);
            std::iter::once(inputs).chain(hidden).chain([outputs]).collect::<Vec<_>>()
        };
        let (risk, recovery) = (&config.risk, &config.recovery);
        let (rate, tau) = (risk.rate as f32, risk.tau as f32);
        Self {
            obs,
            action,
            critics: Twin::new(&sizes(obs + action, risk.width, risk.layers, 1), rate, tau, rng),
            recovery: Model::new(&sizes(obs, recovery.width, recovery.layers, action), recovery.rate as f32, rng),
            log_std: vec![(recovery.std as f32).ln(); action],
            log_std_grad: vec![0.0; action],
            log_std_adam: Adam::new(action, recovery.rate as f32),
            scratch: Scratch::default(),
            config: risk.clone(),
        }
    }

    /// One update of the risk critic, then of the recovery policy, on a minibatch.
    fn update(&mut self, batch: &Batch, task: &Mlp, rng: &mut Rng) -> Result<GuardLosses> {
        let n = batch.rows;
        self.draw_noise(n, rng);
        self.targets(batch, task);
        let scale = 1.0 / n as f32;
        let Scratch { target, .. } = &self.scratch;
        let mut value = 0.0;
        let risk = self.critics.add_gradient(&batch.state_action, n, |row, logit| {
            let q = sigmoid(logit);
            let error = q - target[row];
            value += f64::from(q);
            (f64::from(error * error), 2.0 * scale * error * q * (1.0 - q))
        });
        self.critics.step();
        self.draw_noise(n, rng);
        let recovery = self.recovery_gradient(batch);
        self.recovery.step();
        self.log_std_adam.step(&mut self.log_std, &self.log_std_grad);
        self.log_std_grad.fill(0.0);
        let least = (LEAST_STD as f32).ln();
        self.log_std.iter_mut().for_each(|l| *l = l.max(least));
        let both = 2.0 * n as f64;
        let losses = GuardLosses { risk: risk / both, value: value / both, recovery };
        match losses.risk.is_finite() {
            true => Ok(losses),
            false => Err(Error::other(format!("the risk critic's loss is {}", losses.risk))),
        }
    }

    fn draw_noise(&mut self, rows: usize, rng: &mut Rng) {
        self.scratch.noise.resize(rows * self.action, 0.0);
        rng.fill_normal(&mut self.scratch.noise);
    }

    /// y = c + (1 − c)·γ_safe·max_i Q̄_i(s', a').
    fn targets(&mut self, batch: &Batch, task: &Mlp) {
        let (n, dim, obs) = (batch.rows, self.action, self.obs);
        let gamma = self.config.gamma as f32;
        let s = &mut self.scratch;
        s.choice.resize(n * dim, 0.0);
        s.log_prob.resize(n, 0.0);
        s.target.resize(n, 0.0);
        let head = task.forward(&batch.next_state, n, &mut s.task_tape);
        gaussian::squashed_sample(head, &s.noise, dim, &mut s.choice, &mut s.log_prob);
        join(&mut s.input, &batch.next_state, obs, &s.choice, dim);
        let [a, b] = self.critics.forward_targets(&s.input, n);
        for row in 0..n {
            s.target[row] = sigmoid(Pick::Greatest.of(a[row], b[row]));
        }
        for (row, y) in s.target.iter_mut().enumerate() {
            *y = batch.violation[row] + batch.goes_on[row] * gamma * *y;
        }
    }

    /// Adds the gradient of mean_s max_i Q_i(s, a), a = clip(tanh(m(s)) + σ·noise), in m and log σ; gives the loss.
    fn recovery_gradient(&mut self, batch: &Batch) -> f64 {
        let (n, dim) = (batch.rows, self.action);
        let s = &mut self.scratch;
        s.choice.resize(n * dim, 0.0);
        s.d_action.resize(n * dim, 0.0);
        let means = self.recovery.net.forward(&batch.state, n, &mut s.recovery_tape);
        recovery_action(means, &self.log_std, Some(&s.noise), &mut s.choice);
        join(&mut s.input, &batch.state, self.obs, &s.choice, dim);
        self.critics.forward(&s.input, n);
        let (scale, mut loss) = (1.0 / n as f32, 0.0);
        let slope = |_: usize, logit: f32| {
            let q = sigmoid(logit);
            loss += f64::from(q * scale);
            scale * q * (1.0 - q)
        };
        self.critics.action_gradient(n, Pick::Greatest, self.obs, slope, &mut s.d_action);
        let means = s.recovery_tape.output();
        for i in 0..n * dim {
            // Clipped actions have no slope.
            let free = s.choice[i].abs() < 1.0;
            let d = if free { s.d_action[i] } else { 0.0 };
            self.log_std_grad[i % dim] += d * self.log_std[i % dim].exp() * s.noise[i];
            s.d_action[i] = d * (1.0 - means[i].tanh().powi(2));
        }
        let grad = Some(&mut self.recovery.grad[..]);
        self.recovery.net.backward(&batch.state, n, &mut s.recovery_tape, &s.d_action, grad, None);
        loss
    }
}

/// a = clip(tanh(m) + σ·noise) for rows of raw means; without noise, tanh(m).
fn recovery_action(means: &[f32], log_std: &[f32], noise: Option<&[f32]>, out: &mut [f32]) {
    let dim = log_std.len();
    for (i, (a, m)) in out.iter_mut().zip(means).enumerate() {
        let shaken = noise.map_or(0.0, |noise| log_std[i % dim].exp() * noise[i]);
        *a = (m.tanh() + shaken).clamp(-1.0, 1.0);
    }
}

/// The decision of a step, for learner and actor alike.
#[derive(Clone, Debug, Default)]
struct Switch {
    tapes: [Tape; 2],
    input: Vec<f32>,
    noise: Vec<f32>,
}

impl Switch {
    /// Q_risk(s, a_task), and what is played in its place if that is above the threshold. Whether it was is returned.
    fn decide(
        &mut self,
        guard: &Guard,
        state: &[f32],
        proposed: &[f32],
        explore: Option<&mut Rng>,
        played: &mut [f32],
    ) -> (f32, bool) {
        played.copy_from_slice(proposed);
        self.input.clear();
        self.input.extend_from_slice(state);
        self.input.extend_from_slice(proposed);
        let [a, b] = guard.critics.nets();
        let [tape, other] = &mut self.tapes;
        let risk = sigmoid(a.forward(&self.input, 1, tape)[0].max(b.forward(&self.input, 1, other)[0]));
        let recovers = risk > guard.config.threshold as f32;
        if recovers {
            let means = guard.recovery.net.forward(state, 1, tape);
            let noise = explore.map(|rng| {
                self.noise.resize(played.len(), 0.0);
                rng.fill_normal(&mut self.noise);
                &self.noise[..]
            });
            recovery_action(means, &guard.log_std, noise, played);
        }
        (risk, recovers)
    }
}

impl RecoveryRl {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: RecoveryRlConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut init = Rng::stream(setup.seed, "init");
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let task = SoftActorCritic::new(config.learner.clone(), obs, action, setup.threads, &mut init)?;
        let guard = Guard::new(&config, obs, action, &mut init);
        Ok(Self {
            task,
            replay: Replay::new(obs, action, config.replay),
            memory: [(); 2].map(|()| Replay::new(obs, action, config.risk.memory)),
            guard,
            act_rng: Rng::stream(setup.seed, "policy"),
            learn_rng: Rng::stream(setup.seed, "learner"),
            risk_rng: Rng::stream(setup.seed, "risk"),
            updates: 0,
            seen: [0.0; 3],
            metrics: Metrics::default(),
            state: vec![0.0; obs],
            proposed: vec![0.0; action],
            played: vec![0.0; action],
            noise: vec![0.0; action],
            tape: Tape::default(),
            switch: Switch::default(),
            batch: Batch::default(),
            config,
        })
    }

    /// a_task.
    fn propose(&mut self, random: bool) {
        if random {
            self.act_rng.fill_action(&mut self.proposed);
            return;
        }
        let head = self.task.actor().forward(&self.state, 1, &mut self.tape);
        self.act_rng.fill_normal(&mut self.noise);
        gaussian::squashed_sample(head, &self.noise, self.noise.len(), &mut self.proposed, &mut [0.0]);
    }

    /// A minibatch of the risk critic's memory, `positive_fraction` of it violating. Drawn with replacement, so that a few dozen
    /// violations are enough: demonstrations hold no more.
    fn sample_memory(&mut self) {
        let n = self.config.batch;
        let wanted = (self.config.risk.positive_fraction * n as f64) as usize;
        let [positive, other] = &self.memory;
        let share = (wanted > 0 && !positive.is_empty() && !other.is_empty()).then_some(wanted);
        Replay::sample_two([positive, other], share, n, &mut self.risk_rng, &mut self.batch);
    }

    fn update_guard(&mut self) -> Result<GuardLosses> {
        self.sample_memory();
        self.guard.update(&self.batch, self.task.actor(), &mut self.risk_rng)
    }

    /// Updates that should have been done after this many steps. They begin as soon as there is a minibatch.
    fn due(&self, steps: u64) -> u64 {
        let begin = self.config.random_steps.max(self.config.batch as u64);
        (steps.saturating_sub(begin) as f64 * self.config.updates_per_step) as u64
    }

    /// Learns what is due; notes the metrics of the last update before the next row.
    fn learn(&mut self, steps: u64) -> Result<()> {
        let noted = self.due(steps.next_multiple_of(self.config.log_every));
        while self.updates < self.due(steps) {
            self.updates += 1;
            self.update(self.updates == noted)?;
        }
        Ok(())
    }

    /// One update of task policy, risk critic and recovery policy; `note` keeps its metrics.
    pub(crate) fn update(&mut self, note: bool) -> Result<()> {
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

    /// Numbers that learn.
    pub(crate) fn parameters(&self) -> usize {
        let Guard { critics, recovery, log_std, .. } = &self.guard;
        let critics: usize = critics.nets().iter().map(|net| net.params.len()).sum();
        self.task.parameters() + critics + recovery.net.params.len() + log_std.len()
    }

    fn record(&mut self, run: &mut Run) -> Result<()> {
        // The first row names the columns of `progress.csv`: none is written before there are losses.
        if self.metrics.0.is_empty() && self.config.updates_per_step > 0.0 {
            return Ok(());
        }
        let [steps, recovered, risk] = std::mem::take(&mut self.seen);
        let steps = steps.max(1.0);
        let mut metrics = std::mem::take(&mut self.metrics);
        metrics.push("Recovery/share", recovered / steps);
        metrics.push("Recovery/risk_of_task", risk / steps);
        metrics.push("Recovery/violations_in_memory", self.memory[0].len() as f64);
        run.record(&metrics)
    }

    /// Adds the transitions of an episode to the memory.
    fn remember(&mut self, demos: &Demonstrations, episode: usize) {
        for Transition { state, action, reward, end, next_state } in demos.transitions(episode) {
            let ring = &mut self.memory[usize::from(end != Some(End::Violation))];
            ring.push(state, action, reward, end, next_state);
        }
    }
}

impl Method for RecoveryRl {
    fn accepts(&self, demos: &Demonstrations) -> Result<()> {
        crate::same_robot(demos, self.state.len(), self.proposed.len())?;
        match demos.violations() {
            0 => Err(Error::other("the demonstrations hold no violation: there is nothing to learn risk from")),
            _ => Ok(()),
        }
    }

    fn pretrain(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.accepts(demos)?;
        let held = held_out(demos.trajectories(), 10);
        for episode in (0..demos.trajectories().len()).filter(|e| !held.contains(e)) {
            self.remember(demos, episode);
        }
        let total = self.config.risk.offline_updates;
        let mut report = OfflineReport {
            updates: total,
            transitions: self.memory[0].len() + self.memory[1].len(),
            violations: self.memory[0].len(),
            ..OfflineReport::default()
        };
        let [risk, recovery] = updates("risk critic and recovery policy", total, seen, || {
            self.update_guard().map(|losses| [losses.risk, losses.recovery])
        })?;
        report.note("risk critic", "loss", risk);
        report.note("risk critic", "look_ahead", self.config.risk.threshold.ln() / self.config.risk.gamma.ln());
        report.note("recovery policy", "risk", recovery);
        report.held_out = Judgement::of(demos, &held, self.config.risk.threshold, |state, action| {
            self.switch.decide(&self.guard, state, action, None, &mut self.played).0
        });
        // They have done their duty: online the critic learns from all there is.
        for episode in held {
            self.remember(demos, episode);
        }
        Ok(report)
    }

    fn train(&mut self, run: &mut Run) -> Result<()> {
        while run.next_episode()? {
            while !run.over() {
                self.state.copy_from_slice(run.state());
                let acting = Instant::now();
                self.propose(run.clock().steps < self.config.random_steps);
                let explore = Some(&mut self.act_rng);
                let (risk, recovers) =
                    self.switch.decide(&self.guard, &self.state, &self.proposed, explore, &mut self.played);
                run.add_time("acting", acting);
                let step = run.step(&self.played)?;

                let task_action = if self.config.relabel_actions { &self.proposed } else { &self.played };
                self.replay.push(&self.state, task_action, step.reward as f32, step.end, run.state());
                let ring = &mut self.memory[usize::from(!step.violated())];
                ring.push(&self.state, &self.played, step.reward as f32, step.end, run.state());
                self.seen[0] += 1.0;
                self.seen[1] += f64::from(u8::from(recovers));
                self.seen[2] += f64::from(risk);

                let learning = Instant::now();
                let steps = run.clock().steps;
                self.learn(steps)?;
                run.add_time("learning", learning);
                if steps.is_multiple_of(self.config.log_every) {
                    self.record(run)?;
                }
                run.checkpoint(|to| self.save(to))?;
            }
        }
        Ok(())
    }

    fn actor(&self) -> Box<dyn Actor> {
        Box::new(RecoveryRlActor {
            task: self.task.actor().clone(),
            guard: self.guard.clone(),
            rng: self.act_rng.clone(),
            tape: Tape::default(),
            switch: Switch::default(),
            proposed: vec![0.0; self.proposed.len()],
            noise: vec![0.0; self.proposed.len()],
        })
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.task.save(to);
        self.guard.critics.save("policy", "risk", to);
        self.guard.recovery.save("policy/recovery", to);
        to.f32s("policy/recovery_log_std", &self.guard.log_std, 1);
        self.guard.log_std_adam.save("recovery_log_std", to);
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
        self.guard.critics.load("policy", "risk", from)?;
        self.guard.recovery.load("policy/recovery", from)?;
        from.f32s_into("policy/recovery_log_std", &mut self.guard.log_std)?;
        self.guard.log_std_adam.load("recovery_log_std", from)?;
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
        self.guard.critics.load_nets("policy", "risk", from)?;
        from.f32s_into("policy/recovery", &mut self.guard.recovery.net.params)?;
        from.f32s_into("policy/recovery_log_std", &mut self.guard.log_std)
    }
}

/// The trained agent: task policy, risk critic and recovery policy together.
struct RecoveryRlActor {
    task: Mlp,
    guard: Guard,
    rng: Rng,
    tape: Tape,
    switch: Switch,
    proposed: Vec<f32>,
    noise: Vec<f32>,
}

impl Actor for RecoveryRlActor {
    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        let head = self.task.forward(state, 1, &mut self.tape);
        if explore {
            self.rng.fill_normal(&mut self.noise);
            gaussian::squashed_sample(head, &self.noise, action.len(), &mut self.proposed, &mut [0.0]);
        } else {
            gaussian::squashed_mean(head, action.len(), &mut self.proposed);
        }
        let explore = explore.then_some(&mut self.rng);
        self.switch.decide(&self.guard, state, &self.proposed, explore, action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBS: usize = 3;
    const ACTION: usize = 2;
    const ROWS: usize = 6;

    fn fixture() -> (Guard, Mlp, Batch) {
        let mut rng = Rng::stream(5, "fixture");
        let mut config = RecoveryRlConfig::of("toy");
        (config.risk.width, config.recovery.width) = (8, 8);
        config.recovery.std = 0.2;
        let mut guard = Guard::new(&config, OBS, ACTION, &mut rng);
        // Targets that differ from the critics, and outputs far enough apart to have slopes.
        guard.critics = Twin::new(&[OBS + ACTION, 8, 1], 0.05, 0.5, &mut rng);
        guard.critics.add_gradient(&[0.3; 2 * (OBS + ACTION)], 2, |_, _| (0.0, 1.0));
        guard.critics.step();
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
        guard.draw_noise(ROWS, &mut rng);
        (guard, task, batch)
    }

    fn risk_of(nets: [&Mlp; 2], input: &[f32]) -> f64 {
        let [a, b] = nets.map(|net| f64::from(net.forward(input, 1, &mut Tape::default())[0]));
        1.0 / (1.0 + (-a.max(b)).exp())
    }

    #[test]
    fn targets_are_discounted_violations() {
        let (mut guard, task, batch) = fixture();
        let noise = guard.scratch.noise.clone();
        let critics = guard.critics.clone();
        guard.targets(&batch, &task);
        for row in 0..ROWS {
            let next = &batch.next_state[row * OBS..][..OBS];
            let (mut action, mut tape) = ([0.0; ACTION], Tape::default());
            let head = task.forward(next, 1, &mut tape);
            gaussian::squashed_sample(head, &noise[row * ACTION..][..ACTION], ACTION, &mut action, &mut [0.0]);
            let input = [next, &action].concat();
            let mut frozen = critics.clone();
            let [a, b] = frozen.forward_targets(&input, 1).map(|q| f64::from(q[0]));
            let q = 1.0 / (1.0 + (-a.max(b)).exp());
            let expected = [1.0, 0.8 * q, 0.8 * q, 1.0, 0.8 * q, 0.0][row];
            assert!((f64::from(guard.scratch.target[row]) - expected).abs() < 1e-6, "row {row}");
        }
    }

    #[test]
    fn the_recovery_policy_has_the_gradient_of_the_risk() {
        let (mut guard, _, batch) = fixture();
        let noise = guard.scratch.noise.clone();
        let loss = |recovery: &Mlp, log_std: &[f32], guard: &Guard| {
            let row = |r: usize| {
                let state = &batch.state[r * OBS..][..OBS];
                let mut tape = Tape::default();
                let means = recovery.forward(state, 1, &mut tape);
                let action: Vec<f32> = (0..ACTION)
                    .map(|i| (means[i].tanh() + log_std[i].exp() * noise[r * ACTION + i]).clamp(-1.0, 1.0))
                    .collect();
                risk_of(guard.critics.nets(), &[state, &action].concat())
            };
            (0..ROWS).map(row).sum::<f64>() / ROWS as f64
        };
        let frozen = guard.clone();
        let value = guard.recovery_gradient(&batch);
        assert!((value - loss(&frozen.recovery.net, &frozen.log_std, &frozen)).abs() < 1e-6);
        let params = [&frozen.recovery.net.params[..], &frozen.log_std].concat();
        let gradient = [&guard.recovery.grad[..], &guard.log_std_grad].concat();
        let n = frozen.recovery.net.params.len();
        let at = |params: &[f32]| {
            let mut net = frozen.recovery.net.clone();
            net.params.copy_from_slice(&params[..n]);
            loss(&net, &params[n..], &frozen)
        };
        // Besides a ReLU, the clip may switch.
        let (smooth, steepest) = crate::differences::compare(&params, &gradient, 1e-4, 2e-4, at);
        assert!(smooth * 10 > 8 * params.len() && steepest > 0.01, "{smooth} of {}, {steepest}", params.len());
    }

    #[test]
    fn the_switch_opens_above_the_threshold_and_only_there() {
        let (mut guard, _, _) = fixture();
        let (state, proposed) = ([0.4, -0.2, 0.9], [0.7, -0.7]);
        let risk = risk_of(guard.critics.nets(), &[&state[..], &proposed].concat());
        let mut switch = Switch::default();
        let mut played = [0.0; ACTION];
        guard.config.threshold = risk + 1e-3;
        let (seen, recovers) = switch.decide(&guard, &state, &proposed, None, &mut played);
        assert!((f64::from(seen) - risk).abs() < 1e-6 && !recovers);
        assert_eq!(played, proposed);
        guard.config.threshold = risk - 1e-3;
        let (_, recovers) = switch.decide(&guard, &state, &proposed, None, &mut played);
        let mut tape = Tape::default();
        let mean = guard.recovery.net.forward(&state, 1, &mut tape);
        assert!(recovers);
        assert_eq!(played, [mean[0].tanh(), mean[1].tanh()]);
        let mut rng = Rng::stream(0, "explore");
        switch.decide(&guard, &state, &proposed, Some(&mut rng), &mut played);
        assert_ne!(played, [mean[0].tanh(), mean[1].tanh()], "in training the recovery policy explores");
    }

    #[test]
    fn settings_out_of_range_are_refused_with_their_name() {
        let spec = sskp_blocks::env::Env::spec(&sskp_blocks::toy::Toy::default()).clone();
        let refused = |change: fn(&mut RecoveryRlConfig)| {
            let mut config = RecoveryRlConfig::of("toy");
            change(&mut config);
            let setup = Setup::new("recovery-rl", 0, 1);
            RecoveryRl::new(&spec, config, setup).err().expect("refused").to_string()
        };
        assert_eq!(refused(|c| c.risk.threshold = 1.5), "recovery-rl.risk.threshold must be between 0 and 1");
        assert_eq!(refused(|c| c.risk.gamma = f64::NAN), "recovery-rl.risk.gamma must be at least 0 and below 1");
        assert_eq!(refused(|c| c.learner.tau = 0.0), "recovery-rl.learner.tau must be above 0 and at most 1");
        assert_eq!(refused(|c| c.recovery.width = 0), "recovery-rl.recovery.width must be between 1 and 16384");
        assert_eq!(refused(|c| c.updates_per_step = -1.0), "recovery-rl.updates_per_step must be between 0 and 100");
    }

    #[test]
    fn each_robot_has_the_published_pair_and_others_the_fallback() {
        let pair = |robot| {
            let risk = RecoveryRlConfig::of(robot).risk;
            (risk.gamma, risk.threshold)
        };
        assert_eq!(pair("humanoid"), (0.6, 0.4));
        assert_eq!(pair("cheetah"), (0.5, 0.2));
        assert_eq!(pair("toy"), ELSEWHERE);
    }
}
