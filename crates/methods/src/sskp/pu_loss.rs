//! The loss of the risk predictor: positive and unlabelled pairs, Eq. 1–4 of section 4.1.1.

use serde::{Deserialize, Serialize};
use sskp_blocks::nets::smooth::{sigmoid, softplus};

/// Which estimate of the true loss is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PuLoss {
    /// Eq. 4: the negative part is held above −ξ by a maximum, which stops its gradient where it binds.
    Paper,
    /// Eq. 2 without any maximum (du Plessis et al. 2015): unbiased, and unbounded below.
    Unbiased,
    /// Kiryo et al. 2017: where the negative part is below −ξ, a step that only raises it.
    Kiryo,
}

/// Logits of positives above this count as this much where L⁰ is subtracted, and no step pushes a logit this far out further: a
/// log-likelihood cannot run away.
const FAR: f32 = 10.0;

/// What the loss of a minibatch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PuTerms {
    /// The loss.
    pub loss: f64,
    /// Whether the maximum (or Kiryo's condition) binds.
    pub binds: bool,
}

fn mean(values: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    values.iter().map(|v| f64::from(f(*v))).sum::<f64>() / values.len() as f64
}

/// Eq. 1, on logits:
///
/// ```math
/// L^1(\mathcal D) = -E_{(s, z) \sim \mathcal D}\left[\log P_\zeta(c = 1 \mid s, z)\right]
/// ```
pub fn positive_loss(logits: &[f32]) -> f64 {
    mean(logits, |f| softplus(-f).0)
}

/// Eq. 3, on logits:
///
/// ```math
/// L^0(\mathcal D) = -E_{(s, z) \sim \mathcal D}\left[\log\left(1 - P_\zeta(c = 1 \mid s, z)\right)\right]
/// ```
pub fn negative_loss(logits: &[f32]) -> f64 {
    mean(logits, |f| softplus(f).0)
}

