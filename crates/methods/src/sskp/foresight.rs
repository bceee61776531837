//! What was predicted of every skill before it was played, against what came of it; and λ as that teaches it.
//!
//! D^u grows online, and with it the share λ of risky pairs in it changes: what was estimated on demonstrations, of which every second may fall, is
//! wrong for skills of which one in a thousand does. Eq. 4 is least at P_ζ = λ·g with g = p(s, z | D^p)/p(s, z | D^u), so every predicted risk has λ as
//! a factor, and λ is what makes them agree with the outcomes in the large. A violation is then an event of a Poisson process whose rate is
//! λ per unit of g, and with the estimate λ₀ of the demonstrations as a prior that is worth one violation
//!
//! ```math
//! \lambda = \frac{1 + \sum_t y_t}{1/\lambda_0 + \sum_t P_\zeta(s_t, z_t)/\lambda_t}
//! ```
//!
//! where y_t is 1 if the skill's label is positive (Eq. 7 and [`RiskConfig::relabel`](super::RiskConfig)), λ_t is the λ of when it was predicted, and both
//! sums forget what is older than [`RiskConfig::revise_over`](super::RiskConfig) skills. It is no controller with a gain to be tuned: where
//! nothing falls λ sinks as fast as skills say so, and where a fall is seen it rises by that one fall.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::judge::{FORESIGHT, Reliability};
use sskp_blocks::record::Metrics;

/// The record. All of it is kept in checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Foresight {
    /// Every skill of the run. It has a name of its own in checkpoints, by which others find it.
    #[serde(skip)]
    table: Reliability,
    /// λ₀.
    first: f64,
    /// Σ y, forgetting.
    violating: f64,
    /// Σ P_ζ/λ, forgetting.
    exposure: f64,
    /// Since a row of metrics: predicted, violating, planned, skills.
    row: [f64; 4],
    /// The row, by the steps at which it was written.
    row_of: u64,
}

impl Foresight {
    /// Nothing was seen yet; λ is the demonstrations'.
    pub(crate) fn new(class_prior: f64) -> Self {
        Self { first: class_prior, ..Self::default() }
    }

    /// A skill that was predicted to be so risky has turned out. `over` is of [`RiskConfig::revise_over`](super::RiskConfig), `row` the steps of the last
    /// row of metrics.
    pub(crate) fn add(&mut self, predicted: Prediction, positive: bool, over: f64, row: u64) {
        // What is no number is no small risk.
        let risk = if predicted.risk.is_nan() { 1.0 } else { predicted.risk };
        let y = f64::from(u8::from(positive));
        self.table.add(risk, positive);
        if self.row_of != row {
            (self.row, self.row_of) = ([0.0; 4], row);
        }
        self.row.iter_mut().zip([risk, y, f64::from(u8::from(predicted.planned)), 1.0]).for_each(|(sum, x)| *sum += x);
        if over > 0.0 {
            let kept = (-1.0 / over).exp();
            self.violating = kept * self.violating + y;
            self.exposure = kept * self.exposure + risk / predicted.class_prior;
        }
    }

    /// λ as all this has it.
    pub(crate) fn class_prior(&self) -> f64 {
        (1.0 + self.violating) / (1.0 / self.first + self.exposure)
    }

    /// Predicted and actual risk per skill since the last row, and the share that was planned; of the run so far how many skills, and how many of them violating.
    pub(crate) fn metrics(&self, metrics: &mut Metrics) {
        let [predicted, violating, planned, skills] = self.row;
        for (name, sum) in [("Risk/predicted", predicted), ("Risk/actual", violating), ("Risk/planned", planned)] {
            metrics.push(name, sum / skills.max(1.0));
        }
        let all = self.table.total();
        metrics.push("Risk/skills", all.count as f64);
        metrics.push("Risk/violating", all.positives as f64);
    }

    /// Adds it to a checkpoint.
    pub(crate) fn save(&self, to: &mut Saver) {
        to.json(FORESIGHT, &self.table);
        to.json("risk.foresight", self);
    }

    /// Reads it back.
    pub(crate) fn load(from: &Loader) -> Result<Self> {
        Ok(Self { table: from.json(FORESIGHT)?, ..from.json("risk.foresight")? })
    }
}

