//! The learner: its parts, what the lines of Algorithm 2 do, and its checkpoint.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Spec;
use sskp_blocks::nets::Tape;
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::offline::{OfflineReport, StageSeen};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::{Run, Segment};
use sskp_blocks::soft_actor_critic::{Prior, SoftActorCritic, ViolationValue};

use super::actor::SskpActor;
use super::config::SskpConfig;
use super::foresight::{Foresight, Prediction};
use super::pairs::Pairs;
use super::planner::{Gaussian, Planner, Planning};
use super::risk::RiskPredictor;
use super::skill::SkillModel;
use super::skill_files::SkillFiles;
use crate::{Actor, Method, Setup};

/// The learner.
pub struct Sskp {
    pub(crate) config: SskpConfig,
    pub(crate) skills: SkillModel,
    pub(super) risk: RiskPredictor,
    pub(crate) planner: Planner,
    /// The skill policy π_θ with its critics.
    pub policy: SoftActorCritic,
    pub(super) positive: Pairs,
    pub(super) unlabelled: Pairs,
    /// Skills that were executed, which it learns from.
    pub replay: Replay,
    pub(super) plan_rng: Rng,
    pub(super) learn_rng: Rng,
    /// Skills executed since the beginning.
    pub(crate) executed: u64,
    last_log: u64,
    /// Since the last row of metrics: sums of the predicted risk of the chosen skills and of the policy's mean, and how many.
    risk_seen: [f64; 3],
    /// What was predicted of skills, and what came of them.
    pub(super) foresight: Foresight,
    // Scratch.
    pub(super) state: Vec<f32>,
    pub(crate) next_state: Vec<f32>,
    pub(crate) policy_now: Gaussian,
    tape: Tape,
    pub(crate) segment: Segment,
    /// Of the skill that was planned last.
    predicted: Prediction,
    /// Skills of this episode that are neither positive nor unlabelled yet; none between episodes.
    waiting: VecDeque<Executed>,
    batch: Batch,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) files: SkillFiles,
}

/// A skill that was played: z and the standardised states it was played in.
struct Executed {
    z: Vec<f32>,
    states: Vec<f32>,
    predicted: Prediction,
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
            foresight: Foresight::new(risk.class_prior),
            state: vec![0.0; obs],
            next_state: vec![0.0; obs],
            policy_now: Gaussian::default(),
            tape: Tape::default(),
            segment: Segment::default(),
            predicted: Prediction::default(),
            waiting: VecDeque::new(),
            batch: Batch::default(),
            threads: setup.threads,
            seed: setup.seed,
            files: SkillFiles::new(setup),
            skills,
            risk,
            policy,
            config,
        })
    }

    /// What the policy starts from and is held to: q_ψ, inside the planner's box.
    pub(super) fn prior(&self) -> Prior {
        Prior { net: self.skills.prior_net().clone(), bound: self.planner.bound.clone() }
    }

    pub(super) fn uses_risk(&self) -> bool {
        self.config.planner.planning != Planning::Off
    }
}

/// Skill-based SAC: a policy that starts as the prior and is held to it.
pub(super) fn build_policy(
    config: &SskpConfig,
    prior: Prior,
    threads: usize,
    rng: &mut Rng,
) -> Result<SoftActorCritic> {
    let policy = &config.policy;
    SoftActorCritic::near_prior(policy.learner.clone(), prior, policy.divergence, threads, rng)
}

/// What the lines of Algorithm 2 do.
impl Sskp {
    /// Standardises s_t and asks the policy for π_θ(·|s_t).
    pub(crate) fn observe(&mut self, state: &[f32]) {
        self.skills.standardiser.apply(state, &mut self.state);
        let from_prior = self.config.planner.from_prior;
        let net = if from_prior { self.skills.prior_net() } else { self.policy.actor() };
        self.policy_now.read(net.forward(&self.state, 1, &mut self.tape));
    }

    pub(crate) fn plan(&mut self) -> Vec<f32> {
        let (risk, state) = (&mut self.risk, &self.state);
        let z = self.planner.plan(&self.policy_now, |z, out| risk.score(state, z, out), &mut self.plan_rng, |_| ());
        if self.config.planner.planning != Planning::Off {
            let mut logits = [0.0; 2];
            let pair = [&z[..], &self.policy_now.mean].concat();
            self.risk.score(&self.state, &pair, &mut logits);
            for (sum, logit) in self.risk_seen.iter_mut().zip(logits) {
                *sum += f64::from(sigmoid(logit));
            }
            self.risk_seen[2] += 1.0;
            let risk = f64::from(sigmoid(logits[0]));
            self.predicted =
                Prediction { risk, class_prior: self.risk.class_prior, planned: self.planner.had_a_choice() };
        }
        z
    }

    /// What [`Sskp::plan`] predicted of the skill it gave; none where no risk is learnt.
    pub(crate) fn predicted_risk(&self) -> Option<f32> {
        self.uses_risk().then_some(self.predicted.risk as f32)
    }

