//! Diagonal Gaussians, plain and squashed by tanh, as heads of networks.
//!
//! A head is a row `[mean…, raw log σ…]` of `2·dim` numbers; log σ is the raw value kept inside
//! [`LOG_STD_MIN`], [`LOG_STD_MAX`], with no gradient outside.

use super::smooth::softplus;

/// Least log σ: σ = 2e-9 is as good as deterministic.
pub const LOG_STD_MIN: f32 = -20.0;
/// Greatest log σ.
pub const LOG_STD_MAX: f32 = 2.0;

const HALF_LOG_TWO_PI: f32 = 0.918_938_5;

/// log σ of a raw head value.
pub fn log_std(raw: f32) -> f32 {
    raw.clamp(LOG_STD_MIN, LOG_STD_MAX)
}

/// Whether the raw value is free, so that gradients pass.
fn free(raw: f32) -> bool {
    (LOG_STD_MIN..=LOG_STD_MAX).contains(&raw)
}

/// log N(x; mean, σ²) of one coordinate, for z = (x − mean)/σ.
fn log_normal(z: f32, log_std: f32) -> f32 {
    -0.5 * z * z - log_std - HALF_LOG_TWO_PI
}

/// log(1 − tanh²(u)), exact for large |u| too.
pub fn log_tanh_slope(u: f32) -> f32 {
    2.0 * (std::f32::consts::LN_2 - u - softplus(-2.0 * u).0)
}

/// Samples actions for each row, and their log-probabilities (SAC, appendix C):
///
/// ```math
/// u = \mu + \sigma \varepsilon, \qquad a = \tanh u, \qquad
/// \log \pi(a \mid s) = \sum_i \log N(u_i; \mu_i, \sigma_i^2) - \log(1 - \tanh^2 u_i).
/// ```
pub fn squashed_sample(head: &[f32], noise: &[f32], dim: usize, action: &mut [f32], log_prob: &mut [f32]) {
    for (((head, noise), action), log_prob) in head
        .chunks_exact(2 * dim)
        .zip(noise.chunks_exact(dim))
        .zip(action.chunks_exact_mut(dim))
        .zip(log_prob.iter_mut())
    {
        *log_prob = 0.0;
        for i in 0..dim {
            let log_std = log_std(head[dim + i]);
            let u = head[i] + log_std.exp() * noise[i];
            action[i] = u.tanh();
            *log_prob += log_normal(noise[i], log_std) - log_tanh_slope(u);
        }
    }
}

/// Gradient in the head of `weight·log π(a|s) + d_action·a`, row by row, for the action that [`squashed_sample`] gave.
pub fn squashed_backward(
    head: &[f32],
    noise: &[f32],
    dim: usize,
    action: &[f32],
    d_action: &[f32],
    weight: f32,
    d_head: &mut [f32],
) {
    for (row, d_head) in d_head.chunks_exact_mut(2 * dim).enumerate() {
        let head = &head[row * 2 * dim..][..2 * dim];
        let [noise, action, d_action] = [noise, action, d_action].map(|x| &x[row * dim..][..dim]);
        for i in 0..dim {
            let a = action[i];
            // d log π/du = −d log(1 − tanh² u)/du = 2·tanh u, with the noise held fixed.
            let d_u = weight * 2.0 * a + d_action[i] * (1.0 - a * a);
            d_head[i] = d_u;
            let raw = head[dim + i];
            // log π also holds −log σ.
            d_head[dim + i] = if free(raw) { d_u * log_std(raw).exp() * noise[i] - weight } else { 0.0 };
        }
    }
}

/// tanh of the means: the action without noise.
pub fn squashed_mean(head: &[f32], dim: usize, action: &mut [f32]) {
    for (head, action) in head.chunks_exact(2 * dim).zip(action.chunks_exact_mut(dim)) {
        for i in 0..dim {
            action[i] = head[i].tanh();
        }
    }
}

