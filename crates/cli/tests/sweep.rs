//! Grids of runs through the real binary: killed, stopped, on a disk without room, in folders that cannot be written.

#[path = "../../lab/tests/common/progress.rs"]
mod progress;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SEEDS: [u64; 2] = [3, 4];

/// A grid file of small runs on the toy; all settings of all methods, in one table.
fn grid(folder: &Path, methods: &[&str], steps: u64, more: &str) -> PathBuf {
    let mut text = format!("out = \"runs\"\nsteps = {steps}\nseeds = {SEEDS:?}\nset.run.checkpoint_every = 100\n");
    let mut demos = String::new();
    for method in methods {
        for set in small::settings(method, "toy") {
            match set.split_once('=').unwrap() {
                ("run.demos", path) => demos = format!("set.run.demos = {path:?}\n"),
                (key, value) => writeln!(text, "set.{key} = {value}").unwrap(),
            }
        }
    }
    write!(text, "{demos}{more}\n[[cells]]\nrobots = [\"toy\"]\nmethods = {methods:?}\n").unwrap();
    let file = folder.join("grid.toml");
    fs::write(&file, text).unwrap();
    file
}

fn sweep(file: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sskp"));
    command.arg("sweep").arg(file).args(["--jobs", "2", "--quiet", "--out"]).arg(out);
    // Fitted models are kept and shared, but not among the user's own.
    command.env("SSKP_CACHE", out.with_extension("cache"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn said(mut command: Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    (status.code().expect("not killed"), String::from_utf8(stderr).unwrap())
}

/// Rows and weights of all runs: what must not depend on interruptions.
fn outcome(out: &Path, methods: &[&str]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (method, seed) in methods.iter().flat_map(|m| SEEDS.map(|s| (m, s))) {
        let folder = out.join(format!("toy/{method}/seed-{seed}"));
        let summary = fs::read_to_string(folder.join("summary.json")).unwrap();
        assert!(summary.contains("\"finished\": true"), "{summary}");
        let newest = sskp_blocks::checkpoint::list(&folder.join("checkpoints")).pop().expect("a checkpoint");
        let files = ["policy", "weights", "optimiser", "replay"].map(|f| newest.join(format!("{f}.safetensors")));
        found.push((format!("{}: progress", folder.display()), progress::rows(&folder).into()));
        for file in
            ["episodes.csv", "config.json", "manifest.json"].map(|name| folder.join(name)).into_iter().chain(files)
        {
            found.push((format!("{}", file.display()), fs::read(file).unwrap_or_default()));
        }
    }
    found
}

fn assert_same(whole: &Path, other: &Path, methods: &[&str], what: &str) {
    for ((_, a), (file, b)) in outcome(whole, methods).into_iter().zip(outcome(other, methods)) {
        assert!(!a.is_empty() || b.is_empty());
        assert!(a == b, "{what}: {file} differs");
    }
}

fn kill(signal: &str, target: &str) {
    Command::new("kill").args([signal, "--", target]).status().unwrap();
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} did not come");
        sleep(Duration::from_millis(5));
    }
}

fn begun(out: &Path, run: &str) -> bool {
    out.join(run).join("checkpoints").exists()
}

#[test]
fn a_sweep_killed_ten_times_ends_with_the_rows_of_an_undisturbed_one() {
    const METHODS: [&str; 2] = ["sac", "sskp"];
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &METHODS, 3000, "");
    let whole = dir.path().join("whole");
    let start = Instant::now();
    assert!(sweep(&file, &whole).status().unwrap().success());
    let length = start.elapsed();
    let mut rng = sskp_blocks::rng::Rng::stream(12, "when to kill");
    let (mut kills, mut lives) = (0, 0);
    let mut killed = PathBuf::new();
    // A sweep that reaches its end before the tenth kill is followed by another one.
    while kills < 10 {
        lives += 1;
        killed = dir.path().join(format!("killed-{lives}"));
        while kills < 10 {
            // The sweep and its runs are a process group of their own.
            let mut child: Child = sweep(&file, &killed).process_group(0).spawn().unwrap();
            sleep(length.mul_f64(rng.uniform(0.0, 0.25)));
            if child.try_wait().unwrap().is_some() {
                break;
            }
            // Either all at once, as by a loss of power, or the sweep alone, whose runs must then stop by themselves.
            let target = if kills % 2 == 0 { format!("-{}", child.id()) } else { child.id().to_string() };
            kill("-KILL", &target);
            child.wait().unwrap();
            kills += 1;
        }
        assert!(sweep(&file, &killed).status().unwrap().success(), "the last one");
        assert_same(&whole, &killed, &METHODS, "killed");
    }
    assert!(lives < 8, "hardly a kill came before the end");
    // And again: nothing is left to do.
    let log = killed.join("toy/sac/seed-3/log.txt");
    let before = fs::read(&log).unwrap();
    assert!(sweep(&file, &killed).status().unwrap().success());
    assert!(fs::read(&log).unwrap() == before, "finished runs are left alone");
}