/// What was said of a skill before it was played.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prediction {
    /// P_ζ(s_t, z_t).
    pub(crate) risk: f64,
    /// λ then.
    pub(crate) class_prior: f64,
    /// Whether the planner had anything to choose by.
    pub(crate) planned: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::rng::Rng;

    /// Plays skills whose risk is `rate`·g, with g of mean 1 over two orders of magnitude, and predicts λ·g of each, λ revised every hundred
    /// skills. Gives the last λ, and the table of the second half.
    fn play(foresight: &mut Foresight, skills: usize, over: f64, rate: f64) -> (f64, Reliability) {
        let mut rng = Rng::stream(0, "skills");
        let (mut class_prior, mut before) = (foresight.class_prior(), Reliability::default());
        for i in 0..skills {
            if i % 100 == 0 {
                class_prior = foresight.class_prior();
            }
            if i == skills / 2 {
                before = std::mem::take(&mut foresight.table);
            }
            let g = (1.2 * rng.normal() - 0.72).exp();
            let prediction = Prediction { risk: class_prior * g, class_prior, planned: false };
            foresight.add(prediction, rng.uniform(0.0, 1.0) < rate * g, over, 0);
        }
        let late = foresight.table;
        foresight.table.merge(&before);
        (foresight.class_prior(), late)
    }

    #[test]
    fn the_class_prior_finds_the_rate_of_what_is_played_wherever_it_begins() {
        for first in [1e-3, 0.01, 0.14, 0.3] {
            let (class_prior, late) = play(&mut Foresight::new(first), 20_000, 10_000.0, 0.01);
            // Ten thousand skills have a hundred violations: one deviation is a tenth.
            assert!((0.007..0.0135).contains(&class_prior), "{first}: {class_prior}");
            let all = late.total();
            assert!((0.75..1.3).contains(&(all.predicted() / all.actual())), "{first}: {all:?}");
            // By size too, where there is enough to tell.
            for bin in late.bins.iter().filter(|bin| bin.positives > 20) {
                assert!((0.6..1.6).contains(&(bin.predicted() / bin.actual())), "{first}: {bin:?}");
            }
        }
    }

    #[test]
    fn it_follows_a_rate_that_changes_and_without_forgetting_so_soon_it_would_not() {
        let after = |over: f64| {
            let mut foresight = Foresight::new(0.1);
            play(&mut foresight, 30_000, over, 0.01);
            play(&mut foresight, 15_000, over, 0.1).0
        };
        let (soon, late) = (after(5000.0), after(1e6));
        assert!((0.08..0.125).contains(&soon), "{soon}");
        assert!(late < 0.06, "{late}");
    }

    #[test]
    fn where_nothing_falls_it_sinks_as_fast_as_skills_say_so() {
        let mut foresight = Foresight::new(0.1);
        // Predicted with g = 1: a prior worth one violation in ten skills, and then a thousand skills without any.
        for _ in 0..1000 {
            foresight.add(Prediction { risk: 0.1, class_prior: 0.1, ..Prediction::default() }, false, 1e9, 0);
        }
        assert!((foresight.class_prior() - 1.0 / 1010.0).abs() < 1e-8, "{}", foresight.class_prior());
        foresight.add(Prediction { risk: 0.001, class_prior: 0.001, ..Prediction::default() }, true, 1e9, 0);
        assert!((foresight.class_prior() - 2.0 / 1011.0).abs() < 1e-8, "one fall is one fall");
    }

    #[test]
    fn rows_begin_anew_and_the_run_is_counted_whole() {
        let mut foresight = Foresight::new(0.1);
        let one = Prediction { risk: 0.25, class_prior: 0.1, ..Prediction::default() };
        let row = |foresight: &Foresight| {
            let mut metrics = Metrics::default();
            foresight.metrics(&mut metrics);
            ["predicted", "actual", "planned", "skills", "violating"]
                .map(|name| metrics.get(&format!("Risk/{name}")).unwrap())
        };
        assert_eq!(row(&foresight), [0.0; 5]);
        [true, false, false, false].into_iter().for_each(|y| foresight.add(one, y, 0.0, 0));
        assert_eq!(row(&foresight), [0.25, 0.25, 0.0, 4.0, 1.0]);
        foresight.add(Prediction { risk: 0.5, class_prior: 0.1, planned: true }, false, 0.0, 5000);
        assert_eq!(row(&foresight), [0.5, 0.0, 1.0, 5.0, 1.0]);
        assert_eq!(foresight.class_prior(), 0.1, "nothing is learnt from it where that was not asked for");
    }
}
