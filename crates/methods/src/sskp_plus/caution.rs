//! The one rule that decides how far the decoder may go: by how often the robot has fallen, against how often it may, and against how often
//! it fell before.
//!
//! ```text
//! m = (n₀ + violations so far)/(ρ*·(t₀ + steps so far)), inside caution_bounds;  n₀ such that m begins at first_caution
//! ρ₀ = max(ρ*, (ρ*·t₀ + v)/(t₀ + t)),  v violations in the first t steps, before the decoder moved
//! M = (ρ*·t₀ + violations so far)/(ρ₀·(t₀ + steps so far)), at most the greater of caution_bounds
//! λ = Λ·min(dearest, m),  what risk costs;  κ = K·(min(dearest, m⁰) − 1) where m⁰ > 1,  what a step near a violation costs;  m⁰: m with n₀ = 0
//! hold: w·m·max(1, M);  the reference follows by f/m where M < 1, and goes back to the offline decoder by f·(M − 1) where M > 1
//! ```
//! m is caution: skills are drawn with 1/m of the policy's deviation where it is above 1; while nothing happens it falls, and the decoder goes faster and
//! further; every violation raises it at once, and the less, the longer the robot has been learning. M says whether moving has made things worse: whoever falls more
//! often than where it came from, and more often than it may, goes back. Whoever fell as often there would gain nothing by that.

use serde::{Deserialize, Serialize};

use super::config::AdaptConfig;

/// What it goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Caution {
    violations: u64,
    /// v: those before the decoder moved.
    #[serde(default)]
    before: u64,
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
    /// κ.
    pub(super) near: f32,
    /// w·m·max(1, M).
    pub(super) hold: f32,
}

/// How fast it follows the means of minibatches.
const FOLLOW_RISK: f64 = 1e-3;

impl Caution {
    pub(super) fn new() -> Self {
        Self { violations: 0, before: 0, steps: 0, mean_risk: 0.0 }
    }

    /// Steps were played, the last of which may have been a violation.
    pub(super) fn played(&mut self, config: &AdaptConfig, steps: usize, violated: bool) {
        self.steps += steps as u64;
        self.violations += u64::from(violated);
        if self.steps <= config.warm_up_steps {
            self.before = self.violations;
        }
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
        let first = config.first_caution * config.allowed * config.patience;
        let may = config.allowed * (config.patience + self.steps as f64);
        ((first + self.violations as f64) / may).clamp(least, most)
    }

    /// m⁰: m without the caution of the beginning.
    fn excess(&self, config: &AdaptConfig) -> f64 {
        self.violations as f64 / (config.allowed * (config.patience + self.steps as f64))
    }

    /// M.
    pub(super) fn worse(&self, config: &AdaptConfig) -> f64 {
        let first = config.allowed * config.patience;
        let rate = |violations: u64, steps: u64| (first + violations as f64) / (config.patience + steps as f64);
        let before = rate(self.before, self.steps.min(config.warm_up_steps)).max(config.allowed);
        (rate(self.violations, self.steps) / before).min(config.caution_bounds[1])
    }

    /// The share of the policy's deviation that skills are drawn with.
    pub(super) fn spread(&self, config: &AdaptConfig) -> f64 {
        config.spread * (1.0 / self.amount(config)).min(1.0)
    }

    /// What the decoder's loss weighs how much.
    pub(super) fn weights(&self, config: &AdaptConfig) -> Weights {
        let m = self.amount(config);
        let worse = self.worse(config).max(1.0);
        Weights {
            hold: (config.hold * m * worse) as f32,
            price: (config.price * m.min(config.dearest)) as f32,
            near: (config.near_cost * (self.excess(config).min(config.dearest) - 1.0).max(0.0)) as f32,
        }
    }

