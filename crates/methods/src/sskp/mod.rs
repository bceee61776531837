//! The paper: *Skill-based Safe Reinforcement Learning with Risk Planning* (Zhang and Guo 2025).
//!
//! | section | file |
//! |---|---|
//! | 4.1 skill model | [`skill`], [`decoder`]; as a file, [`artifact`] |
//! | 4.1.1 skill risk predictor, Eq. 1–4 and 7 | [`risk`], [`class_prior`]; judged by [`sskp_blocks::judge`] |
//! | 4.2.1 risk planning, Algorithm 1, Eq. 5–6 | [`planner`] |
//! | 5.4 what planning does to the predicted risk, Figure 5 | [`study`] |
//! | 4.2.2 online safe policy learning, Algorithm 2 | `online.rs`; the policy's update is [`sskp_blocks::soft_actor_critic`] |

pub mod artifact;
pub mod class_prior;
pub mod decoder;
mod online;
pub mod planner;
pub mod risk;
mod settings;
pub mod skill;
pub mod study;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Spec;
use sskp_blocks::judge::{Calibration, Judgement, auc, held_out};
use sskp_blocks::nets::{Mlp, Tape};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::{Run, Segment};
use sskp_blocks::soft_actor_critic::{Prior, SoftActorCritic, SoftActorCriticConfig, ViolationValue};
use sskp_blocks::{Error, Result};

use crate::{Actor, Method, Setup};
use planner::{Gaussian, Planner, PlannerConfig, Planning};
use risk::{Pairs, RiskConfig, RiskPredictor};
use skill::{SkillConfig, SkillModel};

/// Settings of SSkP and its ablations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SskpConfig {
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// Section 4.1.
    pub skill: SkillConfig,
    /// Section 4.1.1.
    pub risk: RiskConfig,
    /// Section 4.2.1.
    pub planner: PlannerConfig,
    /// Section 4.2.2.
    pub policy: PolicyConfig,
}

/// Settings of the skill policy and of its learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Width of the critics' hidden layers.
    pub width: usize,
    /// Hidden layers of the critics.
    pub layers: usize,
    /// Learning rate of policy, critics and α. SPiRL's 3e-4.
    pub rate: f64,
    /// Discount per skill, as SPiRL has it: a horizon of a hundred skills makes falling dear.
    pub gamma: f64,
    /// Polyak rate of the target critics. SPiRL's 5e-3.
    pub tau: f64,
    /// The first α. SPiRL's 1.
    pub alpha: f64,
    /// Mean KL(π_θ ‖ q_ψ) that α holds. SPiRL has 5 and 1.
    pub divergence: f64,
    /// r̃ is multiplied by this before it is learnt from: 0.1 makes it the mean reward per step of a whole skill.
    pub reward_scale: f64,
    /// Transitions per minibatch.
    pub batch: usize,
    /// Transitions kept.
    pub replay: usize,
    /// Skills executed before the policy learns.
    pub warm_up: usize,
    /// Updates of the policy per skill executed.
    pub updates_per_skill: f64,
    /// Updates of the risk predictor per skill executed.
    pub risk_updates_per_skill: f64,
    /// Updates of the risk predictor after an episode, at least.
    pub min_risk_updates: u64,
    /// C of a violation's value −C/(1−γ); 0 for none, as in the paper: a violating skill is then worth its reward.
    pub violation_cost: f64,
}

impl Default for SskpConfig {
    fn default() -> Self {
        Self {
            log_every: 5000,
            skill: SkillConfig::default(),
            risk: RiskConfig::default(),
            planner: PlannerConfig::default(),
            policy: PolicyConfig {
                width: 256,
                layers: 2,
                rate: 3e-4,
                gamma: 0.99,
                tau: 0.005,
                alpha: 1.0,
                divergence: 5.0,
                reward_scale: 0.1,
                batch: 256,
                replay: 1_000_000,
                warm_up: 256,
                updates_per_skill: 1.0,
                risk_updates_per_skill: 1.0,
                min_risk_updates: 10,
                violation_cost: 0.0,
            },
        }
    }
}

impl SskpConfig {
    /// The defaults with another planner: SSkP-NP and SSkP-w/o-RP.
    pub fn with_planning(planning: Planning) -> Self {
        Self { planner: PlannerConfig { planning, ..Default::default() }, ..Default::default() }
    }
}

