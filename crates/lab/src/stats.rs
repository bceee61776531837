//! Statistics of runs: what a run came to, and what several seeds say together. Interquartile mean, stratified bootstrap and
//! probability of improvement are those of Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
//! Precipice", and agree with its package rliable (`crates/lab/tests/stats_rliable.rs`).

use serde::Serialize;
use sskp_blocks::record::EpisodeRow;
use sskp_blocks::rng::Rng;

/// Episodes of a running mean of returns, as in `progress.csv`.
pub const WINDOW: usize = 20;
/// The end of a run: its last tenth, by steps.
const END: f64 = 0.1;
/// Resamplings. The ends of an interval move by a few thousandths of its width between seeds of the bootstrap.
const RESAMPLES: usize = 10_000;

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunStats {
    /// Environment steps.
    pub steps: u64,
    /// Episodes.
    pub episodes: u64,
    /// #V.
    pub violations: u64,
    /// PtR: sum of all rewards / steps.
    pub ptr: f64,
    /// PtR/#V × 1000; null without violations.
    pub ptr_per_violation_x1000: Option<f64>,
    /// Mean return of the episodes that ended in the last tenth of the steps. One that the budget cut counts only if there is no
    /// other; null without any.
    pub final_return: Option<f64>,
    /// Reward per step in the episodes that ended there, the cut one too; null without any.
    pub final_ptr: Option<f64>,
}

impl RunStats {
    /// Of a run's episodes; `limit` is the length at which an episode ends by itself.
    pub fn of(rows: &[EpisodeRow], limit: u64) -> Self {
        let (steps, violations) = rows.last().map_or((0, 0), |row| (row.steps, row.cumulative_violations));
        let ptr = rows.iter().map(|row| row.total_reward).sum::<f64>() / steps.max(1) as f64;
        let late: Vec<&EpisodeRow> = rows.iter().filter(|row| row.steps as f64 > (1.0 - END) * steps as f64).collect();
        let cut = late.last().is_some_and(|row| !row.violation && row.length < limit);
        let kept = &late[..late.len() - usize::from(cut && late.len() > 1)];
        Self {
            steps,
            episodes: rows.len() as u64,
            violations,
            ptr,
            ptr_per_violation_x1000: (violations > 0).then(|| 1000.0 * ptr / violations as f64),
            final_return: mean(&kept.iter().map(|row| row.total_reward).collect::<Vec<_>>()),
            final_ptr: (!late.is_empty()).then(|| {
                let steps = late.iter().map(|row| row.length).sum::<u64>();
                late.iter().map(|row| row.total_reward).sum::<f64>() / steps.max(1) as f64
            }),
        }
    }
}

/// The return of a run at the moment of its `count`-th violation: the mean of the last [`WINDOW`] episodes. None if it had fewer
/// violations.
pub fn return_at(rows: &[EpisodeRow], count: u64) -> Option<f64> {
    let at = rows.iter().position(|row| row.violation && row.cumulative_violations == count)?;
    Some(window_mean(rows, at))
}

/// Mean return of the last [`WINDOW`] episodes up to the one numbered `at`, from 0.
pub fn window_mean(rows: &[EpisodeRow], at: usize) -> f64 {
    let last = &rows[(at + 1).saturating_sub(WINDOW)..=at];
    last.iter().map(|row| row.total_reward).sum::<f64>() / last.len() as f64
}

/// How some numbers are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Least.
    pub min: f64,
    /// A quarter lies below.
    pub low: f64,
    /// Half lies below.
    pub median: f64,
    /// Three quarters lie below.
    pub high: f64,
    /// Greatest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation, of a sample (n − 1); 0 for one value.
    pub std: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
}

impl Spread {
    /// Of a list; zeros for an empty one.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            sorted.push(0.0);
        }
        let [min, low, median, high, max] = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&sorted, share));
        let n = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
        let std = (squares / (n - 1.0).max(1.0)).sqrt();
        Self { min, low, median, high, max, mean, std, standard_error: std / n.sqrt() }
    }
}

/// Several runs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeedStats {
    /// How many runs have a value.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation (n − 1); null for one run.
    pub std: Option<f64>,
    /// Interquartile mean.
    pub iqm: f64,
    /// 95 % bootstrap interval of the interquartile mean; null for one run.
    pub interval: Option<[f64; 2]>,
}

impl SeedStats {
    /// Of one number per run; none without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::of_tasks(&[values.to_vec()])
    }

    /// Of one number per run in several tasks, resampled within each task.
    pub fn of_tasks(tasks: &[Vec<f64>]) -> Option<Self> {
        let all = tasks.concat();
        let several = all.len() > 1;
        Some(Self {
            runs: all.len(),
            mean: mean(&all)?,
            std: several.then(|| Spread::of(&all).std),
            iqm: iqm(&all),
            interval: several.then(|| bootstrap(&[tasks], |sample| iqm(&sample[0].concat()))),
        })
    }
}