/// Eq. 4 on logits, with its gradient in both sets of them:
///
/// ```math
/// L = \lambda L^1(\mathcal D^p) + \max\left(-\xi,\; L^0(\mathcal D^u) - \lambda L^0(\mathcal D^p)\right)
/// ```
///
/// Means are taken before the maximum, so the two sides may differ in size.
pub fn pu_loss(
    kind: PuLoss,
    positive: &[f32],
    unlabelled: &[f32],
    class_prior: f64,
    slack: f64,
    d_positive: &mut [f32],
    d_unlabelled: &mut [f32],
) -> PuTerms {
    // Eq. 2: the true negative loss, from unlabelled pairs less the positives among them.
    let negative = negative_loss(unlabelled) - class_prior * mean(positive, |f| softplus(f.min(FAR)).0);
    let binds = negative < -slack;
    // Weights of ∂L¹(P), −∂L⁰(P)·λ and ∂L⁰(U).
    let (of_positive, of_negative) = match (kind, binds) {
        (PuLoss::Unbiased, _) | (_, false) => (1.0, 1.0),
        (PuLoss::Paper, true) => (1.0, 0.0),
        (PuLoss::Kiryo, true) => (0.0, -1.0),
    };
    // Descending −d moves a logit outwards where it has the sign of the logit.
    let held = |f: f32, d: f32| if f.abs() >= FAR && f * d < 0.0 { 0.0 } else { d };
    let scale = class_prior as f32 / positive.len() as f32;
    for (d, &f) in d_positive.iter_mut().zip(positive) {
        *d = held(f, scale * (-of_positive * sigmoid(-f) - of_negative * sigmoid(f)));
    }
    let scale = 1.0 / unlabelled.len() as f32;
    for (d, &f) in d_unlabelled.iter_mut().zip(unlabelled) {
        *d = held(f, scale * of_negative * sigmoid(f));
    }
    let held = if kind == PuLoss::Unbiased { negative } else { negative.max(-slack) };
    PuTerms { loss: class_prior * positive_loss(positive) + held, binds: binds && kind != PuLoss::Unbiased }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-5
    }

    #[test]
    fn eq_1_and_3_by_hand() {
        // P = σ(0) = 1/2 and σ(ln 3) = 3/4: L¹ = (ln 2 + ln 4/3)/2, L⁰ = (ln 2 + ln 4)/2.
        let logits = [0.0, 3.0f32.ln()];
        assert!(close(positive_loss(&logits), (2.0f64.ln() + (4.0f64 / 3.0).ln()) / 2.0));
        assert!(close(negative_loss(&logits), (2.0f64.ln() + 4.0f64.ln()) / 2.0));
    }

    #[test]
    fn eq_2_and_4_by_hand() {
        let (mut dp, mut du) = ([0.0], [0.0]);
        // Logits 0: L¹ = L⁰ = ln 2. λ = 0.1: 0.1·ln 2 + max(0, ln 2 − 0.1·ln 2) = ln 2.
        let terms = pu_loss(PuLoss::Paper, &[0.0], &[0.0], 0.1, 0.0, &mut dp, &mut du);
        assert!(close(terms.loss, 2.0f64.ln()) && !terms.binds);
        // Positives far up, unlabelled far down: L⁰(U) − λ·L⁰(P) = 0.0486 − 0.5·3.0486 < 0: the maximum binds at −ξ.
        let terms = pu_loss(PuLoss::Paper, &[3.0], &[-3.0], 0.5, 0.2, &mut dp, &mut du);
        assert!(terms.binds && close(terms.loss, 0.5 * 0.048_587_35 - 0.2), "{terms:?}");
        assert_eq!(du, [0.0], "where the maximum binds the unlabelled have no gradient");
        let free = pu_loss(PuLoss::Unbiased, &[3.0], &[-3.0], 0.5, 0.2, &mut dp, &mut du);
        assert!(close(free.loss, 0.5 * 0.048_587_35 + 0.048_587_35 - 0.5 * 3.048_587_35), "{free:?}");
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        // One case where the maximum is inactive, one where it binds.
        for (positive, unlabelled, prior) in
            [([0.3f32, -0.7], [0.2f32, 1.1, -0.4], 0.2), ([2.0, 1.5], [-2.0, -1.0, -3.0], 0.6)]
        {
            for kind in [PuLoss::Paper, PuLoss::Unbiased] {
                let value = |p: &[f32], u: &[f32]| pu_loss(kind, p, u, prior, 0.0, &mut [0.0; 2], &mut [0.0; 3]).loss;
                let (mut dp, mut du) = ([0.0; 2], [0.0; 3]);
                pu_loss(kind, &positive, &unlabelled, prior, 0.0, &mut dp, &mut du);
                let h = 1e-2f32;
                for i in 0..2 {
                    let (mut up, mut down) = (positive, positive);
                    up[i] += h;
                    down[i] -= h;
                    let expected = (value(&up, &unlabelled) - value(&down, &unlabelled)) / (2.0 * f64::from(h));
                    assert!((expected - f64::from(dp[i])).abs() < 1e-4, "{kind:?} positive {i}");
                }
                for i in 0..3 {
                    let (mut up, mut down) = (unlabelled, unlabelled);
                    up[i] += h;
                    down[i] -= h;
                    let expected = (value(&positive, &up) - value(&positive, &down)) / (2.0 * f64::from(h));
                    assert!((expected - f64::from(du[i])).abs() < 1e-4, "{kind:?} unlabelled {i}");
                }
            }
        }
    }

    #[test]
    fn kiryos_step_only_raises_the_negative_part() {
        let (mut dp, mut du) = ([0.0], [0.0]);
        let terms = pu_loss(PuLoss::Kiryo, &[3.0], &[-3.0], 0.5, 0.0, &mut dp, &mut du);
        assert!(terms.binds);
        // Descending these must lower the positive's logit and raise the unlabelled one's.
        assert!(dp[0] > 0.0 && du[0] < 0.0);
    }

    /// Gradients of one positive and one unlabelled logit.
    fn gradients(kind: PuLoss, positive: f32, unlabelled: f32) -> (f32, f32) {
        let (mut dp, mut du) = ([0.0], [0.0]);
        pu_loss(kind, &[positive], &[unlabelled], 0.5, 0.0, &mut dp, &mut du);
        (dp[0], du[0])
    }

    #[test]
    fn a_confidently_wrong_pair_keeps_the_gradient_that_corrects_it() {
        for kind in [PuLoss::Paper, PuLoss::Unbiased, PuLoss::Kiryo] {
            for far in [9.9, 10.0, 10.1, 30.0] {
                // A positive thought safe is raised with its whole weight, λ; an unlabelled pair thought risky is lowered.
                let (dp, du) = gradients(kind, -far, far);
                assert!((dp + 0.5).abs() < 1e-3 && (du - 1.0).abs() < 1e-3, "{kind:?} at {far}: {dp} {du}");
            }
        }
    }

    #[test]
    fn no_logit_runs_away() {
        // The unbiased loss falls without end as positives rise (−λ·L⁰(P)): beyond 10 nothing pushes them, and its value stays.
        assert!(gradients(PuLoss::Unbiased, 9.0, 0.0).0 < -0.4);
        assert_eq!(gradients(PuLoss::Unbiased, 11.0, 0.0).0, 0.0);
        let value = |f: f32| pu_loss(PuLoss::Unbiased, &[f], &[0.0], 0.5, 0.0, &mut [0.0], &mut [0.0]).loss;
        assert!((value(11.0) - value(1000.0)).abs() < 1e-4 && value(9.0) > value(11.0) + 0.4);
        // Kiryo's step raises unlabelled logits where the maximum binds, and lowers positive ones, however far out they are. With many
        // unlabelled pairs far down, one that is far up already is not raised further.
        let mut unlabelled = [-20.0; 100];
        unlabelled[0] = 11.0;
        let (mut dp, mut du) = ([0.0], [0.0; 100]);
        let terms = pu_loss(PuLoss::Kiryo, &[11.0], &unlabelled, 0.5, 0.0, &mut dp, &mut du);
        assert!(terms.binds && du[0] == 0.0 && dp[0] > 0.4, "{terms:?} {dp:?} {}", du[0]);
    }
}
