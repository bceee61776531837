//! Runs that are killed, stopped by signals and resumed, through the real binary.

#[path = "../../lab/tests/common/progress.rs"]
mod progress;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// An empty folder for fitted models, the same for all tests here.
fn cache() -> &'static Path {
    static MADE: OnceLock<()> = OnceLock::new();
    let folder = Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/cache-kill"));
    MADE.get_or_init(|| drop(fs::remove_dir_all(folder)));
    folder
}

fn spawn(args: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sskp"));
    // Fitted models are kept, and found half written if that could happen, but not among the user's own.
    command.env("SSKP_CACHE", cache());
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn finished(folder: &Path) -> bool {
    fs::read_to_string(folder.join("summary.json")).is_ok_and(|s| s.contains("\"finished\": true"))
}

fn resume(folder: &Path) -> Vec<String> {
    ["resume", "--quiet"].map(String::from).into_iter().chain([folder.display().to_string()]).collect()
}

/// Rows, progress and weights: what must not depend on interruptions.
fn outcome(folder: &Path) -> Vec<Vec<u8>> {
    let newest = sskp_blocks::checkpoint::list(&folder.join("checkpoints")).pop().expect("a checkpoint");
    let files = ["policy", "weights", "optimiser", "replay", "simulator"];
    let weights = files.map(|name| fs::read(newest.join(format!("{name}.safetensors"))).unwrap_or_default());
    let files = ["episodes.csv", "config.json", "manifest.json"].map(|name| fs::read(folder.join(name)).unwrap());
    [files.to_vec(), vec![progress::rows(folder).into()], weights.to_vec()].concat()
}

#[test]
fn a_run_killed_at_random_moments_ends_with_the_bytes_of_an_undisturbed_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = sskp_blocks::rng::Rng::stream(11, "when to kill");
    for method in sskp_methods::METHODS {
        for robot in &sskp_robots::robots() {
            let what = format!("{} on {}", method.name, robot.name);
            let whole = dir.path().join(format!("{what}, undisturbed"));
            let killed = dir.path().join(format!("{what}, killed"));
            let start = Instant::now();
            assert!(spawn(&train(method.name, &robot.name, 900, &whole)).wait().unwrap().success(), "{what}");
            let length = start.elapsed();
            let mut args = train(method.name, &robot.name, 900, &killed);
            let mut kills = 0;
            while kills < 4 && !finished(&killed) {
                let mut child = spawn(&args);
                // From before the folder exists to about the end.
                sleep(length.mul_f64(rng.uniform(0.0, 0.8)));
                child.kill().unwrap(); // SIGKILL
                child.wait().unwrap();
                kills += 1;
                args = if killed.join("config.toml").exists() { resume(&killed) } else { args };
            }
            if !finished(&killed) {
                assert!(spawn(&args).wait().unwrap().success(), "{what}: the last resume");
            }
            assert!(outcome(&whole) == outcome(&killed), "{what}: bytes differ after {kills} kills");
        }
    }
}

#[test]
fn sigterm_and_ctrl_c_write_a_checkpoint_and_leave_with_zero() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    assert!(spawn(&train("sac", "toy", 3000, &whole)).wait().unwrap().success());
    for signal in ["TERM", "INT"] {
        let folder = dir.path().join(signal);
        let mut child = spawn(&train("sac", "toy", 3000, &folder));
        while !folder.join("checkpoints").exists() {
            sleep(Duration::from_millis(2));
        }
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "SIG{signal}");
        let summary = fs::read_to_string(folder.join("summary.json")).unwrap();
        assert!(summary.contains("\"finished\": false"), "{summary}");
        assert!(spawn(&resume(&folder)).wait().unwrap().success());
        assert!(outcome(&whole) == outcome(&folder), "SIG{signal}");
    }
}

#[test]
fn bad_settings_leave_with_two_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let sskp = |args: &[&str]| {
        let base = ["train", "--algo", "sac", "--env", "toy", "-n", "500", "--log-dir", folder.to_str().unwrap()];
        let output = Command::new(env!("CARGO_BIN_EXE_sskp")).args(base).args(args).output().unwrap();
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
        let (code, text) = sskp(&args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains(needed), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "one sentence: {text}");
        assert!(!folder.exists(), "{args:?} must write nothing");
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_sskp")).args(["resume", dir.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no run directory"));
}
