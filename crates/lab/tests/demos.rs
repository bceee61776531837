//! Demonstrations on disk: what is written is what is read, damage is an error, mistakes are found. Longer than 500 lines, as nearly
//! all tests here stand on the same few sets made by hand.

use sskp_blocks::registry::EnvOptions;
use sskp_lab::registry::Registry;
use std::path::{Path, PathBuf};

use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::rng::Rng;
use sskp_lab::data::check::{SetReport, check, kind};
use sskp_lab::data::{self, About, Format, Played, Set};

/// Episodes of the toy played at random: real states, real falls.
fn toy(episodes: usize) -> Demonstrations {
    let mut env = Registry::standard().make_env("toy", EnvOptions::default()).unwrap();
    let mut rng = Rng::stream(3, "demos");
    let spec = env.spec().clone();
    let mut demos = Demonstrations::new("toy", spec.obs_dim, spec.action_dim);
    for i in 0..episodes {
        env.reset(&mut rng).unwrap();
        let state = |env: &dyn sskp_blocks::env::Env| env.obs().iter().map(|x| *x as f32).collect::<Vec<_>>();
        let mut observations = state(&*env);
        let (mut actions, mut rewards, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        let throttle = rng.uniform(0.3, 1.0) as f32;
        let end = loop {
            // Every other episode steers back to the middle and drives slowly; the others fall.
            let (y, vy) = (env.obs()[0] as f32, env.obs()[1] as f32);
            let action =
                if i % 2 == 0 { [0.1 * throttle, (-3.0 * y - 2.0 * vy).clamp(-1.0, 1.0)] } else { [throttle, 0.0] };
            let step = env.step(&action).unwrap();
            observations.extend(state(&*env));
            actions.extend(action);
            rewards.push(step.reward as f32);
            costs.push(step.cost() as f32);
            if let Some(end) = step.end {
                break end;
            }
        };
        demos.push(Trajectory { observations, actions, rewards, costs, end: end.into() }).unwrap();
    }
    let falls = demos.violations();
    assert!(falls > 0 && falls < episodes, "{falls} of {episodes} fell");
    demos
}

fn about() -> About {
    let provenance =
        serde_json::json!({ "command": "sskp collect --env toy", "seed": 3, "agent": { "return_mean": 1.5 } });
    About {
        algorithm: "sac".into(),
        description: "A test.".into(),
        provenance: provenance.as_object().unwrap().clone(),
    }
}

fn written(root: &Path, demos: &Demonstrations) -> PathBuf {
    data::write_minari(root, "toy/test-v0", demos, &[], &about()).unwrap()
}

fn checked(path: &Path) -> SetReport {
    check(&Registry::standard(), &Set::open(path).unwrap(), None).unwrap()
}

#[test]
fn what_is_written_is_what_is_read() {
    let root = tempfile::tempdir().unwrap();
    let demos = toy(20);
    let played = vec![Played { noise: 0.1, pushed_from: Some(7), push: 0.5 }; 20];
    let folder = data::write_minari(root.path(), "sskp/toy/test-v0", &demos, &played, &about()).unwrap();
    assert_eq!(folder, root.path().join("sskp/toy/test-v0"));
    for path in [folder.clone(), folder.join("data"), folder.join("data/main_data.hdf5")] {
        assert_eq!(data::open(&path).unwrap(), demos, "{}", path.display());
    }
    let set = Set::open(&folder).unwrap();
    assert_eq!((set.format, set.env.as_str(), set.id().as_str()), (Format::Minari, "toy", "sskp/toy/test-v0"));
    assert_eq!(set.provenance().unwrap()["agent"]["return_mean"], 1.5);
    assert!(root.path().join("sskp/namespace_metadata.json").exists());
    assert!(root.path().join("sskp/toy/namespace_metadata.json").exists());
    let report = check(&Registry::standard(), &set, None).unwrap();
    assert!(report.fine(), "{report}");
    assert_eq!((report.stats.steps, report.stats.violations), (demos.steps(), demos.violations()));
    assert!(report.to_string().contains("nothing wrong"), "{report}");
}

#[test]
fn the_same_set_gives_the_same_bytes() {
    let (a, b, demos) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), toy(5));
    for file in ["data/main_data.hdf5", "data/metadata.json"] {
        let read = |root: &Path| std::fs::read(root.join("toy/test-v0").join(file));
        let first = read(a.path()).unwrap_or_else(|_| {
            written(a.path(), &demos);
            written(b.path(), &demos);
            read(a.path()).unwrap()
        });
        assert_eq!(first, read(b.path()).unwrap(), "{file}");
    }
}

