//! What our build scripts call. A build that cannot go on ends with one sentence.
//!
//! **Where fetched files are kept.** In `vendor/` of the source tree, where `cargo xtask setup` lays them, too. Where the
//! source tree is Cargo's own copy of a git dependency, or cannot be written, in the user's cache instead: `sskp` in
//! `$XDG_CACHE_HOME`, or in `~/.cache`. Not in `OUT_DIR`: each target folder would fetch its own 26 MB, and the one of
//! `cargo install` is gone by the time the installed program looks for MuJoCo's library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;

use anyhow::{Context, Result};

use crate::pins::{MUJOCO, ROBOTS, Wheel};
use crate::{ASSETS_DIR, MUJOCO_DIR, Mujoco, Sources, check_platform, staged};

/// A MuJoCo to compile against and to load.
pub fn mujoco() -> Mujoco {
    watch(MUJOCO_DIR);
    let found =
        or_exit(place(&MUJOCO).and_then(|vendor| crate::mujoco(&vendor, &Sources::from_environment(), &MUJOCO)));
    found.note.iter().for_each(|note| println!("cargo::warning={note}"));
    println!("cargo::rerun-if-changed={}", found.library.join(crate::LIBRARY).display());
    println!("cargo::rerun-if-changed={}", found.include.join("mujoco/mujoco.h").display());
    found
}

/// The folder of the robots' XML files.
pub fn assets() -> PathBuf {
    watch(ASSETS_DIR);
    let folder =
        or_exit(place(&ROBOTS).and_then(|vendor| crate::assets(&vendor, &Sources::from_environment(), &ROBOTS)));
    for file in ROBOTS.files {
        let name = Path::new(file.place).file_name().expect("a place names a file");
        println!("cargo::rerun-if-changed={}", folder.join(name).display());
    }
    folder
}

/// The value, or the end of the build with the error's sentence.
pub fn or_exit<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| {
        // Cargo fails the build for this line. An exit code would make it print the whole of our output beside it.
        println!("cargo::error={error:#}");
        exit(0)
    })
}

fn watch(variable: &str) {
    for variable in [variable, "XDG_CACHE_HOME", "HOME"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
}

/// The folder that holds the files of a wheel, or that they are fetched into.
fn place(wheel: &'static Wheel) -> Result<PathBuf> {
    check_platform(std::env::consts::OS, std::env::consts::ARCH)?;
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let manifest =
        variable("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set: this runs in build scripts")?;
    let source = manifest.ancestors().nth(2).expect("our crates lie two folders below the source tree's root");
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Ok(choose(source, cache, wheel))
}

fn choose(source: &Path, cache: Option<PathBuf>, wheel: &'static Wheel) -> PathBuf {
    let vendor = source.join("vendor");
    if wheel.files.iter().all(|file| staged::in_place(&vendor, file)) {
        return vendor;
    }
    // Cargo marks the copies of dependencies that it makes by this file.
    let cargos_own = source.join(".cargo-ok").exists();
    let writable = || fs::create_dir_all(&vendor).is_ok() && staged::can_write(&vendor);
    match cache {
        Some(cache) if cargos_own || !writable() => cache.join("sskp").join(format!("mujoco-{}", crate::VERSION)),
        _ => vendor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::Pinned;

    const WHEEL: Wheel = Wheel {
        package: "x",
        version: "1",
        files: &[Pinned {
            member: "abc",
            place: "abc",
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        }],
    };

    #[test]
    fn a_clone_keeps_its_files_in_vendor_and_a_copy_of_cargos_or_a_read_only_one_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let (source, cache) = (folder.path().join("source"), folder.path().join("cache"));
        let vendor = source.join("vendor");
        fs::create_dir(&source).unwrap();
        assert_eq!(choose(&source, Some(cache.clone()), &WHEEL), vendor);

        let kept = cache.join("sskp/mujoco-3.17.0");
        fs::write(source.join(".cargo-ok"), "").unwrap();
        assert_eq!(choose(&source, Some(cache.clone()), &WHEEL), kept);
        assert_eq!(choose(&source, None, &WHEEL), vendor, "without a home there is no cache");

        // Something in the way of the folder: unlike permissions, this stops root as well.
        fs::remove_file(source.join(".cargo-ok")).unwrap();
        fs::remove_dir(&vendor).unwrap();
        fs::write(&vendor, "").unwrap();
        assert_eq!(choose(&source, Some(cache.clone()), &WHEEL), kept);

        // What is complete is used wherever it lies.
        fs::remove_file(&vendor).unwrap();
        fs::create_dir(&vendor).unwrap();
        fs::write(vendor.join("abc"), "abc").unwrap();
        fs::write(source.join(".cargo-ok"), "").unwrap();
        assert_eq!(choose(&source, Some(cache), &WHEEL), vendor);
    }
}
