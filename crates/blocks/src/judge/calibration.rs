//! How far the predicted risk can be believed, on pairs of episodes that the predictor was not fitted to.

use serde::{Deserialize, Serialize};

/// Bins of the reliability table.
pub const BINS: usize = 10;

/// Pairs whose predicted risk lies in one tenth of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Mean of the predicted risks; 0 where there are none.
    pub predicted: f64,
    /// Share of labelled positives among the pairs; 0 where there are none.
    pub positive: f64,
    /// How many pairs.
    pub count: u64,
}

/// What predicted risks are worth.
///
/// Unlabelled pairs count as negative here, since nobody knows better; a share λ of them is not, so a perfect predictor shows less
/// labelled positives than it predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Labelled positives.
    pub positives: u64,
    /// Unlabelled pairs.
    pub unlabelled: u64,
    /// Brier score: mean square of predicted risk less label. Predicting the share of positives everywhere gives
    /// [`Calibration::brier_of_the_share`].
    pub brier: f64,
    /// Risks from 0 to 0.1, 0.1 to 0.2, …, 0.9 to 1.
    pub bins: [Bin; BINS],
}

impl Calibration {
    /// Of the predicted risks of labelled positives and of unlabelled pairs, in the proportion in which both occur. None without
    /// any.
    pub fn of(positive: &[f64], unlabelled: &[f64]) -> Option<Self> {
        let pairs = positive.len() + unlabelled.len();
        if pairs == 0 {
            return None;
        }
        let mut bins = [Bin::default(); BINS];
        let mut squares = 0.0;
        for (risks, label) in [(positive, 1.0), (unlabelled, 0.0)] {
            for risk in risks {
                squares += (risk - label).powi(2);
                let bin = &mut bins[((risk * BINS as f64) as usize).min(BINS - 1)];
                bin.predicted += risk;
                bin.positive += label;
                bin.count += 1;
            }
        }
        for bin in bins.iter_mut().filter(|bin| bin.count > 0) {
            bin.predicted /= bin.count as f64;
            bin.positive /= bin.count as f64;
        }
        Some(Self {
            positives: positive.len() as u64,
            unlabelled: unlabelled.len() as u64,
            brier: squares / pairs as f64,
            bins,
        })
    }

    /// A few lines for people.
    pub fn lines(&self) -> [String; 2] {
        let bins = self.bins.iter().filter(|bin| bin.count > 0);
        let cells: Vec<String> =
            bins.map(|b| format!("{:.2} -> {:.2} ({})", b.predicted, b.positive, b.count)).collect();
        [
            format!(
                "held-out episodes: Brier score {:.4} (the share of positives alone: {:.4}), {} positives and {} unlabelled pairs",
                self.brier,
                self.brier_of_the_share(),
                self.positives,
                self.unlabelled
            ),
            format!("predicted risk -> share of labelled positives (pairs): {}", cells.join(", ")),
        ]
    }

    /// The Brier score of somebody who knows the share of positives and nothing else: q·(1 − q).
    pub fn brier_of_the_share(&self) -> f64 {
        let share = self.positives as f64 / (self.positives + self.unlabelled) as f64;
        share * (1.0 - share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brier_score_and_reliability_by_hand() {
        let judged = Calibration::of(&[0.95, 0.25], &[0.05, 0.21, 0.0]).unwrap();
        // (0.05² + 0.75² + 0.05² + 0.21² + 0²)/5
        assert!((judged.brier - 0.6116 / 5.0).abs() < 1e-12, "{judged:?}");
        assert_eq!((judged.positives, judged.unlabelled), (2, 3));
        for (i, predicted, positive, count) in [(0, 0.025, 0.0, 2), (2, 0.23, 0.5, 2), (9, 0.95, 1.0, 1)] {
            let bin = judged.bins[i];
            assert!((bin.predicted - predicted).abs() < 1e-12, "{bin:?}");
            assert_eq!((bin.positive, bin.count), (positive, count), "{bin:?}");
        }
        assert_eq!(judged.bins.iter().map(|b| b.count).sum::<u64>(), 5);
        // q = 0.4.
        assert!((judged.brier_of_the_share() - 0.24).abs() < 1e-12);
    }

    #[test]
    fn the_ends_of_the_range_and_missing_kinds_are_defined() {
        let judged = Calibration::of(&[1.0], &[]).unwrap();
        assert_eq!((judged.bins[9].count, judged.brier), (1, 0.0));
        assert_eq!(Calibration::of(&[], &[]), None);
        // It goes into `offline.json`, and JSON knows no NaN.
        let text = serde_json::to_string(&judged).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), judged);
    }
}