/// The mean; none of nothing.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of the middle half: a quarter of the values, rounded down, is left out at either end.
fn iqm(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let out = sorted.len() / 4;
    mean(&sorted[out..sorted.len() - out]).unwrap_or(f64::NAN)
}

/// How likely a run of the first method is better than a run of the second, on a task drawn at random: the share of pairs of
/// runs in which it is, ties counting half (Mann and Whitney's U), averaged over tasks.
pub fn improvement(x: &[Vec<f64>], y: &[Vec<f64>]) -> f64 {
    let task = |(x, y): (&Vec<f64>, &Vec<f64>)| {
        let wins =
            x.iter().flat_map(|a| y.iter().map(move |b| if a > b { 1.0 } else { f64::from(u8::from(a == b)) / 2.0 }));
        wins.sum::<f64>() / (x.len() * y.len()) as f64
    };
    x.iter().zip(y).map(task).sum::<f64>() / x.len() as f64
}

/// 95 % interval of [`improvement`], both methods' runs resampled.
pub fn improvement_interval(x: &[Vec<f64>], y: &[Vec<f64>]) -> [f64; 2] {
    bootstrap(&[x, y], |sample| improvement(&sample[0], &sample[1]))
}

/// 95 % percentile interval of a statistic under resampling of runs, with replacement, within every task of every method.
fn bootstrap(methods: &[&[Vec<f64>]], statistic: impl Fn(&[Vec<Vec<f64>>]) -> f64) -> [f64; 2] {
    let mut rng = Rng::stream(0, "bootstrap");
    let mut sample: Vec<Vec<Vec<f64>>> = methods.iter().map(|tasks| tasks.to_vec()).collect();
    let mut values: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for (tasks, drawn) in methods.iter().zip(&mut sample) {
                for (runs, drawn) in tasks.iter().zip(drawn) {
                    drawn.iter_mut().for_each(|value| *value = runs[rng.below(runs.len())]);
                }
            }
            statistic(&sample)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    [quantile(&values, 0.025), quantile(&values, 0.975)]
}