#[test]
fn nothing_is_overwritten_and_bad_names_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let demos = toy(5);
    let folder = written(root.path(), &demos);
    let before = std::fs::read(folder.join("data/main_data.hdf5")).unwrap();
    let error = data::write_minari(root.path(), "toy/test-v0", &demos, &[], &about()).unwrap_err().to_string();
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(std::fs::read(folder.join("data/main_data.hdf5")).unwrap(), before);
    for name in ["", "toy", "toy/test", "toy//test-v0", "/toy-v0", "toy/test-v", "toy/te st-v0", "../x-v0", "a/x-v0"] {
        let error = data::check_target(root.path(), name).unwrap_err().to_string();
        assert!(error.contains("hopper/medium-v0"), "{name}: {error}");
    }
    assert!(data::check_target(root.path(), "test-v12").is_ok());
    let file = root.path().join("flat.hdf5");
    data::write_dsrl(&file, &demos, &about()).unwrap();
    assert!(data::write_dsrl(&file, &demos, &about()).unwrap_err().to_string().contains("already exists"));
    let left: Vec<_> = std::fs::read_dir(root.path().join("toy")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the set and its namespace file, no leftovers: {left:?}");
}

#[test]
fn dsrl_goes_there_and_back() {
    let root = tempfile::tempdir().unwrap();
    let demos = toy(20);
    let file = root.path().join("inner/SafetyToy-20-20.hdf5");
    data::write_dsrl(&file, &demos, &about()).unwrap();
    let set = Set::open(&file).unwrap();
    assert_eq!((set.format, set.env.as_str()), (Format::Dsrl, "toy"));
    assert_eq!(set.provenance().unwrap()["seed"], 3);
    let report = check(&Registry::standard(), &set, None).unwrap();
    assert!(report.fine(), "{report}");
    assert_eq!(set.into_demonstrations().unwrap(), demos);
}

// Files of other people, made here with the library itself.

use hdf5_pure::{EnumTypeBuilder, FileBuilder, make_i8_type};

/// A D4RL file: float64, no costs, no state after the last step.
fn d4rl(path: &Path, timeouts: bool) {
    let mut file = FileBuilder::new();
    // Two episodes of three and two steps and the beginning of a third; the first terminates, the second times out.
    let observations: Vec<f64> = (0..6).flat_map(|t| [f64::from(t), 0.5]).collect();
    file.create_dataset("observations").with_f64_data(&observations).with_shape(&[6, 2]);
    file.create_dataset("actions").with_f32_data(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).with_shape(&[6, 1]);
    file.create_dataset("rewards").with_f64_data(&[1.0; 6]).with_shape(&[6, 1]);
    file.create_dataset("terminals").with_u8_data(&[0, 0, 1, 0, 0, 0]);
    if timeouts {
        let kind = EnumTypeBuilder::with_base(make_i8_type()).value("FALSE", 0).value("TRUE", 1).build().unwrap();
        file.create_dataset("timeouts").with_enum_u8_data(kind, &[0, 0, 0, 0, 1, 0]);
    }
    file.write(path).unwrap();
}

