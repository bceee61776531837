//! Playing runs again: that it notices settings of the learner, and says so where it could not.

#[path = "common/small.rs"]
mod small;

use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::run_rows::RunRows;
use sskp_lab::train::{Session, train};
use sskp_lab::verify::{Verdict, verify};

fn session() -> Session {
    Session { quiet: true, ..Session::default() }
}

fn config(algo: &str, sets: &[&str]) -> Config {
    let mut overrides = Overrides::default();
    small::settings(algo, "toy").iter().for_each(|set| overrides.set(set).unwrap());
    sets.iter().for_each(|set| overrides.set(set).unwrap());
    Config::resolve(&Registry::standard(), RunConfig::new(algo, "toy", 3, 3000), &overrides).unwrap()
}

#[test]
fn a_run_is_played_beyond_its_first_updates_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // Random actions far beyond twenty episodes.
    train(&config("sac", &["sac.random_steps=1500"]), &run, session()).unwrap();
    let mut rows = RunRows::read(&run).unwrap();
    let check = |rows: &RunRows, episodes| -> Verdict { verify(rows, episodes, session()).unwrap() };
    assert!(rows.episodes[19].steps < 1500, "twenty episodes must end before the first update");
    let whole = check(&rows, None);
    assert_eq!(whole.difference, None);
    assert!(whole.updates.unwrap() > 0 && whole.steps > 1500 && whole.same < rows.episodes.len() as u64, "{whole:?}");
    assert!(whole.makers.this_one(), "{}", whole.makers.sentence());
    let beginning = check(&rows, Some(20));
    assert_eq!((beginning.same, beginning.updates), (20, Some(0)));

    // A learner that breaks at its first update.
    rows.config = config("sac", &["sac.random_steps=1500", "sac.learner.rate=0.9"]);
    let broken = check(&rows, None);
    assert!(broken.difference.is_some() && broken.steps > 1000, "{broken:?}");
    assert_eq!(check(&rows, Some(20)).difference, None, "nothing was learnt, nothing can differ");

    // Another binary, and none that is known.
    let manifest = rows.manifest.as_mut().unwrap();
    manifest["parts"][0]["binary_sha256"] = "00".repeat(32).into();
    manifest["parts"][0]["commit"] = "0ld".into();
    let other = check(&rows, Some(2)).makers;
    assert!(!other.this_one() && other.sentence().contains("commit 0ld, binary 000000000000, another version"));
    rows.manifest = None;
    assert!(check(&rows, Some(2)).makers.sentence().contains("not known"));
}

#[test]
fn every_method_counts_its_updates() {
    let folder = tempfile::tempdir().unwrap();
    for method in Registry::standard().methods() {
        let run = folder.path().join(method.name);
        train(&config(method.name, &["run.total_steps=600"]), &run, session()).unwrap();
        let verdict = verify(&RunRows::read(&run).unwrap(), Some(u64::MAX), session()).unwrap();
        assert_eq!((verdict.difference, verdict.steps), (None, 600), "{}", method.name);
        assert!(verdict.updates.is_some_and(|n| n > 0), "{}: {:?}", method.name, verdict.updates);
    }
}
