//! Figure 5: what the iterations of risk planning do to the predicted risk.

use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::rng::Rng;

use super::planner::{Gaussian, Planner, Planning};
use super::risk::RiskPredictor;

/// Runs Algorithm 1 in one (standardised) state and gives the mean of P_ζ over skills drawn from the Gaussian of every iteration:
/// the policy's own first, then those of iterations 1 … N_p. Fresh skills are drawn, as many as the planner draws: those that a
/// Gaussian was fitted to were chosen for their low risk.
///
/// A planner of another kind is asked what Algorithm 1 would have done in its place.
pub fn risks_by_iteration(
    planner: &mut Planner,
    risk: &mut RiskPredictor,
    policy: &Gaussian,
    state: &[f32],
    rng: &mut Rng,
) -> Vec<f64> {
    let own = planner.config.clone();
    (planner.config.planning, planner.config.placebo) = (Planning::Risk, false);
    let mut gaussians = Vec::new();
    planner.plan(policy, |z, out| risk.score(state, z, out), rng, |gaussian| gaussians.push(gaussian.clone()));
    planner.config = own;
    let n = planner.config.samples;
    let (mut skills, mut logits) = (vec![0.0; n * policy.mean.len()], vec![0.0; n]);
    let mean_risk = |gaussian: &Gaussian| {
        planner.draw(gaussian, rng, &mut skills);
        risk.score(state, &skills, &mut logits);
        logits.iter().map(|logit| f64::from(sigmoid(*logit))).sum::<f64>() / n as f64
    };
    gaussians.iter().map(mean_risk).collect()
}

#[cfg(test)]
mod tests {
    use super::super::config::{PlannerConfig, RiskConfig};
    use super::*;

    /// A predictor with logit −4·relu(relu(z₀ + s₀)) + 4: the risk falls along the first coordinate, and depends on no other.
    fn slope(dim: usize) -> RiskPredictor {
        let mut rng = Rng::stream(0, "slope");
        let mut risk = RiskPredictor::new(RiskConfig { width: 1, ..Default::default() }, 1, dim, &mut rng);
        let mut params = vec![0.0; 1 + dim + 1 + 2 + 2];
        (params[0], params[1]) = (1.0, 1.0); // s₀ and z₀ to the first unit
        params[1 + dim + 1] = 1.0; // to the second
        (params[1 + dim + 3], params[1 + dim + 4]) = (-4.0, 4.0);
        risk.set_params(&params);
        risk
    }

    #[test]
    fn the_first_is_the_policys_risk_and_every_iteration_lowers_it() {
        let policy = Gaussian { mean: vec![0.5, 0.0, 0.0], std: vec![0.3; 3] };
        let mut risk = slope(3);
        let mut means = Vec::new();
        let kinds = [(Planning::Risk, false), (Planning::Naive, false), (Planning::Off, false), (Planning::Risk, true)];
        for (planning, placebo) in kinds {
            let config = PlannerConfig { planning, placebo, near_policy: 0.0, tolerance: 0.0, ..Default::default() };
            let mut planner = Planner::new(config.clone(), vec![3.0; 3]);
            let mut rng = Rng::stream(1, "figure 5");
            let risks = risks_by_iteration(&mut planner, &mut risk, &policy, &[0.5], &mut rng);
            assert_eq!(planner.config, config, "it was asked what if, not changed");
            means.push(risks);
        }
        let risks = &means[0];
        assert_eq!(risks.len(), 7, "the policy and N_p iterations");
        // At the policy the logit is 4 − 4·(s + z₀) with s + z₀ ~ N(1, 0.3²): near 0, so the risk is near a half by symmetry.
        assert!((risks[0] - 0.5).abs() < 0.03, "{risks:?}");
        assert!(risks.windows(2).all(|w| w[1] < w[0]), "{risks:?}");
        assert!(risks[6] < 0.1, "{risks:?}");
        assert!(means.iter().all(|other| *other == means[0]), "the same question to the same stream: {means:?}");
    }

    #[test]
    fn the_mean_stays_where_the_planner_keeps_it() {
        // A twentieth of the box from the policy's mean s + z₀ is 1.15, where the risk is σ(4 − 4.6); by the last iteration σ is small.
        let policy = Gaussian { mean: vec![0.5; 2], std: vec![0.3; 2] };
        let config = PlannerConfig { near_policy: 0.05, tolerance: 0.0, ..Default::default() };
        let mut planner = Planner::new(config, vec![3.0; 2]);
        let mut rng = Rng::stream(1, "figure 5");
        let risks = risks_by_iteration(&mut planner, &mut slope(2), &policy, &[0.5], &mut rng);
        let least = f64::from(sigmoid(-0.6));
        assert!((risks[6] - least).abs() < 0.01, "{risks:?}");
    }
}
