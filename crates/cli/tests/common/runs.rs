//! Programs that are started, watched and stopped, and the runs they leave. Tests wait for a state, never for a time: a run that is to
//! be stopped is [`ENDLESS`], so that it cannot end before somebody stops it, however slow or fast the machine is; it is
//! [`on_a_leash`], so that it does not outlive its test.
#![allow(dead_code, unused_imports)] // each test file is a crate of its own and uses a part

use std::fs;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "program.rs"]
mod program;
#[path = "../../../lab/tests/common/progress.rs"]
mod progress;

pub use program::program;

/// Steps of a run that somebody will stop.
pub const ENDLESS: u64 = 1_000_000_000;

/// Starts a run or a sweep that stops when what is returned beside it is dropped, or the test is killed.
pub fn on_a_leash(mut command: Command) -> (Child, ChildStdin) {
    command.arg("--leash").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let leash = child.stdin.take().expect("it is piped");
    (child, leash)
}

/// Waits for a state. The limit is for programs that hang; no test rests on it.
pub fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(600), "{what} did not come");
        sleep(Duration::from_millis(1));
    }
}

/// Waits for a state of a program that does not end by itself before.
pub fn wait_while_it_runs(child: &mut Child, what: &str, mut there: impl FnMut() -> bool) {
    wait_for(what, || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it ended by itself ({ended:?}) before {what}");
        there()
    });
}

/// Sends a signal to a process, or to a group where `target` begins with a minus sign.
pub fn signal(name: &str, target: impl std::fmt::Display) {
    let sent = Command::new("kill").args([&format!("-{name}"), "--", &target.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {target}");
}

/// Steps of the newest checkpoint of a run; none where there is none.
pub fn checkpoint(run: &Path) -> Option<u64> {
    let newest = sskp_blocks::checkpoint::list(&run.join("checkpoints")).pop()?;
    newest.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}

/// Steps at the end of the last episode that was written down.
pub fn last_episode(run: &Path) -> u64 {
    let text = fs::read_to_string(run.join("episodes.csv")).unwrap_or_default();
    text.lines().next_back().and_then(|row| row.split(',').nth(1)?.parse().ok()).unwrap_or(0)
}

/// Whether a run has taken all its steps.
pub fn finished(run: &Path) -> bool {
    fs::read_to_string(run.join("summary.json")).is_ok_and(|s| s.contains("\"finished\": true"))
}

/// Rows, progress and weights of a run: what must not depend on interruptions.
pub fn outcome(run: &Path) -> Vec<(String, Vec<u8>)> {
    let newest = sskp_blocks::checkpoint::list(&run.join("checkpoints")).pop().expect("a checkpoint");
    let weights = ["policy", "weights", "optimiser", "replay", "simulator", "moments"];
    let weights = weights.map(|name| newest.join(format!("{name}.safetensors")));
    let files = ["episodes.csv", "config.json", "manifest.json"].map(|name| run.join(name));
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    let mut all = vec![("the steps".into(), name(&newest).into()), ("progress.csv".into(), progress::rows(run).into())];
    all.extend(files.iter().map(|file| (name(file), fs::read(file).unwrap())));
    // Not every method has every file, and not every run a violation.
    all.push(("violations.bin".into(), fs::read(run.join("violations.bin")).unwrap_or_default()));
    all.extend(weights.iter().map(|file| (name(file), fs::read(file).unwrap_or_default())));
    all
}

/// The bytes of two runs are the same.
pub fn assert_same(whole: &Path, other: &Path, what: &str) {
    let (whole, other) = (outcome(whole), outcome(other));
    assert!(whole.iter().any(|(name, bytes)| name == "weights.safetensors" && !bytes.is_empty()), "{what}: no weights");
    for ((name, left), (_, right)) in whole.iter().zip(&other) {
        assert!(left == right, "{what}: {name} differs");
    }
}
