//! Every setting of SSkP+, each with its default and the reason for it.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;

use crate::need;
use crate::sskp::{PlannerConfig, PolicyConfig, RiskConfig, SkillConfig, SskpConfig};

/// Settings of SSkP+: those of SSkP, and of what it adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SskpPlusConfig {
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
    /// The decoder that goes on learning.
    pub adapt: AdaptConfig,
}

impl Default for SskpPlusConfig {
    fn default() -> Self {
        let SskpConfig { log_every, skill, risk, planner, policy } = SskpConfig::default();
        Self { log_every, skill, risk, planner, policy, adapt: AdaptConfig::default() }
    }
}

impl SskpPlusConfig {
    /// The part that is SSkP's.
    pub fn base(&self) -> SskpConfig {
        SskpConfig {
            log_every: self.log_every,
            skill: self.skill.clone(),
            risk: self.risk.clone(),
            planner: self.planner.clone(),
            policy: self.policy.clone(),
        }
    }
}

/// The settings of the skill model in a complete table of settings in text form.
pub(crate) fn settings_of_skills(text: &str) -> Result<SkillConfig> {
    crate::parse::<SskpPlusConfig>("sskp-plus", text).map(|config| config.skill)
}

/// Updates of the step critics per environment step.
pub(crate) fn updates_per_step(settings: &toml::Table) -> Option<f64> {
    crate::number(settings.get("adapt")?.get("updates_per_step")?)
}

/// Settings of the critics of single steps and of the decoder they teach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptConfig {
    /// Whether the decoder learns at all; false is the ablation with a frozen one.
    pub on: bool,
    /// Width of the critics' hidden layers.
    pub width: usize,
    /// Hidden layers of the critics.
    pub layers: usize,
    /// Learning rate of the critics.
    pub rate: f64,
    /// Learning rate of the decoder.
    pub decoder_rate: f64,
    /// Discount of rewards per step.
    pub gamma: f64,
    /// Rewards of so many steps are summed before a critic is asked for the rest.
    pub returns: usize,
    /// Discount of violations per step.
    pub risk_gamma: f64,
    /// A step so near the time limit says nothing about violations.
    pub risk_horizon: usize,
    /// Share of each online minibatch that is drawn from the steps before violations.
    pub danger_share: f64,
    /// Risks are priced against the mean risk plus this.
    pub negligible: f64,
    /// Polyak rate of the slow critics and of the slow decoder.
    pub tau: f64,
    /// Steps per minibatch.
    pub batch: usize,
    /// Steps kept.
    pub replay: usize,
    /// Updates of the critics per environment step.
    pub updates_per_step: f64,
    /// The decoder learns at every this many updates of the critics.
    pub decoder_every: u64,
    /// Updates of the critics on the demonstrations before the first step.
    pub offline_updates: u64,
    /// Environment steps before the decoder moves.
    pub warm_up_steps: u64,
    /// Deviation of the noise added to played actions.
    pub noise: f64,
    /// Deviation of the noise on the actions of targets, as in TD3.
    pub target_noise: f64,
    /// That noise is cut at ± this.
    pub target_clip: f64,
    /// Share of each online minibatch that is drawn from the demonstrations.
    pub demo_share: f64,
    /// k of Q = mean(Q₁, Q₂) − k·|Q₁ − Q₂|/2: 1 is the smaller of both, more is more cautious.
    pub doubt: f64,
    /// The same k in the critics' targets.
    pub target_doubt: f64,
    /// w: what a squared distance of 1 between decoder and reference costs, against (1 − γ)·Q in units of the demonstrator's reward.
    pub hold: f64,
    /// How far the reference goes towards the decoder at each of the decoder's updates.
    pub follow: f64,
    /// λ: what a sure violation costs, in the same unit, where they are as rare as `allowed` says.
    pub price: f64,
    /// ρ*: violations per step below which the reference moves freely. Above, it moves more slowly, the hold is stronger and the
    /// price higher, all in proportion.
    pub allowed: f64,
    /// How many times faster it may go where nothing happens.
    pub boost: f64,
    /// m before anything was played: trust is earned.
    pub first_caution: f64,
    /// Steps over which violations are averaged.
    pub window: f64,
    /// Factor on the deviation of played skills.
    pub spread: f64,
}

impl Default for AdaptConfig {
    fn default() -> Self {
        Self {
            on: true,
            width: 128,
            layers: 2,
            rate: 5e-4,
            decoder_rate: 1e-4,
            gamma: 0.99,
            returns: 3,
            risk_gamma: 0.98,
            risk_horizon: 100,
            danger_share: 0.0,
            negligible: 0.01,
            tau: 0.005,
            batch: 256,
            replay: 1_000_000,
            updates_per_step: 0.5,
            decoder_every: 2,
            offline_updates: 10_000,
            warm_up_steps: 5000,
            noise: 0.05,
            target_noise: 0.1,
            target_clip: 0.25,
            demo_share: 0.25,
            doubt: 1.0,
            target_doubt: 1.0,
            hold: 0.1,
            follow: 4e-5,
            price: 0.1,
            allowed: 4e-5,
            boost: 10.0,
            first_caution: 3.0,
            window: 50_000.0,
            spread: 1.0,
        }
    }
}

impl AdaptConfig {
    /// Says what is wrong with a setting.
    pub fn check(&self, table: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| need(table, &format!("adapt.{key}"), fine, needed);
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("layers", (1..=64).contains(&self.layers), "between 1 and 64")?;
        need("rate", self.rate > 0.0 && self.rate < 1.0, "between 0 and 1")?;
        need("decoder_rate", (0.0..1.0).contains(&self.decoder_rate), "at least 0 and below 1")?;
        need("gamma", (0.0..1.0).contains(&self.gamma), "at least 0 and below 1")?;
        need("risk_gamma", (0.0..1.0).contains(&self.risk_gamma), "at least 0 and below 1")?;
        need("tau", self.tau > 0.0 && self.tau <= 1.0, "above 0 and at most 1")?;
        need("batch", (2..=1 << 20).contains(&self.batch), "between 2 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("decoder_every", self.decoder_every > 0, "at least 1")?;
        need("noise", (0.0..=1.0).contains(&self.noise), "between 0 and 1")?;
        need("demo_share", (0.0..=1.0).contains(&self.demo_share), "between 0 and 1")?;
        need("doubt", self.doubt >= 0.0 && self.doubt.is_finite(), "0 or more")?;
        need("hold", self.hold >= 0.0 && self.hold.is_finite(), "0 or more")?;
        need("follow", (0.0..=1.0).contains(&self.follow), "between 0 and 1")?;
        need("price", self.price >= 0.0 && self.price.is_finite(), "0 or more")?;
        need("allowed", self.allowed > 0.0 && self.allowed <= 1.0, "above 0 and at most 1")?;
        need("window", self.window >= 1.0 && self.window.is_finite(), "1 or more")?;
        need("spread", (0.0..=10.0).contains(&self.spread), "between 0 and 10")
    }
}
