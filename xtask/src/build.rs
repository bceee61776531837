//! Building our programs and finding the result, wherever Cargo puts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::json;

/// The Cargo that runs us, so that nested builds use the same toolchain.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root);
    command
}

/// The command line that users have.
pub const SSKP: &str = "sskp";
/// What is timed, and the show of the robots: `crates/bench`.
pub const BENCH: &str = "sskp-bench";

/// [`SSKP`] as the tests of the whole workspace build it: where those ran, nothing is compiled again.
pub fn program_of_tests(root: &Path) -> Result<PathBuf> {
    built(cargo(root).args(["test", "--workspace", "--release", "--no-run", "--test", "commands"]), SSKP)
}

/// Builds [`SSKP`] or [`BENCH`], a package and its program of the same name, for release and returns the program's path.
pub fn program(root: &Path, name: &str) -> Result<PathBuf> {
    println!("building {name}");
    built(cargo(root).args(["build", "--release", "--package", name]), name)
}

fn built(command: &mut Command, name: &str) -> Result<PathBuf> {
    let output = command
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo could not be started")?;
    ensure!(output.status.success(), "{name} could not be built: see the compiler's messages above");
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages, name).with_context(|| format!("cargo built no program named {name}"))
}

/// Reads the program's path from Cargo's messages. Asking Cargo is right for every setting that moves the result:
/// CARGO_TARGET_DIR, a configured target folder, or another build target.
fn executable(messages: &str, program: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|message| json::text(message, "executable"))
        .map(PathBuf::from)
        .find(|path| path.file_stem().is_some_and(|name| name == program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"anyhow"},"executable":null,"fresh":true}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"sskp"},"executable":"/some where/release/sskp","fresh":true}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, SSKP), Some(PathBuf::from("/some where/release/sskp")));
        assert_eq!(executable(messages, BENCH), None);
    }
}
