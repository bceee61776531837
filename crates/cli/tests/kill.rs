//! Runs that are killed, stopped by signals and resumed, through the real binary.

#[path = "common/runs.rs"]
mod runs;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use runs::{ENDLESS, assert_same, checkpoint, last_episode, on_a_leash, program, signal, wait_while_it_runs};

/// Narrow networks and frequent checkpoints.
fn train(algo: &str, env: &str, steps: u64, folder: &Path) -> Vec<String> {
    let fixed = ["train", "--quiet", "--seed", "5", "--algo", algo, "--env", env];
    let mut args: Vec<String> = fixed.map(String::from).to_vec();
    args.extend(["--total-steps".into(), steps.to_string(), "--log-dir".into(), folder.display().to_string()]);
    let mut sets = small::settings(algo, env);
    sets.push("run.checkpoint_every=100".into());
    args.extend(sets.into_iter().flat_map(|set| ["--set".into(), set]));
    args
}

fn resume(folder: &Path, steps: u64) -> Vec<String> {
    let folder = folder.display().to_string();
    ["resume", "--quiet", &folder, "-n", &steps.to_string()].map(String::from).to_vec()
}

fn sskp(args: &[String], cache: &Path) -> Command {
    let mut command = Command::new(program());
    // Fitted models are kept, and found half written if that could happen, but not among the user's own.
    command.env("SSKP_CACHE", cache);
    command.args(args);
    command
}

fn succeeds(args: &[String], cache: &Path, what: &str) {
    let status = sskp(args, cache).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{what}: {args:?}");
}

/// How far a run is: its newest checkpoint, and the end of its last episode.
type Far = (Option<u64>, u64);

/// Whether a run, in its folder, has come to a moment, given how far it was when it was started and how far it is.
type Moment = fn(&Path, Far, Far) -> bool;

/// When runs are killed.
const MOMENTS: [(&str, Moment); 4] = [
    ("its start", |_, _, _| true),
    ("its folder", |run, _, _| run.join("config.toml").exists()),
    ("a new checkpoint", |_, before, now| now.0 > before.0),
    // Rows that the resumed run must not write twice.
    ("an episode after a new checkpoint", |_, before, now| now.0 > before.0.max(Some(0)) && Some(now.1) > now.0),
];

#[test]
fn a_run_killed_at_any_state_ends_with_the_bytes_of_an_undisturbed_one() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let mut rng = sskp_blocks::rng::Rng::stream(11, "when to kill");
    // Every method on the toy, and on one of the robots in turn; all pairs are stopped and resumed in `sskp-lab`'s tests.
    let robots = sskp_robots::robots();
    let (toy, others): (Vec<_>, Vec<_>) = robots.iter().map(|r| r.name.as_str()).partition(|name| *name == "toy");
    for (i, method) in sskp_methods::METHODS.iter().enumerate() {
        for robot in [toy[0], others[i % others.len()]] {
            let what = format!("{} on {robot}", method.name);
            let killed = dir.path().join(format!("{what}, killed"));
            // Episodes of robots that stand by themselves are long.
            let mut order = MOMENTS[..if robot == "toy" { 4 } else { 3 }].to_vec();
            order.sort_by_cached_key(|_| rng.below(1000));
            for (moment, come) in order {
                let far = || (checkpoint(&killed), last_episode(&killed));
                let before = far();
                let begun = killed.join("config.toml").exists();
                let args = if begun { resume(&killed, ENDLESS) } else { train(method.name, robot, ENDLESS, &killed) };
                let (mut child, _leash) = on_a_leash(sskp(&args, &cache));
                wait_while_it_runs(&mut child, &format!("{what}: {moment}"), || come(&killed, before, far()));
                child.kill().unwrap(); // SIGKILL
                child.wait().unwrap();
            }
            // Past the first updates, wherever the kills came.
            let steps = checkpoint(&killed).unwrap() + 150;
            succeeds(&resume(&killed, steps), &cache, &what);
            let whole = dir.path().join(format!("{what}, undisturbed"));
            succeeds(&train(method.name, robot, steps, &whole), &cache, &what);
            assert_same(&whole, &killed, &what);
        }
    }
}

#[test]
fn signals_write_a_checkpoint_and_leave_with_zero() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    for name in ["TERM", "INT", "HUP"] {
        let [folder, whole] = ["stopped", "whole"].map(|kind| dir.path().join(format!("{name} {kind}")));
        let (mut child, _leash) = on_a_leash(sskp(&train("sac", "toy", ENDLESS, &folder), &cache));
        wait_while_it_runs(&mut child, "a checkpoint", || checkpoint(&folder).is_some());
        signal(name, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(0), "SIG{name}");
        let summary = fs::read_to_string(folder.join("summary.json")).unwrap();
        assert!(summary.contains("\"finished\": false"), "{summary}");
        let stopped = checkpoint(&folder).unwrap();
        assert!(summary.contains(&format!("\"steps\": {stopped},")), "where it stopped: {summary}");
        succeeds(&resume(&folder, stopped + 250), &cache, name);
        succeeds(&train("sac", "toy", stopped + 250, &whole), &cache, name);
        assert_same(&whole, &folder, name);
    }
}

#[test]
fn bad_settings_leave_with_two_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let refused = |args: &[&str]| {
        let base = ["train", "--algo", "sac", "--env", "toy", "-n", "500", "--log-dir", folder.to_str().unwrap()];
        let output = Command::new(program()).args(base).args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let broken = dir.path().join("broken.toml");
    fs::write(&broken, "[sac\nbatch = 3").unwrap();
    let missing = dir.path().join("missing.toml");
    for (args, needed) in [
        (vec!["--set", "sac.btach=3"], "did you mean sac.batch"),
        (vec!["--set", "sac.batch=1.5"], "must be an integer"),
        (vec!["--set", "run.threads=0"], "run.threads must be"),
        (vec!["--config", broken.to_str().unwrap()], "broken.toml"),
        (vec!["--config", missing.to_str().unwrap()], "missing.toml"),
        (vec!["--set", "sac.batch=0"], "sac.batch must be"),
        (vec!["--set", "sac.learner.gamma=1.0"], "sac.learner.gamma must be"),
    ] {
        let (code, text) = refused(&args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains(needed), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "one sentence: {text}");
        assert!(!folder.exists(), "{args:?} must write nothing");
    }
    let output = Command::new(program()).args(["resume", dir.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no run directory"));
}