#[test]
fn d4rl_is_read_without_inventing_a_state() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("hopper-medium-v2.hdf5");
    d4rl(&file, true);
    let set = Set::open(&file).unwrap();
    assert_eq!((set.format, set.env.as_str()), (Format::D4rl, "hopper"), "the robot is in the file's name");
    let report = check(&Registry::standard(), &set, None).unwrap();
    assert!(report.problem(kind::NO_COSTS).is_some() && report.problem(kind::DIMENSIONS).is_some(), "{report}");
    let demos = set.into_demonstrations().unwrap();
    let [first, second] = demos.trajectories() else { panic!("{:?}", demos.trajectories()) };
    // The terminal state is unknown: the last one stands for it, and nothing bootstraps from it.
    assert_eq!((first.steps(), first.end), (3, Ending::Terminated));
    assert_eq!(first.observations, [0.0, 0.5, 1.0, 0.5, 2.0, 0.5, 2.0, 0.5]);
    // The state after a timeout is unknown and would be bootstrapped from: its step is dropped, and so is the third
    // episode, of which only one step is there.
    assert_eq!((second.steps(), second.end), (1, Ending::Truncated));
    assert_eq!(second.observations, [3.0, 0.5, 4.0, 0.5]);

    d4rl(&file, false);
    let demos = data::open(&file).unwrap();
    assert_eq!(demos.trajectories().last().unwrap().end, Ending::Cut, "without timeouts nobody knows");
}

#[test]
fn costs_can_be_made_where_a_file_has_none() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("x.hdf5");
    d4rl(&file, true);
    let demos = data::open(&file).unwrap();
    assert_eq!(demos.violations(), 0);
    assert_eq!(
        data::recost(&demos, data::CostFrom::Terminal, &sskp_blocks::toy::Toy::default()).unwrap().violations(),
        1
    );
}

/// A Minari file by hand, so that anything can be wrong with it. Three steps of the toy, one episode.
struct Hand {
    observations: Vec<f64>,
    actions: Vec<f32>,
    rewards: Vec<f64>,
    costs: Option<Vec<f64>>,
    terminations: Vec<u8>,
    truncations: Vec<u8>,
    metadata: String,
}

impl Hand {
    /// Off the bridge at the third step.
    fn fallen() -> Self {
        let ys = [0.0, 0.6, 0.9, 1.1];
        Self {
            observations: ys.iter().flat_map(|y| [*y, 0.1, 0.2, 0.0, 1.0]).collect(),
            actions: vec![0.5; 6],
            rewards: vec![1.0; 3],
            costs: Some(vec![0.0, 0.0, 0.0, 1.0]),
            terminations: vec![0, 0, 1],
            truncations: vec![0, 0, 0],
            metadata: r#"{"dataset_id": "toy/hand-v0", "data_format": "hdf5", "ref_max_score": Infinity}"#.into(),
        }
    }

    fn write(&self, root: &Path, episodes: usize) -> PathBuf {
        let kind = EnumTypeBuilder::with_base(make_i8_type()).value("FALSE", 0).value("TRUE", 1).build().unwrap();
        let mut file = FileBuilder::new();
        for i in 0..episodes {
            let mut group = file.create_group(&format!("episode_{i}"));
            let rows = (self.observations.len() / 5) as u64;
            group.create_dataset("observations").with_f64_data(&self.observations).with_shape(&[rows, 5]);
            let rows = (self.actions.len() / 2) as u64;
            group.create_dataset("actions").with_f32_data(&self.actions).with_shape(&[rows, 2]);
            group.create_dataset("rewards").with_f64_data(&self.rewards);
            group.create_dataset("terminations").with_enum_u8_data(kind.clone(), &self.terminations);
            group.create_dataset("truncations").with_enum_u8_data(kind.clone(), &self.truncations);
            if let Some(costs) = &self.costs {
                let mut infos = group.create_group("infos");
                infos.create_dataset("cost").with_f64_data(costs);
                group.add_group(infos.finish());
            }
            file.add_group(group.finish());
        }
        let folder = root.join("toy/hand-v0/data");
        std::fs::create_dir_all(&folder).unwrap();
        file.write(folder.join("main_data.hdf5")).unwrap();
        std::fs::write(folder.join("metadata.json"), &self.metadata).unwrap();
        root.join("toy/hand-v0")
    }

    /// What `check` finds in ten such episodes, and what `open` says.
    fn found(change: impl FnOnce(&mut Hand)) -> (SetReport, sskp_blocks::Result<Demonstrations>) {
        let root = tempfile::tempdir().unwrap();
        let mut hand = Self::fallen();
        change(&mut hand);
        let path = hand.write(root.path(), 10);
        (checked(&path), data::open(&path))
    }
}

