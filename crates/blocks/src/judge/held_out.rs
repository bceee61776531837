//! Episodes of the demonstrations kept back while a method learns from the others, to judge what it has learnt.

use serde::{Deserialize, Serialize};

use super::{Calibration, auc};
use crate::demos::{Demonstrations, Trajectory};

/// A violation within this many steps makes a held-out pair positive when a risk is judged: the paper's H, so that the
/// figure can be compared with that of the skill risk predictor.
pub const AHEAD: usize = 10;

/// Numbers of the episodes kept back: one in `one_in` of the violating and one in `one_in` of the others, the second of each kind being
/// the first. None where `one_in` is below 2.
pub fn held_out(trajectories: &[Trajectory], one_in: usize) -> Vec<usize> {
    let mut counts = [0; 2];
    let mut held = Vec::new();
    for (i, trajectory) in trajectories.iter().enumerate() {
        let count = &mut counts[usize::from(trajectory.violates())];
        if one_in > 1 && *count % one_in == 1 {
            held.push(i);
        }
        *count += 1;
    }
    held
}

/// How a risk does on held-out episodes. None where there is nothing of a kind, or nobody looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// AUC: a violation within [`AHEAD`] steps (SSkP: within the skill) against none.
    pub auc: Option<f64>,
    /// Share of violating steps with a risk above the method's threshold.
    pub detected: Option<f64>,
    /// Share of steps without a violation ahead with a risk above it.
    pub false_alarms: Option<f64>,
    /// Of risks that are probabilities: how far they can be believed.
    pub calibration: Option<Calibration>,
}

impl Judgement {
    /// Judges `risk(s, a)` on these episodes.
    pub fn of(
        demos: &Demonstrations,
        episodes: &[usize],
        threshold: f64,
        mut risk: impl FnMut(&[f32], &[f32]) -> f32,
    ) -> Self {
        let (mut now, mut ahead, mut never) = (Vec::new(), Vec::new(), Vec::new());
        for &episode in episodes {
            let costs = &demos.trajectories()[episode].costs;
            for t in 0..costs.len() {
                let risk = f64::from(risk(demos.state(episode, t), demos.actions(episode, t, 1)));
                let positive = costs[t..costs.len().min(t + AHEAD)].iter().any(|c| *c > 0.0);
                if positive {
                    ahead.push(risk)
                } else {
                    never.push(risk)
                }
                if costs[t] > 0.0 {
                    now.push(risk);
                }
            }
        }
        let above = |risks: &[f64]| {
            let count = risks.iter().filter(|r| **r > threshold).count();
            (!risks.is_empty()).then(|| count as f64 / risks.len() as f64)
        };
        Self { auc: auc(&ahead, &never), detected: above(&now), false_alarms: above(&never), calibration: None }
    }

    /// A few lines for people; none where nothing was judged.
    pub fn lines(&self) -> Vec<String> {
        let mut figures = Vec::new();
        figures.extend(self.auc.map(|auc| format!("AUC {auc:.3}")));
        let percent = |share: f64, of: &str| format!("{:.1} % of {of} above the threshold", 100.0 * share);
        figures.extend(self.detected.map(|share| percent(share, "violating steps")));
        figures.extend(self.false_alarms.map(|share| percent(share, "steps without a violation ahead")));
        let mut lines = Vec::new();
        if !figures.is_empty() {
            lines.push(format!("held-out episodes: {}", figures.join(", ")));
        }
        lines.extend(self.calibration.iter().flat_map(Calibration::lines));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::Ending;

    fn episode(steps: usize, violates: bool) -> Trajectory {
        let mut costs = vec![0.0; steps];
        costs[steps - 1] = f32::from(u8::from(violates));
        Trajectory {
            observations: (0..=steps).map(|t| t as f32).collect(),
            actions: vec![0.0; steps],
            rewards: vec![0.0; steps],
            costs,
            end: if violates { Ending::Violation } else { Ending::Truncated },
        }
    }

    #[test]
    fn one_in_ten_of_each_kind_is_kept_back() {
        // Kinds alternate: violating are 0, 2, 4, …, so the second and the twelfth of them are episodes 2 and 22.
        let trajectories: Vec<_> = (0..26).map(|i| episode(3, i % 2 == 0)).collect();
        assert_eq!(held_out(&trajectories, 10), [2, 3, 22, 23]);
        assert_eq!(held_out(&trajectories[..2], 10), [0; 0], "the only one of its kind is learnt from");
        assert_eq!(held_out(&trajectories, 0), [0; 0]);
    }

    #[test]
    fn a_risk_that_grows_towards_the_end_by_hand() {
        let mut demos = Demonstrations::new("toy", 1, 1);
        demos.push(episode(20, true)).unwrap();
        demos.push(episode(20, false)).unwrap();
        // Risk = t. Positive are t = 10 … 19 of the first; never are t = 0 … 9 of it and 0 … 19 of the second. A positive at t
        // beats the 10 of its own episode and t of the other's, ties half: Σ(10 + t + 0.5)/(10·30) = 250/300.
        let judged = Judgement::of(&demos, &[0, 1], 14.5, |s, _| s[0]);
        assert!((judged.auc.unwrap() - 250.0 / 300.0).abs() < 1e-12);
        assert_eq!((judged.detected, judged.false_alarms), (Some(1.0), Some(5.0 / 30.0)));
        let judged = Judgement::of(&demos, &[1], 14.5, |s, _| s[0]);
        assert_eq!((judged.auc, judged.detected), (None, None));
    }
}
