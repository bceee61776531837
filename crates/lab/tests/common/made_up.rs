//! Rows of runs that nobody ran, for reports of the paper's whole grid: returns that grow, violations that become rare.

use sskp_blocks::judge::Reliability;
use sskp_blocks::record::EpisodeRow;
use sskp_blocks::rng::Rng;
use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::run_rows::RunRows;

/// As long as the paper's.
const STEPS: u64 = 1_000_000;

/// A run.
pub fn run(robot: &str, method: &str, seed: u64) -> RunRows {
    let mut config =
        Config::resolve(&Registry::standard(), RunConfig::new(method, robot, seed, STEPS), &Overrides::default())
            .unwrap();
    config.run.demos_sha256 = "00ff".repeat(16);
    let mut rng = Rng::stream(seed, &format!("{method} on {robot}"));
    // How fast it learns, and how careful it is.
    let mut kind = Rng::stream(0, method);
    let (speed, care) = (kind.uniform(2.0, 6.0), kind.uniform(0.3, 1.0));
    let mut rows: Vec<EpisodeRow> = Vec::new();
    let (mut steps, mut violations) = (0, 0);
    while steps < STEPS {
        let progress = steps as f64 / STEPS as f64;
        let violation = rng.uniform(0.0, 1.0) < 0.5 * (-4.0 * progress * care).exp();
        let length = if violation { 50 + rng.below(900) as u64 } else { 1000 }.min(STEPS - steps);
        let violation = violation && steps + length < STEPS;
        steps += length;
        violations += u64::from(violation);
        let level = 3.0 * (1.0 - (-speed * progress).exp()) + 0.3 * rng.normal() - 0.2;
        rows.push(EpisodeRow {
            episode: rows.len() as u64 + 1,
            steps,
            length,
            total_reward: level * length as f64,
            violation,
            cumulative_violations: violations,
            anomaly: None,
        });
    }
    let text = rows
        .iter()
        .fold(format!("{}\n", sskp_lab::episodes::COLUMNS), |text, row| text + &sskp_lab::episodes::line(row) + "\n");
    let split = [("acting", 40.0), ("learning", 300.0), ("physics", 90.0), ("pretraining", 60.0)];
    let study = (0..7).fold("iteration,states,mean,change_mean\n".to_string(), |text, i| {
        text + &format!("{i},100,0,{}\n", 0.01 * seed as f64 - 0.05 * (1.0 - 0.6f64.powi(i)))
    });
    let mut foreseen = Reliability::default();
    for i in 0..steps / 10 {
        let risk = 10f64.powf(rng.uniform(-5.5, -1.0));
        foreseen.add(risk, rng.uniform(0.0, 1.0) < 0.7 * risk || i == 7);
    }
    let predicts = ["sskp", "sskp-np"].contains(&method);
    RunRows {
        source: format!("results/{robot}/{method}/seed-{seed}.csv.gz").into(),
        config,
        episodes: rows,
        text,
        summary: Some(serde_json::json!({
            "wall_seconds": 4000.0 + 900.0 * speed,
            "time_split": split.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "calibration": predicts.then_some(foreseen),
        })),
        manifest: Some(serde_json::json!({ "mujoco": "3.17.0" })),
        plan_study: method.starts_with("sskp").then_some(study),
        fall_study: None,
    }
}

/// The paper's grid.
pub fn grid() -> Vec<RunRows> {
    let mut all = Vec::new();
    for robot in ["ant", "cheetah", "hopper", "humanoid"] {
        for method in ["sskp", "recovery-rl", "cpq", "smbpo", "sskp-np", "sskp-wo-rp"] {
            if !method.starts_with("sskp-") || ["ant", "hopper"].contains(&robot) {
                all.extend((0..3).map(|seed| run(robot, method, seed)));
            }
        }
    }
    all
}
