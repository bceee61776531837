//! Runs that were stopped, killed or short of room, and resumed: for every robot and every method of the registries.

#[path = "common/whole.rs"]
mod whole;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sskp_blocks::env::{Constraint, Env, Scene, Snapshot, Spec, Step};
use sskp_blocks::registry::EnvEntry;
use sskp_blocks::rng::Rng;
use sskp_lab::config::Config;
use sskp_lab::manifest::RunManifest;
use sskp_lab::train::{self, Session, Stop, Summary};
use sskp_methods::METHODS;
use sskp_robots::robots;
use whole::{assert_same, go, progress, session, small};

/// As a run that was killed after its last checkpoint and before its end leaves it.
fn unfinish(path: &Path) {
    fs::remove_file(path.join("summary.json")).unwrap();
}

/// A robot that asks its run to stop, by its flag, as a signal would, after so many of its steps.
struct Stopping {
    robot: Box<dyn Env>,
    left: Arc<AtomicU64>,
    stop: Stop,
}

impl Env for Stopping {
    fn spec(&self) -> &Spec {
        self.robot.spec()
    }
    fn reset(&mut self, rng: &mut Rng) -> sskp_blocks::Result<()> {
        self.robot.reset(rng)
    }
    fn step(&mut self, action: &[f32]) -> sskp_blocks::Result<Step> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.robot.step(action)
    }
    fn obs(&self) -> &[f64] {
        self.robot.obs()
    }
    fn snapshot(&mut self) -> Option<&mut dyn Snapshot> {
        self.robot.snapshot()
    }
    fn constraint(&self) -> Option<&dyn Constraint> {
        self.robot.constraint()
    }
    fn scene(&mut self) -> Option<&mut dyn Scene> {
        self.robot.scene()
    }
}

/// A session in which a robot, under another name, stops its run after so many steps; with none at all it is stopped before it begins.
fn stopping(robot: &EnvEntry, steps: u64) -> Session {
    let (stop, left, robot) = (Stop::default(), Arc::new(AtomicU64::new(steps)), robot.clone());
    stop.store(steps == 0, Ordering::Relaxed);
    let mut session = session(Arc::clone(&stop));
    let entry = EnvEntry::new(format!("stopping-{}", robot.name), move |options| {
        let (left, stop) = (Arc::clone(&left), Arc::clone(&stop));
        Ok(Box::new(Stopping { robot: robot.make(options)?, left, stop }))
    });
    session.registry.add_env(entry).unwrap();
    session
}

/// Runs it whole, and again stopped and resumed many times: the bytes are the same. Gives what it came to.
fn same_whole_and_broken(mut config: Config, robot: &EnvEntry, what: &str) -> Summary {
    const NEVER: u64 = u64::MAX;
    let dir = tempfile::tempdir().unwrap();
    config.run.env = format!("stopping-{}", robot.name);
    let [whole, broken] = ["whole", "broken"].map(|name| dir.path().join(name));
    let uninterrupted = train::train(&config, &whole, stopping(robot, NEVER)).unwrap();
    // Before anything was learnt; then after the first step, in the middle of episodes, before and after a checkpoint.
    let mut stops = [0, 1, 98, 53, 131, 17, 90].into_iter();
    let mut next = || stopping(robot, stops.next().unwrap_or(NEVER));
    let mut summary = train::train(&config, &broken, next()).unwrap();
    let mut reached = Vec::new();
    while !summary.finished {
        reached.push(summary.steps);
        summary = train::resume(&broken, None, next(), |e| panic!("{what}: {e}")).unwrap();
    }
    // SSkP stops where an episode ends; those of the robots may be longer than the run.
    let stops = if robot.name == "toy" { 4 } else { 1 };
    assert!(reached.len() >= stops && reached.is_sorted(), "{what} was stopped at {reached:?}");
    assert_same(&whole, &broken, what);
    assert_eq!(summary.calibration, uninterrupted.calibration, "{what}");
    summary
}

#[test]
fn a_run_stopped_and_resumed_many_times_writes_the_same_bytes_on_every_robot() {
    for method in METHODS {
        for robot in &robots() {
            let what = format!("{} on {}", method.name, robot.name);
            let summary = same_whole_and_broken(small(method.name, &robot.name, 500, 7), robot, &what);
            let Some(table) = summary.calibration else {
                let predicts = method.name.starts_with("sskp") && !method.name.ends_with("-wo-rp");
                assert!(!predicts, "{what} says nothing of what its predictions were worth");
                continue;
            };
            // Every skill was predicted once, and without relabelling the violating ones are the violations.
            let all = table.total();
            let (least, most) = (summary.steps / 10, summary.steps / 10 + summary.episodes);
            assert!((least..=most).contains(&all.count), "{what}: {all:?}, {summary:?}");
            assert_eq!(all.positives, summary.violations, "{what}");
        }
    }
}

#[test]
fn a_placebo_is_another_run_and_resumed_exactly_too() {
    let toy = robots().into_iter().find(|robot| robot.name == "toy").unwrap();
    for method in ["sskp", "sskp-np"] {
        let with = |placebo: bool, window: f64| {
            let mut config = small(method, "toy", 500, 7);
            let planner = config.method["planner"].as_table_mut().unwrap();
            planner.insert("placebo".into(), placebo.into());
            // Where there is nothing to choose a placebo is the planner.
            planner.insert("tolerance".into(), 0.0.into());
            config.method["risk"].as_table_mut().unwrap().insert("revise_over".into(), window.into());
            let what = format!("{method}, placebo {placebo}, revised over {window}");
            same_whole_and_broken(config, &toy, &what).ptr
        };
        assert_ne!(with(true, 1000.0), with(false, 1000.0), "{method}");
        with(true, 0.0);
    }
}