/// The learner.
pub struct Sskp {
    config: SskpConfig,
    skills: SkillModel,
    risk: RiskPredictor,
    planner: Planner,
    pub(crate) policy: SoftActorCritic,
    positive: Pairs,
    unlabelled: Pairs,
    pub(crate) replay: Replay,
    plan_rng: Rng,
    learn_rng: Rng,
    /// Skills executed since the beginning.
    executed: u64,
    last_log: u64,
    /// Since the last row of metrics: sums of the predicted risk of the chosen skills and of the policy's mean, and how many.
    risk_seen: [f64; 3],
    // Scratch.
    state: Vec<f32>,
    next_state: Vec<f32>,
    policy_now: Gaussian,
    tape: Tape,
    segment: Segment,
    /// Skills of this episode that are neither positive nor unlabelled yet; none between episodes.
    waiting: VecDeque<Executed>,
    batch: Batch,
    threads: usize,
    seed: u64,
    files: artifact::Files,
}

/// A skill that was played: z and the standardised states it was played in.
struct Executed {
    z: Vec<f32>,
    states: Vec<f32>,
}

#[derive(Serialize, Deserialize)]
struct SskpState {
    plan_rng: RngState,
    learn_rng: RngState,
    executed: u64,
    last_log: u64,
    bound: Vec<f32>,
    risk_seen: [f64; 3],
}

impl Sskp {
    /// A fresh learner, not yet fitted to demonstrations.
    pub fn new(spec: &Spec, config: SskpConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut rng = Rng::stream(setup.seed, "init");
        let (obs, dim) = (spec.obs_dim, config.skill.dim);
        let skills = SkillModel::new(config.skill.clone(), obs, spec.action_dim, &mut rng);
        let risk = RiskPredictor::new(config.risk.clone(), obs, dim, &mut rng);
        let bound = vec![2.0; dim];
        let prior = Prior { net: skills.prior_net().clone(), bound: bound.clone() };
        let policy = build_policy(&config, prior, setup.threads, &mut rng)?;
        Ok(Self {
            planner: Planner::new(config.planner.clone(), bound),
            positive: Pairs::new(obs, dim, config.risk.capacity),
            unlabelled: Pairs::new(obs, dim, config.risk.capacity),
            replay: Replay::new(obs, dim, config.policy.replay),
            plan_rng: Rng::stream(setup.seed, "planner"),
            learn_rng: Rng::stream(setup.seed, "learner"),
            executed: 0,
            last_log: 0,
            risk_seen: [0.0; 3],
            state: vec![0.0; obs],
            next_state: vec![0.0; obs],
            policy_now: Gaussian::default(),
            tape: Tape::default(),
            segment: Segment::default(),
            waiting: VecDeque::new(),
            batch: Batch::default(),
            threads: setup.threads,
            seed: setup.seed,
            files: artifact::Files::new(setup),
            skills,
            risk,
            policy,
            config,
        })
    }

    /// What the policy starts from and is held to: q_ψ, inside the planner's box.
    fn prior(&self) -> Prior {
        Prior { net: self.skills.prior_net().clone(), bound: self.planner.bound.clone() }
    }

    fn uses_risk(&self) -> bool {
        self.config.planner.planning != Planning::Off
    }
}

fn build_policy(config: &SskpConfig, prior: Prior, threads: usize, rng: &mut Rng) -> Result<SoftActorCritic> {
    let p = &config.policy;
    let learner = SoftActorCriticConfig {
        width: p.width,
        layers: p.layers,
        rate: p.rate,
        gamma: p.gamma,
        tau: p.tau,
        alpha: p.alpha,
        ..Default::default()
    };
    SoftActorCritic::near_prior(learner, prior, p.divergence, threads, rng)
}

/// The offline stage (section 4.1).
impl Sskp {
    /// Learns the skill model and then the risk predictor, from the demonstrations alone.
    /// The skill model may come out of a file.
    fn offline(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.refuse(demos)?;
        let mut report = OfflineReport {
            updates: self.config.skill.steps,
            transitions: demos.steps(),
            violations: demos.violations(),
            ..OfflineReport::default()
        };
        let artifact::Fitted { model, held_out: fit, .. } =
            artifact::obtain(&self.config.skill, demos, &self.files, seen)?;
        self.skills = model;
        report.note("skills", "reconstruction", fit.reconstruction);
        report.note("skills", "kl", fit.kl);
        report.note("skills", "prior_log_prob", fit.prior_log_prob);
        self.planner.bound = self.skill_box(demos);
        // The policy starts as the prior that has just been learnt.
        let mut rng = Rng::stream(self.seed, "policy init");
        self.policy = build_policy(&self.config, self.prior(), self.threads, &mut rng)?;
        if self.uses_risk() {
            let mut rng = Rng::stream(self.seed, "risk");
            let encoded = risk::encode_episodes(demos, &mut self.skills, &self.config.risk);
            (self.positive, self.unlabelled) = self.pairs_of(demos, &encoded, |_| true);
            self.fit_risk(demos, &encoded, &mut rng, &mut report, seen)?;
        }
        Ok(report)
    }