#[test]
fn sigterm_and_ctrl_c_let_the_runs_write_checkpoints_and_leave_with_zero() {
    const METHODS: [&str; 1] = ["sac"];
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &METHODS, 4000, "");
    let whole = dir.path().join("whole");
    assert!(sweep(&file, &whole).status().unwrap().success());
    for signal in ["-TERM", "-INT"] {
        let out = dir.path().join(&signal[1..]);
        let mut child = sweep(&file, &out).spawn().unwrap();
        wait_for("a checkpoint", || begun(&out, "toy/sac/seed-3"));
        kill(signal, &child.id().to_string());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        let folder = out.join("toy/sac/seed-3");
        let summary = fs::read_to_string(folder.join("summary.json")).unwrap();
        assert!(summary.contains("\"finished\": false"), "{summary}");
        assert!(!folder.join("error.txt").exists());
        assert!(sweep(&file, &out).status().unwrap().success());
        assert_same(&whole, &out, &METHODS, signal);
    }
}

#[test]
fn a_run_that_fails_leaves_its_error_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &["sac"], 300, "");
    let out = dir.path().join("out");
    // A folder where a file must be written.
    fs::create_dir_all(out.join("toy/sac/seed-3/episodes.csv")).unwrap();
    let (code, text) = said(sweep(&file, &out));
    assert_eq!((code, text.lines().count()), (1, 1), "{text}");
    assert!(text.contains("sac on toy, seed 3 failed: ") && text.contains("episodes.csv"), "{text}");
    let error = fs::read_to_string(out.join("toy/sac/seed-3/error.txt")).unwrap();
    assert!(error.lines().next().unwrap().contains("episodes.csv"), "{error}");
    let summary = fs::read_to_string(out.join("toy/sac/seed-4/summary.json")).unwrap();
    assert!(summary.contains("\"finished\": true"));
    fs::remove_dir(out.join("toy/sac/seed-3/episodes.csv")).unwrap();
    assert_eq!(said(sweep(&file, &out)), (0, String::new()));
    assert!(!out.join("toy/sac/seed-3/error.txt").exists());
}

#[test]
fn a_disk_that_is_full_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &["sac"], 1500, "");
    let (whole, out) = (dir.path().join("whole"), dir.path().join("out"));
    assert!(sweep(&file, &whole).status().unwrap().success());
    // No file may grow beyond 64 KiB, as if the disk ended there: a checkpoint does not fit.
    let mut limited = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_sskp");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh", program, "sweep", "--quiet"]);
    limited.arg(&file).arg("--out").arg(&out);
    let (code, text) = said(limited);
    assert_eq!((code, text.lines().count()), (1, 1), "{text}");
    assert!(text.contains("2 runs failed") && text.contains("File too large"), "{text}");
    assert!(fs::read_to_string(out.join("toy/sac/seed-4/error.txt")).unwrap().contains("File too large"));
    assert_eq!(said(sweep(&file, &out)), (0, String::new()));
    assert_same(&whole, &out, &["sac"], "after the disk was full");
}

#[test]
fn what_cannot_work_is_said_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let refused = |file: &Path, out: &Path, parts: &[&str]| {
        let (code, text) = said(sweep(file, out));
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "no {parts:?} in {text}");
    };
    refused(&dir.path().join("none.toml"), &out, &["none.toml"]);
    refused(&grid(dir.path(), &["sac"], 300, "set.sac.btach = 3"), &out, &["grid.toml", "did you mean sac.batch?"]);
    assert!(!out.exists(), "nothing was written");
    let file = grid(dir.path(), &["sac"], 300, "");
    // A place where no folder can be made, whoever asks.
    fs::write(dir.path().join("a file"), "").unwrap();
    refused(&file, &dir.path().join("a file/out"), &["a file/out"]);
    refused(&file, Path::new("/proc/no"), &["/proc/no"]);
    // A run of other settings in the way.
    assert!(sweep(&file, &out).status().unwrap().success());
    refused(&grid(dir.path(), &["sac"], 300, "set.sac.replay = 777"), &out, &["seed-3", "sac.replay is", "777 here"]);
    refused(&grid(dir.path(), &["sac"], 400, ""), &out, &["a run of 300 steps, and the grid says 400"]);
}

#[test]
fn a_second_sweep_in_the_same_folder_is_refused_and_a_dry_run_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &["sac"], 4000, "");
    let out = dir.path().join("out");
    let mut first = sweep(&file, &out).spawn().unwrap();
    wait_for("the first run", || begun(&out, "toy/sac/seed-3"));
    let (code, text) = said(sweep(&file, &out));
    assert!(code == 1 && text.contains("another sweep is running"), "{text}");
    let resume = Command::new(env!("CARGO_BIN_EXE_sskp")).arg("resume").arg(out.join("toy/sac/seed-3")).output();
    let text = String::from_utf8(resume.unwrap().stderr).unwrap();
    assert!(text.contains("is being written by another process"), "{text}");
    let mut dry = sweep(&file, &out);
    let output = dry.arg("--dry-run").stdout(Stdio::piped()).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.lines().count() == 4, "{table}");
    assert!(table.lines().nth(2).unwrap().contains("at ") && table.contains("toy/sac/seed-4"), "{table}");
    kill("-TERM", &first.id().to_string());
    assert!(first.wait().unwrap().success());
}