#[test]
fn a_minari_set_of_somebody_else_is_read() {
    let (report, demos) = Hand::found(|_| {});
    assert!(report.fine(), "{report}");
    let demos = demos.unwrap();
    assert_eq!((demos.env.as_str(), demos.steps(), demos.violations()), ("toy", 30, 10));
    let first = &demos.trajectories()[0];
    assert_eq!((&first.costs[..], first.end), (&[0.0, 0.0, 1.0][..], Ending::Violation));
}

#[test]
fn every_known_mistake_is_found_and_named() {
    let expect = |kind: &str, change: &dyn Fn(&mut Hand)| {
        let (report, _) = Hand::found(change);
        let problem = report.problem(kind).unwrap_or_else(|| panic!("{kind} was not found:\n{report}"));
        assert!(problem.first.contains("episode_0"), "{kind}: {}", problem.first);
        assert!(problem.count >= 10, "{kind}: {}", problem.count);
        problem.first.clone()
    };
    let first = expect(kind::LENGTHS, &|h| h.observations.truncate(15));
    assert!(first.contains("observations: 3 steps need 4 rows, there are 3"), "{first}");
    let first = expect(kind::LENGTHS, &|h| h.costs = Some(vec![0.0, 0.0, 1.0]));
    assert!(first.contains("infos/cost"), "{first}");
    expect(kind::LENGTHS, &|h| h.truncations.truncate(2));
    let first = expect(kind::NOT_FINITE, &|h| h.observations[7] = f64::NAN);
    assert!(first.contains("observations: NaN in row 1, column 2"), "{first}");
    expect(kind::NOT_FINITE, &|h| h.rewards[1] = f64::INFINITY);
    expect(kind::ACTION_RANGE, &|h| h.actions[1] = -1.3);
    // The cost of step t is in row t + 1; in row t it looks as if the step before the fall had cost something.
    expect(kind::COST_EARLY, &|h| h.costs = Some(vec![0.0, 0.0, 1.0, 0.0]));
    expect(kind::COST_AT_RESET, &|h| h.costs = Some(vec![1.0, 0.0, 0.0, 1.0]));
    expect(kind::COST_NEGATIVE, &|h| h.costs = Some(vec![0.0, -1.0, 0.0, 1.0]));
    expect(kind::TERMINATED_WITHOUT_COST, &|h| h.costs = Some(vec![0.0; 4]));
    expect(kind::COST_WITHOUT_TERMINATION, &|h| h.costs = Some(vec![0.0, 1.0, 0.0, 1.0]));
    expect(kind::VIOLATION_AS_TIMEOUT, &|h| {
        h.terminations = vec![0; 3];
        h.truncations = vec![0, 0, 1];
    });
    expect(kind::BOTH_FLAGS, &|h| h.truncations = vec![0, 0, 1]);
    expect(kind::FLAG_INSIDE, &|h| h.terminations = vec![1, 0, 1]);
    expect(kind::TRUNCATED_EARLY, &|h| {
        h.terminations = vec![0; 3];
        h.truncations = vec![0, 0, 1];
        h.costs = Some(vec![0.0; 4]);
    });
    let (report, _) = Hand::found(|h| h.terminations = vec![0; 3]);
    assert_eq!(report.problem(kind::NO_FLAG).unwrap().count, 9, "the last episode may be cut: {report}");
    let (report, _) = Hand::found(|h| h.costs = None);
    assert!(report.problem(kind::NO_COSTS).is_some(), "{report}");
    // The robot's own constraint tells on which step the cost belongs, even where the flags fit.
    let (report, _) = Hand::found(|h| {
        h.costs = Some(vec![0.0, 0.0, 1.0]);
        h.terminations.truncate(2);
        h.terminations[1] = 1;
        h.truncations.truncate(2);
        h.rewards.truncate(2);
        h.actions.truncate(4);
        h.observations.truncate(15);
    });
    assert!(report.problem(kind::COST_FOREIGN).is_some(), "{report}");
    let (report, _) = Hand::found(|h| {
        h.observations.extend_from_slice(&[1.2, 0.1, 0.2, 0.0, 1.0]);
        h.actions.extend_from_slice(&[0.5; 2]);
        h.rewards.push(1.0);
        h.costs.as_mut().unwrap().insert(0, 0.0);
        h.terminations.insert(0, 0);
        h.truncations.push(0);
    });
    assert!(report.problem(kind::COST_SHIFTED).unwrap().first.contains("one step before their place"), "{report}");
}

