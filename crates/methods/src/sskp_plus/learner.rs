//! The learner: SSkP, and the decoder that goes on learning.

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Spec;
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::record::Metrics;
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::{Error, Result};

use super::config::{AdaptConfig, SskpPlusConfig};
use super::critics::{Critics, Losses};
use super::decoder::{SkillPolicy, Teacher};
use super::steps::{Episode, StepBatch, Steps};
use crate::sskp::Sskp;
use crate::sskp::skill::SkillModel;
use crate::{Actor, Method, Setup};

/// The learner.
pub struct SskpPlus {
    pub(super) config: AdaptConfig,
    pub(super) base: Sskp,
    critics: Critics,
    teacher: Teacher,
    played: Steps,
    danger: Steps,
    demos: Steps,
    episode: Episode,
    /// C̄: the mean risk of the steps that are played.
    mean_risk: f64,
    learn_rng: Rng,
    noise_rng: Rng,
    pub(super) updates: u64,
    /// Steps kept.
    steps: u64,
    /// ρ: violations per step lately.
    fall_rate: f64,
    /// Since the last row of metrics.
    seen: Seen,
    // Scratch.
    batch: StepBatch,
    state: Vec<f32>,
    next_state: Vec<f32>,
    noise: Vec<f32>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Seen {
    losses: [f64; 4],
    updates: f64,
    moved: f64,
    decoder_updates: f64,
}

#[derive(Serialize, Deserialize)]
struct SskpPlusState {
    learn_rng: RngState,
    noise_rng: RngState,
    updates: u64,
    steps: u64,
    fall_rate: f64,
    mean_risk: f64,
    unit: f32,
    seen: Seen,
}

impl SskpPlus {
    /// A fresh learner, not yet fitted to demonstrations.
    pub fn new(spec: &Spec, config: SskpPlusConfig, setup: Setup) -> Result<Self> {
        config.adapt.check(setup.table)?;
        let (obs, action, dim) = (spec.obs_dim, spec.action_dim, config.skill.dim);
        let seed = setup.seed;
        let table = setup.table;
        let base = Sskp::new(spec, config.base(), setup)?;
        let Some(decoder) = base.skills.decoder.net() else {
            return Err(Error::other(format!(
                "{table}.skill.decoder must be closed-loop: blind skills have no state to learn in"
            )));
        };
        let config = config.adapt;
        let mut rng = Rng::stream(seed, "step critics");
        Ok(Self {
            critics: Critics::new(&config, obs, action, &mut rng),
            teacher: Teacher::new(&config, decoder, dim),
            played: Steps::new(obs, action, config.replay),
            danger: Steps::new(obs, action, 100_000),
            demos: Steps::new(obs, action, config.replay),
            episode: Episode::default(),
            mean_risk: 0.1,
            learn_rng: Rng::stream(seed, "step learner"),
            noise_rng: Rng::stream(seed, "action noise"),
            updates: 0,
            steps: 0,
            fall_rate: config.first_caution * config.allowed,
            seen: Seen::default(),
            batch: StepBatch::default(),
            state: vec![0.0; obs],
            next_state: vec![0.0; obs],
            noise: vec![0.0; action],
            base,
            config,
        })
    }

    /// m: how many times as often as allowed it falls.
    pub(super) fn caution(&self) -> f64 {
        (self.fall_rate / self.config.allowed).clamp(1.0 / self.config.boost, 10.0)
    }

    /// What of its deviation exploration keeps.
    pub(super) fn boldness(&self) -> f64 {
        (1.0 / self.caution()).min(1.0)
    }

    fn remember_demonstrations(&mut self, demos: &Demonstrations) {
        let total: f64 = demos.trajectories().iter().map(|t| t.total_reward()).sum();
        self.critics.unit = ((total / demos.steps().max(1) as f64).abs() as f32).max(1e-3);
        let standardiser = self.base.skills.standardiser.clone();
        for (e, trajectory) in demos.trajectories().iter().enumerate() {
            self.episode.clear();
            for t in 0..=trajectory.steps() {
                standardiser.apply(demos.state(e, t), &mut self.state);
                self.episode.states.extend_from_slice(&self.state);
            }
            self.episode.actions.extend_from_slice(demos.actions(e, 0, trajectory.steps()));
            self.episode.rewards.extend_from_slice(&trajectory.rewards);
            let end = (trajectory.steps() > 0).then(|| trajectory.end_at(trajectory.steps() - 1)).flatten();
            self.demos.push(&self.config, &self.episode, end, 0);
        }
        self.episode.clear();
    }