    /// Demonstrations that cannot be learnt from, before any work.
    fn refuse(&self, demos: &Demonstrations) -> Result<()> {
        let (obs, action) = (self.state.len(), self.skills.action_dim());
        crate::same_robot(demos, obs, action)?;
        if self.uses_risk() && demos.violations() == 0 {
            let text = "the demonstrations hold no violation: there is nothing to learn risk from";
            return Err(Error::other(text));
        }
        let horizon = self.config.skill.horizon;
        self.config.skill.refuse(demos)?;
        if self.uses_risk() && demos.states_with_violation_ahead(horizon).all(|(_, ahead)| ahead) {
            let text = "every state of the demonstrations has a violation within the next";
            return Err(Error::other(format!("{text} {horizon} steps: nothing tells risky from safe")));
        }
        self.files.refuse_named(&self.config.skill, obs, action)
    }

    /// Skills are kept inside ±2, SPiRL's range, or ±2.5 deviations of the demonstrations' encoded skills where those are
    /// wider: what the decoder has been trained on.
    fn skill_box(&mut self, demos: &Demonstrations) -> Vec<f32> {
        let (horizon, dim) = (self.config.skill.horizon, self.config.skill.dim);
        let starts: Vec<_> = demos.window_starts(horizon).collect();
        let stride = starts.len().div_ceil(4000).max(1);
        let (mut squares, mut n) = (vec![0.0f64; dim], 0.0);
        for (episode, t) in starts.into_iter().step_by(stride) {
            let head = self.skills.encode(demos.actions(episode, t, horizon), 1, horizon);
            squares.iter_mut().zip(&head[..dim]).for_each(|(s, z)| *s += f64::from(*z).powi(2));
            n += 1.0;
        }
        squares.iter().map(|s| (2.5 * (s / n).sqrt()).max(2.0) as f32).collect()
    }

    fn pairs_of(&self, demos: &Demonstrations, encoded: &[Vec<f32>], keep: impl Fn(usize) -> bool) -> (Pairs, Pairs) {
        risk::demonstration_pairs(demos, encoded, &self.skills, &self.config.risk, keep)
    }

    /// λ (Eq. 2), then P_ζ by Eq. 4.
    fn fit_risk(
        &mut self,
        demos: &Demonstrations,
        encoded: &[Vec<f32>],
        rng: &mut Rng,
        report: &mut OfflineReport,
        seen: &mut StageSeen,
    ) -> Result<()> {
        let config = self.config.risk.clone();
        // A classifier that tells labelled from unlabelled pairs, on half the episodes; its scores on the other half.
        let halves = [0, 1].map(|half| self.pairs_of(demos, encoded, |episode| episode % 2 == half));
        let [learnt, held_out] = &halves;
        let enough = [learnt, held_out].iter().all(|(p, u)| !p.is_empty() && !u.is_empty());
        let mut estimates = [None; 2];
        if enough {
            let mut classifier = RiskPredictor::new(config.clone(), demos.obs_dim, self.config.skill.dim, rng);
            updates("class prior", config.steps.min(3000), seen, || {
                classifier.update_as_classifier(&learnt.0, &learnt.1, &self.skills, rng);
                Ok([])
            })?;
            let positive = classifier.scores(&held_out.0, &self.skills, rng);
            let unlabelled = classifier.scores(&held_out.1, &self.skills, rng);
            estimates =
                [class_prior::best_bin(&positive, &unlabelled), class_prior::elkan_noto(&positive, &unlabelled)];
        }
        let [least, greatest] = config.class_prior_bounds;
        self.risk.class_prior = match (config.class_prior > 0.0, estimates[0]) {
            (true, _) => config.class_prior,
            (false, Some(estimate)) => estimate.clamp(least, greatest),
            (false, None) => config.fallback_class_prior,
        };
        let [best_bin, elkan_noto] = estimates.map(|estimate| estimate.unwrap_or(f64::NAN));
        let [loss, binds] = updates("risk", config.steps, seen, || {
            let terms = self.risk.update(&self.positive, &self.unlabelled, &self.skills, rng);
            Ok([terms.loss, f64::from(u8::from(terms.binds))])
        })?;
        report.updates += config.steps;
        let positive = self.risk.scores(&self.positive, &self.skills, rng);
        let unlabelled = self.risk.scores(&self.unlabelled, &self.skills, rng);
        let auc = auc(&positive, &unlabelled).unwrap_or(f64::NAN);
        let figures = [
            ("class_prior", self.risk.class_prior),
            ("class_prior_best_bin", best_bin),
            ("class_prior_elkan_noto", elkan_noto),
            ("loss", loss),
            ("binds", binds),
            ("auc_as_fitted", auc),
        ];
        figures.into_iter().for_each(|(name, value)| report.note("risk", name, value));
        if config.calibrate {
            report.held_out = self.calibrate(demos, encoded, seen)?;
        }
        Ok(())
    }