#[test]
fn mistakes_that_make_learning_wrong_are_told_from_those_that_do_not() {
    let spoils = |change: &dyn Fn(&mut Hand)| Hand::found(change).0.spoilt().map(|problem| problem.kind);
    assert_eq!(spoils(&|_| ()), None);
    assert_eq!(spoils(&|h| h.observations[7] = f64::NAN), Some(kind::NOT_FINITE));
    assert_eq!(spoils(&|h| h.actions.truncate(4)), Some(kind::LENGTHS));
    assert_eq!(spoils(&|h| h.costs = Some(vec![0.0, 0.0, 1.0, 0.0])), Some(kind::COST_EARLY));
    assert_eq!(spoils(&|h| h.costs = Some(vec![0.0, -1.0, 0.0, 1.0])), Some(kind::COST_NEGATIVE));
    assert_eq!(spoils(&|h| h.terminations = vec![1, 0, 1]), Some(kind::FLAG_INSIDE));
    let as_timeout = |h: &mut Hand| (h.terminations, h.truncations) = (vec![0; 3], vec![0, 0, 1]);
    assert_eq!(spoils(&as_timeout), Some(kind::VIOLATION_AS_TIMEOUT));
    assert_eq!(spoils(&|h| h.metadata = r#"{"dataset_id": "hopper/x-v0"}"#.into()), Some(kind::DIMENSIONS));
    for change in [
        &(|h: &mut Hand| h.actions[1] = -1.3) as &dyn Fn(&mut Hand),
        &|h| h.costs = None,
        // Not a shift by one step: costs that are not there fit anywhere.
        &|h| h.costs = Some(vec![0.0; 4]),
        &|h| h.truncations = vec![0, 0, 1],
    ] {
        let report = Hand::found(change).0;
        assert!(!report.fine() && report.spoilt().is_none(), "{report}");
        assert!(report.to_string().ends_with("runs take this set, with a warning for each kind"), "{report}");
    }
}

/// Its numbers come from the toy's own demonstrator, so nobody has to believe a file.
#[test]
fn the_toys_shipped_set_is_what_its_demonstrator_plays() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join("toy/medium-v0");
    let (shipped, played) = (data::open(&folder).unwrap(), sskp_blocks::toy::demonstrations(60));
    assert_eq!((shipped.env.as_str(), shipped.trajectories().len()), ("toy", 60));
    for (a, b) in shipped.trajectories().iter().zip(played.trajectories()) {
        assert_eq!((a.steps(), a.end), (b.steps(), b.end));
        let both = [(&a.observations, &b.observations), (&a.actions, &b.actions), (&a.rewards, &b.rewards)];
        // Another machine's sine may differ in its last bits.
        let apart = both.iter().flat_map(|(a, b)| a.iter().zip(b.iter())).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-4);
        assert_eq!(a.costs, b.costs);
    }
    let size = std::fs::metadata(folder.join("data/main_data.hdf5")).unwrap().len();
    assert!(size < 500_000, "{size} bytes");
}

/// A run checks its set before it begins. How long that takes is printed.
#[test]
fn nothing_is_wrong_with_any_shipped_set() {
    let registry = Registry::standard();
    for robot in registry.envs() {
        for kind in ["medium-v0", "expert-v0"] {
            let Ok(path) = sskp_lab::places::find_set(&format!("{}/{kind}", robot.name)) else {
                assert_eq!((robot.name.as_str(), kind), ("toy", "expert-v0"), "the only one that is not there");
                continue;
            };
            let start = std::time::Instant::now();
            let set = Set::open(&path).unwrap();
            let opened = start.elapsed();
            let report = check(&registry, &set, None).unwrap();
            let checked = start.elapsed() - opened;
            println!("{}: opened in {opened:.3?}, checked in {checked:.3?}", report.stats.id);
            assert!(report.fine(), "{report}");
        }
    }
}