/// 95 % percentile interval of the mean of numbers that come in groups (all places of one fall, say), whole groups resampled: what happened
/// together is drawn together. None of fewer than two groups.
pub fn grouped_interval(groups: &[Vec<f64>]) -> Option<[f64; 2]> {
    let sums: Vec<[f64; 2]> =
        groups.iter().filter(|g| !g.is_empty()).map(|g| [g.iter().sum(), g.len() as f64]).collect();
    if sums.len() < 2 {
        return None;
    }
    let mut rng = Rng::stream(0, "bootstrap");
    let mut mean = |_| {
        let drawn = (0..sums.len()).map(|_| sums[rng.below(sums.len())]);
        let [sum, n] = drawn.fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        sum / n
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(&mut mean).collect();
    means.sort_by(f64::total_cmp);
    Some([quantile(&means, 0.025), quantile(&means, 0.975)])
}

/// A quantile of sorted values, linear between them as numpy has it.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, share) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + share * (sorted[high] - sorted[low])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Episodes of (length, return, violation).
    pub fn rows(episodes: &[(u64, f64, bool)]) -> Vec<EpisodeRow> {
        let (mut steps, mut violations) = (0, 0);
        let row = |(i, (length, total_reward, violation)): (usize, &(u64, f64, bool))| {
            steps += length;
            violations += u64::from(*violation);
            EpisodeRow {
                episode: i as u64 + 1,
                steps,
                length: *length,
                total_reward: *total_reward,
                violation: *violation,
                cumulative_violations: violations,
                anomaly: None,
            }
        };
        episodes.iter().enumerate().map(row).collect()
    }

    #[test]
    fn a_run_by_hand() {
        // 100 steps; the last tenth are steps 91 to 100.
        let run = rows(&[(40, 8.0, true), (50, 12.0, false), (4, 3.0, true), (3, 5.0, true), (3, -8.0, false)]);
        let stats = RunStats::of(&run, 50);
        assert_eq!((stats.steps, stats.episodes, stats.violations), (100, 5, 3));
        assert_eq!(stats.ptr, 0.2);
        assert!((stats.ptr_per_violation_x1000.unwrap() - 200.0 / 3.0).abs() < 1e-12);
        assert_eq!(stats.final_return, Some(4.0), "without the one that the budget cut");
        // The last three episodes: 3 + 5 − 8 in 10 steps.
        assert_eq!(stats.final_ptr, Some(0.0));
        assert_eq!(RunStats::of(&run[..3], 50).final_ptr, Some(15.0 / 54.0), "those that ended after step 84");
        assert_eq!(RunStats::of(&run, 3).final_return, Some(0.0), "an episode of full length was not cut");
        let calm = RunStats::of(&rows(&[(30, 6.0, false)]), 50);
        assert_eq!((calm.ptr_per_violation_x1000, calm.final_return), (None, Some(6.0)));
        assert_eq!((RunStats::of(&[], 50).final_return, RunStats::of(&[], 50).final_ptr), (None, None));
    }

    #[test]
    fn the_return_at_a_number_of_violations_is_the_mean_of_the_last_twenty_episodes() {
        let mut episodes: Vec<(u64, f64, bool)> = (0..30).map(|i| (10, f64::from(i), false)).collect();
        episodes[3].2 = true;
        episodes[29].2 = true;
        let run = rows(&episodes);
        assert_eq!(return_at(&run, 1), Some(1.5), "episodes 0 to 3");
        assert_eq!(return_at(&run, 2), Some(19.5), "episodes 10 to 29");
        assert_eq!(return_at(&run, 3), None);
    }

    #[test]
    fn the_interquartile_mean_leaves_a_quarter_out_at_either_end() {
        assert_eq!(iqm(&[100.0, 2.0, 4.0, -50.0]), 3.0);
        assert_eq!(iqm(&[1.0, 2.0, 9.0]), 4.0, "of three none is left out");
        assert_eq!(iqm(&[0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 99.0]), 4.5);
    }

    #[test]
    fn improvement_counts_pairs() {
        let x = [vec![3.0, 1.0], vec![5.0, 5.0]];
        let y = [vec![2.0, 2.0, 1.0], vec![5.0, 5.0]];
        // Task 1: 3 beats all three; 1 ties once: 3.5 of 6. Task 2: all ties.
        assert!((improvement(&x, &y) - (3.5 / 6.0 + 0.5) / 2.0).abs() < 1e-12);
        assert_eq!(improvement(&[vec![2.0]], &[vec![1.0]]), 1.0);
    }

    #[test]
    fn the_bootstrap_resamples_within_tasks() {
        // Two runs of one task: the mean is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4.
        assert_eq!(bootstrap(&[&[vec![0.0, 1.0]]], |s| mean(&s[0][0]).unwrap()), [0.0, 1.0]);
        // One run in each task: nothing to resample, where mixing tasks would give a spread.
        assert_eq!(bootstrap(&[&[vec![0.0], vec![10.0]]], |s| iqm(&s[0].concat())), [5.0, 5.0]);
        // The mean of 100 numbers of variance 1/12 has a standard error of 0.0289.
        let values: Vec<f64> = (0..100).map(|i| (f64::from(i) + 0.5) / 100.0).collect();
        let [low, high] = bootstrap(&[&[values]], |s| mean(&s[0][0]).unwrap());
        assert!((high - low - 2.0 * 1.96 * 0.0289).abs() < 0.005, "{low} {high}");
    }

    #[test]
    fn groups_are_resampled_whole() {
        // Two groups: both the same one in half of the draws, so that the ends are the groups' own means, 0 and 4; one of each gives 4·3/4.
        let groups = [vec![0.0], vec![4.0; 3], vec![]];
        assert_eq!(grouped_interval(&groups), Some([0.0, 4.0]));
        assert_eq!((grouped_interval(&groups[..1]), grouped_interval(&[])), (None, None));
        // A hundred groups of ten equal numbers know no more than a hundred numbers: a standard error of 0.0289, not 0.0091.
        let groups: Vec<Vec<f64>> = (0..100).map(|i| vec![(f64::from(i) + 0.5) / 100.0; 10]).collect();
        let [low, high] = grouped_interval(&groups).unwrap();
        assert!((high - low - 2.0 * 1.96 * 0.0289).abs() < 0.005, "{low} {high}");
    }

    #[test]
    fn a_spread_by_hand() {
        // 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9 = 14, over 3; quartiles at places 0.75, 1.5 and 2.25.
        let s = Spread::of(&[6.0, 1.0, 3.0, 2.0]);
        assert_eq!((s.min, s.low, s.median, s.high, s.max), (1.0, 1.75, 2.5, 3.75, 6.0));
        assert_eq!((s.mean, s.std), (3.0, (14.0f64 / 3.0).sqrt()));
        assert_eq!(s.standard_error, s.std / 2.0);
        let one = Spread::of(&[0.5]);
        assert_eq!((one.mean, one.std, one.low, one.max), (0.5, 0.0, 0.5, 0.5));
        assert_eq!(Spread::of(&[]).max, 0.0);
    }

    #[test]
    fn several_runs_by_hand() {
        let three = SeedStats::of(&[1.0, 2.0, 6.0]).unwrap();
        assert_eq!((three.runs, three.mean, three.iqm, three.std), (3, 3.0, 3.0, Some(7f64.sqrt())));
        assert_eq!(three.interval, Some([1.0, 6.0]), "all three the same run: once in 27 times, more than 2.5 %");
        let one = SeedStats::of(&[4.0]).unwrap();
        assert_eq!((one.std, one.interval), (None, None));
        assert_eq!(SeedStats::of(&[]), None);
        assert_eq!(quantile(&[0.0, 10.0], 0.25), 2.5);
    }
}