    /// Fits another predictor to nine tenths of the episodes, in the same way, and judges it on the others. The predictor that
    /// is used has learnt from all: sixty falls are few enough. None where there are too few episodes to hold any out.
    ///
    /// λ is that of the whole set. The stream is one of its own, so the run is the same with and without this.
    fn calibrate(&self, demos: &Demonstrations, encoded: &[Vec<f32>], seen: &mut StageSeen) -> Result<Judgement> {
        let config = self.config.risk.clone();
        let held = held_out(demos.trajectories(), 10);
        let [(positive, unlabelled), judged] =
            [false, true].map(|wanted| self.pairs_of(demos, encoded, |episode| held.contains(&episode) == wanted));
        if positive.is_empty() || unlabelled.is_empty() {
            return Ok(Judgement::default());
        }
        let mut rng = Rng::stream(self.seed, "risk calibration");
        let mut predictor = RiskPredictor::new(config.clone(), demos.obs_dim, self.config.skill.dim, &mut rng);
        predictor.class_prior = self.risk.class_prior;
        updates("calibration", config.steps, seen, || {
            predictor.update(&positive, &unlabelled, &self.skills, &mut rng);
            Ok([])
        })?;
        let [positive, unlabelled] =
            [judged.0, judged.1].map(|pairs| predictor.scores_of_all(&pairs, &self.skills, &mut rng));
        let calibration = Calibration::of(&positive, &unlabelled);
        Ok(Judgement { auc: auc(&positive, &unlabelled), calibration, ..Judgement::default() })
    }
}

/// What the lines of Algorithm 2 do.
impl Sskp {
    /// Standardises s_t and asks the policy for π_θ(·|s_t).
    fn observe(&mut self, state: &[f32]) {
        self.skills.standardiser.apply(state, &mut self.state);
        let from_prior = self.config.planner.from_prior;
        let net = if from_prior { self.skills.prior_net() } else { self.policy.actor() };
        self.policy_now.read(net.forward(&self.state, 1, &mut self.tape));
    }

    fn plan(&mut self) -> Vec<f32> {
        let (risk, state) = (&mut self.risk, &self.state);
        let z = self.planner.plan(&self.policy_now, |z, out| risk.score(state, z, out), &mut self.plan_rng, |_| ());
        if self.config.planner.planning != Planning::Off {
            let mut logits = [0.0; 2];
            let pair = [&z[..], &self.policy_now.mean].concat();
            self.risk.score(&self.state, &pair, &mut logits);
            for (sum, logit) in self.risk_seen.iter_mut().zip(logits) {
                *sum += f64::from(risk::sigmoid(logit));
            }
            self.risk_seen[2] += 1.0;
        }
        z
    }

    /// Executes a skill: the decoder's mean, clipped to what a robot can do.
    fn play(&mut self, z: &[f32], run: &mut Run) -> Result<()> {
        let Self { skills, segment, next_state, .. } = self;
        let SkillModel { decoder, standardiser, .. } = skills;
        decoder.begin(z);
        run.execute(self.config.skill.horizon, segment, |k, state, action| {
            standardiser.apply(state, next_state);
            decoder.act(k, next_state, action);
        })
    }

    /// (s_t, z_t, r̃_t, s_t') to D. A partial skill is a transition like any other; only an end of the robot's own is final.
    fn remember(&mut self, z: &[f32]) {
        let obs = self.state.len();
        let last = &self.segment.states[self.segment.steps * obs..][..obs];
        self.skills.standardiser.apply(last, &mut self.next_state);
        let reward = (self.config.policy.reward_scale * self.segment.reward) as f32;
        self.replay.push(&self.state, z, reward, self.segment.end, &self.next_state);
        self.executed += 1;
    }