#[test]
fn what_cannot_be_learnt_from_is_refused_with_file_episode_and_field() {
    let error = |change: &dyn Fn(&mut Hand)| Hand::found(change).1.unwrap_err().to_string();
    let text = error(&|h| h.observations[7] = f64::NAN);
    assert!(text.contains("main_data.hdf5: episode_0: observations: NaN in row 1, column 2"), "{text}");
    let text = error(&|h| h.actions.truncate(4));
    assert!(text.contains("main_data.hdf5: episode_0: actions: 3 steps need 3 rows"), "{text}");
    let text = error(&|h| h.metadata = r#"{"total_episodes": 12}"#.into());
    assert!(text.contains("total_episodes is 12, the file holds 10"), "{text}");
    let root = tempfile::tempdir().unwrap();
    let refused = |h: &Hand| data::open(&h.write(root.path(), 2)).unwrap_err().to_string();
    let mut hand = Hand::fallen();
    hand.terminations[0] = 7;
    assert!(refused(&hand).contains("episode_0: terminations: 7 in row 0"), "{}", refused(&hand));
    hand.metadata = "{ no".into();
    assert!(refused(&hand).contains("metadata.json"), "{}", refused(&hand));
    hand.metadata = r#"{"data_format": "arrow"}"#.into();
    let folder = hand.write(root.path(), 2);
    std::fs::remove_file(folder.join("data/main_data.hdf5")).unwrap();
    assert!(data::open(&folder).unwrap_err().to_string().contains("stored as Arrow"));
}

#[test]
fn what_is_no_set_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("x.hdf5");
    let refused = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let text = data::open(&file).unwrap_err().to_string();
        assert!(text.contains("x.hdf5"), "{text}");
        text
    };
    assert!(refused(b"").contains("no HDF5 file"));
    assert!(refused(b"version https://git-lfs.github.com/spec/v1\n").contains("no HDF5 file"));
    let mut rng = Rng::stream(1, "noise");
    for length in [10, 1000, 100_000] {
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
        refused(&bytes);
        bytes[..8].copy_from_slice(b"\x89HDF\r\n\x1a\n");
        refused(&bytes);
    }
    let mut empty = FileBuilder::new();
    empty.create_dataset("unrelated").with_f32_data(&[1.0]);
    assert!(refused(&empty.finish().unwrap()).contains("neither Minari"));
    assert!(data::open(&root.path().join("missing")).unwrap_err().to_string().contains("missing"));
    assert!(data::open(root.path()).unwrap_err().to_string().contains("no Minari set"));
}

/// Every cut and many flips of a small file: an error or the very same numbers, never a panic and never other numbers.
#[test]
fn damage_is_an_error_and_never_a_panic() {
    let root = tempfile::tempdir().unwrap();
    let demos = toy(4);
    let folder = written(root.path(), &demos);
    let flat = root.path().join("flat.hdf5");
    data::write_dsrl(&flat, &demos, &about()).unwrap();
    for file in [folder.join("data/main_data.hdf5"), flat] {
        let good = std::fs::read(&file).unwrap();
        let (mut refused, mut same, mut silent) = (0, 0, Vec::new());
        let mut try_it = |bytes: &[u8], what: String| {
            std::fs::write(&file, bytes).unwrap();
            match data::open(&file) {
                Err(e) => {
                    assert!(e.to_string().contains("hdf5"), "{e}");
                    refused += 1;
                }
                Ok(read) if read == demos => same += 1,
                Ok(_) => silent.push(what),
            }
        };
        for length in (0..good.len()).step_by(good.len() / 400 + 1) {
            try_it(&good[..length], format!("cut at {length}"));
        }
        let mut rng = Rng::stream(2, "flips");
        for i in 0..good.len().min(2000) {
            let place = if good.len() <= 2000 { i } else { rng.below(good.len()) };
            let mut bad = good.clone();
            bad[place] ^= 1 << rng.below(8);
            try_it(&bad, format!("flip at {place}"));
            bad[place] = if i % 2 == 0 { 0xff } else { 0 };
            try_it(&bad, format!("byte at {place}"));
        }
        println!(
            "{}: {} bytes, {refused} refused, {same} harmless, {} silent",
            file.display(),
            good.len(),
            silent.len()
        );
        assert!(silent.is_empty(), "{:?}", &silent[..silent.len().min(20)]);
        std::fs::write(&file, &good).unwrap();
    }
}

