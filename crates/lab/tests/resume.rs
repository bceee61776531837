//! What `resume` leaves alone and what it says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::train::{self, Session, Stop};

fn config(steps: u64) -> Config {
    let mut overrides = Overrides::default();
    for set in ["sac.random_steps=100", "sac.batch=16", "sac.learner.width=16", "run.checkpoint_every=200"] {
        overrides.set(set).unwrap();
    }
    Config::resolve(&Registry::standard(), RunConfig::new("sac", "toy", 0, steps), &overrides).unwrap()
}

fn session() -> Session {
    Session { quiet: true, ..Session::default() }
}

/// A session that is asked to stop before it begins: the run stops at its first step.
fn stopped() -> Session {
    let stop = Stop::default();
    stop.store(true, Ordering::Relaxed);
    Session { stop, ..session() }
}

/// Every file under a folder, with its content and when it was written.
fn files(path: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            let (path, changed) = (entry.path(), entry.metadata().unwrap().modified().unwrap());
            all.insert(path.display().to_string(), (std::fs::read(&path).unwrap(), changed));
        }
    }
    all
}

fn refused(path: &Path, steps: Option<u64>) -> String {
    train::resume(path, steps, session(), |_| ()).unwrap_err().to_string()
}

#[test]
fn a_finished_run_is_left_as_it_is_and_an_end_before_its_steps_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    train::train(&config(500), &path, session()).unwrap();
    let before = files(&path);
    for same in [None, Some(500)] {
        let summary = train::resume(&path, same, session(), |e| panic!("{e}")).unwrap();
        assert!(summary.finished && summary.steps == 500);
        assert_eq!(files(&path), before);
    }
    let error = refused(&path, Some(400));
    assert!(error.contains("has taken 500 steps already: it cannot end at 400"), "{error}");
    assert_eq!(files(&path), before);
}

#[test]
fn an_extended_run_that_was_stopped_goes_on_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    train::train(&config(500), &path, session()).unwrap();
    let rows = std::fs::read_to_string(path.join("episodes.csv")).unwrap();
    assert!(!train::resume(&path, Some(900), stopped(), |e| panic!("{e}")).unwrap().finished);
    let summary = train::resume(&path, None, session(), |e| panic!("{e}")).unwrap();
    assert!(summary.finished && summary.steps == 900);
    assert!(std::fs::read_to_string(path.join("episodes.csv")).unwrap().starts_with(&rows), "no row is lost");
}

#[test]
fn a_setting_that_was_changed_is_named_and_nothing_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    assert!(!train::train(&config(500), &path, stopped()).unwrap().finished);
    let file = path.join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("batch = 16", "batch = 17")).unwrap();
    let before = files(&path);
    let error = refused(&path, None);
    assert!(error.contains("sac.batch is 16 there, 17 here"), "{error}");
    assert_eq!(files(&path), before);
    std::fs::write(&file, text).unwrap();
    assert!(train::resume(&path, None, session(), |e| panic!("{e}")).unwrap().finished);
}