    /// Eq. 7: the executed pair, and the states passed through with skills of the prior. With [`RiskConfig::relabel`] a skill
    /// waits for those after it before it is known to be harmless.
    fn add_pairs(&mut self, z: &[f32], over: bool) {
        if !self.uses_risk() {
            return;
        }
        let obs = self.state.len();
        let mut skill = Executed { z: z.to_vec(), states: self.state.clone() };
        for state in self.segment.states.chunks_exact(obs).take(self.segment.steps).skip(1) {
            self.skills.standardiser.apply(state, &mut self.next_state);
            skill.states.extend_from_slice(&self.next_state);
        }
        self.waiting.push_back(skill);
        let waits = if over { 0 } else { self.config.risk.relabel };
        while self.waiting.len() > waits {
            let skill = self.waiting.pop_front().expect("more than none");
            let set = if self.segment.violated() { &mut self.positive } else { &mut self.unlabelled };
            let mut states = skill.states.chunks_exact(obs);
            set.push_executed(states.next().expect("the first"), &skill.z);
            states.for_each(|state| set.push_state(state));
        }
    }

    fn update_risk(&mut self, skills_before: u64, metrics: &mut Metrics) {
        if !self.uses_risk() {
            return;
        }
        let p = &self.config.policy;
        let wanted = ((self.executed - skills_before) as f64 * p.risk_updates_per_skill) as u64;
        let updates = if p.risk_updates_per_skill > 0.0 { wanted.max(p.min_risk_updates) } else { 0 };
        let (mut loss, mut binds) = (0.0, 0u32);
        for _ in 0..updates {
            let terms = self.risk.update(&self.positive, &self.unlabelled, &self.skills, &mut self.learn_rng);
            loss = terms.loss;
            binds += u32::from(terms.binds);
        }
        let [chosen, policy, n] = self.risk_seen;
        metrics.push("Loss/Loss_risk", loss);
        metrics.push("Risk/max_binds", f64::from(binds) / updates.max(1) as f64);
        metrics.push("Risk/chosen", chosen / n.max(1.0));
        metrics.push("Risk/policy_mean", policy / n.max(1.0));
    }

    fn update_policy(&mut self, metrics: &mut Metrics) -> Result<()> {
        let p = &self.config.policy;
        let due = (self.executed.saturating_sub(p.warm_up as u64) as f64 * p.updates_per_skill) as u64;
        while self.policy.updates() < due {
            let last = self.policy.updates() + 1 == due;
            self.update_policy_once(last.then_some(&mut *metrics))?;
        }
        Ok(())
    }

    /// One update of the policy on a minibatch of skills.
    pub(crate) fn update_policy_once(&mut self, metrics: Option<&mut Metrics>) -> Result<()> {
        let p = &self.config.policy;
        let violation = match p.violation_cost > 0.0 {
            true => ViolationValue::Fixed((-p.violation_cost / (1.0 - p.gamma)) as f32),
            false => ViolationValue::Terminal,
        };
        self.replay.sample(p.batch, &mut self.learn_rng, &mut self.batch);
        self.policy.update(&self.batch, violation, &mut self.learn_rng, metrics)
    }
}

impl Method for Sskp {
    fn accepts(&self, demos: &Demonstrations) -> Result<()> {
        self.refuse(demos)
    }

    fn pretrain(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.offline(demos, seen)
    }

    fn train(&mut self, run: &mut Run) -> Result<()> {
        self.online(run)
    }

