//! Runs put together: those of one variant of a method on one robot.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use sskp_blocks::judge::Reliability;
use sskp_blocks::record::EpisodeRow;
use sskp_blocks::{Error, Result};

use super::variant::{Variant, variants};
use super::{calibration, paper};
use crate::registry::Registry;
use crate::run_rows::RunRows;
use crate::stats::{RunStats, SeedStats, return_at};
use crate::wording::grouped;

/// The runs of a variant on a robot, and what they came to.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The robot.
    pub robot: String,
    /// The method, and its settings where they tell it from others.
    #[serde(flatten)]
    pub variant: Variant,
    /// Reward per step.
    pub ptr: SeedStats,
    /// #V.
    pub violations: SeedStats,
    /// PtR/#V × 1000, of the runs that had a violation.
    pub ptr_per_violation_x1000: Option<SeedStats>,
    /// 1000 × mean PtR / mean #V. It is there also where a run without violations has no ratio, and one run with a single violation does not
    /// decide it.
    pub ratio_of_means_x1000: Option<f64>,
    /// Runs without a violation, which have no ratio.
    pub without_violation: usize,
    /// The paper's number for it.
    pub paper: Option<f64>,
    /// Return in the last tenth of the steps.
    pub final_return: Option<SeedStats>,
    /// Reward per step in the last tenth of the steps.
    pub final_ptr: Option<SeedStats>,
    /// Return at a number of violations that every run of the robot reached.
    pub return_at: Option<ReturnAt>,
    /// Predicted risks against what came of them, all runs together; of methods that predict one.
    pub calibration: Option<Reliability>,
    /// The runs.
    pub runs: Vec<ReportedRun>,
}

impl Group {
    /// PtR/#V × 1000 of each run; none where a run has none.
    pub(super) fn ratios(&self) -> Option<Vec<f64>> {
        self.runs.iter().map(|run| run.stats.ptr_per_violation_x1000).collect()
    }
}

/// Return at a number of violations.
#[derive(Clone, Debug, Serialize)]
pub struct ReturnAt {
    /// The number.
    pub violations: u64,
    /// Mean of the last 20 episodes there.
    pub value: SeedStats,
}

/// One run, and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedRun {
    /// The seed.
    pub seed: u64,
    /// What it came to.
    pub stats: RunStats,
    /// Whether all steps were taken.
    pub finished: bool,
    /// Steps it was to take.
    pub budget: u64,
    /// The run directory or file.
    pub source: String,
    /// Hash of its rows.
    pub rows_sha256: String,
    /// Hash of its settings.
    pub identity: String,
    /// Its settings.
    pub config: String,
    /// `summary.json`, where there is one.
    pub summary: Option<Value>,
    /// `manifest.json`, where there is one.
    pub manifest: Option<Value>,
}

impl ReportedRun {
    fn new(rows: &RunRows, stats: RunStats) -> Self {
        Self {
            seed: rows.config.run.seed,
            stats,
            finished: rows.finished(),
            budget: rows.config.run.total_steps,
            source: rows.source.display().to_string(),
            rows_sha256: rows.sha256(),
            identity: rows.config.identity(),
            config: rows.config.to_toml(),
            summary: rows.summary.clone(),
            manifest: rows.manifest.clone(),
        }
    }
}

/// Rows of one variant on one robot.
pub struct Cell<'a> {
    pub robot: &'a str,
    pub variant: Variant,
    pub runs: Vec<&'a RunRows>,
}

/// Runs by robot and variant; the same run twice is an error, odd ones are warned of.
pub fn cells<'a>(registry: &Registry, all: &'a [RunRows], warnings: &mut Vec<String>) -> Result<Vec<Cell<'a>>> {
    let mut map: BTreeMap<(&str, Variant), Vec<&RunRows>> = BTreeMap::new();
    for (rows, variant) in all.iter().zip(variants(registry, all)) {
        if rows.episodes.is_empty() {
            warnings.push(format!("{} has no finished episode and is left out", rows.source.display()));
            continue;
        }
        map.entry((&rows.config.run.env, variant)).or_default().push(rows);
    }
    let mut cells = Vec::new();
    for ((robot, variant), mut runs) in map {
        runs.sort_by_key(|rows| rows.config.run.seed);
        let cell = Cell { robot, variant, runs };
        cell.judge(warnings)?;
        cells.push(cell);
    }
    for robot in cells.iter().map(|c| c.robot).collect::<BTreeSet<_>>() {
        let runs = cells.iter().filter(|c| c.robot == robot).flat_map(|c| &c.runs);
        let budgets: BTreeSet<u64> = runs.map(|rows| rows.config.run.total_steps).collect();
        if let (Some(least), Some(most)) = (budgets.first(), budgets.last())
            && least != most
        {
            warnings.push(format!(
                "runs on {robot} have different lengths, {least} to {most} steps: numbers per run do not compare"
            ));
        }
    }
    Ok(cells)
}

