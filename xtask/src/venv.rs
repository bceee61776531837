//! Virtual environments for software that ours is compared with, or read by.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sskp_fetch::Python;

/// Makes the virtual environment, unless a complete one is there, and returns its interpreter.
pub fn virtual_environment(folder: &Path, python: &Python, requirements: &[&str], size: &str) -> Result<PathBuf> {
    let interpreter = folder.join("bin/python");
    // Written last: an interrupted installation has no stamp and is made anew.
    let stamp = folder.join("complete");
    let wanted = requirements.join("\n");
    // `exists` follows links, so an environment whose Python was uninstalled is made anew, too.
    if fs::read_to_string(&stamp).ok().as_deref() == Some(&wanted) && interpreter.exists() {
        return Ok(interpreter);
    }
    println!("making a virtual environment with {} in {}", requirements.join(", "), folder.display());
    println!("this downloads {size}, once");
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    let temporary = folder.join("tmp");
    python.run(python.command().args(["-m", "venv"]).arg(folder), "make a virtual environment")?;
    fs::create_dir_all(&temporary).with_context(|| format!("{} cannot be created", temporary.display()))?;
    let inside = Python::new(&interpreter);
    let mut install = inside.pip(&temporary);
    install.args(["install", "--only-binary", ":all:"]).args(requirements);
    inside.run(&mut install, "install what is compared with")?;
    // Best effort: an empty left-over folder does no harm.
    let _ = fs::remove_dir_all(&temporary);
    fs::write(&stamp, wanted).with_context(|| format!("{} cannot be written", stamp.display()))?;
    Ok(interpreter)
}

/// Whether an interpreter has a module and all that this needs.
pub fn has(interpreter: &Path, module: &str) -> bool {
    let import = format!("import {module}");
    let status = Command::new(interpreter).args(["-c", &import]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Installs more into a virtual environment, and gives up where that takes longer than `limit`.
pub fn add(interpreter: &Path, requirements: &[&str], limit: Duration) -> Result<()> {
    println!("installing {}, for at most {} s", requirements.join(", "), limit.as_secs());
    let temporary = interpreter.with_file_name("tmp");
    fs::create_dir_all(&temporary).with_context(|| format!("{} cannot be created", temporary.display()))?;
    let mut pip = Python::new(interpreter).pip(&temporary);
    pip.args(["install", "--only-binary", ":all:"]).args(requirements).stdin(Stdio::null());
    let done = within(&mut pip, limit);
    // Best effort: an empty left-over folder does no harm, and a full one is in nobody's way.
    let _ = fs::remove_dir_all(&temporary);
    done.with_context(|| format!("{} could not be installed", requirements.join(", ")))
}

/// Runs a command that must be over in time.
fn within(command: &mut Command, limit: Duration) -> Result<()> {
    let (mut child, end) = (command.spawn().context("it could not be started")?, Instant::now() + limit);
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "see the messages above");
            return Ok(());
        }
        if Instant::now() > end {
            child.kill().and_then(|()| child.wait()).context("it could not be stopped")?;
            bail!("it took longer than {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Refuses to install `needed` GB where the disk of `folder` has less.
pub fn room(folder: &Path, needed: u64) -> Result<()> {
    let output = Command::new("df").args(["-Pk"]).arg(folder).output().context("df could not be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let kib = text.lines().last().and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    let free = kib.with_context(|| format!("df does not know the disk of {}", folder.display()))? / 1_000_000;
    ensure!(free >= needed, "{needed} GB of disk are needed and {free} are free");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_or_too_much_is_given_up() {
        let sleep = |seconds: &str| within(Command::new("sleep").arg(seconds), Duration::from_millis(300));
        assert!(sleep("0").is_ok());
        let started = Instant::now();
        assert!(sleep("20").unwrap_err().to_string().contains("took longer"));
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(within(&mut Command::new("false"), Duration::from_secs(9)).is_err());
        assert!(room(Path::new("."), 0).is_ok() && room(Path::new("."), 1 << 40).is_err());
        assert!(!has(Path::new("false"), "json") && has(Path::new("python3"), "json"));
    }

    const REQUIREMENTS: [&str; 2] = ["a==1", "b==2"];

    #[test]
    fn a_complete_virtual_environment_is_kept_and_a_broken_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let environment = folder.path().join("venv");
        let broken = Python::new("false");
        assert!(virtual_environment(&environment, &broken, &REQUIREMENTS, "little").is_err());
        fs::create_dir_all(environment.join("bin")).unwrap();
        fs::write(environment.join("bin/python"), "").unwrap();
        assert!(virtual_environment(&environment, &broken, &REQUIREMENTS, "little").is_err());
        assert!(!environment.exists(), "an environment without a stamp is made anew");
        fs::create_dir_all(environment.join("bin")).unwrap();
        fs::write(environment.join("bin/python"), "").unwrap();
        fs::write(environment.join("complete"), REQUIREMENTS.join("\n")).unwrap();
        assert_eq!(
            virtual_environment(&environment, &broken, &REQUIREMENTS, "little").unwrap(),
            environment.join("bin/python")
        );
    }
}
