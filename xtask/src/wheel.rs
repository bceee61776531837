//! `cargo xtask wheel`: the Python package `sskp` as a wheel, by maturin; with `--test`, installed and tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sskp_fetch::Python;

use crate::bench::peers::{self, Peer};
use crate::build;
use crate::venv::{room, virtual_environment};

/// What builds it.
const MATURIN: [&str; 1] = ["maturin==1.16.0"];

/// What a user has before the wheel is installed: its dependencies and nothing else.
const BARE: [&str; 2] = ["numpy==2.4.6", "gymnasium==1.4.0"];

/// What its tests need besides: what users read its files with.
const TESTS: [&str; 10] = [
    "numpy==2.4.6",
    "gymnasium==1.4.0",
    "pytest==9.2.0",
    "minari==0.5.4",
    "h5py==3.16.0",
    "pillow==13.0.0",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
    "pandas==3.1.1",
    "polars==2.1.0",
];

/// What its tests of grids and studies need: Ray, Optuna, and what draws a study.
const CLUSTER: [&str; 6] =
    ["numpy==2.4.6", "gymnasium==1.4.0", "pytest==9.2.0", "ray==2.60.0", "optuna==5.0.0", "matplotlib==3.11.2"];

fn folder(root: &Path, name: &str) -> PathBuf {
    root.join("vendor").join(name)
}

/// Makes the virtual environments that building and testing need.
pub fn prepare(root: &Path) -> Result<()> {
    let python = Python::new("python3");
    virtual_environment(&folder(root, "venv-maturin"), &python, &MATURIN, "about 10 MB")?;
    virtual_environment(&folder(root, "venv-bare"), &python, &BARE, "about 20 MB")?;
    virtual_environment(&folder(root, "venv-python"), &python, &TESTS, "about 160 MB")?;
    Ok(())
}

/// Makes the virtual environments of [`test_cluster`].
pub fn prepare_cluster(root: &Path) -> Result<()> {
    let python = Python::new("python3");
    virtual_environment(&folder(root, "venv-maturin"), &python, &MATURIN, "about 10 MB")?;
    virtual_environment(&folder(root, "venv-ray"), &python, &CLUSTER, "about 170 MB")?;
    Ok(())
}

/// Builds the wheel and gives its path.
pub fn build(root: &Path) -> Result<PathBuf> {
    let interpreter =
        virtual_environment(&folder(root, "venv-maturin"), &Python::new("python3"), &MATURIN, "about 10 MB")?;
    // The package brings MuJoCo's library, which the module looks for beside itself.
    let package = root.join("crates/py/python/sskp");
    let library = library(&crate::vendor_of(root).join("mujoco"))?;
    let brought = package.join(library.file_name().expect("a file has a name"));
    fs::copy(&library, &brought).with_context(|| format!("{} cannot be copied", library.display()))?;
    let out = root.join("target/wheels");
    let _ = fs::remove_dir_all(&out);
    let mut maturin = Command::new(&interpreter);
    maturin.current_dir(root).args(["-m", "maturin", "build", "--release", "--strip"]);
    maturin.args(["--compatibility", "linux", "--auditwheel", "skip", "--manifest-path", "crates/py/Cargo.toml"]);
    maturin.arg("--out").arg(&out);
    run(&mut maturin, "maturin")?;
    let wheel = built_in(&out).context("maturin built no wheel")?;
    println!("built {}", wheel.display());
    Ok(wheel)
}

/// The wheel in a folder, which holds one at most.
fn built_in(folder: &Path) -> Option<PathBuf> {
    let mut paths = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|e| e == "whl"))
}

/// MuJoCo's library in a folder, whatever its version.
fn library(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let named = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libmujoco.so"));
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(named)
        .with_context(|| format!("no libmujoco.so in {}", folder.display()))
}

/// Installs the wheel where there are its dependencies alone, and where there is what its tests need, and runs both.
pub fn test(root: &Path) -> Result<()> {
    prepare(root)?;
    let wheel = build(root)?;
    let program = build::program_of_tests(root)?;
    for name in ["venv-bare", "venv-python"] {
        install(&folder(root, name).join("bin/python"), &wheel)?;
    }
    let mut bare = Command::new(folder(root, "venv-bare").join("bin/python"));
    // Not from the repository: the package that was installed must be enough.
    bare.current_dir(std::env::temp_dir()).arg(root.join("tests/python/check_wheel.py")).arg(&wheel);
    run(&mut bare, "the check of the wheel")?;
    pytest(root, "venv-python", &program, "tests/python/package")
}

/// Free disk that installing PyTorch needs: 3 GB to download, 5 GB to keep.
const ROOM_GB: u64 = 10;
/// How long installing it may take: two minutes where this was written.
const PATIENCE: Duration = Duration::from_mins(4);

/// Prepares the check with stable-baselines3: installs that, unless it is there, and the wheel that was built last. An error where
/// there is too little disk, no network or a slow one.
pub fn prepare_sb3(root: &Path) -> Result<()> {
    let wheel = built_in(&root.join("target/wheels")).context("no wheel: see the step before")?;
    let python = peers::base(root)?;
    if !peers::there(&python, Peer::StableBaselines3) {
        room(root, ROOM_GB)?;
        peers::install(&python, Peer::PyTorch, PATIENCE)?;
        peers::install(&python, Peer::StableBaselines3, PATIENCE)?;
    }
    install(&python, &wheel)
}

/// The check with stable-baselines3, prepared by [`prepare_sb3`].
pub fn check_sb3(root: &Path) -> Command {
    let mut command = Command::new(peers::interpreter(root));
    command.current_dir(root).arg("tests/python/check_sb3.py");
    command
}

/// Installs the wheel beside Ray and Optuna, and tests what it has for them.
pub fn test_cluster(root: &Path) -> Result<()> {
    prepare_cluster(root)?;
    let wheel = build(root)?;
    let program = build::program_of_tests(root)?;
    install(&folder(root, "venv-ray").join("bin/python"), &wheel)?;
    pytest(root, "venv-ray", &program, "tests/python/cluster")
}

/// Runs tests in a virtual environment.
fn pytest(root: &Path, environment: &str, program: &Path, tests: &str) -> Result<()> {
    let mut command = Command::new(folder(root, environment).join("bin/python"));
    command.current_dir(root).env("SSKP_PROGRAM", program).args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    run(command.args(["--durations=5", tests]), "the tests of the package")
}

/// Installs a wheel for an interpreter, in place of an earlier one.
pub fn install(interpreter: &Path, wheel: &Path) -> Result<()> {
    let mut pip = Command::new(interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]).arg(wheel);
    run(&mut pip, "pip")
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("{what} could not be started"))?;
    ensure!(status.success(), "{what} failed: see its messages above");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_by_its_name_and_missed_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        assert!(library(folder.path()).unwrap_err().to_string().starts_with("no libmujoco.so in "));
        fs::write(folder.path().join("libmujoco.so.3.0.0"), "").unwrap();
        fs::write(folder.path().join("other.txt"), "").unwrap();
        assert_eq!(library(folder.path()).unwrap().file_name().unwrap(), "libmujoco.so.3.0.0");
        assert!(run(&mut Command::new("false"), "it").unwrap_err().to_string().starts_with("it failed"));
    }
}
