//! What the tests of this crate share.

use std::path::Path;
use std::process::Command;

/// Writes an executable shell script.
///
/// A child process does the writing. Tests run as threads of one process: were the file open for writing here while
/// another test starts a program, that program would inherit the open file for a moment, and the script could not be
/// executed ("text file busy").
pub fn write_script(file: &Path, body: &str) {
    let program = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
    let status = Command::new("sh").args(["-c", program, "sh"]).arg(file).arg(body).status().unwrap();
    assert!(status.success());
}
