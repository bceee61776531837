//! The one rule that decides how far the decoder may go: by how often the robot has fallen, against how often it may.
//!
//! ```text
//! m = (n₀ + violations so far)/(ρ*·(t₀ + steps so far)), inside caution_bounds;  n₀ such that m begins at first_caution
//! λ = κ·min(1, m)/(C̄ + ε),  C̄: the mean risk of the steps that are played
//! ```
//! The hold is w·m and the reference follows by f/m; skills and actions are played with 1/m of their noise where m is above 1. While nothing
//! happens m falls, and the decoder goes faster and further; every violation raises it at once, and the less, the longer the robot has been
//! learning. With κ = 1 and C̄ well above ε, a per cent less risk would be worth a per cent of the demonstrator's reward.

use serde::{Deserialize, Serialize};

use super::config::AdaptConfig;

/// What it goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Caution {
    violations: u64,
    steps: u64,
    /// C̄.
    pub(super) mean_risk: f64,
}

/// How fast C̄ follows the means of minibatches.
const FOLLOW_RISK: f64 = 1e-3;

impl Caution {
    pub(super) fn new() -> Self {
        // Before anything is known, risk is taken for large, and its price is small.
        Self { violations: 0, steps: 0, mean_risk: 0.1 }
    }

    /// Steps were played, the last of which may have been a violation.
    pub(super) fn played(&mut self, steps: usize, violated: bool) {
        self.steps += steps as u64;
        self.violations += u64::from(violated);
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
        let before = config.first_caution * config.allowed * config.patience;
        let may = config.allowed * (config.patience + self.steps as f64);
        ((before + self.violations as f64) / may).clamp(least, most)
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
        let config = AdaptConfig { allowed: 2e-5, patience: 1e4, first_caution: 3.0, ..Default::default() };
        let mut caution = Caution::new();
        assert!((caution.amount(&config) - 3.0).abs() < 1e-12);
        assert!((caution.boldness(&config) - 1.0 / 3.0).abs() < 1e-12);
        caution.played(50_000, false);
        // n₀ = 3·2e-5·1e4 = 0.6, against 2e-5·6e4 = 1.2.
        assert!((caution.amount(&config) - 0.5).abs() < 1e-12);
        assert_eq!(caution.boldness(&config), 1.0);
        caution.played(10, true);
        assert!((caution.amount(&config) - 1.6 / 1.2002).abs() < 1e-9);
        // Later a violation counts for less.
        caution.played(500_000, false);
        let before = caution.amount(&config);
        caution.played(10, true);
        assert!((caution.amount(&config) - before - 0.0893).abs() < 1e-3);
        caution.played(10_000_000, false);
        assert_eq!(caution.amount(&config), config.caution_bounds[0], "not without end");
        (0..10_000).for_each(|_| caution.played(10, true));
        assert_eq!(caution.amount(&config), config.caution_bounds[1]);
    }

    #[test]
    fn risk_is_priced_against_the_mean_risk() {
        let config = AdaptConfig { price: 0.5, negligible: 0.01, ..Default::default() };
        let mut caution = Caution { violations: 1000, steps: 1000, mean_risk: 0.04 };
        assert!((caution.price(&config) - 10.0).abs() < 1e-9);
        caution.foreseen(&[0.14, 0.04]);
        assert!((caution.mean_risk - 0.04005).abs() < 1e-8);
        caution.violations = 0;
        caution.steps = 1_000_000_000;
        let cheapest = 10.0 * config.caution_bounds[0];
        assert!((caution.price(&config) - cheapest).abs() < 0.01 * cheapest, "cheap where it never falls");
    }
}
