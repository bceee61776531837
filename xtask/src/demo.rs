//! `cargo xtask demo`: the main job of this project, from a fresh clone, in one command.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::build;

/// Builds `sskp`, runs its demonstration in the repository's root, and hands on its exit code. With `--robots` the show of
/// `crates/bench` instead, which trains nothing.
pub fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let (show, arguments): (Vec<String>, Vec<String>) = arguments.iter().cloned().partition(|word| word == "--robots");
    let (name, verb) = if show.is_empty() { (build::SSKP, "demo") } else { (build::BENCH, "robots") };
    start(&build::program(root, name)?, verb, root, &arguments)
}

fn start(program: &Path, verb: &str, root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut command = Command::new(program);
    command.current_dir(root).arg(verb);
    if !arguments.iter().any(|argument| argument == "--out" || argument.starts_with("--out=")) {
        command.args(["--out", "runs/demo"]);
    }
    let status =
        command.args(arguments).status().with_context(|| format!("{} could not be started", program.display()))?;
    // No code means that a signal ended it.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::write_script;

    #[test]
    fn arguments_and_exit_code_pass_through() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sskp");
        write_script(&program, "echo \"$@\" > arguments\nexit 2");
        let arguments_seen = || fs::read_to_string(folder.path().join("arguments")).unwrap();

        let code = start(&program, "demo", folder.path(), &["--seed".into(), "3".into()]).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(2)));
        assert_eq!(arguments_seen(), "demo --out runs/demo --seed 3\n");

        start(&program, "demo", folder.path(), &["--out=elsewhere".into()]).unwrap();
        assert_eq!(arguments_seen(), "demo --out=elsewhere\n");
    }
}