#[test]
fn the_card_says_how_it_was_made() {
    let root = tempfile::tempdir().unwrap();
    let folder = written(root.path(), &toy(12));
    let set = Set::open(&folder).unwrap();
    let report = check(&Registry::standard(), &set, None).unwrap();
    let card = root.path().join("cards/toy.md");
    let picture = data::card::write(&set, &report, &card).unwrap();
    let text = std::fs::read_to_string(&card).unwrap();
    for part in ["# toy/test-v0", "sskp collect --env toy", "toy.svg", "| violating episodes |", "nothing wrong"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    // Bars are closed paths; the keys of the legends are four of them.
    let bars = svg.split("<path class=\"bar ").skip(1).map(|path| path.split('>').next().unwrap().matches('Z').count());
    assert!(bars.sum::<usize>() > 10, "{svg}");
}

/// How large and how fast: 1e5 steps the size of Humanoid's. Printed; the bound on time is the one that is promised.
#[test]
fn a_hundred_thousand_humanoid_steps_load_in_a_second() {
    let root = tempfile::tempdir().unwrap();
    let mut rng = Rng::stream(4, "smooth");
    for bits in [None, Some(11)] {
        let mut demos = Demonstrations::new("humanoid", 45, 17);
        for _ in 0..100 {
            // Noise through a slow filter, as joints move, and white noise as sampled actions are.
            let mut x = [0.0_f64; 45];
            let mut observations = Vec::new();
            for _ in 0..1001 {
                for x in &mut x {
                    *x = 0.95 * *x + 0.3 * rng.normal();
                }
                observations.extend(x.iter().map(|x| bits.map_or(*x as f32, |b| data::round_to_bits(*x as f32, b))));
            }
            let mut action = || {
                let a = (0.5 * rng.normal()).tanh() as f32;
                bits.map_or(a, |_| data::round_to_bits(a, data::collect::ACTION_BITS))
            };
            let actions = (0..17_000).map(|_| action()).collect();
            let rewards = (0..1000).map(|_| rng.normal() as f32).collect();
            demos
                .push(Trajectory { observations, actions, rewards, costs: vec![0.0; 1000], end: Ending::Truncated })
                .unwrap();
        }
        let start = std::time::Instant::now();
        let folder =
            data::write_minari(root.path(), &format!("humanoid/bits{}-v0", bits.unwrap_or(0)), &demos, &[], &about())
                .unwrap();
        let writing = start.elapsed();
        let start = std::time::Instant::now();
        let read = data::open(&folder).unwrap();
        let reading = start.elapsed();
        let size = std::fs::metadata(folder.join("data/main_data.hdf5")).unwrap().len();
        println!("{bits:?} bits: {:.2} MB, written in {writing:.2?}, read in {reading:.3?}", size as f64 / 1e6);
        assert_eq!(read, demos);
        assert!(reading.as_secs_f64() < 1.0, "{reading:?}");
    }
}

/// A small agent, trained for a moment: it only has to act.
fn agent(path: &Path) {
    use sskp_lab::config::{Config, Overrides, RunConfig};
    let mut overrides = Overrides::default();
    for setting in ["sac.learner.width=16", "sac.random_steps=500", "sac.batch=32", "sac.replay=4000"] {
        overrides.set(setting).unwrap();
    }
    let config = Config::resolve(&Registry::standard(), RunConfig::new("sac", "toy", 1, 3000), &overrides).unwrap();
    sskp_lab::train::train(&config, path, Default::default()).unwrap();
}

#[test]
fn a_policy_is_played_and_everything_about_it_is_kept() {
    use sskp_lab::data::collect::{Plan, collect};
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    agent(&run);
    let load = || sskp_lab::evaluate::load_policy(&Registry::standard(), &run, |e| panic!("{e}")).unwrap();
    let plan = Plan {
        env: "toy".into(),
        steps: Some(3000),
        noise: 0.1,
        falls: 4,
        push: 1.0,
        seed: 5,
        bits: Some(12),
        agent_episodes: 2,
        ..Plan::default()
    };
    let made = collect(&mut load(), &plan, "sskp collect --seed 5", true).unwrap();
    let steps = made.demos.steps();
    let longest = made.demos.trajectories().iter().map(Trajectory::steps).max().unwrap();
    assert!(steps >= 3000 && steps < 3000 + longest, "the last episode is not cut: {steps}");
    assert!(made.demos.trajectories().iter().all(|t| t.end != Ending::Cut));
    let disturbed = made.played.iter().filter(|p| p.pushed_from.is_some()).count();
    assert!(made.falls == 4 && disturbed >= 4 && disturbed < made.played.len(), "{} of {disturbed}", made.falls);
    let numbers = |f: fn(&Trajectory) -> &Vec<f32>| made.demos.trajectories().iter().flat_map(f).copied();
    let exact = numbers(|t| &t.observations).filter(|x| (x * 4096.0).fract() != 0.0).count();
    assert!(exact <= 5, "only a state at the bound is not rounded: {exact}");
    assert!(numbers(|t| &t.actions).all(|x| (x * 256.0).fract() == 0.0 && x.abs() <= 1.0));

    let again = collect(&mut load(), &plan, "sskp collect --seed 5", true).unwrap();
    assert!(again.demos == made.demos && again.played == made.played, "the same seed gives the same set");
    let other = collect(&mut load(), &Plan { seed: 6, ..plan.clone() }, "", true).unwrap();
    assert!(other.demos != made.demos);

    let folder = data::write_minari(root.path(), "toy/agent-v0", &made.demos, &made.played, &made.about).unwrap();
    let set = Set::open(&folder).unwrap();
    let report = check(&Registry::standard(), &set, None).unwrap();
    assert!(report.fine(), "{report}");
    let said = set.provenance().unwrap();
    assert_eq!(said["command"], "sskp collect --seed 5");
    assert_eq!((&said["agent"]["steps"], &said["agent"]["episodes"]), (&3000.into(), &2.into()));
    assert_eq!(said["disturbed"]["violations"], 4);
    let calm = said["calm"]["violations"].as_u64().unwrap();
    assert_eq!(calm + 4, made.demos.violations() as u64);
    assert_eq!(said["calm"]["episodes"].as_u64().unwrap() as usize + disturbed, made.played.len());
    assert_eq!(set.into_demonstrations().unwrap(), made.demos);

    let wrong = Plan { env: "hopper".into(), ..plan };
    let error = collect(&mut load(), &wrong, "", true).err().unwrap().to_string();
    assert_eq!(error, "the policy was trained on toy; it cannot play hopper");
}

/// The actions in the set are the ones that were played: from the same start they lead to the same states.
#[test]
fn a_collected_episode_can_be_played_again() {
    use sskp_lab::data::collect::{Plan, collect};
    let root = tempfile::tempdir().unwrap();
    agent(root.path());
    let mut trained = sskp_lab::evaluate::load_policy(&Registry::standard(), root.path(), |e| panic!("{e}")).unwrap();
    let plan = Plan { env: "toy".into(), episodes: Some(1), noise: 0.2, seed: 9, agent_episodes: 0, ..Plan::default() };
    let made = collect(&mut trained, &plan, "", true).unwrap();
    let mut env = Registry::standard().make_env("toy", EnvOptions::default()).unwrap();
    env.reset(&mut Rng::stream(9, "env")).unwrap();
    let trajectory = &made.demos.trajectories()[0];
    for t in 0..trajectory.steps() {
        let state: Vec<f32> = env.obs().iter().map(|x| *x as f32).collect();
        assert_eq!(made.demos.state(0, t), state, "step {t}");
        let step = env.step(made.demos.actions(0, t, 1)).unwrap();
        assert_eq!((trajectory.rewards[t], trajectory.costs[t]), (step.reward as f32, step.cost() as f32));
    }
}
