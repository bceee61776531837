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
        let SskpConfig { log_every, skill, risk, planner, mut policy } = SskpConfig::default();
        // The skill policy stays the prior: drawn this narrowly (`adapt.spread`), what it learns beside the decoder was not told apart from nothing.
        policy.updates_per_skill = 0.0;
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
    /// Width of the critics' hidden layers. Twice as wide learnt no faster on Cheetah, in twice the time.
    pub width: usize,
    /// Hidden layers of the critics.
    pub layers: usize,
    /// E: critics of rewards. Four fell less often than two.
    pub critics: usize,
    /// Learning rate of the critics: TD3's. SAC's 3e-4 was slower on every robot.
    pub rate: f64,
    /// Learning rate of the decoder.
    pub decoder_rate: f64,
    /// Seconds that rewards are looked ahead: γ = 1 − dt/horizon per step. In seconds, because robots fall in about a second whatever
    /// the length of their steps: Hopper's 0.008 s want 0.995 to be safe, with which Ant's and Cheetah's 0.05 s learn late.
    pub horizon: f64,
    /// The same for violations: γ_c.
    pub risk_horizon: f64,
    /// n: steps whose rewards are summed before the critics are asked for the rest. One is slower; with ten the noise of the later actions
    /// hides what the first one did.
    pub returns: usize,
    /// Polyak rate of the slow critics, and of the decoder that is played behind the one that learns.
    pub tau: f64,
    /// Steps per minibatch.
    pub batch: usize,
    /// Steps kept.
    pub replay: usize,
    /// Updates of the critics per environment step.
    pub updates_per_step: f64,
    /// The decoder learns at every this many updates of the critics, as in TD3.
    pub decoder_every: u64,
    /// Updates of the critics on the demonstrations before the first step.
    pub offline_updates: u64,
    /// Environment steps before the decoder moves: the critics must know its own actions first, and what they say of risk is loud at first.
    pub warm_up_steps: u64,
    /// Deviation of the noise added to played actions, whatever m is: without it the critics cannot tell actions apart. 0.05 costs
    /// Cheetah 4 % of its reward, and what it had learnt after 300 000 steps was not told apart.
    pub noise: f64,
    /// Factor on the deviation of skills, while m is 1 or less; 1/m of it above. The spread of skills itself fells robots.
    pub spread: f64,
    /// Deviation of the noise on the actions of targets, as in TD3.
    pub target_noise: f64,
    /// That noise is cut at ± this.
    pub target_clip: f64,
    /// Share of each online minibatch that is drawn from the demonstrations, at first and at last.
    pub demo_share: [f64; 2],
    /// Steps after which it is half way.
    pub demo_fade: f64,
    /// k of L_k = mean − k·deviation of the critics in the decoder's loss.
    pub doubt: f64,
    /// The same in targets; for two critics 1 would be the smaller of both.
    pub target_doubt: f64,
    /// What a violation takes from the reward of its step, in values of a demonstrator who goes on for ever, r̄/(1 − γ).
    pub violation_value: f64,
    /// w: what a squared distance of 1 between decoder and reference costs, in rewards per step of the demonstrator, at m = M = 1.
    pub hold: f64,
    /// f: how far the reference goes towards the decoder at each of the decoder's updates, at m = 1, while M < 1. Ten times as fast, held ten
    /// times as tightly, Ant falls once in 800 steps.
    pub follow: f64,
    /// Λ: what the certainty of a violation costs, in rewards per step of the demonstrator, at m = 1. 50 slows Cheetah down.
    pub price: f64,
    /// It is at most this many times Λ.
    pub dearest: f64,
    /// K: what a step in a violating state would cost where the robot has fallen twice as often as it may, in rewards per step of the demonstrator; nothing where it
    /// has fallen seldom. Near misses are how Cheetah and Hopper become fast: at 6 for all, Hopper earns 2.0 after 250 000 steps instead of 2.37.
    pub near_cost: f64,
    /// ρ: weight decay of N, which says how near that is. Less would learn the bound itself.
    pub near_decay: f64,
    /// ε: risk that costs nothing. Of risks as small as those of ordinary steps the critic knows nothing, and its slope there is noise.
    pub negligible: f64,
    /// ρ*: violations per step at which m is 1, and M, for a robot that fell less often before its decoder moved.
    pub allowed: f64,
    /// m before anything was played: trust is earned.
    pub first_caution: f64,
    /// t₀: steps after which half of that is left if nothing happens.
    pub patience: f64,
    /// m is at least the first and at most the second of these, and M at most the second. With 0.1 Hopper fell twelve times within 20 000 steps after 190 000 without a fall.
    pub caution_bounds: [f64; 2],
}

