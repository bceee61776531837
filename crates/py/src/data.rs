//! Demonstrations and rows.

use std::path::PathBuf;

use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sskp::blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp::lab::data::{About, Set, write_minari};
use sskp::lab::places;
use sskp::lab::run_rows::{RunRows, find_runs};
use sskp::lab::stats::{RunStats, SeedStats};

use crate::raised;

/// Observations, actions, rewards, costs, and the word for how it ended.
type Episode<'py> = (
    PyReadonlyArray2<'py, f32>,
    PyReadonlyArray2<'py, f32>,
    PyReadonlyArray1<'py, f32>,
    PyReadonlyArray1<'py, f32>,
    String,
);

/// Writes episodes as a Minari set and gives its folder. One of the same content that is there already is taken as it is.
#[pyfunction]
pub fn write_set(
    root: PathBuf,
    id: &str,
    env: &str,
    episodes: Vec<Episode>,
    algorithm: String,
    description: String,
) -> PyResult<PathBuf> {
    let first = episodes.first().ok_or_else(|| PyValueError::new_err("there is no episode to write"))?;
    let mut demos = Demonstrations::new(env, first.0.shape()[1], first.1.shape()[1]);
    for (observations, actions, rewards, costs, end) in &episodes {
        let end = match end.as_str() {
            "violation" => Ending::Violation,
            "terminated" => Ending::Terminated,
            "truncated" => Ending::Truncated,
            _ => Ending::Cut,
        };
        let trajectory = Trajectory {
            observations: observations.as_array().iter().copied().collect(),
            actions: actions.as_array().iter().copied().collect(),
            rewards: rewards.as_array().iter().copied().collect(),
            costs: costs.as_array().iter().copied().collect(),
            end,
        };
        demos.push(trajectory).map_err(raised)?;
    }
    let id = id.replace("{hash}", &demos.sha256()[..16]);
    let there = root.join(&id);
    if there.join("data").is_dir() {
        return Ok(there);
    }
    let about = About { algorithm, description, ..About::default() };
    write_minari(&root, &id, &demos, &[], &about).map_err(raised)
}

/// The place of a set by its path or name.
#[pyfunction]
pub fn find_set(name: &str) -> PyResult<PathBuf> {
    places::find_set(name).map_err(raised)
}

/// Where sets are kept that were made out of somebody else's.
#[pyfunction]
pub fn demos_folder() -> PathBuf {
    places::model_cache().unwrap_or_else(std::env::temp_dir).join("demos")
}

/// Numbers of a set and where it came from, as JSON.
#[pyfunction]
pub fn set_info(path: PathBuf) -> PyResult<String> {
    Ok(Set::open(&path).map_err(raised)?.to_json())
}

/// All runs below some paths, each as JSON: where, its settings, its rows by column, what they came to, and `summary.json`.
#[pyfunction]
pub fn read_runs(py: Python, paths: Vec<PathBuf>) -> PyResult<Vec<String>> {
    py.detach(|| {
        let registry = crate::registry();
        let one = |path: PathBuf| -> sskp::blocks::Result<String> {
            let run = RunRows::read(&path)?;
            let rows = &run.episodes;
            // As in the report.
            let limit = registry.time_limit(&run.config.run.env).map_or(u64::MAX, |limit| limit as u64);
            let settings: serde_json::Value = serde_json::from_str(&run.config.to_json()).expect("its own text");
            let column = |of: fn(&sskp::blocks::record::EpisodeRow) -> f64| rows.iter().map(of).collect::<Vec<f64>>();
            let text = serde_json::json!({
                "path": path,
                "algo": run.config.run.algo,
                "env": run.config.run.env,
                "seed": run.config.run.seed,
                "settings": settings,
                "stats": RunStats::of(rows, limit),
                "summary": run.summary,
                "episode": rows.iter().map(|r| r.episode).collect::<Vec<_>>(),
                "steps": rows.iter().map(|r| r.steps).collect::<Vec<_>>(),
                "length": rows.iter().map(|r| r.length).collect::<Vec<_>>(),
                "return": column(|r| r.total_reward),
                "violation": rows.iter().map(|r| r.violation).collect::<Vec<_>>(),
                "cumulative_violations": rows.iter().map(|r| r.cumulative_violations).collect::<Vec<_>>(),
            });
            Ok(text.to_string())
        };
        find_runs(&paths)?.into_iter().map(one).collect::<sskp::blocks::Result<Vec<_>>>()
    })
    .map_err(raised)
}

/// Runs, mean, standard deviation, interquartile mean and its interval.
type Statistics = (usize, f64, Option<f64>, f64, Option<[f64; 2]>);

/// What several seeds say together, as the report has it.
#[pyfunction]
pub fn seed_statistics(py: Python, values: Vec<f64>) -> Option<Statistics> {
    let stats = py.detach(|| SeedStats::of(&values))?;
    Some((stats.runs, stats.mean, stats.std, stats.iqm, stats.interval))
}
