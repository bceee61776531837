//! What happens before the first environment step of a method that begins with demonstrations: updates in stages that somebody may
//! watch or stop, and a report of how they came out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::judge::Judgement;

/// Hears how far a stage has come: its name, updates done, updates in all. An error stops it.
pub type StageSeen<'a> = dyn FnMut(&'static str, u64, u64) -> Result<()> + 'a;

/// Updates between two calls of [`StageSeen`].
const SEEN_EVERY: u64 = 100;

/// Does `total` updates and gives the means of what they gave over the last tenth.
///
/// ```
/// let mut heard = Vec::new();
/// let mut seen = |stage, done, total| {
///     heard.push((stage, done, total));
///     Ok(())
/// };
/// let mut x = 0.0;
/// let [mean] = sskp_blocks::offline::updates("counting", 150, &mut seen, || {
///     x += 1.0;
///     Ok([x])
/// })?;
/// assert_eq!(mean, (136..=150).sum::<i32>() as f64 / 15.0);
/// assert_eq!(heard, [("counting", 0, 150), ("counting", 100, 150), ("counting", 150, 150)]);
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
pub fn updates<const N: usize>(
    stage: &'static str,
    total: u64,
    seen: &mut StageSeen,
    mut update: impl FnMut() -> Result<[f64; N]>,
) -> Result<[f64; N]> {
    let last = total.div_ceil(10);
    let mut means = [0.0; N];
    for done in 0..total {
        if done.is_multiple_of(SEEN_EVERY) {
            seen(stage, done, total)?;
        }
        let values = update()?;
        if done >= total - last {
            means.iter_mut().zip(values).for_each(|(mean, value)| *mean += value / last as f64);
        }
    }
    seen(stage, total, total)?;
    Ok(means)
}

/// What `offline.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfflineReport {
    /// Updates of everything that is used online.
    pub updates: u64,
    /// Transitions learnt from.
    pub transitions: usize,
    /// Violating ones among them.
    pub violations: usize,
    /// How the learnt risk does on held-out episodes.
    pub held_out: Judgement,
    /// Figures of the method's own, by part and name (`docs/methods`). What could not be made is left out.
    pub figures: BTreeMap<String, BTreeMap<String, f64>>,
}

impl OfflineReport {
    /// Adds a figure of the method's own. One that is not finite is left out: JSON knows none.
    pub fn note(&mut self, part: &str, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.entry(part.into()).or_default().insert(name.into(), value);
        }
    }

    /// The figure of this name.
    pub fn figure(&self, part: &str, name: &str) -> Option<f64> {
        self.figures.get(part)?.get(name).copied()
    }

    /// A few lines for people.
    pub fn lines(&self) -> Vec<String> {
        let Self { updates, transitions, violations, .. } = self;
        let mut lines = vec![format!(
            "learnt from {transitions} transitions, {violations} of them violating, in {updates} updates"
        )];
        for (part, figures) in &self.figures {
            let figures: Vec<_> = figures.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
            lines.push(format!("{part}: {}", figures.join(", ")));
        }
        lines.extend(self.held_out.lines());
        lines
    }
}

/// Four digits, or an exponent where that would not show any.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size @ 1e-3..1e5 => format!("{value:.*}", (3 - size.log10().floor() as i32).max(0) as usize),
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_stage_that_is_stopped_does_no_further_update() {
        let mut done = 0;
        let stopped = updates(
            "stage",
            1000,
            &mut |_, done, _| if done < 200 { Ok(()) } else { Err(Error::other("stopped")) },
            || {
                done += 1;
                Ok([])
            },
        );
        assert_eq!((stopped.unwrap_err().to_string(), done), ("stopped".into(), 200));
    }

    #[test]
    fn a_stage_without_updates_is_over_at_once() {
        let mut heard = Vec::new();
        let mut seen = |_, done, total| {
            heard.push((done, total));
            Ok(())
        };
        let means = updates("none", 0, &mut seen, || Ok([1.0])).unwrap();
        assert_eq!((means, heard), ([0.0], vec![(0, 0)]));
    }

    #[test]
    fn a_report_is_told_in_lines_and_kept_as_json() {
        let mut report = OfflineReport { updates: 10, transitions: 300, violations: 2, ..Default::default() };
        report.note("risk", "class_prior", 0.012_345_67);
        report.note("risk", "loss", 0.0);
        report.note("risk", "unknown", f64::NAN);
        (report.held_out.auc, report.held_out.detected) = (Some(0.9), Some(0.25));
        let lines = [
            "learnt from 300 transitions, 2 of them violating, in 10 updates",
            "risk: class_prior 0.01235, loss 0",
            "held-out episodes: AUC 0.900, 25.0 % of violating steps above the threshold",
        ];
        assert_eq!(report.lines(), lines);
        assert_eq!([123.456, -2e-5, 98_765.4].map(short), ["123.5", "-2.000e-5", "98765"]);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<OfflineReport>(&text).unwrap(), report);
    }
}
