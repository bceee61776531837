//! The binary without its build folder.

#[path = "common/program.rs"]
mod program;

use std::process::Command;

#[test]
fn a_binary_copied_together_with_mujoco_runs_anywhere_and_uses_the_copy() {
    const LIBRARY: &str = "libmujoco.so.3.17.0";
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("sskp");
    std::fs::copy(program::program(), &binary).unwrap();
    std::fs::copy(sskp_mujoco::library().unwrap(), folder.path().join(LIBRARY)).unwrap();
    // The loader itself says, on stderr, which file it took.
    let output = Command::new(&binary)
        .args(["rollout", "--env", "hopper", "--random", "5"])
        .current_dir("/")
        .env_clear()
        .env("LD_DEBUG", "libs")
        .output()
        .unwrap();
    let loader = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{loader}");
    let taken = format!("calling init: {}", folder.path().join(LIBRARY).display());
    assert!(loader.contains(&taken), "the copy beside the binary was not used:\n{loader}");
}
