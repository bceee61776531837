//! Running the program as a user does, in a folder of its own.
#![allow(dead_code)] // each test file is a crate of its own and uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod program;

/// An empty folder in which the program runs.
pub struct Folder(tempfile::TempDir);

/// What a run left.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
    /// Names of all files, hidden ones too.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
    /// Runs `sskp` with these arguments, split at spaces.
    pub fn sskp(&self, args: &str) -> Ran {
        let output = command(self.0.path(), args).output().unwrap();
        Ran {
            code: output.status.code().expect("the program was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
    /// Runs it with its output already closed by the reader.
    pub fn sskp_unheard(&self, args: &str) -> Ran {
        let mut child = command(self.0.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        Ran { code: output.status.code().expect("the program was not killed"), out: String::new(), err }
    }
}

fn command(folder: &Path, args: &str) -> Command {
    let mut command = Command::new(program::program());
    // Fitted models stay out of the user's cache.
    command.current_dir(folder).env("SSKP_CACHE", folder.join("cache")).args(args.split_whitespace());
    command
}

impl Ran {
    pub fn ok(self) -> Self {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self
    }
    /// It was bad usage, said in one line that has all these parts.
    pub fn refused(&self, parts: &[&str]) {
        assert_eq!(self.code, 2, "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {:?}", self.err);
        }
    }
}
