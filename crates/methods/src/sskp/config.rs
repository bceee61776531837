//! Every setting of SSkP and its ablations, each with its default and the reason for it. What the defaults depart from the paper in is
//! in `docs/methods/sskp.md`; `configs/as-printed.toml` undoes it.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::soft_actor_critic::SoftActorCriticConfig;

use super::decoder::DecoderKind;
use super::planner::Planning;
use super::pu_loss::PuLoss;

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

impl Default for SskpConfig {
    fn default() -> Self {
        Self {
            log_every: 5000,
            skill: SkillConfig::default(),
            risk: RiskConfig::default(),
            planner: PlannerConfig::default(),
            policy: PolicyConfig::default(),
        }
    }
}

/// The settings of the skill model in a complete table of settings in text form.
pub fn settings_of_skills(text: &str) -> Result<SkillConfig> {
    crate::parse::<SskpConfig>("sskp", text).map(|config| config.skill)
}

/// Updates of the policy per environment step of a whole skill.
pub fn updates_per_step(settings: &toml::Table) -> Option<f64> {
    let number = |table: &str, key: &str| crate::number(settings.get(table)?.get(key)?);
    Some(number("policy", "updates_per_skill")? / number("skill", "horizon")?)
}

/// Settings of the skill model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillConfig {
    /// H, actions per skill. Section 5.1.
    pub horizon: usize,
    /// Length of z. Section 5.1.
    pub dim: usize,
    /// What p_ν sees: the skill alone, as in the paper, or the state as well. Skills that see the state keep their balance while they
    /// are played (`docs/decisions/0003-closed-loop-decoder.md`).
    pub decoder: DecoderKind,
    /// Hidden units of encoder and decoder. SPiRL has 128.
    pub hidden: usize,
    /// Width of the prior's layers. SPiRL has 128.
    pub prior_width: usize,
    /// Hidden layers of the prior. SPiRL has seven with batch normalisation; without it three learn the same.
    pub prior_layers: usize,
    /// β of the encoder's KL term. Twice SPiRL's 5e-4: skills that leave out more of the demonstrator's noise and still say what to do
    /// (decision 3).
    pub beta: f64,
    /// Windows per minibatch. SPiRL's 128.
    pub batch: usize,
    /// Gradient steps. About four passes over a shipped set; the prior plays as well as after three times as many.
    pub steps: u64,
    /// Learning rate. SPiRL's 1e-3.
    pub rate: f64,
    /// Whether windows after which reward is lost (over the next ten skills,
    /// [`reward_ahead`](sskp_blocks::demos::Demonstrations::reward_ahead)) are left out: skills of a robot on its back, a fifth of Ant's windows and
    /// less than half a per cent of the others' (`docs/decisions/0006-what-ant-falls-over.md`). The paper learns from all.
    pub skip_losses: bool,
    /// Share of the episodes that is held out to measure the fit.
    pub held_out: f64,
    /// Seed of the model's own random streams. It is not the run's: runs of all seeds share one skill model, unless this
    /// differs.
    pub seed: u64,
}

impl Default for SkillConfig {
    fn default() -> Self {
        Self {
            horizon: 10,
            dim: 10,
            decoder: DecoderKind::ClosedLoop,
            hidden: 128,
            prior_width: 128,
            prior_layers: 3,
            beta: 1e-3,
            batch: 128,
            steps: 3000,
            rate: 1e-3,
            skip_losses: true,
            held_out: 0.05,
            seed: 0,
        }
    }
}

