//! What a violating transition is worth, and with it what every transition is worth: the critics' target.

/// What a violating transition is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ViolationValue {
    /// Its reward and nothing after: plain SAC.
    Terminal,
    /// This value, whatever its reward: SMBPO's −C/(1−γ).
    Fixed(f32),
}

impl ViolationValue {
    /// −C/(1−γ): as if it cost C in every step for ever.
    pub fn costing(cost: f64, gamma: f64) -> Self {
        Self::Fixed((-cost / (1.0 - gamma)) as f32)
    }

    /// y of a transition: its reward and `next`, the discounted value of what follows, where anything does. An end that is no
    /// violation is worth its reward, whatever a violation is worth.
    pub fn target(self, reward: f32, violated: bool, goes_on: bool, next: f32) -> f32 {
        match self {
            Self::Fixed(value) if violated => value,
            _ if goes_on => reward + next,
            _ => reward,
        }
    }
}

/// SMBPO's C (Thomas et al. 2021, section 4):
///
/// ```math
/// C = \frac{r_{\max} - r_{\min}}{\gamma^H} - r_{\max}.
/// ```
///
/// With a violation worth −C/(1−γ), a state from which a violation cannot be avoided any more, but comes within H steps only, is
/// worth less than any safe one, which earns r_min/(1−γ) at least:
///
/// ```math
/// r_{\max} \frac{1 - \gamma^H}{1 - \gamma} - \gamma^H \frac{C}{1 - \gamma} = \frac{r_{\min}}{1 - \gamma}.
/// ```
pub fn violation_cost([least, greatest]: [f64; 2], gamma: f64, horizon: u32) -> f64 {
    (greatest - least) / gamma.powi(horizon as i32) - greatest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_violation_by_hand() {
        // r in [−1.95, 1.79]: C = 3.74/0.99¹⁰ − 1.79 = 3.74/0.904382 − 1.79 = 2.34542; r in [−4, 14]: 18/0.904382 − 14.
        assert!((violation_cost([-1.95, 1.79], 0.99, 10) - 2.345_42).abs() < 1e-5);
        assert!((violation_cost([-4.0, 14.0], 0.99, 10) - 5.903_09).abs() < 1e-4);
        // γ = 1/2, H = 2, r in [−1, 3]: C = 4/(1/4) − 3 = 13. Two steps of the best reward and then the violation are worth
        // 3 + 3/2 − 13/(1/2)/4 = −2, exactly what a step of −1 for ever is worth.
        assert_eq!(violation_cost([-1.0, 3.0], 0.5, 2), 13.0);
        assert_eq!(ViolationValue::costing(13.0, 0.5), ViolationValue::Fixed(-26.0));
    }

    #[test]
    fn every_end_has_its_own_target() {
        let (plain, safe) = (ViolationValue::Terminal, ViolationValue::Fixed(-26.0));
        for (value, violation) in [(plain, 2.0), (safe, -26.0)] {
            // A step within an episode, or at a time limit.
            assert_eq!(value.target(2.0, false, true, 0.5), 2.5);
            assert_eq!(value.target(2.0, true, false, 0.5), violation);
            // A goal was reached: neither a bootstrap nor a penalty.
            assert_eq!(value.target(2.0, false, false, 0.5), 2.0);
        }
    }
}