impl Cell<'_> {
    pub fn episodes(&self) -> Vec<&[EpisodeRow]> {
        self.runs.iter().map(|rows| rows.episodes.as_slice()).collect()
    }

    fn name(&self) -> String {
        let Variant { method, settings, .. } = &self.variant;
        let settings = if settings.is_empty() { String::new() } else { format!(" ({settings})") };
        format!("{method}{settings} on {}", self.robot)
    }

    fn judge(&self, warnings: &mut Vec<String>) -> Result<()> {
        for pair in self.runs.windows(2) {
            let seeds = [pair[0].config.run.seed, pair[1].config.run.seed];
            if seeds[0] == seeds[1] {
                return Err(Error::other(format!(
                    "{} with seed {} is there twice, with the same settings: {} and {}",
                    self.name(),
                    seeds[0],
                    pair[0].source.display(),
                    pair[1].source.display()
                )));
            }
            let mut as_first = pair[1].config.clone();
            as_first.run.seed = seeds[0];
            if let Some(difference) = pair[0].config.difference(&as_first) {
                let [a, b] = seeds;
                warnings.push(format!("{}: seeds {a} and {b} have different settings ({difference})", self.name()));
            }
        }
        for rows in self.runs.iter().filter(|rows| !rows.finished()) {
            let (seed, steps, budget) = (rows.config.run.seed, rows.steps(), rows.config.run.total_steps);
            warnings.push(format!("{}, seed {seed}, is not finished: {steps} of {budget} steps", self.name()));
        }
        Ok(())
    }

    pub fn group(&self, registry: &Registry, cells: &[Cell], violations: Option<u64>) -> Result<Group> {
        let limit = registry.time_limit(self.robot).map_or(u64::MAX, |limit| limit as u64);
        let stats: Vec<RunStats> = self.runs.iter().map(|rows| RunStats::of(&rows.episodes, limit)).collect();
        let reached = |rows: &&RunRows| rows.episodes.last().map_or(0, |row| row.cumulative_violations);
        let beside = cells.iter().filter(|c| c.robot == self.robot).flat_map(|c| &c.runs);
        let count = violations.unwrap_or(beside.map(reached).min().unwrap_or(0));
        let there: Vec<f64> = self.runs.iter().filter_map(|rows| return_at(&rows.episodes, count)).collect();
        let numbers =
            |of: &dyn Fn(&RunStats) -> Option<f64>| SeedStats::of(&stats.iter().filter_map(of).collect::<Vec<f64>>());
        let ptr = numbers(&|s| Some(s.ptr)).expect("a run at least");
        let spent = numbers(&|s| Some(s.violations as f64)).expect("a run at least");
        let as_long = self.runs.iter().all(|rows| rows.config.run.total_steps == paper::STEPS);
        Ok(Group {
            robot: self.robot.into(),
            variant: self.variant.clone(),
            ratio_of_means_x1000: (spent.mean > 0.0).then(|| 1000.0 * ptr.mean / spent.mean),
            ptr,
            violations: spent,
            ptr_per_violation_x1000: numbers(&|s| s.ptr_per_violation_x1000),
            without_violation: stats.iter().filter(|s| s.violations == 0).count(),
            paper: paper::ratio(&self.variant.method, self.robot).filter(|_| as_long),
            final_return: numbers(&|s| s.final_return),
            final_ptr: numbers(&|s| s.final_ptr),
            return_at: SeedStats::of(&there).map(|value| ReturnAt { violations: count, value }),
            calibration: calibration::over_seeds(self),
            runs: self.runs.iter().zip(stats).map(|(rows, stats)| ReportedRun::new(rows, stats)).collect(),
        })
    }
}

/// Steps per run and updates of the policy per step: without them no comparison says what it compares.
pub fn budget(registry: &Registry, cells: &[Cell]) -> String {
    let steps: BTreeSet<u64> = cells.iter().flat_map(|c| &c.runs).map(|rows| rows.config.run.total_steps).collect();
    let steps: Vec<String> = steps.into_iter().map(grouped).collect();
    let mut updates: BTreeMap<&Variant, Vec<f64>> = BTreeMap::new();
    for cell in cells {
        let known = updates.entry(&cell.variant).or_default();
        for per_step in cell.runs.iter().filter_map(|rows| rows.config.updates_per_step(registry)) {
            if !known.contains(&per_step) {
                known.push(per_step);
            }
        }
    }
    let said = |(variant, known): (&Variant, Vec<f64>)| {
        let known: Vec<String> = known.iter().map(f64::to_string).collect();
        (!known.is_empty()).then(|| format!("{} {}", variant.title, known.join(" or ")))
    };
    let updates: Vec<String> = updates.into_iter().filter_map(said).collect();
    format!("Budget: {} steps per run; updates of the policy per step: {}.", steps.join(" or "), updates.join(", "))
}