    /// Plays a skill as [`Sskp::play`] does, with noise on the actions.
    pub(super) fn play(&mut self, z: &[f32], run: &mut Run) -> Result<()> {
        let boldness = self.boldness();
        let Self { base, noise_rng, noise, config, .. } = self;
        let horizon = base.skills.config().horizon;
        let Sskp { skills, segment, next_state, .. } = base;
        let SkillModel { decoder, standardiser, .. } = skills;
        let sigma = if config.on { (config.noise * boldness) as f32 } else { 0.0 };
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

    /// Keeps the steps of the skill that was just played, and those of the episode where it was its last.
    pub(super) fn remember_steps(&mut self, over: bool) {
        let segment = &self.base.segment;
        let obs = self.state.len();
        let standardiser = &self.base.skills.standardiser;
        for state in segment.states.chunks_exact(obs).take(segment.steps) {
            standardiser.apply(state, &mut self.state);
            self.episode.states.extend_from_slice(&self.state);
        }
        self.episode.actions.extend_from_slice(&segment.actions);
        self.episode.rewards.extend_from_slice(&segment.rewards);
        self.steps += segment.steps as u64;
        let violated = segment.violated();
        if over {
            standardiser.apply(&segment.states[segment.steps * obs..][..obs], &mut self.state);
            self.episode.states.extend_from_slice(&self.state);
            if let Ok(path) = std::env::var("SSKP_DUMP") {
                use std::io::Write as _;
                let mut out = Vec::new();
                self.critics.chances(&self.episode.states, &self.episode.actions, &mut out);
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
                let text: Vec<String> = out.iter().map(|c| format!("{c:.5}")).collect();
                writeln!(file, "{} {} {}", self.steps, u8::from(violated), text.join(" ")).unwrap();
            }
            self.played.push(&self.config, &self.episode, segment.end, 0);
            if violated {
                let from = self.episode.rewards.len().saturating_sub(self.config.risk_horizon);
                self.danger.push(&self.config, &self.episode, segment.end, from);
            }
            self.episode.clear();
        }
        let forgotten = (-(segment.steps as f64) / self.config.window).exp();
        self.fall_rate = forgotten * self.fall_rate + f64::from(u8::from(violated)) / self.config.window;
    }

    /// Updates that are due.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        if !self.config.on {
            return Ok(());
        }
        let due = self.config.offline_updates + (self.steps as f64 * self.config.updates_per_step) as u64;
        while self.updates < due && !self.played.is_empty() {
            self.update()?;
        }
        Ok(())
    }

    /// One update of the critics, and of the decoder where it is its turn.
    pub fn update(&mut self) -> Result<()> {
        let config = &self.config;
        let n = config.batch;
        let share = |share: f64| (share * n as f64).round() as usize;
        let (from_demos, danger) = match (self.played.is_empty(), self.danger.is_empty()) {
            (true, _) => (n, 0),
            (false, true) => (share(config.demo_share), 0),
            (false, false) => (share(config.demo_share), share(config.danger_share)),
        };
        self.demos.begin(n, &mut self.batch);
        self.demos.sample(0, from_demos, &mut self.learn_rng, &mut self.batch);
        self.danger.sample(from_demos, from_demos + danger, &mut self.learn_rng, &mut self.batch);
        self.played.sample(from_demos + danger, n, &mut self.learn_rng, &mut self.batch);
        let caution = self.caution();
        let config = &self.config;
        let policy = SkillPolicy { net: self.base.policy.actor(), bound: &self.base.planner.bound };
        self.teacher.next_actions(config, &policy, &self.batch.next_state, &mut self.learn_rng);
        let Losses { reward, value, risk, chance } = self.critics.update(config, &self.batch, &self.teacher.actions)?;
        self.updates += 1;
        self.seen.updates += 1.0;
        for (sum, loss) in self.seen.losses.iter_mut().zip([reward, value, risk, chance]) {
            *sum += loss;
        }
        if self.steps >= config.warm_up_steps && self.updates.is_multiple_of(config.decoder_every) {
            self.teacher.choose(&policy, &self.batch.state, &mut self.learn_rng);
            let price = config.price * caution / (self.mean_risk + config.negligible);
            let weights = [price, config.hold * caution].map(|w| w as f32);
            let decoder = self.base.skills.decoder.net_mut().expect("a closed loop, or it would have been refused");
            let [_, moved] = self.teacher.gradient(config, decoder, &mut self.critics, &self.batch.state, weights);
            self.teacher.step(config, decoder, (config.follow / caution) as f32);
            let played = &self.teacher.chances[from_demos + danger..];
            let mean = played.iter().map(|c| f64::from(*c)).sum::<f64>() / played.len().max(1) as f64;
            self.mean_risk += 1e-3 * (mean - self.mean_risk);
            self.seen.moved += moved;
            self.seen.decoder_updates += 1.0;
        }
        Ok(())
    }

    /// What happened since the last row.
    pub(super) fn metrics(&mut self, metrics: &mut Metrics) {
        let Seen { losses, updates, moved, decoder_updates } = std::mem::take(&mut self.seen);
        let names = ["Loss/Loss_step_reward", "Value/step_reward", "Loss/Loss_step_risk", "Value/step_risk"];
        names.into_iter().zip(losses).for_each(|(name, sum)| metrics.push(name, sum / updates.max(1.0)));
        metrics.push("Decoder/from_reference", (moved / decoder_updates.max(1.0)).sqrt());
        metrics.push("Decoder/fall_rate", self.fall_rate);
        metrics.push("Decoder/mean_risk", self.mean_risk);
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

    fn actor(&self) -> Box<dyn Actor> {
        self.base.actor()
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.base.save(to);
        self.critics.save(to);
        self.teacher.save(to);
        self.played.save("steps", to);
        self.danger.save("danger", to);
        self.demos.save("demonstrations", to);
        let state = SskpPlusState {
            learn_rng: self.learn_rng.save(),
            noise_rng: self.noise_rng.save(),
            updates: self.updates,
            steps: self.steps,
            fall_rate: self.fall_rate,
            mean_risk: self.mean_risk,
            unit: self.critics.unit,
            seen: self.seen,
        };
        to.json("sskp-plus", &state);
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.base.load(from)?;
        self.critics.load(from)?;
        self.teacher.load(from)?;
        self.played.load("steps", from)?;
        self.danger.load("danger", from)?;
        self.demos.load("demonstrations", from)?;
        let state: SskpPlusState = from.json("sskp-plus")?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.noise_rng = Rng::load(&state.noise_rng)?;
        (self.updates, self.steps, self.fall_rate) = (state.updates, state.steps, state.fall_rate);
        (self.critics.unit, self.seen, self.mean_risk) = (state.unit, state.seen, state.mean_risk);
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.base.load_policy(from)
    }
}
