//! Our sets in Minari's own package, and files of h5py and Minari in our reader.
//!
//! Ignored unless asked for: `SSKP_MINARI_PYTHON=venv/bin/python cargo test --release -p sskp-lab --test demos_minari -- --ignored`,
//! where that Python has minari 0.5.4, h5py and pillow.

#[path = "../../../tests/root.rs"]
mod root;

use std::path::PathBuf;
use std::process::Command;

use root::repository;
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::rng::Rng;
use sskp_lab::data::check::check;
use sskp_lab::data::{self, About, Format, Set};
use sskp_lab::registry::Registry;

fn python() -> PathBuf {
    let path = std::env::var_os("SSKP_MINARI_PYTHON").expect("SSKP_MINARI_PYTHON names a Python with minari");
    PathBuf::from(path)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

/// Short and long episodes the size of Hopper's, more than fit into one block of a group's index.
fn hopper(episodes: usize) -> Demonstrations {
    let mut rng = Rng::stream(7, "minari");
    let mut demos = Demonstrations::new("hopper", 11, 3);
    for i in 0..episodes {
        let steps = if i % 3 == 0 { 1000 } else { 1 + rng.below(40) };
        let fell = i % 3 != 0;
        let mut numbers =
            |count: usize, scale: f64| (0..count).map(|_| (scale * rng.normal()) as f32).collect::<Vec<_>>();
        let observations = numbers((steps + 1) * 11, 3.0);
        let actions = numbers(steps * 3, 1.0).iter().map(|a| a.clamp(-1.0, 1.0)).collect();
        let rewards = numbers(steps, 2.0);
        let mut costs = vec![0.0; steps];
        costs[steps - 1] = f32::from(u8::from(fell));
        let end = if fell { Ending::Violation } else { Ending::Truncated };
        demos.push(Trajectory { observations, actions, rewards, costs, end }).unwrap();
    }
    demos
}

#[test]
#[ignore = "needs SSKP_MINARI_PYTHON"]
fn minari_loads_what_we_write() {
    let root = tempfile::tempdir().unwrap();
    let mut arguments: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        let info = root.path().join(format!("info-{}.json", arguments.len()));
        std::fs::write(&info, Set::open(&path).unwrap().to_json()).unwrap();
        arguments.extend([path, info]);
    };
    for (id, episodes) in [("hopper/short-v0", 3), ("sskp/hopper/many-v3", 700), ("plain-v0", 1)] {
        let demos = hopper(episodes);
        let folder = data::write_minari(&root.path().join("sets"), id, &demos, &[], &About::default()).unwrap();
        add(folder);
        let flat = root.path().join(format!("Hopper-{episodes}.hdf5"));
        data::write_dsrl(&flat, &demos, &About::default()).unwrap();
        add(flat);
    }
    // The sets that are shipped, when this checkout has them.
    let shipped = repository().join("data");
    for robot in &sskp_robots::robots() {
        for name in ["medium-v0", "expert-v0"] {
            let folder = shipped.join(&robot.name).join(name);
            if folder.exists() {
                add(folder);
            }
        }
    }
    let script = repository().join("tests/python/check_minari.py");
    let text = run(Command::new(python()).arg("-W").arg("error").arg(script).args(&arguments));
    println!("{text}");
    assert_eq!(text.matches(": the same").count(), arguments.len() / 2);
}

const MAKE: &str = r#"
import os, sys
os.environ["MINARI_DATASETS_PATH"] = sys.argv[1]
import gymnasium as gym, h5py, minari, numpy as np
from minari.data_collector.episode_buffer import EpisodeBuffer

buffers = []
for i in range(12):
    # Odd episodes leave the bridge (|y| > 1) at their fourth step, even ones reach the limit.
    steps = 4 if i % 2 else 200
    y = np.linspace(0.0, 1.2 if i % 2 else 0.5, steps + 1)
    last = np.arange(steps) == steps - 1
    buffers.append(EpisodeBuffer(
        id=i,
        seed=i,
        options={"wind": {"speed": 1.5}},
        observations=np.stack([y, 0 * y, 0 * y, 0 * y, 1 + 0 * y], 1),
        actions=np.zeros((steps, 2), np.float32),
        rewards=np.arange(1.0, steps + 1),
        terminations=last & bool(i % 2),
        truncations=last & (not i % 2),
        infos={"cost": np.append(0.0, last * float(i % 2)), "inner": {"extra": np.arange(steps + 1)}},
    ))
