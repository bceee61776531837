//! The robots against trajectories made with Python's MuJoCo by a second implementation (`tests/golden/README.md`).

#[path = "../../../tests/root.rs"]
mod root;

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use sskp_blocks::env::{Anomaly, End, Env};
use sskp_blocks::registry::EnvOptions;
use sskp_mujoco::Object;
use sskp_robots::robots;
use sskp_robots::sim::MujocoEnv;

/// Steps after which a machine with another libm is not compared any more, and how far it may be off until then: a
/// change of the last bit grows to 1.5e-12 in 20 steps and to 1 in a few hundred.
const OTHER_LIBM_STEPS: usize = 20;
const OTHER_LIBM_TOLERANCE: f64 = 1e-10;

struct Golden {
    file: String,
    robot: String,
    case: String,
    libm: String,
    contact_costs: bool,
    start: Vec<f64>,
    actions: Vec<Vec<f32>>,
    rewards: Vec<f64>,
    hashes: Vec<u64>,
    violations: Vec<bool>,
    /// Observations stored in full: (0 for the start state, k after step k; the numbers).
    rows: Vec<(usize, Vec<f64>)>,
}

/// The value of `key` in a line of flat JSON, without its quotes.
fn field<'a>(header: &'a str, key: &str) -> &'a str {
    let key = format!("\"{key}\": ");
    let from = header.find(&key).unwrap_or_else(|| panic!("no {key} in {header}")) + key.len();
    let value = &header[from..];
    value[..value.find([',', '}']).expect("a value ends")].trim_matches('"')
}

/// Takes `count` numbers of `N` bytes off the front of `bytes`.
fn take<const N: usize, T>(bytes: &mut &[u8], count: usize, number: fn([u8; N]) -> T) -> Vec<T> {
    let (head, rest) = bytes.split_at(count * N);
    *bytes = rest;
    head.chunks_exact(N).map(|c| number(c.try_into().expect("chunks of N"))).collect()
}

impl Golden {
    fn read(path: &PathBuf) -> Golden {
        let all = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let newline = all.iter().position(|b| *b == b'\n').expect("a header line");
        let header = std::str::from_utf8(&all[..newline]).expect("a header in UTF-8");
        assert_eq!(field(header, "format"), "sskp-golden-1", "{}", path.display());
        let count = |key| field(header, key).parse::<usize>().expect("a count");
        let (steps, rows, obs_dim) = (count("steps"), count("rows"), count("obs_dim"));
        let bytes = &mut &all[newline + 1..];
        let start = take(bytes, count("nq") + count("nv"), f64::from_le_bytes);
        let actions = take(bytes, steps * count("action_dim"), f32::from_le_bytes);
        let rewards = take(bytes, steps, f64::from_le_bytes);
        let hashes = take(bytes, steps, u64::from_le_bytes);
        let violations = take(bytes, steps, |[b]: [u8; 1]| b != 0);
        let numbers = take(bytes, rows, u32::from_le_bytes);
        let full = take(bytes, rows * obs_dim, f64::from_le_bytes);
        assert!(bytes.is_empty(), "{} is longer than its header says", path.display());
        Golden {
            file: path.file_name().expect("a file").to_string_lossy().into_owned(),
            robot: field(header, "robot").to_string(),
            case: field(header, "case").to_string(),
            libm: field(header, "libm").to_string(),
            contact_costs: field(header, "contact_cost") == "1",
            start,
            actions: actions.chunks(count("action_dim")).map(<[f32]>::to_vec).collect(),
            rewards,
            hashes,
            violations,
            rows: numbers.iter().map(|n| *n as usize).zip(full.chunks(obs_dim).map(<[f64]>::to_vec)).collect(),
        }
    }

    fn row(&self, k: usize) -> Option<&[f64]> {
        self.rows.iter().find(|(n, _)| *n == k).map(|(_, row)| &row[..])
    }
}

fn golden() -> Vec<Golden> {
    let folder = root::repository().join("tests/golden");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "bin"))
        .collect();
    paths.sort();
    paths.iter().map(Golden::read).collect()
}

