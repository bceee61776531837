//! Calling `python3` and `pip`, and saying in one sentence what to do when they fail.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Error, Result, anyhow};

/// A Python interpreter, by name or by path.
pub struct Python {
    program: OsString,
}

impl Python {
    /// The interpreter called `program`.
    pub fn new(program: impl Into<OsString>) -> Python {
        Python { program: program.into() }
    }

    /// A command of it, without arguments.
    pub fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// `pip <arguments>`, quiet but for warnings and errors. `scratch` receives pip's temporary files, so that an
    /// interrupted download leaves nothing outside a folder that we clean up ourselves.
    pub fn pip(&self, scratch: &Path) -> Command {
        let mut command = self.command();
        command
            .args(["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"])
            // Some people forbid pip outside a virtual environment; we install nothing, so that does not concern us.
            .env("PIP_REQUIRE_VIRTUALENV", "0")
            .env("TMPDIR", scratch);
        command
    }

    /// Runs a command made by [`Python::command`] or [`Python::pip`]; anything but success is an error in plain words.
    /// `purpose` completes the sentence "Python could not …".
    pub fn run(&self, command: &mut Command, purpose: &str) -> Result<Output> {
        let output = command.output().map_err(|error| self.explain_start(&error))?;
        if output.status.success() {
            return Ok(output);
        }
        // A shell's "command not found", which version managers such as pyenv use for an interpreter they lack.
        if output.status.code() == Some(127) {
            return Err(self.missing());
        }
        Err(explain(&String::from_utf8_lossy(&output.stderr), purpose))
    }

    fn explain_start(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => self.missing(),
            _ => anyhow!("{} could not be started: {error}", self.program.display()),
        }
    }

    fn missing(&self) -> Error {
        anyhow!(
            "{} was not found: install Python 3 with pip (on Debian or Ubuntu: apt install python3 python3-pip) and \
             run the command again",
            self.program.display()
        )
    }
}

/// Whether pip reached an index and was told that there is no wheel for this interpreter or platform.
pub fn offers_no_such_wheel(error: &Error) -> bool {
    error.downcast_ref::<NoSuchWheel>().is_some()
}

/// The index answered, but has nothing that fits.
#[derive(Debug)]
struct NoSuchWheel(String);

impl std::fmt::Display for NoSuchWheel {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NoSuchWheel {}

/// Signs of a network problem in what pip writes. "from versions: none" is what remains when an index cannot be
/// reached or is refused: one that answers lists its versions.
const NETWORK_SIGNS: [&str; 10] = [
    "from versions: none",
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProtocolError",
    "ProxyError",
    "SSLError",
    "Max retries exceeded",
    "HTTPError",
];

/// Turns what a failed Python or pip wrote to stderr into one sentence that says what to do.
fn explain(stderr: &str, purpose: &str) -> Error {
    if stderr.contains("No module named pip") {
        return anyhow!(
            "python3 has no pip: install it (on Debian or Ubuntu: apt install python3-pip; elsewhere: python3 -m ensurepip) and \
             run the command again"
        );
    }
    if stderr.contains("ensurepip is not") || stderr.contains("No module named venv") {
        return anyhow!(
            "python3 cannot make virtual environments: install the missing part (on Debian or Ubuntu: apt install python3-venv) \
             and run the command again"
        );
    }
    if stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded") {
        return anyhow!("the disk is full: Python could not {purpose}; free some space and run the command again");
    }
    if NETWORK_SIGNS.iter().any(|sign| stderr.contains(sign)) {
        return anyhow!(
            "the Python package index cannot be reached: Python could not {purpose}; check the network, proxy and pip's settings \
             (python3 -m pip config list) and run the command again"
        );
    }
    if stderr.contains("No matching distribution found") {
        return NoSuchWheel(format!(
            "the Python package index that pip uses has no fitting wheel: Python could not {purpose}; check pip's settings \
             (python3 -m pip config list) and run the command again"
        ))
        .into();
    }
    // The last line of a traceback or of pip's report is the one that names the reason.
    let reason = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it gave no reason");
    anyhow!("Python could not {purpose} ({reason}): correct this and run the command again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(stderr: &str) -> String {
        explain(stderr, "download mujoco 3.17.0").to_string()
    }

    #[test]
    fn each_failure_of_pip_says_what_to_do() {
        assert!(sentence("/usr/bin/python3: No module named pip").contains("apt install python3-pip"));
        assert!(sentence("OSError: [Errno 28] No space left on device: '/x'").starts_with("the disk is full"));
        assert!(
            sentence("The virtual environment was not created because ensurepip is not available")
                .contains("python3-venv")
        );
        let refused = "WARNING: Retrying after connection broken by 'NewConnectionError(Connection refused)'\n\
                       ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found for x";
        assert!(sentence(refused).starts_with("the Python package index cannot be reached"));
        let ignored =
            "ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found for x";
        assert!(sentence(ignored).starts_with("the Python package index cannot be reached"));
        assert!(sentence("Traceback:\n  File x\nValueError: odd\n\n").contains("(ValueError: odd)"));
        assert!(sentence("").contains("(it gave no reason)"));
    }

    #[test]
    fn an_index_without_the_wheel_is_told_apart_from_no_network() {
        let old_python = "ERROR: Could not find a version (from versions: 2.2.0, 3.2.3)\nERROR: No matching distribution found for x";
        assert!(offers_no_such_wheel(&explain(old_python, "x")));
        assert!(!offers_no_such_wheel(&explain("from versions: none", "x")));
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let python = Python::new("/nowhere/python3");
        let error = python.run(&mut python.command(), "start").unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/python3 was not found: install Python 3"), "{error}");
        // pyenv's shim for an interpreter that is not installed.
        let python = Python::new("sh");
        let error = python.run(python.command().args(["-c", "exit 127"]), "start").unwrap_err().to_string();
        assert!(error.contains("was not found"), "{error}");
    }
}