    /// How far the reference goes at each of the decoder's updates: towards the decoder, and back to the offline one. One of both is 0.
    pub(super) fn pace(&self, config: &AdaptConfig) -> [f32; 2] {
        let worse = self.worse(config);
        let [follow, retreat] = if worse < 1.0 { [1.0 / self.amount(config), 0.0] } else { [0.0, worse - 1.0] };
        [follow, retreat].map(|pace| (config.follow * pace).min(1.0) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> AdaptConfig {
        AdaptConfig {
            allowed: 2e-5,
            patience: 1e4,
            warm_up_steps: 10_000,
            first_caution: 3.0,
            caution_bounds: [0.1, 10.0],
            spread: 0.5,
            hold: 0.2,
            follow: 1e-3,
            price: 50.0,
            dearest: 2.0,
            near_cost: 4.0,
            ..Default::default()
        }
    }

    #[test]
    fn trust_is_earned_slowly_and_lost_at_once() {
        let config = config();
        let mut caution = Caution::new();
        assert!((caution.amount(&config) - 3.0).abs() < 1e-12);
        assert!((caution.spread(&config) - 0.5 / 3.0).abs() < 1e-12);
        caution.played(&config, 50_000, false);
        // n₀ = 3·2e-5·1e4 = 0.6, against 2e-5·6e4 = 1.2.
        assert!((caution.amount(&config) - 0.5).abs() < 1e-12);
        assert_eq!(caution.spread(&config), 0.5);
        caution.played(&config, 10, true);
        assert!((caution.amount(&config) - 1.6 / 1.2002).abs() < 1e-9);
        // Later a violation counts for less.
        caution.played(&config, 500_000, false);
        let before = caution.amount(&config);
        caution.played(&config, 10, true);
        assert!((caution.amount(&config) - before - 0.0893).abs() < 1e-3);
        caution.played(&config, 10_000_000, false);
        assert_eq!(caution.amount(&config), config.caution_bounds[0], "not without end");
        (0..10_000).for_each(|_| caution.played(&config, 10, true));
        assert_eq!(caution.amount(&config), config.caution_bounds[1]);
    }

    #[test]
    fn whoever_falls_more_often_than_before_goes_back() {
        let config = config();
        let fallen = |before: usize, after: usize| {
            let mut caution = Caution::new();
            (0..before).for_each(|_| caution.played(&config, 100, true));
            caution.played(&config, 10_000 - 100 * before, false);
            (0..after).for_each(|_| caution.played(&config, 100, true));
            caution.played(&config, 90_000 - 100 * after, false);
            caution
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // ρ₀ = ρ* = 2e-5: 4.2 against 2.2. The hold is 0.2·(4.6/2.2)·(4.2/2.2).
        let worse = fallen(0, 4);
        assert!(close(worse.worse(&config), 4.2 / 2.2));
        assert!((f64::from(worse.weights(&config).hold) - 0.2 * 4.6 / 2.2 * 4.2 / 2.2).abs() < 1e-6);
        // Four where 2.2 were allowed; and no more than twice.
        assert!((f64::from(worse.weights(&config).near) - 4.0 * (4.0 / 2.2 - 1.0)).abs() < 1e-6);
        assert_eq!(fallen(0, 8).weights(&config).near, 4.0);
        let [follow, retreat] = worse.pace(&config);
        assert!(follow == 0.0 && (f64::from(retreat) - 1e-3 * (4.2 / 2.2 - 1.0)).abs() < 1e-9);
        // As many falls, all of them before it moved: ρ₀ = 4.2/2e4, against 4.2/1.1e5.
        let better = fallen(4, 0);
        assert!(close(better.worse(&config), 2.0 / 11.0));
        assert!((f64::from(better.weights(&config).hold) - 0.2 * 4.6 / 2.2).abs() < 1e-6);
        let [follow, retreat] = better.pace(&config);
        assert!(retreat == 0.0 && (f64::from(follow) - 1e-3 * 2.2 / 4.6).abs() < 1e-9);
    }

    #[test]
    fn the_weights_by_hand() {
        let config = config();
        let mut caution = Caution::new();
        // m = 3, M = 1.
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-6;
        let Weights { price, hold, near } = caution.weights(&config);
        assert!(
            close(price, 100.0) && close(hold, 0.6) && near == 0.0,
            "m = 3, but no more than 2, and no violation yet: {price} {hold} {near}"
        );
        assert_eq!(caution.pace(&config), [0.0, 0.0]);
        caution.played(&config, 50_000, false);
        let Weights { price, hold, near } = caution.weights(&config);
        assert!(close(price, 25.0) && close(hold, 0.1) && near == 0.0, "m = 0.5: {price} {hold} {near}");
        let [follow, retreat] = caution.pace(&config);
        assert!(close(follow, 2e-3) && retreat == 0.0, "{follow} {retreat}");
        caution.mean_risk = 5e-4;
        caution.foreseen(&[0.2, 0.1]);
        assert!((caution.mean_risk - 6.495e-4).abs() < 1e-8);
    }
}
