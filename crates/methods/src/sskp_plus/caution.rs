//! The one rule that decides how far the decoder may go: by how often the robot has fallen, against how often it may.
//!
//! ```text
//! m = (n₀ + violations so far)/(ρ*·(t₀ + steps so far)), inside caution_bounds;  n₀ such that m begins at first_caution
//! λ = Λ·min(dearest, m),  what risk costs
//! ```
//! The hold is w·m and the reference follows by f/m; skills are drawn with 1/m of the policy's deviation where m is above 1. While nothing
//! happens m falls, and the decoder goes faster and further; every violation raises it at once, and the less, the longer the robot has been
//! learning.

use serde::{Deserialize, Serialize};

use super::config::AdaptConfig;

/// What it goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Caution {
    violations: u64,
    /// Environment steps played.
    pub(super) steps: u64,
    /// Mean risk of the steps that are played, to be looked at.
    pub(super) mean_risk: f64,
}

/// Weights of the decoder's loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// λ.
    pub(super) price: f32,
    /// w·m.
    pub(super) hold: f32,
}

/// How fast it follows the means of minibatches.
const FOLLOW_RISK: f64 = 1e-3;

impl Caution {
    pub(super) fn new() -> Self {
        Self { violations: 0, steps: 0, mean_risk: 0.0 }
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

    /// The share of the policy's deviation that skills are drawn with.
    pub(super) fn spread(&self, config: &AdaptConfig) -> f64 {
        config.spread * (1.0 / self.amount(config)).min(1.0)
    }

    /// What the decoder's loss weighs how much.
    pub(super) fn weights(&self, config: &AdaptConfig) -> Weights {
        let m = self.amount(config);
        Weights { hold: (config.hold * m) as f32, price: (config.price * m.min(config.dearest)) as f32 }
    }

    /// How far the reference follows at each of the decoder's updates.
    pub(super) fn follow(&self, config: &AdaptConfig) -> f32 {
        (config.follow / self.amount(config)).min(1.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_earned_slowly_and_lost_at_once() {
        let config = AdaptConfig {
            allowed: 2e-5,
            patience: 1e4,
            first_caution: 3.0,
            caution_bounds: [0.1, 10.0],
            spread: 0.5,
            ..Default::default()
        };
        let mut caution = Caution::new();
        assert!((caution.amount(&config) - 3.0).abs() < 1e-12);
        assert!((caution.spread(&config) - 0.5 / 3.0).abs() < 1e-12);
        caution.played(50_000, false);
        // n₀ = 3·2e-5·1e4 = 0.6, against 2e-5·6e4 = 1.2.
        assert!((caution.amount(&config) - 0.5).abs() < 1e-12);
        assert_eq!(caution.spread(&config), 0.5);
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
    fn the_weights_by_hand() {
        let config = AdaptConfig {
            hold: 0.2,
            follow: 1e-3,
            price: 50.0,
            dearest: 2.0,
            allowed: 2e-5,
            patience: 1e4,
            first_caution: 3.0,
            ..Default::default()
        };
        let mut caution = Caution::new();
        // m = 3.
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-6;
        let Weights { price, hold } = caution.weights(&config);
        assert!(close(price, 100.0) && close(hold, 0.6), "{price} {hold}");
        assert!(close(caution.follow(&config), 1e-3 / 3.0));
        caution.played(50_000, false);
        let Weights { price, hold } = caution.weights(&config);
        assert!(close(price, 25.0) && close(hold, 0.1), "m = 0.5: {price} {hold}");
        assert!(close(caution.follow(&config), 2e-3));
        caution.mean_risk = 5e-4;
        caution.foreseen(&[0.2, 0.1]);
        assert!((caution.mean_risk - 6.495e-4).abs() < 1e-8);
    }
}