impl Default for AdaptConfig {
    fn default() -> Self {
        Self {
            on: true,
            width: 128,
            layers: 2,
            critics: 4,
            rate: 1e-3,
            decoder_rate: 1e-4,
            horizon: 2.0,
            risk_horizon: 1.0,
            returns: 3,
            tau: 0.005,
            batch: 256,
            replay: 1_000_000,
            updates_per_step: 0.5,
            decoder_every: 2,
            offline_updates: 10_000,
            warm_up_steps: 10_000,
            noise: 0.02,
            spread: 0.15,
            target_noise: 0.1,
            target_clip: 0.25,
            demo_share: [0.5, 0.1],
            demo_fade: 50_000.0,
            doubt: 1.6,
            target_doubt: 1.0,
            violation_value: 0.6,
            hold: 0.1,
            follow: 2e-4,
            price: 5.0,
            dearest: 3.0,
            near_cost: 8.0,
            near_decay: 0.03,
            negligible: 0.01,
            allowed: 5e-5,
            first_caution: 3.0,
            patience: 10_000.0,
            caution_bounds: [0.3, 10.0],
        }
    }
}

impl AdaptConfig {
    /// γ of a robot with steps of `dt` seconds.
    pub(super) fn gamma(&self, dt: f64) -> f64 {
        discount(self.horizon, dt)
    }
    /// Share of a minibatch that is drawn from the demonstrations after `steps` steps.
    pub(super) fn share(&self, steps: u64) -> f64 {
        let [first, last] = self.demo_share;
        last + (first - last) * self.demo_fade / (self.demo_fade + steps as f64)
    }
    /// γ_c.
    pub(super) fn risk_gamma(&self, dt: f64) -> f64 {
        discount(self.risk_horizon, dt)
    }

    /// Says what is wrong with a setting.
    pub fn check(&self, table: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| need(table, &format!("adapt.{key}"), fine, needed);
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("layers", (1..=64).contains(&self.layers), "between 1 and 64")?;
        need("rate", self.rate > 0.0 && self.rate < 1.0, "between 0 and 1")?;
        need("decoder_rate", (0.0..1.0).contains(&self.decoder_rate), "at least 0 and below 1")?;
        need("returns", (1..=1000).contains(&self.returns), "between 1 and 1000")?;
        need("tau", self.tau > 0.0 && self.tau <= 1.0, "above 0 and at most 1")?;
        need("batch", (2..=1 << 20).contains(&self.batch), "between 2 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("decoder_every", self.decoder_every > 0, "at least 1")?;
        let [first, last] = self.demo_share;
        let shares = [("noise", self.noise), ("demo_share", first), ("demo_share", last), ("follow", self.follow)];
        for (key, value) in shares {
            need(key, (0.0..=1.0).contains(&value), "between 0 and 1")?;
        }
        let amounts = [
            ("target_noise", self.target_noise),
            ("target_clip", self.target_clip),
            ("spread", self.spread),
            ("doubt", self.doubt),
            ("target_doubt", self.target_doubt),
            ("violation_value", self.violation_value),
            ("hold", self.hold),
            ("price", self.price),
            ("dearest", self.dearest),
            ("near_cost", self.near_cost),
            ("near_decay", self.near_decay),
            ("negligible", self.negligible),
        ];
        for (key, value) in amounts {
            need(key, value >= 0.0 && value.is_finite(), "0 or more")?;
        }
        need("critics", (1..=64).contains(&self.critics), "between 1 and 64")?;
        let positive = [
            ("horizon", self.horizon),
            ("risk_horizon", self.risk_horizon),
            ("allowed", self.allowed),
            ("first_caution", self.first_caution),
            ("patience", self.patience),
            ("demo_fade", self.demo_fade),
        ];
        for (key, value) in positive {
            need(key, value > 0.0 && value.is_finite(), "above 0")?;
        }
        let [least, most] = self.caution_bounds;
        need("caution_bounds", 0.0 < least && least <= most && most.is_finite(), "[least, most] with 0 < least <= most")
    }
}

/// Fewest and most steps of a horizon: an environment's seconds may be anything.
const STEPS_AHEAD: [f64; 2] = [20.0, 1000.0];

fn discount(horizon: f64, dt: f64) -> f64 {
    let [least, most] = STEPS_AHEAD;
    1.0 - 1.0 / (horizon / dt).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn horizons_are_in_seconds() {
        let config = AdaptConfig { horizon: 2.0, risk_horizon: 1.0, ..Default::default() };
        // Hopper, Humanoid, Ant.
        for (dt, gamma, risk_gamma) in [(0.008, 0.996, 0.992), (0.015, 0.9925, 0.985), (0.05, 0.975, 0.95)] {
            assert!((config.gamma(dt) - gamma).abs() < 1e-9 && (config.risk_gamma(dt) - risk_gamma).abs() < 1e-9);
        }
        assert_eq!([config.gamma(1.0), config.gamma(1e-6)], [0.95, 0.999], "whatever an environment calls a second");
    }
}
