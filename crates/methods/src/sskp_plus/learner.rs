//! The learner: SSkP, and the decoder that goes on learning.

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::{End, Spec};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::record::Metrics;
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::{Error, Result};

use super::caution::Caution;
use super::config::{AdaptConfig, SskpPlusConfig};
use super::critics::{Critics, Losses};
use super::decoder::{SkillPolicy, Teacher};
use super::nearness::Nearness;
use super::steps::{Ahead, Episode, StepBatch, Steps};
use crate::sskp::Sskp;
use crate::sskp::skill::SkillModel;
use crate::{Actor, Method, Setup};

/// The learner.
pub struct SskpPlus {
    pub(super) config: AdaptConfig,
    /// Seconds in a step.
    dt: f64,
    pub(super) base: Sskp,
    critics: Critics,
    nearness: Nearness,
    teacher: Teacher,
    pub(super) caution: Caution,
    played: Steps,
    demos: Steps,
    /// Steps of the episode that is being played; none between episodes.
    episode: Episode,
    learn_rng: Rng,
    noise_rng: Rng,
    updates: u64,
    /// Since the last row of metrics.
    seen: Seen,
    // Scratch.
    batch: StepBatch,
    state: Vec<f32>,
    noise: Vec<f32>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Seen {
    losses: [f64; 4],
    near: f64,
    updates: f64,
    moved: f64,
    decoder_updates: f64,
}

#[derive(Serialize, Deserialize)]
struct SskpPlusState {
    learn_rng: RngState,
    noise_rng: RngState,
    updates: u64,
    caution: Caution,
    unit: f32,
    seen: Seen,
}

impl SskpPlus {
    /// A fresh learner, not yet fitted to demonstrations.
    pub fn new(spec: &Spec, config: SskpPlusConfig, setup: Setup) -> Result<Self> {
        config.adapt.check(setup.table)?;
        let (obs, action, dim) = (spec.obs_dim, spec.action_dim, config.skill.dim);
        let (seed, table) = (setup.seed, setup.table);
        let base = Sskp::new(spec, config.base(), setup)?;
        let Some(decoder) = base.skills.decoder.net() else {
            let why = "blind skills do not see the states they would have to learn in";
            return Err(Error::other(format!("{table}.skill.decoder must be closed-loop: {why}")));
        };
        let config = config.adapt;
        let mut rng = Rng::stream(seed, "step critics");
        Ok(Self {
            critics: Critics::new(&config, config.gamma(spec.dt), obs, action, &mut rng),
            nearness: Nearness::new(&config, obs),
            teacher: Teacher::new(&config, decoder, dim),
            caution: Caution::new(),
            played: Steps::new(obs, action, config.replay),
            demos: Steps::new(obs, action, config.replay),
            episode: Episode::default(),
            learn_rng: Rng::stream(seed, "step learner"),
            noise_rng: Rng::stream(seed, "action noise"),
            updates: 0,
            seen: Seen::default(),
            batch: StepBatch::default(),
            state: vec![0.0; obs],
            noise: vec![0.0; action],
            base,
            dt: spec.dt,
            config,
        })
    }

    /// Numbers that learn: critics, nearness and decoder.
    pub fn parameters(&self) -> usize {
        self.critics.parameters() + self.nearness.parameters() + self.teacher.reference.params.len()
    }

    /// How steps are summed up.
    fn ahead(&self) -> Ahead {
        let config = &self.config;
        let (gamma, risk_gamma) = (config.gamma(self.dt), config.risk_gamma(self.dt));
        let violation_cost = config.violation_value * f64::from(self.critics.unit) / (1.0 - gamma);
        Ahead { steps: config.returns, gamma, risk_gamma, violation_cost }
    }