#[test]
fn a_damaged_newest_checkpoint_is_named_and_the_one_before_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let config = small("sac", "toy", 700, 3);
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    go(&config, &whole);
    go(&config, &broken);
    let newest = sskp_blocks::checkpoint::list(&broken.join("checkpoints")).pop().unwrap();
    fs::write(newest.join("weights.safetensors"), b"short").unwrap();
    unfinish(&broken);
    let mut heard = Vec::new();
    let summary = train::resume(&broken, None, session(Stop::default()), |e| heard.push(e.to_string())).unwrap();
    assert!(summary.finished);
    assert!(heard.len() == 1 && heard[0].contains("weights.safetensors"), "{heard:?}");
    assert_same(&whole, &broken, "after falling back");
    // With none left, nothing is thrown away.
    unfinish(&broken);
    for path in sskp_blocks::checkpoint::list(&broken.join("checkpoints")) {
        fs::write(path.join("manifest.json"), b"{").unwrap();
    }
    let rows = fs::read(broken.join("episodes.csv")).unwrap();
    let error = train::resume(&broken, None, session(Stop::default()), |_| ()).err().unwrap().to_string();
    assert!(error.contains("nothing was changed"), "{error}");
    assert_eq!(rows, fs::read(broken.join("episodes.csv")).unwrap());
}

#[test]
fn a_finished_run_can_be_extended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    go(&small("sac", "toy", 400, 3), &path);
    let before = fs::read_to_string(path.join("episodes.csv")).unwrap();
    // As if another binary had made it so far.
    let manifest =
        || -> RunManifest { serde_json::from_slice(&fs::read(path.join("manifest.json")).unwrap()).unwrap() };
    let mut first = manifest();
    let this = first.parts[0].binary_sha256.replace("another".into());
    fs::write(path.join("manifest.json"), serde_json::to_string(&first).unwrap()).unwrap();
    let summary = train::resume(&path, Some(900), session(Stop::default()), |e| panic!("{e}")).unwrap();
    let parts: Vec<_> = manifest().parts.into_iter().map(|part| (part.steps, part.binary_sha256)).collect();
    assert_eq!(parts, [(0, Some("another".into())), (400, this)]);
    assert_eq!((summary.steps, summary.finished), (900, true));
    let after = fs::read_to_string(path.join("episodes.csv")).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert!(after.lines().last().unwrap().contains(",900,"));
    // Every row where its steps are, those before the extension too.
    let rows = progress::rows(&path);
    let steps: Vec<u64> = rows.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(steps, [200, 300, 400, 500, 600, 700, 800, 900]);
    for (row, steps) in rows.lines().skip(1).zip(steps) {
        let epoch: f64 = row.split(',').next().unwrap().parse().unwrap();
        assert!((epoch * sskp_lab::config::EPOCH as f64 - steps as f64).abs() < 1e-9, "{row}");
    }
    let json = fs::read_to_string(path.join("config.json")).unwrap();
    assert!(json.contains("\"total_steps\": 900"), "{json}");
}

#[test]
fn an_event_file_that_was_torn_or_is_missing_is_made_whole() {
    let dir = tempfile::tempdir().unwrap();
    let config = small("sac", "toy", 700, 3);
    let (whole, torn) = (dir.path().join("whole"), dir.path().join("torn"));
    go(&config, &whole);
    // Stopped as by a kill in the middle of a write, after the last checkpoint; and as begun before there were such files.
    for (what, damage) in [("torn", 30), ("missing", 0)] {
        go(&config, &torn);
        let newest = sskp_blocks::checkpoint::list(&torn.join("checkpoints")).pop().unwrap();
        fs::remove_dir_all(newest).unwrap();
        unfinish(&torn);
        let file = torn.join(sskp_lab::events::FILE);
        let bytes = fs::read(&file).unwrap();
        assert!(bytes.len() > 1000);
        fs::write(&file, [&bytes[..bytes.len() - damage], &[7; 5]].concat()).unwrap();
        if damage == 0 {
            fs::remove_dir_all(torn.join("tb")).unwrap();
        }
        assert!(train::resume(&torn, None, session(Stop::default()), |e| panic!("{e}")).unwrap().finished);
        assert_same(&whole, &torn, what);
        fs::remove_dir_all(&torn).unwrap();
    }
}

#[test]
fn a_disk_that_is_full_stops_the_run_by_name_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let config = small("sac", "toy", 700, 3);
    let (whole, full) = (dir.path().join("whole"), dir.path().join("full"));
    go(&config, &whole);
    let file = full.join(sskp_lab::events::FILE);
    fs::create_dir_all(full.join("tb")).unwrap();
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let error = train::train(&config, &full, session(Stop::default())).unwrap_err().to_string();
    assert!(error.contains(sskp_lab::events::FILE) && error.contains("No space left"), "{error}");
    fs::remove_file(&file).unwrap();
    assert!(train::resume(&full, None, session(Stop::default()), |e| panic!("{e}")).unwrap().finished);
    assert_same(&whole, &full, "after the disk was full");
}

#[test]
fn a_folder_that_holds_a_run_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let config = small("sac", "toy", 200, 3);
    let path = dir.path().join("run");
    go(&config, &path);
    let before = fs::read(path.join("episodes.csv")).unwrap();
    let error = train::train(&config, &path, session(Stop::default())).unwrap_err().to_string();
    assert!(error.contains("already holds a run"), "{error}");
    assert_eq!(before, fs::read(path.join("episodes.csv")).unwrap());
}