/// Samples z = mean + σ·noise for each row: a plain Gaussian, unsquashed.
pub fn sample(head: &[f32], noise: &[f32], dim: usize, out: &mut [f32]) {
    for (row, out) in out.chunks_exact_mut(dim).enumerate() {
        let (head, noise) = (&head[row * 2 * dim..][..2 * dim], &noise[row * dim..][..dim]);
        for i in 0..dim {
            out[i] = head[i] + log_std(head[dim + i]).exp() * noise[i];
        }
    }
}

/// Gradient in the head of `d_z·z`, row by row, for the z that [`sample`] gave.
pub fn sample_backward(head: &[f32], noise: &[f32], dim: usize, d_z: &[f32], d_head: &mut [f32]) {
    for (row, d_head) in d_head.chunks_exact_mut(2 * dim).enumerate() {
        let head = &head[row * 2 * dim..][..2 * dim];
        let [noise, d_z] = [noise, d_z].map(|x| &x[row * dim..][..dim]);
        for i in 0..dim {
            let raw = head[dim + i];
            d_head[i] = d_z[i];
            d_head[dim + i] = if free(raw) { d_z[i] * log_std(raw).exp() * noise[i] } else { 0.0 };
        }
    }
}

/// log-probability of `x` under the plain Gaussian of one head.
pub fn log_prob(head: &[f32], x: &[f32]) -> f32 {
    let dim = x.len();
    (0..dim)
        .map(|i| {
            let log_std = log_std(head[dim + i]);
            log_normal((x[i] - head[i]) * (-log_std).exp(), log_std)
        })
        .sum()
}

/// Gradient of −[`log_prob`] in the head.
pub fn nll_backward(head: &[f32], x: &[f32], weight: f32, d_head: &mut [f32]) {
    let dim = x.len();
    for i in 0..dim {
        let raw = head[dim + i];
        let inverse = (-log_std(raw)).exp();
        let z = (x[i] - head[i]) * inverse;
        d_head[i] = -weight * z * inverse;
        d_head[dim + i] = if free(raw) { weight * (1.0 - z * z) } else { 0.0 };
    }
}

/// KL(p ‖ q) of two plain Gaussians, each a head of `2·dim` numbers.
pub fn kl(p: &[f32], q: &[f32]) -> f32 {
    let dim = p.len() / 2;
    (0..dim)
        .map(|i| {
            let (lp, lq) = (log_std(p[dim + i]), log_std(q[dim + i]));
            let ratio = (2.0 * (lp - lq)).exp();
            let z = (p[i] - q[i]) * (-lq).exp();
            lq - lp + 0.5 * (ratio + z * z - 1.0)
        })
        .sum()
}

