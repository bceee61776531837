//! Minari sets of other people: what is wrong with them is found and named.

use std::path::{Path, PathBuf};

use hdf5_pure::{EnumTypeBuilder, FileBuilder, make_i8_type};
use sskp_blocks::demos::{Demonstrations, Ending};
use sskp_lab::data::check::{SetReport, check, kind};
use sskp_lab::data::{self, Set};
use sskp_lab::registry::Registry;

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
        (check(&Registry::standard(), &Set::open(&path).unwrap(), None).unwrap(), data::open(&path))
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
