//! How well scores tell two kinds apart.

/// Area under the ROC curve of scores of positives against those of the others: the chance that a positive scores higher, ties
/// counting half. None where there is nothing of either kind.
pub fn auc(positive: &[f64], other: &[f64]) -> Option<f64> {
    if positive.is_empty() || other.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> =
        positive.iter().map(|s| (*s, true)).chain(other.iter().map(|s| (*s, false))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut wins) = (0.0, 0.0);
    for tie in all.chunk_by(|a, b| a.0 == b.0) {
        let positives = tie.iter().filter(|(_, positive)| *positive).count() as f64;
        let others = tie.len() as f64 - positives;
        wins += positives * (below + 0.5 * others);
        below += others;
    }
    Some(wins / (positive.len() as f64 * other.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_under_the_curve_by_hand() {
        // Pairs (2 beats 1), (2 ties 2), (3 beats both): (1 + 0.5 + 2)/4.
        assert_eq!(auc(&[2.0, 3.0], &[1.0, 2.0]), Some(0.875));
        assert_eq!(auc(&[1.0, 2.0], &[0.0]), Some(1.0));
        assert_eq!(auc(&[0.5; 3], &[0.5; 2]), Some(0.5));
        assert_eq!((auc(&[], &[1.0]), auc(&[1.0], &[])), (None, None));
    }
}
