//! Telling bad usage from a failed run, and saying either once.

use std::fmt;
use std::io;
use std::process::ExitCode;

use anyhow::{Error, Result};

/// Other arguments or other input files would help.
const USAGE: u8 = 2;
/// No error: the work was stopped, or is another process's, and the same command goes on. Schedulers and mail programs know the number as
/// "try again later" (`EX_TEMPFAIL`).
const TO_BE_CONTINUED: u8 = 75;

/// Gives an error an exit code of its own.
#[derive(Debug)]
struct Coded {
    code: u8,
    text: String,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Coded {}

/// An error of bad usage.
pub fn usage(text: impl Into<String>) -> Error {
    Error::new(Coded { code: USAGE, text: text.into() })
}

/// Work that is to be continued.
pub fn to_be_continued(text: impl Into<String>) -> Error {
    Error::new(Coded { code: TO_BE_CONTINUED, text: text.into() })
}

/// Says that a checkpoint cannot be used and the one before it is tried.
pub fn older_checkpoint(error: &sskp_blocks::Error) {
    eprintln!("warning: {error}; trying the one before it");
}

/// For results whose errors are the user's to mend.
pub trait OrUsage<T> {
    /// Marks the error as bad usage.
    fn or_usage(self) -> Result<T>;
}

impl<T, E: Into<Error>> OrUsage<T> for std::result::Result<T, E> {
    fn or_usage(self) -> Result<T> {
        self.map_err(|e| usage(sentence(&e.into())))
    }
}

/// Prints the error and gives its exit code.
pub fn report(error: &Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let code = error.downcast_ref::<Coded>().map_or(1, |coded| coded.code);
    let what = if code == TO_BE_CONTINUED { "to be continued" } else { "error" };
    eprintln!("{what}: {}", sentence(error));
    ExitCode::from(code)
}

/// The chain of causes as one line. Some errors already quote their cause, which is then not said again.
fn sentence(error: &Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whoever read our output has seen enough (`sskp robots | head -1`): no failure of ours.
fn is_closed_pipe(error: &Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn every_cause_is_said_once() {
        let disk = || io::Error::other("the disk is full");
        let plain: Result<()> = Err(disk()).context("a.csv");
        assert_eq!(sentence(&plain.unwrap_err()), "a.csv: the disk is full");
        let quoting: Result<()> = Err(sskp_blocks::Error::io("a.csv", disk())).context("the rollout was not kept");
        assert_eq!(sentence(&quoting.unwrap_err()), "the rollout was not kept: a.csv: the disk is full");
    }

    #[test]
    fn usage_keeps_its_mark_under_context() {
        let code = |e: &Error| format!("{:?}", report(e));
        let marked: Result<()> = Err(usage("no such file")).context("while reading");
        assert_eq!(code(&marked.unwrap_err()), format!("{:?}", ExitCode::from(2)));
        assert_eq!(code(&anyhow::anyhow!("MuJoCo broke")), format!("{:?}", ExitCode::from(1)));
    }
}
