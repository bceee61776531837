//! Runs that train, and `sskp watch` beside them.
#![allow(dead_code)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::program;

/// Runs a command that must succeed; gives what it printed.
pub fn succeeds(args: &[&str]) -> String {
    let output = Command::new(program()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A finished run of the toy.
pub fn train(folder: &Path, algo: &str, seed: u64, steps: u64) -> PathBuf {
    let run = folder.join(format!("run-{seed}"));
    let (seed, steps) = (seed.to_string(), steps.to_string());
    succeeds(&[
        "train",
        "--algo",
        algo,
        "--env",
        "toy",
        "--seed",
        &seed,
        "-n",
        &steps,
        "-q",
        "--log-dir",
        run.to_str().unwrap(),
    ]);
    run
}

/// A run that trains until it is killed; it dies with the test.
pub struct Training {
    child: Child,
    leash: Option<ChildStdin>,
    pub folder: PathBuf,
}

impl Training {
    pub fn start(folder: &Path, algo: &str, seed: u64) -> Self {
        let run = folder.join(format!("run-{seed}"));
        let seed = seed.to_string();
        let settings = ["--set", "run.checkpoint_every=500"];
        let args =
            ["train", "--algo", algo, "--env", "toy", "--seed", &seed, "-n", "100000000", "-q", "--leash", "--log-dir"];
        let (child, leash) = on_a_leash(&[&args[..], &[run.to_str().unwrap()], &settings].concat());
        Self { child, leash, folder: run }
    }

    pub fn wait_for_rows(&mut self) {
        let begun = Instant::now();
        while std::fs::read_to_string(self.folder.join("episodes.csv")).map_or(0, |text| text.lines().count()) < 30 {
            assert!(begun.elapsed().as_secs() < 60 && self.child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn resume(&mut self) {
        let args = ["resume", self.folder.to_str().unwrap(), "-q", "--leash"];
        (self.child, self.leash) = on_a_leash(&args);
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn on_a_leash(args: &[&str]) -> (Child, Option<ChildStdin>) {
    let mut command = Command::new(program());
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let leash = child.stdin.take();
    (child, leash)
}

/// `sskp watch`.
pub struct Server {
    child: Child,
    pub url: String,
    pub port: u16,
}

impl Server {
    pub fn start(paths: &[&Path]) -> Self {
        Self::on(paths, 0)
    }

    pub fn on(paths: &[&Path], port: u16) -> Self {
        Self::with(paths, &["--port", &port.to_string()])
    }

    pub fn with(paths: &[&Path], args: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.arg("watch").args(paths).args(args).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http"))
            .unwrap_or_else(|| panic!("{line}"))
            .to_string();
        let port = url.split(':').nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
        Self { child, url, port }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
