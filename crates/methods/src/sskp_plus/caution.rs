//! The one rule that decides how far the decoder may go: by how often the robot has fallen lately.
//!
//! ```text
//! ρ: violations per step, averaged over the last `window` steps, from first_caution·ρ* on
//! m = ρ/ρ*, inside caution_bounds
//! λ = κ·min(1, m)/(C̄ + ε),  C̄: the mean risk of the steps that are played
//! ```
//! The hold is w·m and the reference follows by f/m; skills and actions are played with 1/m of their noise where m is above 1. Where nothing
//! happens for a while m falls, and the decoder goes faster and further; every violation raises it at once. With κ = 1 and C̄ well above ε,
//! a per cent less risk would be worth a per cent of the demonstrator's reward.

use serde::{Deserialize, Serialize};

use super::config::AdaptConfig;

/// What it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Caution {
    /// ρ.
    pub(super) fall_rate: f64,
    /// C̄.
    pub(super) mean_risk: f64,
}

/// How fast C̄ follows the means of minibatches.
const FOLLOW_RISK: f64 = 1e-3;

impl Caution {
    pub(super) fn new(config: &AdaptConfig) -> Self {
        // Before anything is known, risk is taken for large, and its price is small.
        Self { fall_rate: config.first_caution * config.allowed, mean_risk: 0.1 }
    }

    /// Steps were played, the last of which may have been a violation.
    pub(super) fn played(&mut self, config: &AdaptConfig, steps: usize, violated: bool) {
        let forgotten = (-(steps as f64) / config.window).exp();
        self.fall_rate = forgotten * self.fall_rate + f64::from(u8::from(violated)) / config.window;
    }

    /// The risks of a minibatch of steps as they would be played.
    pub(super) fn foreseen(&mut self, chances: &[f32]) {
        if !chances.is_empty() {
            let mean = chances.iter().map(|c| f64::from(*c)).sum::<f64>() / chances.len() as f64;
            self.mean_risk += FOLLOW_RISK * (mean - self.mean_risk);
        }
    }

    /// m.
    pub(super) fn amount(&self, config: &AdaptConfig) -> f64 {
        let [least, most] = config.caution_bounds;
        (self.fall_rate / config.allowed).clamp(least, most)
    }

    /// The share of their noise that skills and actions are played with.
    pub(super) fn boldness(&self, config: &AdaptConfig) -> f64 {
        (1.0 / self.amount(config)).min(1.0)
    }

    /// λ.
    pub(super) fn price(&self, config: &AdaptConfig) -> f64 {
        config.price * self.amount(config).min(1.0) / (self.mean_risk + config.negligible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_earned_slowly_and_lost_at_once() {
        let config = AdaptConfig::default();
        let mut caution = Caution::new(&config);
        assert_eq!(caution.amount(&config), 3.0);
        assert!((caution.boldness(&config) - 1.0 / 3.0).abs() < 1e-12);
        for _ in 0..10_000 {
            caution.played(&config, 10, false);
        }
        // Two windows later: 3·e⁻².
        assert!((caution.amount(&config) - 3.0 * (-2.0f64).exp()).abs() < 1e-9);
        assert_eq!(caution.boldness(&config), 1.0);
        let before = caution.amount(&config);
        caution.played(&config, 10, true);
        // A violation counts 1/window in ρ: half of the ρ* of 4e-5.
        assert!((caution.amount(&config) - before - 0.5).abs() < 1e-3);
        for _ in 0..100_000 {
            caution.played(&config, 10, false);
        }
        assert_eq!(caution.amount(&config), 0.1, "not without end");
        for _ in 0..100 {
            caution.played(&config, 10, true);
        }
        assert_eq!(caution.amount(&config), 10.0);
    }

    #[test]
    fn a_steady_rate_of_violations_is_found() {
        let config = AdaptConfig::default();
        let mut caution = Caution::new(&config);
        let mut mean = 0.0;
        for episode in 0..4000 {
            caution.played(&config, 1000, episode % 10 == 0);
            mean += if episode >= 3000 { caution.amount(&config) / 1000.0 } else { 0.0 };
        }
        // One in 10 000 steps, 2.5 times as often as allowed.
        assert!((mean - 2.5).abs() < 0.05, "{mean}");
    }

    #[test]
    fn risk_is_priced_against_the_mean_risk() {
        let config = AdaptConfig { price: 0.5, negligible: 0.01, ..Default::default() };
        let mut caution = Caution { fall_rate: config.allowed, mean_risk: 0.04 };
        assert!((caution.price(&config) - 10.0).abs() < 1e-9);
        caution.foreseen(&[0.14, 0.04]);
        assert!((caution.mean_risk - 0.04005).abs() < 1e-8);
        caution.fall_rate *= 0.5;
        assert!((caution.price(&config) - 5.0).abs() < 0.01, "half as dear where it falls half as often as it may");
        caution.fall_rate *= 10.0;
        assert!((caution.price(&config) - 10.0).abs() < 0.02);
    }
}
