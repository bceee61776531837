//! Small runs, and the bytes they leave.

use std::fs;
use std::path::Path;

use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::train::{self, Session, Stop};

#[path = "progress.rs"]
pub mod progress;
#[path = "small.rs"]
pub mod small;

/// A run small enough for CI, with the settings of `small.rs`.
pub fn small(algo: &str, env: &str, steps: u64, seed: u64) -> Config {
    let mut overrides = Overrides::default();
    for set in small::settings(algo, env) {
        overrides.set(&set).unwrap();
    }
    overrides.set("run.checkpoint_every=150").unwrap();
    Config::resolve(&Registry::standard(), RunConfig::new(algo, env, seed, steps), &overrides).unwrap()
}

/// Nobody watches, and nothing is kept for other runs.
pub fn session(stop: Stop) -> Session {
    Session { stop, quiet: true, ..Session::default() }
}

/// Runs it to its end.
pub fn go(config: &Config, path: &Path) -> train::Summary {
    train::train(config, path, session(Stop::default())).unwrap()
}

/// The bytes that must not depend on how often a run was stopped.
pub fn bytes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let newest = sskp_blocks::checkpoint::list(&path.join("checkpoints")).pop().expect("a last checkpoint");
    let mut files = vec![("episodes.csv".to_string(), fs::read(path.join("episodes.csv")).unwrap())];
    files.push(("violations.bin".to_string(), fs::read(path.join("violations.bin")).unwrap_or_default()));
    for entry in fs::read_dir(&newest).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            files.push((path.file_name().unwrap().to_string_lossy().into(), fs::read(&path).unwrap()));
        }
    }
    // Of the files for people and other tools, all but times.
    for name in ["config.json", "manifest.json"] {
        files.push((name.into(), fs::read(path.join(name)).unwrap()));
    }
    files.push(("progress.csv".into(), progress::rows(path).into()));
    files.sort();
    files
}

/// The bytes of two runs are the same.
pub fn assert_same(a: &Path, b: &Path, what: &str) {
    let (a, b) = (bytes(a), bytes(b));
    assert_eq!(a.len(), b.len(), "{what}");
    for ((name, left), (_, right)) in a.iter().zip(&b) {
        assert!(left == right, "{what}: {name} differs");
    }
}