    /// Executes a skill: the decoder's mean, clipped to what a robot can do.
    pub(crate) fn play(&mut self, z: &[f32], run: &mut Run) -> Result<()> {
        let Self { skills, segment, next_state, .. } = self;
        let SkillModel { decoder, standardiser, .. } = skills;
        decoder.begin(z);
        run.execute(self.config.skill.horizon, segment, |k, state, action| {
            standardiser.apply(state, next_state);
            decoder.act(k, next_state, action);
        })
    }

    /// (s_t, z_t, r̃_t, s_t') to D. A partial skill is a transition like any other; only an end of the robot's own is final.
    pub(crate) fn remember(&mut self, z: &[f32]) {
        let obs = self.state.len();
        let last = &self.segment.states[self.segment.steps * obs..][..obs];
        self.skills.standardiser.apply(last, &mut self.next_state);
        let reward = (self.config.policy.reward_scale * self.segment.reward) as f32;
        self.replay.push(&self.state, z, reward, self.segment.end, &self.next_state);
        self.executed += 1;
    }

    /// Eq. 7: the executed pair, and the states passed through with skills of the prior. With [`RiskConfig::relabel`] a skill
    /// waits for those after it before it is known to be harmless.
    pub(crate) fn add_pairs(&mut self, z: &[f32], over: bool) {
        if !self.uses_risk() {
            return;
        }
        let obs = self.state.len();
        let mut skill = Executed { z: z.to_vec(), states: self.state.clone(), predicted: self.predicted };
        for state in self.segment.states.chunks_exact(obs).take(self.segment.steps).skip(1) {
            self.skills.standardiser.apply(state, &mut self.next_state);
            skill.states.extend_from_slice(&self.next_state);
        }
        self.waiting.push_back(skill);
        let waits = if over { 0 } else { self.config.risk.relabel };
        while self.waiting.len() > waits {
            let skill = self.waiting.pop_front().expect("more than none");
            let positive = self.segment.violated();
            self.foresight.add(skill.predicted, positive, self.config.risk.revise_over, self.last_log);
            let set = if positive { &mut self.positive } else { &mut self.unlabelled };
            let mut states = skill.states.chunks_exact(obs);
            set.push_executed(states.next().expect("the first"), &skill.z);
            states.for_each(|state| set.push_state(state));
        }
    }

    pub(crate) fn update_risk(&mut self, skills_before: u64, metrics: &mut Metrics) {
        if !self.uses_risk() {
            return;
        }
        let p = &self.config.policy;
        let wanted = ((self.executed - skills_before) as f64 * p.risk_updates_per_skill) as u64;
        let updates = if p.risk_updates_per_skill > 0.0 { wanted.max(p.min_risk_updates) } else { 0 };
        let risk = &self.config.risk;
        if updates > 0 && risk.revise_over > 0.0 && risk.class_prior == 0.0 {
            let [least, greatest] = risk.class_prior_bounds;
            self.risk.class_prior = self.foresight.class_prior().clamp(least, greatest);
        }
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
        self.foresight.metrics(metrics);
        metrics.push("Risk/class_prior", self.risk.class_prior);
    }

    /// Whether a row of metrics is due; if so, what it tells of planning is summed up anew from here.
    pub(crate) fn row_is_due(&mut self, steps: u64) -> bool {
        let due = steps >= self.last_log + self.config.log_every;
        if due {
            (self.last_log, self.risk_seen) = (steps, [0.0; 3]);
        }
        due
    }

    pub(crate) fn update_policy(&mut self, metrics: &mut Metrics) -> Result<()> {
        let p = &self.config.policy;
        let due = (self.executed.saturating_sub(p.warm_up as u64) as f64 * p.updates_per_skill) as u64;
        while self.policy.updates() < due {
            let last = self.policy.updates() + 1 == due;
            self.update_policy_once(last.then_some(&mut *metrics))?;
        }
        Ok(())
    }

    /// One update of the policy on a minibatch of skills.
    pub fn update_policy_once(&mut self, metrics: Option<&mut Metrics>) -> Result<()> {
        let p = &self.config.policy;
        let violation = match p.violation_cost > 0.0 {
            true => ViolationValue::costing(p.violation_cost, p.learner.gamma),
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

    fn updates(&self) -> Option<u64> {
        Some(self.policy.updates())
    }

    fn actor(&self) -> Box<dyn Actor> {
        let from_prior = self.config.planner.from_prior;
        let start = if from_prior { self.skills.prior_net() } else { self.policy.actor() };
        let (skills, risk, planner) = (self.skills.clone(), self.risk.clone(), self.planner.clone());
        Box::new(SskpActor::new(start.clone(), skills, risk, planner, self.plan_rng.clone()))
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
        if self.uses_risk() {
            self.foresight.save(to);
        }
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
        if self.uses_risk() {
            self.foresight = Foresight::load(from)?;
        }
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
