//! Curves of several seeds made one: mean, and the lowest and highest run.

use sskp_blocks::record::EpisodeRow;

use crate::stats::window_mean;

/// A line with a band.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Runs it is made of.
    pub runs: usize,
    /// x, mean, lowest, highest.
    pub points: Vec<[f64; 4]>,
    /// Each run by itself, as far as it goes; empty where the band says enough.
    pub seeds: Vec<Vec<(f64, f64)>>,
}

/// A number of a run so far.
pub type Value = fn(&[EpisodeRow]) -> Option<f64>;

/// Points of a curve, at most.
const POINTS: u64 = 120;

/// Return (mean of the last 20 episodes) against cumulative violations: Figure 3. The mean goes as far as all runs come, each run by itself to its own end: a mean of fewer
/// and fewer runs would jump where one of them ends.
pub fn by_violations(runs: &[&[EpisodeRow]]) -> Curve {
    // Of each run, the return in the last episode before the next violation.
    let of = |rows: &[EpisodeRow]| -> Vec<Option<f64>> {
        let last = rows.last().map_or(0, |row| row.cumulative_violations) as usize;
        let mut values = vec![None; last + 1];
        for (i, row) in rows.iter().enumerate() {
            values[row.cumulative_violations as usize] = Some(window_mean(rows, i));
        }
        values
    };
    let values: Vec<Vec<Option<f64>>> = runs.iter().map(|rows| of(rows)).collect();
    let longest = values.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let every = longest.div_ceil(POINTS).max(1);
    let at = |v: u64| -> Option<[f64; 4]> {
        let here: Vec<f64> = values.iter().filter_map(|run| *run.get(v as usize)?).collect();
        (here.len() == runs.len()).then(|| point(v as f64, &here))
    };
    let last = longest.saturating_sub(1);
    let mut grid: Vec<u64> = (0..longest).step_by(every as usize).collect();
    // Dense at the beginning as well, where an axis of orders of magnitude has its room.
    grid.extend(std::iter::successors(Some(1u64), |v| Some(v + v.div_ceil(20))).take_while(|v| *v < longest));
    grid.extend(Some(last).filter(|_| longest > 0));
    grid.sort_unstable();
    grid.dedup();
    let one = |run: &Vec<Option<f64>>| {
        grid.iter().filter_map(|v| Some((*v as f64, (*run.get(*v as usize)?)?))).collect::<Vec<_>>()
    };
    let seeds = if runs.len() > 1 { values.iter().map(one).collect() } else { Vec::new() };
    Curve { runs: runs.len(), points: grid.iter().copied().filter_map(at).collect(), seeds }
}

/// A quantity against environment steps, as far as all runs come: `value` is asked for the rows so far.
pub fn by_steps(runs: &[&[EpisodeRow]], value: Value) -> Curve {
    let end = runs.iter().map(|rows| rows.last().map_or(0, |row| row.steps)).min().unwrap_or(0);
    let at = |k: u64| -> Option<[f64; 4]> {
        let steps = end * k / POINTS;
        let so_far = |rows: &&[EpisodeRow]| value(&rows[..rows.partition_point(|row| row.steps <= steps)]);
        let here = runs.iter().map(so_far).collect::<Option<Vec<f64>>>()?;
        Some(point(steps as f64, &here))
    };
    Curve { runs: runs.len(), points: (0..=POINTS).filter_map(at).collect(), seeds: Vec::new() }
}

/// Mean return of the last 20 episodes.
pub fn recent_return(rows: &[EpisodeRow]) -> Option<f64> {
    (!rows.is_empty()).then(|| window_mean(rows, rows.len() - 1))
}

/// Violations.
pub fn violations(rows: &[EpisodeRow]) -> Option<f64> {
    Some(rows.last().map_or(0.0, |row| row.cumulative_violations as f64))
}

/// Whether curves end more than an order of magnitude apart in a column of their points.
pub fn far_apart<'a>(curves: impl Iterator<Item = &'a Curve> + Clone, column: usize) -> bool {
    let ends = || curves.clone().filter_map(|c| c.points.last()).map(|point| point[column].max(1.0));
    ends().fold(f64::NEG_INFINITY, f64::max) > 10.0 * ends().fold(f64::INFINITY, f64::min)
}

/// x, mean, lowest, highest.
pub fn point(x: f64, values: &[f64]) -> [f64; 4] {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    [x, mean, low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::rows;

    #[test]
    fn returns_against_violations_by_hand() {
        let a = rows(&[(10, 4.0, false), (10, 8.0, true), (10, 0.0, false)]);
        let b = rows(&[(10, 2.0, true), (10, 4.0, true), (10, 6.0, true)]);
        let curve = by_violations(&[&a, &b]);
        // Run a: 4 before the first, then (4+8+0)/3 = 4. Run b: 2, 3, 4 at 1, 2, 3 violations.
        assert_eq!(curve.points, [[1.0, 3.0, 2.0, 4.0]], "the mean is where both are");
        assert_eq!(curve.seeds, [vec![(0.0, 4.0), (1.0, 4.0)], vec![(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]]);
        assert!(by_violations(&[&a]).seeds.is_empty(), "one run is the mean");
    }

    #[test]
    fn curves_by_steps_go_as_far_as_all_runs() {
        let a = rows(&[(60, 5.0, true), (60, 7.0, false)]);
        let b = rows(&[(30, 1.0, true), (30, 1.0, true), (180, 1.0, false)]);
        let count = by_steps(&[&a, &b], violations);
        assert_eq!(count.points.len(), 121);
        assert_eq!(count.points[30], [30.0, 0.5, 0.0, 1.0]);
        assert_eq!(count.points[120], [120.0, 1.5, 1.0, 2.0]);
        let returns = by_steps(&[&a, &b], recent_return);
        assert_eq!(returns.points[0], [60.0, 3.0, 1.0, 5.0], "begins where all have an episode");
        assert_eq!(returns.points.last(), Some(&[120.0, 3.5, 1.0, 6.0]));
    }
}
