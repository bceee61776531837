//! Virtual environments for software that ours is compared with, or read by.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
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

#[cfg(test)]
mod tests {
    use super::*;

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
