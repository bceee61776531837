//! Runs small enough for CI: demonstrations of every robot, and settings with which every method is quick. The tests of the
//! command line use this file too.

use sskp_lab::registry::Registry;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::env::End;
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::rng::Rng;
use sskp_lab::data::{About, write_minari};

/// A folder of this process alone. Those of processes that have ended are removed.
fn own_folder() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id: Option<u32> = name.to_str().and_then(|name| name.strip_prefix("demos-")?.parse().ok());
        if id.is_some_and(|id| id == std::process::id() || !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    root.join(format!("demos-{}", std::process::id()))
}

/// A small set of demonstrations of a robot, with some falls in it. Made once per process.
pub fn demos(env: &str) -> PathBuf {
    static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap();
    let root = made.get_or_insert_with(own_folder);
    let folder = root.join(env).join("random-v0");
    if !folder.exists() {
        let demos = if env == "toy" { sskp_blocks::toy::demonstrations(60) } else { random_episodes(env) };
        assert!(demos.violations() > 1, "{env}: {} episodes fell", demos.violations());
        write_minari(root, &format!("{env}/random-v0"), &demos, &[], &About::default()).unwrap();
    }
    folder
}

/// What is kept of an episode.
const KEPT: usize = 100;

/// Wild random actions, until three episodes fell; of those the end is kept, of others the beginning.
fn random_episodes(env: &str) -> Demonstrations {
    let mut robot = Registry::standard().make_env(env, EnvOptions::default()).unwrap();
    let spec = robot.spec().clone();
    let mut demos = Demonstrations::new(env, spec.obs_dim, spec.action_dim);
    let mut rng = Rng::stream(0, "random demonstrations");
    let mut action = vec![0.0; spec.action_dim];
    for episode in 0..40 {
        robot.reset(&mut rng).unwrap();
        let mut observations: Vec<f32> = robot.obs().iter().map(|x| *x as f32).collect();
        let (mut actions, mut rewards, mut costs) = (vec![], vec![], vec![]);
        let mut end = Ending::Cut;
        for t in 0..spec.time_limit.unwrap() {
            // The same push for a few steps throws further than noise that cancels itself.
            if t % 8 == 0 {
                rng.fill_action(&mut action);
                action.iter_mut().for_each(|a| *a = a.signum());
            }
            let step = robot.step(&action).unwrap();
            observations.extend(robot.obs().iter().map(|x| *x as f32));
            actions.extend_from_slice(&action);
            rewards.push(step.reward as f32);
            costs.push(step.cost() as f32);
            if step.end == Some(End::Violation) {
                end = Ending::Violation;
                break;
            }
        }
        let steps = rewards.len();
        let from = if end == Ending::Violation { steps.saturating_sub(KEPT) } else { 0 };
        let to = steps.min(from + KEPT);
        demos
            .push(Trajectory {
                observations: observations[from * spec.obs_dim..(to + 1) * spec.obs_dim].to_vec(),
                actions: actions[from * spec.action_dim..to * spec.action_dim].to_vec(),
                rewards: rewards[from..to].to_vec(),
                costs: costs[from..to].to_vec(),
                end,
            })
            .unwrap();
        if demos.violations() >= 3 && episode >= 5 {
            break;
        }
    }
    demos
}

/// Settings, as `--set` takes them, that make a method quick: narrow networks that learn from early on, and demonstrations
/// where it begins with some.
pub fn settings(algo: &str, env: &str) -> Vec<String> {
    let registry = Registry::standard();
    let entry = registry.method(algo).unwrap();
    let robot = registry.make_env(env, EnvOptions::default()).unwrap();
    let defaults: toml::Table = toml::from_str(&(entry.defaults)(robot.spec())).unwrap();
    let mut sets = Vec::new();
    shrink(&defaults, entry.table, &mut sets);
    if entry.demos {
        sets.push(format!("run.demos={}", demos(env).display()));
    }
    sets
}

/// Shrinks whatever of these a method has, wherever it has it.
fn shrink(table: &toml::Table, path: &str, sets: &mut Vec<String>) {
    for (key, value) in table {
        let small = match (key.as_str(), value) {
            (_, toml::Value::Table(inner)) => {
                shrink(inner, &format!("{path}.{key}"), sets);
                continue;
            }
            // Random actions earn nothing.
            ("skip_losses", _) => {
                sets.push(format!("{path}.{key}=false"));
                continue;
            }
            ("width" | "batch" | "hidden" | "prior_width" | "samples", _) => 32,
            ("random_steps" | "log_every" | "first_updates" | "first_transitions", _) => 100,
            ("refit_updates" | "rollouts", _) => 20,
            ("updates_per_step", _) => 1,
            // Random actions fall soon: nothing would be left before.
            ("relabel", _) => 0,
            // Of pre-training; the run's own are `total_steps`.
            ("steps" | "offline_updates", _) => 20,
            ("warm_up" | "elites" | "warm_up_steps", _) => 8,
            _ => continue,
        };
        sets.push(format!("{path}.{key}={small}"));
    }
}
