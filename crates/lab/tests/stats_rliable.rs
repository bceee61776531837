//! Our statistics against the package rliable.
//!
//! Ignored unless asked for: `SSKP_RLIABLE_PYTHON=venv/bin/python cargo test --release -p sskp-lab --test stats_rliable -- --ignored`,
//! where that Python has rliable 1.2.0.

#[path = "../../../tests/root.rs"]
mod root;

use std::process::Command;

use sskp_blocks::rng::Rng;
use sskp_lab::stats::{SeedStats, improvement, improvement_interval};

#[test]
#[ignore = "needs SSKP_RLIABLE_PYTHON"]
fn rliable_says_the_same() {
    let python = std::env::var_os("SSKP_RLIABLE_PYTHON").expect("SSKP_RLIABLE_PYTHON names a Python with rliable");
    let mut rng = Rng::stream(5, "scores");
    let mut cases = Vec::new();
    for (tasks, runs, others, whole) in
        [(1, 3, 3, false), (4, 3, 3, false), (4, 10, 7, false), (1, 25, 20, false), (2, 8, 8, true)]
    {
        let mut scores = |runs: usize, shift: f64| -> Vec<Vec<f64>> {
            let mut score = || 10.0 * (rng.normal() + shift);
            // Whole numbers have ties.
            (0..tasks).map(|_| (0..runs).map(|_| if whole { score().round() } else { score() }).collect()).collect()
        };
        let (x, y) = (scores(runs, 0.4), scores(others, 0.0));
        let together = SeedStats::of_tasks(&x).unwrap();
        cases.push(serde_json::json!({
            "x": x, "y": y, "iqm": together.iqm, "iqm_interval": together.interval,
            "improvement": improvement(&x, &y), "improvement_interval": improvement_interval(&x, &y),
        }));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cases.json");
    std::fs::write(&file, serde_json::to_string(&cases).unwrap()).unwrap();
    let script = root::repository().join("tests/python/check_statistics.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("5 cases, 0 differences"), "{text}");
}