/// Settings of the risk predictor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskConfig {
    /// Width of the two hidden layers of the "3-layer MLP" (section 5.1): as good as 256 in a third of the time
    /// (`docs/decisions/0007-widths.md`).
    pub width: usize,
    /// Learning rate.
    pub rate: f64,
    /// L2 decay of the weights, added to the gradient: keeps logits from growing without end once P is separated.
    pub weight_decay: f64,
    /// Pairs per side of a minibatch.
    pub batch: usize,
    /// Gradient steps on the demonstrations.
    pub steps: u64,
    /// The loss. Eq. 4.
    pub loss: PuLoss,
    /// ξ of Eq. 4. Section 5.1: 0.
    pub slack: f64,
    /// λ, the share of positives among the unlabelled; 0 to estimate it from the demonstrations. One that is given is not revised.
    pub class_prior: f64,
    /// λ where it is estimated but the estimate cannot be made (too few pairs).
    pub fallback_class_prior: f64,
    /// λ is kept inside these bounds. Labelled positives are the last steps before a fall and so no random sample of all positives, which
    /// every estimator assumes: estimates may be far too large, and there is no floor since skills online may be as safe as they like.
    pub class_prior_bounds: [f64; 2],
    /// Skills over which λ is revised online, from what was predicted of each before it was played and what came of it: predicted risks were
    /// 2 to 70 times too large without (`docs/decisions/0009-class-prior-online.md`). 10 000 are a hundred long episodes, enough for a few falls of
    /// robots that rarely fall. 0 never, as the paper reads.
    pub revise_over: f64,
    /// Unlabelled pairs kept; the oldest online ones are overwritten.
    pub capacity: usize,
    /// Draw half of each online minibatch from executed pairs: only those say anything about z
    /// (`docs/decisions/0004-which-skill-a-label-belongs-to.md`). The paper draws uniformly.
    pub executed_half: bool,
    /// Wherever H actions of the demonstrations were played, add the pair of the state and the skill that encodes them, as an
    /// executed pair (decision 4). The paper draws skills from the prior alone, which makes z independent of the label. Remainders of
    /// fewer than H actions are not encoded: they exist before falls only, and would give the label away.
    pub encode_actions: bool,
    /// Skills before the violating one that count as positive too: a fall often begins before the skill in which it ends (decision 4).
    /// The paper labels the violating skill alone, 0.
    pub relabel: usize,
    /// Fit a second predictor without a tenth of the episodes, and report how it does on them. Doubles the time of fitting and
    /// changes nothing else.
    pub calibrate: bool,
}

impl Default for RiskConfig {
    fn default() -> Self {
        Self {
            width: 128,
            rate: 3e-4,
            weight_decay: 1e-4,
            batch: 256,
            steps: 5000,
            loss: PuLoss::Paper,
            slack: 0.0,
            class_prior: 0.0,
            fallback_class_prior: 0.1,
            class_prior_bounds: [0.0, 0.3],
            revise_over: 10_000.0,
            capacity: 1_000_000,
            executed_half: true,
            encode_actions: true,
            relabel: 1,
            calibrate: true,
        }
    }
}

/// Settings of the planner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannerConfig {
    /// Which of the three. The method's name says it, so it is no setting that could say otherwise.
    #[serde(skip)]
    pub planning: Planning,
    /// N_s, skills per round. Section 5.1.
    pub samples: usize,
    /// k, skills kept per round. Section 5.1.
    pub elites: usize,
    /// N_p, rounds. Section 5.1.
    pub iterations: usize,
    /// Start from the prior q_ψ, as the box of Algorithm 1 says, instead of the policy π_θ, as the text of section 4.2.1
    /// and Algorithm 2 say. From the prior the policy would never influence what is done.
    pub from_prior: bool,
    /// Least σ of a refitted Gaussian: keeps a collapsed dimension defined.
    pub min_std: f64,
    /// The rounds move the mean at most this share of the box of skills away from the policy's mean; 0 for no limit, as the paper reads. A
    /// search without one finds skills that neither the policy nor the demonstrations know, where the predicted risk means nothing
    /// (`docs/decisions/0005-planning-near-the-policy.md`). A share of the box, not of the policy's σ: a policy that sharpens would take the
    /// planner's reach with it. Samples have no such limit: it would cut the policy's own tails.
    pub near_policy: f64,
    /// Predicted risks up to this count as equal; 0 ranks all, as the paper does. Where nothing is risky the order of tiny
    /// numbers says nothing, and following it would take the choice from the policy (decision 5).
    pub tolerance: f64,
    /// The control of every ablation: the predicted risks of each round are dealt out anew among its skills, at random. All is as always,
    /// the rounds, when there is anything to choose, and what the samples look like, but for the one thing that planning is about: the risk of a
    /// skill says nothing about it. What a run gains over its placebo is what P_ζ knows of skills.
    pub placebo: bool,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            planning: Planning::Risk,
            samples: 512,
            elites: 64,
            iterations: 6,
            from_prior: false,
            min_std: 1e-6,
            near_policy: 0.1,
            tolerance: 0.02,
            placebo: false,
        }
    }
}

/// Settings of the skill policy and of its learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Networks and rates of the update that SAC-like methods share. Critics 128 wide (decision 7); rates and discount are SPiRL's: γ
    /// counts skills, and a horizon of a hundred skills makes falling dear. The first α is a tenth of SPiRL's, so that the policy may
    /// leave the prior from the beginning. The actor has the prior's layers, whatever is said here.
    pub learner: SoftActorCriticConfig,
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

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            learner: SoftActorCriticConfig { width: 128, alpha: 0.1, ..Default::default() },
            divergence: 5.0,
            reward_scale: 0.1,
            batch: 256,
            replay: 1_000_000,
            warm_up: 256,
            updates_per_skill: 1.0,
            risk_updates_per_skill: 1.0,
            min_risk_updates: 10,
            violation_cost: 0.0,
        }
    }
}
