//! Demonstrations on disk: what is written is what is read, and damage is an error.

#[path = "../../../tests/root.rs"]
mod root;

use std::path::{Path, PathBuf};

use hdf5_pure::{EnumTypeBuilder, FileBuilder, make_i8_type};
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::rng::Rng;
use sskp_lab::data::check::{check, kind};
use sskp_lab::data::{self, About, Format, Played, Set};
use sskp_lab::registry::Registry;

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

/// Its numbers come from the toy's own demonstrator, so nobody has to believe a file.
#[test]
fn the_toys_shipped_set_is_what_its_demonstrator_plays() {
    let folder = root::repository().join("data/toy/medium-v0");
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

#[test]
fn nothing_is_wrong_with_any_shipped_set() {
    let registry = Registry::standard();
    for robot in registry.envs() {
        for kind in ["medium-v0", "expert-v0"] {
            let path = root::repository().join("data").join(&robot.name).join(kind);
            if (robot.name.as_str(), kind) == ("toy", "expert-v0") {
                continue; // the only one that is not there
            }
            let report = check(&registry, &Set::open(&path).unwrap(), None).unwrap();
            assert!(report.fine(), "{report}");
        }
    }
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

/// Steps the size of Humanoid's. Rounded, as `collect` does it, they take three fifths of the room at most.
#[test]
fn twenty_thousand_humanoid_steps_come_back_and_rounding_saves_room() {
    let root = tempfile::tempdir().unwrap();
    let mut rng = Rng::stream(4, "smooth");
    let sizes = [None, Some(11)].map(|bits| {
        let mut demos = Demonstrations::new("humanoid", 45, 17);
        for _ in 0..20 {
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
        let name = format!("humanoid/bits{}-v0", bits.unwrap_or(0));
        let folder = data::write_minari(root.path(), &name, &demos, &[], &about()).unwrap();
        assert_eq!(data::open(&folder).unwrap(), demos);
        std::fs::metadata(folder.join("data/main_data.hdf5")).unwrap().len()
    });
    assert!(5 * sizes[1] < 3 * sizes[0], "{sizes:?} bytes");
}
