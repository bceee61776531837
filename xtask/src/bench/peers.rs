//! The software that the Python package is compared with, and running one measurement, of ours or of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sskp_fetch::Python;

use crate::venv::{add, has, virtual_environment};

/// What every comparison from Python has.
const BASE: [&str; 3] = ["numpy==2.4.6", "gymnasium[mujoco]==1.4.0", "mujoco==3.17.0"];

/// What some have besides, and what is left out of them where it cannot be had.
#[derive(Clone, Copy, PartialEq)]
pub enum Peer {
    EnvPool,
    Onnxruntime,
    /// PyPI has no PyTorch for Linux without CUDA's libraries: 3 GB to download, 5 GB on disk.
    PyTorch,
    StableBaselines3,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::EnvPool => "EnvPool",
            Peer::Onnxruntime => "onnxruntime",
            Peer::PyTorch => "PyTorch",
            Peer::StableBaselines3 => "stable-baselines3",
        }
    }

    /// The module that users import.
    fn module(self) -> &'static str {
        match self {
            Peer::EnvPool => "envpool",
            Peer::Onnxruntime => "onnx, onnxruntime",
            Peer::PyTorch => "torch",
            Peer::StableBaselines3 => "stable_baselines3",
        }
    }

    fn requirements(self) -> &'static [&'static str] {
        match self {
            Peer::EnvPool => &["envpool==1.2.5"],
            Peer::Onnxruntime => &["onnx==1.23.2", "onnxruntime==1.31.1"],
            Peer::PyTorch => &["torch==2.15.0"],
            Peer::StableBaselines3 => &["stable-baselines3==2.9.2"],
        }
    }
}

/// Where all of it is installed.
fn folder(root: &Path) -> PathBuf {
    root.join("vendor/venv-peers")
}

/// Longer than any of it takes on a network worth the name.
const PATIENCE: Duration = Duration::from_mins(20);

/// An interpreter with everything that every comparison has and with those of `wanted` that can be had; and the others.
pub fn environment(root: &Path, wanted: &[Peer]) -> Result<(PathBuf, Vec<Peer>)> {
    let python = base(root)?;
    let mut missing = Vec::new();
    for peer in wanted {
        if let Err(error) = install(&python, *peer, PATIENCE) {
            println!("{} is left out: {error:#}", peer.name());
            missing.push(*peer);
        }
    }
    Ok((python, missing))
}

/// An interpreter with what every comparison has.
pub fn base(root: &Path) -> Result<PathBuf> {
    virtual_environment(&folder(root), &Python::new("python3"), &BASE, "about 100 MB")
}

/// That interpreter's path, whether or not it is there yet.
pub fn interpreter(root: &Path) -> PathBuf {
    folder(root).join("bin/python")
}

/// Whether one of them is there.
pub fn there(python: &Path, peer: Peer) -> bool {
    has(python, peer.module())
}

/// Installs one of them, unless it is there.
pub fn install(python: &Path, peer: Peer, limit: Duration) -> Result<()> {
    if !there(python, peer) {
        add(python, peer.requirements(), limit)?;
        ensure!(there(python, peer), "{} was installed and cannot be imported", peer.name());
    }
    Ok(())
}

/// A sentence about what was left out.
pub fn left_out(missing: &[Peer]) -> String {
    let names: Vec<&str> = missing.iter().map(|peer| peer.name()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("\nLeft out, because not installable: {}.\n", names.join(", "))
    }
}

/// Runs one measurement and returns the line of JSON that it printed last.
pub fn measure(command: &mut Command) -> Result<String> {
    Ok(measure_all(command)?.pop().expect("one at least"))
}

/// Runs one measurement and returns the lines of JSON that it printed, one at least.
pub fn measure_all(command: &mut Command) -> Result<Vec<String>> {
    let program = Path::new(command.get_program()).to_path_buf();
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("{} could not be started", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "a measurement with {} failed:\n{}",
        program.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let lines: Vec<String> = text.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect();
    ensure!(!lines.is_empty(), "{} printed no result", program.display());
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_named() {
        assert_eq!(left_out(&[]), "");
        assert!(left_out(&[Peer::EnvPool, Peer::PyTorch]).contains("installable: EnvPool, PyTorch."));
    }

    #[test]
    fn a_failed_measurement_shows_its_own_words() {
        let error = measure(Command::new("sh").args(["-c", "echo odd >&2; exit 1"])).unwrap_err().to_string();
        assert!(error.contains("odd"), "{error}");
        assert!(measure(Command::new("sh").args(["-c", "echo nothing"])).is_err());
        let mut two = Command::new("sh");
        two.args(["-c", "echo '{1}'; echo note; echo '{2}'"]);
        assert_eq!((measure(&mut two).unwrap(), measure_all(&mut two).unwrap().len()), ("{2}".into(), 2));
    }
}
