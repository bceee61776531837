//! `cargo xtask setup` as a user meets it: the real program, what it prints, and its exit code.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testing::write_script;

#[path = "../../crates/fetch/src/testing.rs"]
mod testing;

/// The program: where nextest unpacked it, or where Cargo built it.
fn xtask() -> Command {
    Command::new(std::env::var("NEXTEST_BIN_EXE_xtask").unwrap_or(env!("CARGO_BIN_EXE_xtask").into()))
}

/// Runs the program with `tools` as the whole search path.
fn set_up(tools: &Path, into: &Path, variables: &[(&str, &Path)]) -> Output {
    let mut command = xtask();
    command.arg("setup").arg("--into").arg(into).env("PATH", tools);
    command.env_remove("SSKP_MUJOCO_DIR").env_remove("SSKP_ASSETS_DIR");
    command.envs(variables.iter().copied()).output().unwrap()
}

fn fake_python(tools: &Path, script: &str) {
    write_script(&tools.join("python3"), script);
}

fn assert_fails_with_one_sentence(output: &Output, start: &str) {
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with(&format!("error: {start}")), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn every_failure_is_one_sentence_and_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let (tools, into) = (folder.path().join("tools"), folder.path().join("vendor"));
    fs::create_dir(&tools).unwrap();

    assert_fails_with_one_sentence(&set_up(&tools, &into, &[]), "python3 was not found: install Python 3");

    fake_python(&tools, "echo 'python3: No module named pip' >&2; exit 1");
    assert_fails_with_one_sentence(&set_up(&tools, &into, &[]), "python3 has no pip: install it");

    fake_python(&tools, "echo 'ERROR: Could not find a version (from versions: none)' >&2; exit 1");
    assert_fails_with_one_sentence(&set_up(&tools, &into, &[]), "the Python package index cannot be reached");

    fake_python(&tools, "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1");
    assert_fails_with_one_sentence(&set_up(&tools, &into, &[]), "the disk is full");

    // pip "succeeds" with wheels whose members are not the pinned ones.
    let serve = "if [ \"$2\" = pip ]; then\n\
                 for word; do [ \"$before\" = -d ] && into=$word; before=$word; done\n\
                 : > \"$into/mujoco-3.17.0-x.whl\"; : > \"$into/gymnasium-1.4.0-x.whl\"\n\
                 else echo tampered; fi";
    fake_python(&tools, serve);
    assert_fails_with_one_sentence(&set_up(&tools, &into, &[]), "mujoco/libmujoco.so.3.17.0 in the fetched wheel");

    let nowhere = Path::new("/nowhere");
    let output = set_up(&tools, &into, &[("SSKP_MUJOCO_DIR", nowhere)]);
    assert_fails_with_one_sentence(&output, "SSKP_MUJOCO_DIR is /nowhere, but there is no libmujoco.so.3.17.0");

    let in_the_way = tools.join("python3/vendor");
    assert_fails_with_one_sentence(&set_up(&tools, &in_the_way, &[]), &format!("{} cannot be", in_the_way.display()));

    let left: Vec<_> = fs::read_dir(&into).unwrap().collect();
    assert!(left.is_empty(), "failed set-ups leave nothing: {left:?}");
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let output = xtask().arg("no-such-command").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