    fn remember_demonstrations(&mut self, demos: &Demonstrations) {
        let total: f64 = demos.trajectories().iter().map(|t| t.total_reward()).sum();
        self.critics.unit = ((total / demos.steps().max(1) as f64).abs() as f32).max(1e-3);
        let standardiser = self.base.skills.standardiser.clone();
        for (e, trajectory) in demos.trajectories().iter().enumerate().filter(|(_, t)| t.steps() > 0) {
            for t in 0..=trajectory.steps() {
                standardiser.apply(demos.state(e, t), &mut self.state);
                self.episode.states.extend_from_slice(&self.state);
            }
            self.episode.actions.extend_from_slice(demos.actions(e, 0, trajectory.steps()));
            self.episode.rewards.extend_from_slice(&trajectory.rewards);
            let end = trajectory.end_at(trajectory.steps() - 1);
            self.demos.push(self.ahead(), &self.episode, end);
            if end == Some(End::Violation) {
                self.nearness.violated(&self.state);
            }
            self.episode.clear();
        }
    }

    /// Plays a skill as [`Sskp::play`] does, with noise on the actions.
    pub(super) fn play(&mut self, z: &[f32], run: &mut Run) -> Result<()> {
        let sigma = if self.config.on { self.config.noise } else { 0.0 } as f32;
        let Self { base, noise_rng, noise, .. } = self;
        let horizon = base.skills.config().horizon;
        let Sskp { skills, segment, next_state, .. } = base;
        let SkillModel { decoder, standardiser, .. } = skills;
        decoder.begin(z);
        run.execute(horizon, segment, |k, state, action| {
            standardiser.apply(state, next_state);
            decoder.act(k, next_state, action);
            if sigma > 0.0 {
                noise_rng.fill_normal(noise);
                action.iter_mut().zip(&*noise).for_each(|(a, e)| *a = (*a + sigma * e).clamp(-1.0, 1.0));
            }
        })
    }

    /// Keeps the steps of the skill that was just played, to learn from them when the episode is over.
    pub(super) fn remember_steps(&mut self, over: bool) {
        let segment = &self.base.segment;
        let standardiser = &self.base.skills.standardiser;
        // The last state of a skill is the first of the next one.
        let states = segment.steps + usize::from(over);
        for state in segment.states.chunks_exact(self.state.len()).take(states) {
            standardiser.apply(state, &mut self.state);
            self.episode.states.extend_from_slice(&self.state);
        }
        self.episode.actions.extend_from_slice(&segment.actions);
        self.episode.rewards.extend_from_slice(&segment.rewards);
        self.caution.played(&self.config, segment.steps, segment.violated());
        if over {
            if segment.violated() {
                self.nearness.violated(&self.state);
            }
            self.played.push(self.ahead(), &self.episode, segment.end);
            self.episode.clear();
        }
    }