/// Gradient of `weight·KL(p ‖ q)` in p's head, *added* to `d_head`.
pub fn kl_backward(p: &[f32], q: &[f32], weight: f32, d_head: &mut [f32]) {
    let dim = p.len() / 2;
    for i in 0..dim {
        let (lp, lq) = (log_std(p[dim + i]), log_std(q[dim + i]));
        let inverse = (-2.0 * lq).exp();
        d_head[i] += weight * (p[i] - q[i]) * inverse;
        if free(p[dim + i]) {
            d_head[dim + i] += weight * ((2.0 * (lp - lq)).exp() - 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_by_hand() {
        // N(1; 0, 1) = e^{-1/2}/√(2π) = 0.2419707
        assert!((log_prob(&[0.0, 0.0], &[1.0]).exp() - 0.241_970_7).abs() < 1e-6);
        // σ = 2: N(1; 0, 4) = 0.1760327
        assert!((log_prob(&[0.0, std::f32::consts::LN_2], &[1.0]).exp() - 0.176_032_7).abs() < 1e-6);
        // a = tanh(u), u = 0.5: density N(0.5)/(1 − tanh² 0.5) = 0.3520653/0.7864477
        let (mut a, mut lp) = ([0.0], [0.0]);
        squashed_sample(&[0.0, 0.0], &[0.5], 1, &mut a, &mut lp);
        assert!((a[0] - 0.462_117_16).abs() < 1e-6);
        assert!((lp[0].exp() - 0.352_065_3 / 0.786_447_7).abs() < 1e-5);
    }

    #[test]
    fn the_squashed_log_probability_stays_finite_far_out() {
        let (mut a, mut lp) = ([0.0], [0.0]);
        squashed_sample(&[50.0, 0.0], &[0.0], 1, &mut a, &mut lp);
        assert!(lp[0].is_finite() && (lp[0] - (-0.918_938_5 + 100.0 - 2.0 * std::f32::consts::LN_2)).abs() < 1e-3);
    }

    #[test]
    fn kl_by_hand_and_by_sampling() {
        // KL(N(1,1) ‖ N(0,4)) = ln 2 + (1 + 1)/8 − 1/2 = 0.4431472
        let (p, q) = ([1.0, 0.0], [0.0, std::f32::consts::LN_2]);
        assert!((kl(&p, &q) - 0.443_147_2).abs() < 1e-6);
        assert_eq!(kl(&p, &p), 0.0);
        let mut rng = crate::rng::Rng::stream(0, "kl");
        let n = 200_000;
        let mean: f64 = (0..n)
            .map(|_| {
                let x = [1.0 + rng.normal() as f32];
                f64::from(log_prob(&p, &x) - log_prob(&q, &x)) / f64::from(n)
            })
            .sum();
        assert!((mean - 0.4431).abs() < 0.01, "{mean}");
    }

    fn differences(x: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
        let mut x = x.to_vec();
        for i in 0..x.len() {
            let old = x[i];
            let h = 1e-2f32;
            x[i] = old + h;
            let up = loss(&x);
            x[i] = old - h;
            let down = loss(&x);
            x[i] = old;
            let expected = (up - down) / (2.0 * f64::from(h));
            assert!(
                (expected - f64::from(gradient[i])).abs() < 2e-3 * expected.abs().max(1.0),
                "{i}: {expected} {gradient:?}"
            );
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let head = [0.3f32, -0.8, 0.1, -0.4];
        let noise = [0.7f32, -1.1];
        let d_action = [0.5f32, -2.0];
        let loss = |head: &[f32]| {
            let (mut a, mut lp) = ([0.0; 2], [0.0]);
            squashed_sample(head, &noise, 2, &mut a, &mut lp);
            f64::from(0.2 * lp[0]) + f64::from(d_action[0] * a[0] + d_action[1] * a[1])
        };
        let (mut a, mut lp) = ([0.0; 2], [0.0]);
        squashed_sample(&head, &noise, 2, &mut a, &mut lp);
        let mut d = [0.0; 4];
        squashed_backward(&head, &noise, 2, &a, &d_action, 0.2, &mut d);
        differences(&head, &d, loss);

        sample_backward(&head, &noise, 2, &d_action, &mut d);
        differences(&head, &d, |h| {
            let mut z = [0.0; 2];
            sample(h, &noise, 2, &mut z);
            f64::from(d_action[0] * z[0] + d_action[1] * z[1])
        });

        let x = [0.2f32, 0.4];
        nll_backward(&head, &x, 0.7, &mut d);
        differences(&head, &d, |h| -0.7 * f64::from(log_prob(h, &x)));

        let q = [-0.2f32, 0.5, 0.6, -0.3];
        d.fill(0.0);
        kl_backward(&head, &q, 1.3, &mut d);
        differences(&head, &d, |h| 1.3 * f64::from(kl(h, &q)));
    }

    #[test]
    fn a_log_std_at_its_bound_gets_no_gradient() {
        let mut d = [9.0; 2];
        squashed_backward(&[0.0, 5.0], &[1.0], 1, &[0.1], &[1.0], 0.5, &mut d);
        assert_eq!(d[1], 0.0);
    }
}