    fn actor(&self) -> Box<dyn Actor> {
        Box::new(SskpActor {
            policy: self.policy.actor().clone(),
            from_prior: self.config.planner.from_prior,
            skills: self.skills.clone(),
            risk: self.risk.clone(),
            planner: self.planner.clone(),
            rng: self.plan_rng.clone(),
            state: vec![0.0; self.state.len()],
            tape: Tape::default(),
            played: self.config.skill.horizon,
            predicted: None,
        })
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.skills.save(to);
        self.risk.save(to);
        self.policy.save(to);
        self.positive.save("positive", to);
        self.unlabelled.save("unlabelled", to);
        self.replay.save("skills", to);
        let state = SskpState {
            plan_rng: self.plan_rng.save(),
            learn_rng: self.learn_rng.save(),
            executed: self.executed,
            last_log: self.last_log,
            bound: self.planner.bound.clone(),
            risk_seen: self.risk_seen,
        };
        to.json("sskp", &state);
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.load_policy(from)?;
        self.risk.load(from)?;
        self.policy.load(from)?;
        self.positive.load("positive", from)?;
        self.unlabelled.load("unlabelled", from)?;
        self.replay.load("skills", from)?;
        let state: SskpState = from.json("sskp")?;
        self.plan_rng = Rng::load(&state.plan_rng)?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        (self.executed, self.last_log) = (state.executed, state.last_log);
        self.risk_seen = state.risk_seen;
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.skills.load(from)?;
        self.risk.load_policy(from)?;
        self.policy.load_policy(from)?;
        let state: SskpState = from.json("sskp")?;
        self.planner.bound = state.bound;
        Ok(())
    }
}

/// The trained agent: plans a skill, plays it, plans the next.
struct SskpActor {
    policy: Mlp,
    from_prior: bool,
    skills: SkillModel,
    risk: RiskPredictor,
    planner: Planner,
    rng: Rng,
    state: Vec<f32>,
    tape: Tape,
    /// Steps of the skill played so far; a new one is planned at H.
    played: usize,
    /// P_ζ of the skill being played.
    predicted: Option<f32>,
}

impl SskpActor {
    /// What planning starts from in the standardised state.
    fn gaussian(&mut self) -> Gaussian {
        let net = if self.from_prior { self.skills.prior_net() } else { &self.policy };
        let mut gaussian = Gaussian::default();
        gaussian.read(net.forward(&self.state, 1, &mut self.tape));
        gaussian
    }
}

impl Actor for SskpActor {
    fn begin(&mut self) {
        self.played = self.skills.config().horizon;
        self.predicted = None;
    }

    fn risk(&self) -> Option<f32> {
        self.predicted
    }

    fn planned_risks(&mut self, state: &[f32], rng: &mut Rng) -> Option<Vec<f64>> {
        // Without planning no risk was ever learnt.
        if self.planner.config.planning == Planning::Off {
            return None;
        }
        self.skills.standardiser.apply(state, &mut self.state);
        let policy = self.gaussian();
        Some(study::risks_by_iteration(&mut self.planner, &mut self.risk, &policy, &self.state, rng))
    }

    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        self.skills.standardiser.apply(state, &mut self.state);
        if self.played == self.skills.config().horizon {
            let mut policy = self.gaussian();
            if !explore && self.planner.config.planning == Planning::Off {
                policy.std.fill(0.0);
            }
            let (risk, state) = (&mut self.risk, &self.state);
            let z = self.planner.plan(&policy, |z, out| risk.score(state, z, out), &mut self.rng, |_| ());
            if self.planner.config.planning != Planning::Off {
                let mut logit = [0.0];
                self.risk.score(&self.state, &z, &mut logit);
                self.predicted = Some(risk::sigmoid(logit[0]));
            }
            self.skills.decoder.begin(&z);
            self.played = 0;
        }
        self.skills.decoder.act(self.played, &self.state, action);
        self.played += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays three skills of one step each, the last of which ends the episode.
    fn pairs_after(relabel: usize, violated: bool) -> (usize, usize) {
        let spec = sskp_blocks::env::Env::spec(&sskp_blocks::toy::Toy::default()).clone();
        let mut config = SskpConfig::default();
        config.risk.relabel = relabel;
        let mut sskp = Sskp::new(&spec, config, Setup::new("sskp", 0, 1)).unwrap();
        for skill in 0..3 {
            sskp.segment.steps = 2;
            sskp.segment.states = vec![0.0; 3 * spec.obs_dim];
            sskp.segment.end = (violated && skill == 2).then_some(sskp_blocks::env::End::Violation);
            sskp.add_pairs(&[0.0; 10], skill == 2);
        }
        assert!(sskp.waiting.is_empty(), "nothing waits between episodes");
        (sskp.positive.len(), sskp.unlabelled.len())
    }

    #[test]
    fn eq_7_gives_the_violating_skill_to_the_positives_and_those_before_it_only_if_asked() {
        // Every skill gives two pairs: the executed one and the state it passed through.
        assert_eq!(pairs_after(0, true), (2, 4));
        assert_eq!(pairs_after(1, true), (4, 2));
        assert_eq!(pairs_after(9, true), (6, 0));
        assert_eq!(pairs_after(1, false), (0, 6));
    }
}