/// FNV-1a 64 over the little-endian bytes of `numbers`.
fn hash(numbers: impl IntoIterator<Item = f64>) -> u64 {
    let bytes = numbers.into_iter().flat_map(f64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// What this machine's libm returns, as `make_golden.py` hashes it.
fn libm() -> String {
    let values = (0..1000).flat_map(|i| {
        let x = black_box((f64::from(i) + 0.5) / 500.0 - 1.0);
        let y = 3.0 + 2.0 * x;
        [y.sin(), y.cos(), x.tan(), x.asin(), x.acos(), x.atan2(y), x.exp(), y.ln(), y.powf(x)]
    });
    format!("{:016x}", hash(values))
}

/// Replays one file; returns how many steps were compared.
fn replay(golden: &Golden) -> usize {
    let options = EnvOptions { contact_costs: golden.contact_costs };
    let mut env = robots().iter().find(|r| r.name == golden.robot).expect("a name").make(options).expect("a robot");
    let strict = golden.libm == libm();
    let compare = |k: usize, obs: &[f64]| {
        if let Some(row) = golden.row(k) {
            assert_eq!(obs.len(), row.len(), "{}: length of an observation", golden.file);
            for (i, (a, b)) in obs.iter().zip(row).enumerate() {
                let close = (a - b).abs() <= OTHER_LIBM_TOLERANCE * b.abs().max(1.0);
                let same = if strict { a.to_bits() == b.to_bits() } else { close };
                assert!(same, "{}: entry {i} of observation {k} is {a:e}, not {b:e}", golden.file);
            }
        }
    };
    // A used environment, of whose past nothing may be left.
    for action in golden.actions.iter().take(20) {
        env.step(action).unwrap();
    }
    env.snapshot().unwrap().start_from(&golden.start).expect("a start state");
    compare(0, env.obs());
    let steps = if strict { golden.actions.len() } else { OTHER_LIBM_STEPS };
    for t in 0..steps {
        let k = t + 1;
        let step = env.step(&golden.actions[t]).unwrap();
        compare(k, env.obs());
        if strict {
            let same = hash(env.obs().iter().copied()) == golden.hashes[t];
            assert!(same, "{}: observation {k} is not the same to the last bit", golden.file);
        }
        let (reward, violation) = (golden.rewards[t], golden.violations[t]);
        // A reward is a difference of positions over dt >= 0.008.
        let tolerance = if strict { 1e-12 } else { 125.0 * OTHER_LIBM_TOLERANCE };
        let off = (step.reward - reward).abs();
        assert!(off <= tolerance, "{}: the reward of step {k} is {}, not {reward}", golden.file, step.reward);
        assert_eq!(step.cost(), f64::from(u8::from(violation)), "{}: cost of step {k}", golden.file);
        assert_eq!(step.end == Some(End::Violation), violation, "{}: end of step {k}", golden.file);
        match step.anomaly {
            None => assert_eq!(
                env.constraint().unwrap().violates(env.obs()),
                violation,
                "{}: constraint at step {k}",
                golden.file
            ),
            Some(anomaly) => {
                assert_eq!((golden.case.as_str(), anomaly), ("runaway", Anomaly::Runaway), "{}: step {k}", golden.file);
            }
        }
    }
    steps
}

#[test]
fn robots_repeat_the_golden_trajectories() {
    let here = libm();
    for golden in golden() {
        if golden.libm != here {
            eprintln!("{}: made with another libm; comparing the first steps, not all bits", golden.file);
        }
        let steps = replay(&golden);
        println!("{}: {steps} steps", golden.file);
    }
}

#[test]
fn every_robot_has_trajectories_with_and_without_violations() {
    let golden = golden();
    // The toy is not MuJoCo's.
    for robot in robots().iter().filter(|r| r.name != "toy") {
        let of_robot: Vec<&Golden> = golden.iter().filter(|g| g.robot == robot.name && !g.contact_costs).collect();
        let falls = of_robot.iter().filter(|g| g.violations.contains(&true)).count();
        let safe = of_robot.iter().filter(|g| !g.violations.contains(&true)).count();
        assert!(falls >= 1 && safe >= 1, "{}: {falls} with a violation, {safe} without", robot.name);
        // Both ways over the line in one file, so that a constant answer cannot pass.
        let mixed = of_robot.iter().any(|g| g.violations.windows(2).any(|w| w[0] != w[1]));
        assert!(mixed, "{}: no trajectory crosses the constraint", robot.name);
    }
    for g in &golden {
        assert!(robots().into_iter().any(|r| r.name == g.robot), "{}: there is no such robot", g.file);
    }
}

#[test]
fn cheetahs_closed_form_is_a_touch_of_its_head() {
    let mut env = MujocoEnv::new(sskp_robots::cheetah::robot(), EnvOptions::default()).expect("cheetah");
    let geom = |name| env.data().model().id(Object::Geom, name).expect("a geom");
    let (head, floor) = (geom("head"), geom("floor"));
    let mut rng = sskp_blocks::rng::Rng::stream(1, "golden-poses");
    let (mut touching, poses) = (0, 20_000);
    for _ in 0..poses {
        let mut state = [0.0; 18];
        state[1] = rng.uniform(-0.7, 0.6);
        state[2] = rng.uniform(-6.3, 6.3);
        state[3..9].fill_with(|| rng.uniform(-0.5, 0.5));
        env.snapshot().unwrap().start_from(&state).expect("a pose");
        let touch = env.data().contacts().any(|geoms| geoms == [head, floor] || geoms == [floor, head]);
        assert_eq!(env.constraint().unwrap().violates(env.obs()), touch, "{state:?}");
        touching += usize::from(touch);
    }
    assert!((poses / 10..poses / 2).contains(&touching), "{touching} of {poses} poses touch: a poor sample");
}
