//! A crate outside this workspace, with an environment and a method of its own: the examples' files, copied as users copy them. It is
//! built by Cargo against `sskp` by path, and has the whole command line.

#[path = "../../../tests/root.rs"]
mod root;
#[path = "common/runs.rs"]
mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use runs::{ENDLESS, checkpoint, on_a_leash, wait_while_it_runs};

const MAIN: &str = r#"
#[allow(dead_code)]
mod own_environment;
#[allow(dead_code)]
mod own_method;

fn main() -> std::process::ExitCode {
    let mut registry = sskp::lab::registry::Registry::standard();
    registry.add_env(own_environment::pendulum()).expect("a new name");
    registry.add_method(own_method::cross_entropy()).expect("a new name");
    sskp::main(&registry)
}
"#;

/// Its manifest. Dependencies have this workspace's versions and profile, so they are not compiled again. Our own crates are: to Cargo
/// they are others when they are built from elsewhere. They are not what is tested here, so that is done quickly instead of well.
fn manifest(root: &Path) -> String {
    let sskp = root.join("crates/cli");
    let own: String = ["blocks", "fetch", "mujoco", "robots", "methods", "lab"]
        .map(|name| format!("-{name}"))
        .into_iter()
        .chain([String::new()])
        .map(|name| format!("[profile.release.package.sskp{name}]\nopt-level = 0\ndebug = false\n"))
        .collect();
    format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         sskp = {{ path = {sskp:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\n\
         [profile.release]\nopt-level = 3\ncodegen-units = 16\ndebug = \"line-tables-only\"\n{own}"
    )
}

/// Builds the crate and gives its program.
fn build(folder: &Path) -> PathBuf {
    let root = root::repository().canonicalize().unwrap();
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest(&root)).unwrap();
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    fs::write(folder.join("src/main.rs"), MAIN).unwrap();
    for example in ["own_environment.rs", "own_method.rs"] {
        fs::copy(root.join("examples").join(example), folder.join("src").join(example)).unwrap();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(folder)
        .args(["build", "--release", "--offline", "--config"])
        .arg(root.join(".cargo/config.toml"))
        .arg("--target-dir")
        .arg(target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("release/outside")
}

/// The program with these arguments, split at spaces.
fn outside(program: &Path, folder: &Path, args: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("SSKP_CACHE", folder.join("cache")).args(args.split(' '));
    command
}

fn ok(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn an_environment_and_a_method_of_ones_own_have_every_verb_in_a_crate_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(&dir.path().join("outside"));
    let folder = dir.path();
    let run = |args: &str| ok(outside(&program, folder, args));

    // Killed once it has a checkpoint, and gone on with: the rows of a run that nobody disturbed.
    let train = |steps: u64, to: &str| {
        let run = "train --quiet --algo cross-entropy --env pendulum --set run.checkpoint_every=1000";
        format!("{run} -n {steps} -f {to}")
    };
    let killed = folder.join("killed");
    let (mut child, _leash) = on_a_leash(outside(&program, folder, &train(ENDLESS, "killed")));
    wait_while_it_runs(&mut child, "a checkpoint", || checkpoint(&killed).is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let steps = checkpoint(&killed).unwrap().max(99_000) + 1000;
    run(&format!("resume --quiet killed -n {steps}"));
    run(&train(steps, "whole"));
    let rows = |run: &str| fs::read_to_string(folder.join(run).join("episodes.csv")).unwrap();
    assert!(rows("whole").lines().count() > 100);
    assert!(rows("whole") == rows("killed"), "the rows of the resumed run are others");

    // It learnt: whoever leans by a tenth of a radian for 200 steps earns 20, and random actions tip over.
    let out = run("eval whole --json --episodes 5");
    let returns = out.split_once("\"returns\":[").unwrap().1.split(']').next().unwrap();
    let returns: Vec<f64> = returns.split(',').map(|r| r.trim().parse().unwrap()).collect();
    assert!(returns.iter().sum::<f64>() > 5.0 * 20.0 && out.contains("\"violations\":0"), "{out}");

    // A grid of ours and theirs, each run a process of this program, and the report of it.
    let grid = "out = \"grid\"\nsteps = 2000\nseeds = [0]\nset.sac.random_steps = 500\nset.sac.batch = 16\nset.sac.learner.width = 16\n\
                set.cross-entropy.population = 10\n[[cells]]\nrobots = [\"pendulum\"]\nmethods = [\"cross-entropy\", \"sac\"]\n";
    fs::write(folder.join("grid.toml"), grid).unwrap();
    assert!(run("sweep --quiet --jobs 2 grid.toml").contains("2 of 2 runs finished"));
    run("report grid --out report.html");
    let tables = fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(tables.contains("Cross-entropy") && tables.contains("SAC"), "{tables}");

    // Names of their own are known everywhere.
    assert!(run("robots").contains("pendulum"));
    let Output { status, stderr, .. } =
        outside(&program, folder, "train --algo cros-entropy --env pendulum").output().unwrap();
    let error = String::from_utf8(stderr).unwrap();
    assert!(status.code() == Some(2) && error.contains("cross-entropy"), "{error}");
}
