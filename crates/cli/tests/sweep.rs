//! Grids of runs through the real binary: killed, stopped, on a disk without room, in folders that cannot be written.

#[path = "common/runs.rs"]
mod runs;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use runs::{ENDLESS, assert_same, checkpoint, finished, on_a_leash, program, signal, wait_for, wait_while_it_runs};

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
    let mut command = Command::new(program());
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

/// The folders of all runs on the toy.
fn folders(out: &Path, methods: &[&str]) -> Vec<PathBuf> {
    methods.iter().flat_map(|method| SEEDS.map(|seed| out.join(format!("toy/{method}/seed-{seed}")))).collect()
}

fn assert_all_same(whole: &Path, other: &Path, methods: &[&str], what: &str) {
    for (a, b) in folders(whole, methods).iter().zip(&folders(other, methods)) {
        assert!(finished(a) && finished(b), "{what}: {}", b.display());
        assert_same(a, b, &format!("{what}: {}", b.display()));
    }
}

/// Whether a sweep has started a run.
fn has_started_a_run(sweep: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{sweep}/task/{sweep}/children")).unwrap_or_default();
    let is_run = |id: &str| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.ends_with(b"--leash\0"));
    children.split_whitespace().any(is_run)
}

#[test]
fn a_sweep_killed_ten_times_ends_with_the_rows_of_an_undisturbed_one() {
    const METHODS: [&str; 2] = ["sac", "sskp"];
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &METHODS, 1500, "");
    let whole = dir.path().join("whole");
    assert!(sweep(&file, &whole).status().unwrap().success());
    let mut rng = sskp_blocks::rng::Rng::stream(12, "when to kill");
    let mut killed = PathBuf::new();
    // A sweep that reaches its end before the tenth kill is followed by another one.
    let mut kills = 0;
    for life in 1.. {
        killed = dir.path().join(format!("killed-{life}"));
        let steps = || folders(&killed, &METHODS).iter().filter_map(|run| checkpoint(run)).sum::<u64>();
        while kills < 10 {
            // The sweep and its runs are a process group of their own.
            let mut child = sweep(&file, &killed).process_group(0).spawn().unwrap();
            let (id, goal) = (child.id(), steps() + rng.below(500) as u64);
            // Either all at once, as by a loss of power, when the runs have come further; or, as soon as it has started one, the
            // sweep alone, whose runs must then stop by themselves.
            let alone = kills % 2 == 1;
            let mut ended = false;
            wait_for("a moment to kill", || {
                ended = child.try_wait().unwrap().is_some();
                ended || if alone { has_started_a_run(id) } else { steps() >= goal }
            });
            if ended {
                break;
            }
            signal("KILL", if alone { id.to_string() } else { format!("-{id}") });
            child.wait().unwrap();
            kills += 1;
        }
        assert!(sweep(&file, &killed).status().unwrap().success(), "the last one");
        assert_all_same(&whole, &killed, &METHODS, "killed");
        if kills == 10 {
            break;
        }
    }
    // And again: nothing is left to do.
    let log = killed.join("toy/sac/seed-3/log.txt");
    let before = fs::read(&log).unwrap();
    assert!(sweep(&file, &killed).status().unwrap().success());
    assert!(fs::read(&log).unwrap() == before, "finished runs are left alone");
}

#[test]
fn sigterm_and_ctrl_c_let_the_runs_write_checkpoints_and_leave_with_zero() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &["sac"], ENDLESS, "");
    let out = dir.path().join("out");
    let runs = folders(&out, &["sac"]);
    for name in ["TERM", "INT"] {
        let before: Vec<_> = runs.iter().map(|run| checkpoint(run)).collect();
        let (mut child, _leash) = on_a_leash(sweep(&file, &out));
        wait_while_it_runs(&mut child, "two checkpoints", || {
            runs.iter().zip(&before).all(|(run, before)| checkpoint(run) > *before)
        });
        signal(name, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(0), "SIG{name}");
        for run in &runs {
            let summary = fs::read_to_string(run.join("summary.json")).unwrap();
            assert!(summary.contains("\"finished\": false"), "{summary}");
            assert!(
                summary.contains(&format!("\"steps\": {},", checkpoint(run).unwrap())),
                "where it stopped: {summary}"
            );
            assert!(!run.join("error.txt").exists());
        }
    }
    // Stopped twice, they have the bytes of runs that were not.
    let sskp = |args: &[&str]| {
        let output = Command::new(program()).args(args).arg("--quiet").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let steps = (checkpoint(&runs[0]).unwrap() + 150).to_string();
    let budget = format!("run.total_steps={steps}");
    let (stopped, whole) = (runs[0].to_str().unwrap(), dir.path().join("whole"));
    sskp(&["resume", stopped, "-n", &steps]);
    let settings = format!("{stopped}/cell.toml");
    let run = ["train", "--algo", "sac", "--env", "toy", "--seed", "3", "--config", &settings];
    sskp(&[&run[..], &["-n", &steps, "--set", &budget, "--log-dir", whole.to_str().unwrap()]].concat());
    assert_same(&whole, &runs[0], "stopped twice");
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
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"]).arg(program());
    limited.args(["sweep", "--quiet"]).arg(&file).arg("--out").arg(&out);
    let (code, text) = said(limited);
    assert_eq!((code, text.lines().count()), (1, 1), "{text}");
    assert!(text.contains("2 runs failed") && text.contains("File too large"), "{text}");
    assert!(fs::read_to_string(out.join("toy/sac/seed-4/error.txt")).unwrap().contains("File too large"));
    assert_eq!(said(sweep(&file, &out)), (0, String::new()));
    assert_all_same(&whole, &out, &["sac"], "after the disk was full");
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
    refused(&grid(dir.path(), &["sac"], 400, ""), &out, &["a run of 300 steps, and 400 are asked for"]);
}

#[test]
fn a_second_sweep_in_the_same_folder_is_refused_and_a_dry_run_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), &["sac"], ENDLESS, "");
    let out = dir.path().join("out");
    let (mut first, _leash) = on_a_leash(sweep(&file, &out));
    wait_while_it_runs(&mut first, "the first run", || checkpoint(&out.join("toy/sac/seed-3")).is_some());
    let (code, text) = said(sweep(&file, &out));
    assert!(code == 1 && text.contains("another sweep is running"), "{text}");
    let resume = Command::new(program()).arg("resume").arg(out.join("toy/sac/seed-3")).output();
    let text = String::from_utf8(resume.unwrap().stderr).unwrap();
    assert!(text.contains("is being written by another process"), "{text}");
    let mut dry = sweep(&file, &out);
    let output = dry.arg("--dry-run").stdout(Stdio::piped()).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.lines().count() == 4, "{table}");
    assert!(table.lines().nth(2).unwrap().contains("at ") && table.contains("toy/sac/seed-4"), "{table}");
    signal("TERM", first.id());
    assert!(first.wait().unwrap().success());
}
