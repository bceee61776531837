//! Predicted risks against what came of them: a table by orders of magnitude, since online a violation is one skill in a thousand or less.

use serde::{Deserialize, Serialize};

/// Bins of a [`Reliability`]: risks below 10⁻⁵, then two to a power of ten.
pub const RISK_BINS: usize = 11;

/// The name under which a method leaves its [`Reliability`] in a checkpoint, for whoever writes down what a run came to.
pub const FORESIGHT: &str = "foresight";

/// Predictions of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RiskBin {
    /// How many.
    pub count: u64,
    /// How many of them came true.
    pub positives: u64,
    /// Sum of the predicted risks: as many were expected to.
    pub expected: f64,
}

impl RiskBin {
    /// Mean of the predicted risks; 0 without any.
    pub fn predicted(&self) -> f64 {
        self.expected / self.count.max(1) as f64
    }

    /// Share that came true; 0 without any.
    pub fn actual(&self) -> f64 {
        self.positives as f64 / self.count.max(1) as f64
    }

    /// Wilson's 95 % interval of that share.
    pub fn interval(&self) -> [f64; 2] {
        wilson(self.positives, self.count)
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.positives += other.positives;
        self.expected += other.expected;
    }
}

/// How far predictions that were made before their outcome can be believed. Nothing was held back for it: every prediction is older than
/// what was learnt from its outcome.
///
/// ```
/// use sskp_blocks::judge::Reliability;
///
/// let mut table = Reliability::default();
/// (0..1000).for_each(|i| table.add(0.002, i % 500 == 0));
/// let all = table.total();
/// assert_eq!((all.count, all.positives), (1000, 2));
/// assert!((all.predicted() - all.actual()).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// Predictions by size, the smallest first.
    pub bins: [RiskBin; RISK_BINS],
}

impl Reliability {
    /// Adds a prediction and whether it came true.
    pub fn add(&mut self, predicted: f64, positive: bool) {
        // What is no number is no small risk.
        let predicted = if predicted.is_nan() { 1.0 } else { predicted };
        let place = (2.0 * predicted.log10() + 11.0).max(0.0) as usize;
        let one = RiskBin { count: 1, positives: u64::from(positive), expected: predicted };
        self.bins[place.min(RISK_BINS - 1)].add(&one);
    }

    /// Adds the predictions of another table.
    pub fn merge(&mut self, other: &Self) {
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| bin.add(more));
    }

    /// All predictions as one.
    pub fn total(&self) -> RiskBin {
        let mut all = RiskBin::default();
        self.bins.iter().for_each(|bin| all.add(bin));
        all
    }

    /// The smallest risk of every bin.
    pub fn edges() -> [f64; RISK_BINS] {
        std::array::from_fn(|i| if i == 0 { 0.0 } else { 10f64.powf((i as f64 - 11.0) / 2.0) })
    }
}

/// Wilson's 95 % interval of a share of which `count` tries were seen, `positives` of them positive; all of 0 to 1 without any.
pub fn wilson(positives: u64, count: u64) -> [f64; 2] {
    if count == 0 {
        return [0.0, 1.0];
    }
    let (n, z) = (count as f64, 1.959_963_985);
    let share = positives as f64 / n;
    let middle = share + z * z / (2.0 * n);
    let reach = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let end = |x: f64| (x / (1.0 + z * z / n)).clamp(0.0, 1.0);
    // The ends of the range are exact where nothing or all is positive; rounding would leave a hair.
    [if positives == 0 { 0.0 } else { end(middle - reach) }, if positives == count { 1.0 } else { end(middle + reach) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risks_fall_into_the_bins_whose_edges_hold_them() {
        let edges = Reliability::edges();
        assert!((edges[1] - 1e-5).abs() < 1e-18 && (edges[9] - 0.1).abs() < 1e-15, "{edges:?}");
        for (i, edge) in edges.iter().enumerate() {
            let mut table = Reliability::default();
            table.add(edge * 1.001, true);
            assert_eq!(table.bins[i].count, 1, "{edge}");
        }
        let mut table = Reliability::default();
        for (risk, positive) in [(0.0, false), (0.5, true), (0.4, false), (1.0, true), (2e-3, false), (f64::NAN, true)]
        {
            table.add(risk, positive);
        }
        assert_eq!(table.bins.map(|b| b.count), [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 4]);
        assert_eq!(table.bins[10].positives, 3);
    }

    #[test]
    fn tables_add_up_and_read_back() {
        let mut table = Reliability::default();
        (0..100).for_each(|i| table.add(0.03, i % 25 == 0));
        let mut twice = table;
        twice.merge(&table);
        let all = twice.total();
        assert_eq!((all.count, all.positives, all.actual()), (200, 8, 0.04));
        assert!((all.predicted() - 0.03).abs() < 1e-12 && (all.expected - 6.0).abs() < 1e-9);
        let text = serde_json::to_string(&twice).unwrap();
        assert_eq!(serde_json::from_str::<Reliability>(&text).unwrap(), twice);
    }

    #[test]
    fn wilsons_interval_by_hand() {
        // 1 of 10: (0.1 + 0.19207 ± 1.95996·√(0.009 + 0.0096036))/1.384146.
        let [low, high] = wilson(1, 10);
        assert!((low - 0.017_876).abs() < 1e-5 && (high - 0.404_150).abs() < 1e-5, "{low} {high}");
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
        let [low, high] = wilson(0, 1000);
        assert!(low == 0.0 && (high - 0.003_827).abs() < 1e-5, "{high}");
        assert_eq!(wilson(7, 7)[1], 1.0);
    }
}
