//! Run directories in the tools that people already have: TensorBoard's own reader, and what OmniSafe's plotter reads.
//!
//! Ignored unless asked for: `SSKP_TENSORBOARD_PYTHON=venv/bin/python cargo test --release -p sskp --test tensorboard -- --ignored`,
//! where that Python has tensorboard 2.21.0 and pandas.

#[path = "../../../tests/root.rs"]
mod root;
#[path = "common/runs.rs"]
mod runs;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use runs::{ENDLESS, checkpoint, on_a_leash, program, wait_while_it_runs};

fn sskp(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.env("SSKP_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache-tensorboard"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn train(algo: &str, env: &str, steps: u64, folder: &Path) -> Command {
    let steps = steps.to_string();
    let mut sets = small::settings(algo, env);
    // Rows come more often than checkpoints, so that a kill leaves some that a resumed run must not write twice.
    sets.push("run.checkpoint_every=450".into());
    let mut args = vec!["train", "--quiet", "--algo", algo, "--env", env, "-n", &steps, "--log-dir"];
    args.push(folder.to_str().unwrap());
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    sskp(&args)
}

/// What the script says of these runs, and whether it found no fault.
fn check(runs: &[&PathBuf]) -> (bool, String) {
    let python = std::env::var_os("SSKP_TENSORBOARD_PYTHON").expect("SSKP_TENSORBOARD_PYTHON names a Python");
    let script = root::repository().join("tests/python/check_run.py");
    let output = Command::new(python).arg(script).arg(program()).args(runs).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
#[ignore = "needs SSKP_TENSORBOARD_PYTHON"]
fn tensorboard_and_omnisafe_read_what_we_write() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, killed) = (dir.path().join("whole"), dir.path().join("killed"));
    assert!(train("sskp", "toy", 1500, &whole).status().unwrap().success());
    let (mut child, _leash) = on_a_leash(train("sac", "hopper", ENDLESS, &killed));
    let rows = |run: &Path| fs::read_to_string(run.join("progress.csv")).map_or(0, |text| text.lines().count());
    wait_while_it_runs(&mut child, "rows", || rows(&killed) >= 9 && checkpoint(&killed).is_some());
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert!(!killed.join("summary.json").exists(), "killed before its end");
    let hundreds = checkpoint(&killed).unwrap() / 100 + 30;
    let steps = format!("{hundreds}00");
    assert!(sskp(&["resume", "--quiet", killed.to_str().unwrap(), "-n", &steps]).status().unwrap().success());
    assert_eq!(rows(&killed) as u64, hundreds, "a header, and a row for every 100 steps but the first, without losses");
    let (fine, text) = check(&[&whole, &killed]);
    println!("{text}");
    assert!(fine && text.matches(": the same").count() == 2, "{text}");

    // The check can fail: one bit of one value, which only the checksum shows; a row too few; a wrong scale; another binary.
    let progress = fs::read_to_string(killed.join("progress.csv")).unwrap();
    let shorter = &progress[..progress.trim_end().rfind('\n').unwrap() + 1];
    let faulty = |file: &str, change: &dyn Fn(&mut Vec<u8>), needed: &str| {
        let path = killed.join(file);
        let right = fs::read(&path).unwrap();
        let mut wrong = right.clone();
        change(&mut wrong);
        fs::write(&path, wrong).unwrap();
        let (fine, text) = check(&[&killed]);
        assert!(!fine && text.contains(needed), "{file}: {text}");
        fs::write(&path, right).unwrap();
    };
    let replace = |bytes: &mut Vec<u8>, a: &str, b: &str| {
        *bytes = String::from_utf8(std::mem::take(bytes)).unwrap().replace(a, b).into_bytes();
    };
    let file = sskp_lab::events::FILE;
    faulty(file, &|bytes| *bytes.iter_mut().nth_back(5).unwrap() ^= 1, "the steps differ");
    faulty(file, &|bytes| *bytes = sskp_lab::events::of_progress(shorter), "the steps differ");
    faulty(
        "config.json",
        &|b| replace(b, "steps_per_epoch\": 1000", "steps_per_epoch\": 999"),
        "not environment steps",
    );
    faulty("manifest.json", &|b| replace(b, "binary_sha256\": \"", "binary_sha256\": \"0"), "other binaries");
}