minari.create_dataset_from_buffers(
    "toy/foreign-v0", buffers, algorithm_name="by hand", data_format="hdf5",
    observation_space=gym.spaces.Box(-np.inf, np.inf, (5,), np.float64),
    action_space=gym.spaces.Box(-1, 1, (2,), np.float32),
)
with h5py.File(sys.argv[1] + "/dsrl.hdf5", "w") as f:
    n = 6
    obs = np.arange((n + 1) * 2, dtype=np.float32).reshape(n + 1, 2)
    f.create_dataset("observations", data=obs[:-1], compression="gzip")
    f.create_dataset("next_observations", data=obs[1:], compression="gzip")
    f.create_dataset("actions", data=np.zeros((n, 1), np.float32), compression="gzip")
    f.create_dataset("rewards", data=np.ones((n, 1), np.float32), compression="gzip")
    f.create_dataset("costs", data=np.array([0, 0, 1, 0, 0, 0], np.float32), compression="gzip")
    f.create_dataset("terminals", data=np.array([0, 0, 1, 0, 0, 0], bool), compression="gzip")
    f.create_dataset("timeouts", data=np.array([0, 0, 0, 0, 0, 1], np.float32), compression="lzf")
"#;

#[test]
#[ignore = "needs SSKP_MINARI_PYTHON"]
fn we_load_what_minari_and_h5py_write() {
    let root = tempfile::tempdir().unwrap();
    let text = run(Command::new(python()).arg("-c").arg(MAKE).arg(root.path()));
    let set = Set::open(&root.path().join("toy/foreign-v0")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!((set.format, set.env.as_str(), set.obs_dim, set.action_dim), (Format::Minari, "toy", 5, 2));
    let report = check(&Registry::standard(), &set, None).unwrap();
    assert!(report.fine(), "{report}");
    let demos = set.into_demonstrations().unwrap();
    assert_eq!((demos.trajectories().len(), demos.violations()), (12, 6));
    for (i, trajectory) in demos.trajectories().iter().enumerate() {
        let (end, steps) = if i % 2 == 0 { (Ending::Truncated, 200) } else { (Ending::Violation, trajectory.steps()) };
        assert_eq!((trajectory.end, trajectory.steps()), (end, steps));
        assert_eq!(trajectory.rewards[1], 2.0);
    }
    let flat = data::open(&root.path().join("dsrl.hdf5")).unwrap();
    assert_eq!(flat.trajectories().len(), 2);
    let [first, second] = flat.trajectories() else { unreachable!() };
    assert_eq!(
        (first.end, second.end, second.observations.last()),
        (Ending::Violation, Ending::Truncated, Some(&13.0))
    );
}

/// Files of h5py have no checksums over their structure: damage may go unseen, but it never ends the program.
#[test]
#[ignore = "needs SSKP_MINARI_PYTHON"]
fn damaged_files_of_h5py_are_errors_at_worst() {
    let root = tempfile::tempdir().unwrap();
    run(Command::new(python()).arg("-c").arg(MAKE).arg(root.path()));
    let mut rng = Rng::stream(1, "damage");
    for file in ["toy/foreign-v0/data/main_data.hdf5", "dsrl.hdf5"] {
        let file = root.path().join(file);
        let good = std::fs::read(&file).unwrap();
        let (mut refused, mut read, mut unexpected) = (0, 0, 0);
        let mut attempt = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            match Set::open(&file)
                .and_then(|set| check(&Registry::standard(), &set, None).map(|_| set))
                .and_then(Set::into_demonstrations)
            {
                Ok(_) => read += 1,
                Err(e) => {
                    refused += 1;
                    unexpected += usize::from(e.to_string().contains("did not expect"));
                }
            }
        };
        for _ in 0..1500 {
            attempt(&good[..rng.below(good.len())]);
            let mut bad = good.clone();
            for _ in 0..1 + rng.below(4) {
                let place = rng.below(bad.len());
                bad[place] = rng.below(256) as u8;
            }
            attempt(&bad);
        }
        println!("{}: {refused} refused ({unexpected} by the guard), {read} read", file.display());
    }
}