    /// Updates that are due.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        if !self.config.on || self.played.is_empty() {
            return Ok(());
        }
        let due = self.config.offline_updates + (self.caution.steps as f64 * self.config.updates_per_step) as u64;
        while self.updates < due {
            self.update()?;
        }
        Ok(())
    }

    /// One update of the critics, and of the decoder where it is its turn.
    pub fn update(&mut self) -> Result<()> {
        let config = &self.config;
        let from_demos = match self.played.is_empty() {
            true => config.batch,
            false => (config.share(self.caution.steps) * config.batch as f64).round() as usize,
        };
        Steps::sample([&self.demos, &self.played], from_demos, config.batch, &mut self.learn_rng, &mut self.batch);
        self.nearness.update(config, &self.batch.state);
        self.nearness.of(&self.batch.next_state, &mut self.batch.near);
        let weights = self.caution.weights(config);
        let spread = self.caution.spread(config) as f32;
        let policy = SkillPolicy { net: self.base.policy.actor(), bound: &self.base.planner.bound, spread };
        let played = self.base.skills.decoder.net_mut().expect("a closed loop, or it would have been refused");
        self.teacher.next_actions(config, played, &policy, &self.batch.next_state, &mut self.learn_rng);
        let Losses { reward, value, risk, chance } =
            self.critics.update(config, weights, &self.batch, &self.teacher.actions)?;
        self.updates += 1;
        self.seen.updates += 1.0;
        self.seen.near += self.batch.near.iter().map(|n| f64::from(*n)).sum::<f64>() / self.batch.rows as f64;
        for (sum, loss) in self.seen.losses.iter_mut().zip([reward, value, risk, chance]) {
            *sum += loss;
        }
        if self.caution.steps >= config.warm_up_steps && self.updates.is_multiple_of(config.decoder_every) {
            self.teacher.choose(&policy, &self.batch.state, &mut self.learn_rng);
            let [_, moved] = self.teacher.gradient(config, &mut self.critics, &self.batch.state, weights);
            self.teacher.step(config, played, self.caution.pace(config));
            self.caution.foreseen(&self.critics.chances[from_demos..]);
            self.seen.moved += moved;
            self.seen.decoder_updates += 1.0;
        }
        Ok(())
    }

    /// What happened since the last row.
    pub(super) fn metrics(&mut self, metrics: &mut Metrics) {
        let Seen { losses, near, updates, moved, decoder_updates } = std::mem::take(&mut self.seen);
        let names = ["Loss/Loss_step_reward", "Value/step_reward", "Loss/Loss_step_risk", "Value/step_risk"];
        names.into_iter().zip(losses).for_each(|(name, sum)| metrics.push(name, sum / updates.max(1.0)));
        metrics.push("Value/step_nearness", near / updates.max(1.0));
        metrics.push("Decoder/from_reference", (moved / decoder_updates.max(1.0)).sqrt());
        metrics.push("Decoder/caution", self.caution.amount(&self.config));
        metrics.push("Decoder/worse", self.caution.worse(&self.config));
        metrics.push("Decoder/risk", self.caution.mean_risk);
        metrics.push("Decoder/price", f64::from(self.caution.weights(&self.config).price));
    }
}

impl Method for SskpPlus {
    fn accepts(&self, demos: &Demonstrations) -> Result<()> {
        self.base.refuse(demos)
    }

    fn pretrain(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        let mut report = self.base.offline(demos, seen)?;
        let decoder = self.base.skills.decoder.net().expect("a closed loop");
        self.teacher = Teacher::new(&self.config, decoder, self.base.skills.config().dim);
        self.remember_demonstrations(demos);
        if self.config.on {
            updates("step critics", self.config.offline_updates, seen, || {
                self.update()?;
                Ok([])
            })?;
            let n = self.seen.updates.max(1.0);
            let [reward, value, risk, chance] = self.seen.losses.map(|sum| sum / n);
            for (name, value) in
                [("reward_loss", reward), ("value", value), ("risk_loss", risk), ("chance_of_violation", chance)]
            {
                report.note("step critics", name, value);
            }
        }
        Ok(report)
    }

    fn train(&mut self, run: &mut Run) -> Result<()> {
        self.online(run)
    }

    fn updates(&self) -> Option<u64> {
        Some(self.updates)
    }

    fn actor(&self) -> Box<dyn Actor> {
        self.base.actor()
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.base.save(to);
        self.critics.save(to);
        self.nearness.save(to);
        self.teacher.save(to);
        self.played.save("steps", to);
        self.demos.save("demonstrations", to);
        let state = SskpPlusState {
            learn_rng: self.learn_rng.save(),
            noise_rng: self.noise_rng.save(),
            updates: self.updates,
            caution: self.caution,
            unit: self.critics.unit,
            seen: self.seen,
        };
        to.json("sskp-plus", &state);
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.base.load(from)?;
        self.critics.load(from)?;
        self.nearness.load(from)?;
        self.teacher.load(from)?;
        self.played.load("steps", from)?;
        self.demos.load("demonstrations", from)?;
        let state: SskpPlusState = from.json("sskp-plus")?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.noise_rng = Rng::load(&state.noise_rng)?;
        (self.updates, self.caution) = (state.updates, state.caution);
        (self.critics.unit, self.seen) = (state.unit, state.seen);
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.base.load_policy(from)
    }
}
