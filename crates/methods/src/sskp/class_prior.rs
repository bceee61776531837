//! Estimates of λ, the share of positives among the unlabelled pairs, from the scores of a classifier that tells labelled
//! from unlabelled pairs. The scores must come from pairs the classifier has not seen.

/// Best bin estimation (Garg et al. 2021): the share of unlabelled scores above a threshold, over that of positive scores,
/// at the threshold where this ratio plus its confidence bound is least.
///
/// Above a threshold that only positives reach, the ratio is λ itself; lower down, negatives add to it; further up, too few
/// positives are left to tell. `None` with fewer than ten scores on either side.
pub fn best_bin(positive: &[f64], unlabelled: &[f64]) -> Option<f64> {
    if positive.len() < 10 || unlabelled.len() < 10 {
        return None;
    }
    let (delta, gamma) = (0.1f64, 0.01f64);
    let (n_p, n_u) = (positive.len() as f64, unlabelled.len() as f64);
    let width = ((4.0 / delta).ln() / (2.0 * n_p)).sqrt() + ((4.0 / delta).ln() / (2.0 * n_u)).sqrt();
    let descending = |scores: &[f64]| {
        let mut scores = scores.to_vec();
        scores.sort_by(|a, b| b.total_cmp(a));
        scores
    };
    let (positive, unlabelled) = (descending(positive), descending(unlabelled));
    let mut best = (f64::INFINITY, 1.0);
    let mut above = 0; // positives with a score at least the threshold
    for (i, threshold) in unlabelled.iter().enumerate() {
        while above < positive.len() && positive[above] >= *threshold {
            above += 1;
        }
        let (q_p, q_u) = (above as f64 / n_p, (i + 1) as f64 / n_u);
        if above == 0 {
            continue;
        }
        let estimate = q_u / q_p;
        let bound = estimate + (1.0 + gamma) * width / q_p;
        if bound < best.0 {
            best = (bound, estimate);
        }
    }
    Some(best.1.clamp(0.0, 1.0))
}

/// Elkan and Noto 2008: with g = P(labelled | pair) and c its mean over labelled pairs, the share of positives among the
/// unlabelled is
///
/// ```math
/// \lambda = \frac{1 - c}{c} \cdot \frac{n_P}{n_U}.
/// ```
///
/// `None` without scores, or where c is 0.
pub fn elkan_noto(positive: &[f64], unlabelled: &[f64]) -> Option<f64> {
    if positive.is_empty() || unlabelled.is_empty() {
        return None;
    }
    let c = positive.iter().sum::<f64>() / positive.len() as f64;
    (c > 0.0).then(|| ((1.0 - c) / c * positive.len() as f64 / unlabelled.len() as f64).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::rng::Rng;

    /// Scores of a good classifier: positives near 1, negatives near 0; unlabelled are a mixture.
    fn scores(share: f64, n: usize, rng: &mut Rng) -> (Vec<f64>, Vec<f64>) {
        let positive = |rng: &mut Rng| 1.0 - 0.3 * rng.uniform(0.0, 1.0).powi(2);
        let negative = |rng: &mut Rng| 0.8 * rng.uniform(0.0, 1.0).powi(2);
        let p = (0..n).map(|_| positive(rng)).collect();
        let u =
            (0..10 * n).map(|_| if rng.uniform(0.0, 1.0) < share { positive(rng) } else { negative(rng) }).collect();
        (p, u)
    }

    #[test]
    fn best_bin_finds_the_share_it_was_made_with() {
        let mut rng = Rng::stream(0, "bbe");
        for share in [0.02, 0.05, 0.1, 0.3] {
            let (p, u) = scores(share, 2000, &mut rng);
            let estimate = best_bin(&p, &u).unwrap();
            assert!((estimate - share).abs() < 0.02, "{share}: {estimate}");
        }
        assert_eq!(best_bin(&[0.5; 3], &[0.5; 100]), None);
    }

    #[test]
    fn elkan_noto_by_hand() {
        // c = 0.8, 10 labelled, 40 unlabelled: 0.25·10/40 = 0.0625.
        assert!((elkan_noto(&[0.8; 10], &[0.3; 40]).unwrap() - 0.0625).abs() < 1e-12);
        assert_eq!(elkan_noto(&[], &[0.1]), None);
        assert_eq!(elkan_noto(&[0.0], &[0.1]), None);
    }
}
