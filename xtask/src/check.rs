//! `cargo xtask test`: everything that must hold before a change is accepted, cheapest first.
//!
//! All steps use the release profile. The tests step physics and train, which is slow without optimisation, and one
//! profile for everything lets the steps share compiled dependencies: lints and documentation share their metadata,
//! and tests, demonstration and benchmarks share their machine code. `cargo xtask` itself is built with the
//! development profile, so the tests of this crate never replace the program that is running them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sskp_fetch::Python;

use crate::build::cargo;
use crate::venv::virtual_environment;
use crate::wheel;

struct Step {
    name: &'static str,
    command: Command,
    /// What must be there first, made when the step's turn comes.
    prepare: Option<Box<dyn FnOnce() -> Result<()>>>,
    /// Left out, with a message, if that cannot be made: without network, for one.
    optional: bool,
}

/// What reads our demonstration sets as their users will. Minari needs pillow to read HDF5.
const MINARI: [&str; 4] = ["minari==0.5.4", "h5py==3.16.0", "gymnasium==1.4.0", "pillow"];

/// What our statistics are compared with. rliable comes as source alone, and its arch does not work with pandas 3.
const RLIABLE: [&str; 4] = ["--no-binary=rliable", "rliable==1.2.0", "arch==7.2.0", "pandas==2.3.3"];

/// What reads our run directories as their users will; pandas is what OmniSafe's plotter reads with.
const TENSORBOARD: [&str; 2] = ["tensorboard==2.21.0", "pandas==2.3.3"];

/// What judges our Kubernetes manifests: the published schemas of all versions, and a validator of them.
const KUBERNETES: [&str; 1] = ["kubernetes-validate==1.37.0"];

/// Runs all checks, stops at the first that fails, and ends with a summary.
pub fn run(root: &Path) -> Result<()> {
    let mut steps = vec![
        step(root, "format", &["fmt", "--all", "--check"]),
        step(root, "lints", &["clippy", "--workspace", "--all-targets", "--release", "--", "-D", "warnings"]),
        step(root, "documentation", &["doc", "--workspace", "--no-deps", "--release"]),
        step(root, "tests", &["test", "--workspace", "--release"]),
    ];
    steps[2].command.env("RUSTDOCFLAGS", "-D warnings --html-in-header docs/rustdoc-header.html");

    // Python and pip are prerequisites anyway, so Minari's own package judges our sets. Its environment is made only once
    // everything before has passed.
    let python = root.join("vendor/venv-minari/bin/python");
    let arguments = ["test", "--workspace", "--release", "--test", "demos_minari", "--", "--ignored"];
    let mut minari = step(root, "minari", &arguments);
    minari.command.env("SSKP_MINARI_PYTHON", &python);
    minari.prepare = Some(Box::new({
        let folder = root.join("vendor/venv-minari");
        move || virtual_environment(&folder, &Python::new("python3"), &MINARI, "about 60 MB").map(|_| ())
    }));
    steps.push(minari);

    let folder = root.join("vendor/venv-tensorboard");
    let arguments = ["test", "--workspace", "--release", "--test", "tensorboard", "--", "--ignored"];
    let mut tensorboard = step(root, "tensorboard", &arguments);
    tensorboard.command.env("SSKP_TENSORBOARD_PYTHON", folder.join("bin/python"));
    tensorboard.prepare = Some(Box::new(move || {
        virtual_environment(&folder, &Python::new("python3"), &TENSORBOARD, "about 60 MB").map(|_| ())
    }));
    steps.push(tensorboard);

    // A wheel in a virtual environment is what Python's users have, so that is what is tested.
    let mut python = step(root, "python", &["xtask", "wheel", "--test"]);
    python.optional = true;
    python.prepare = Some(Box::new({
        let root = root.to_path_buf();
        move || wheel::prepare(&root)
    }));
    steps.push(python);

    let mut sb3 = Step { name: "sb3", command: wheel::check_sb3(root), prepare: None, optional: true };
    sb3.prepare = Some(Box::new({
        let root = root.to_path_buf();
        move || wheel::prepare_sb3(&root)
    }));
    steps.push(sb3);
    let mut ray = step(root, "ray", &["xtask", "wheel", "--cluster"]);
    ray.optional = true;
    ray.prepare = Some(Box::new({
        let root = root.to_path_buf();
        move || wheel::prepare_cluster(&root)
    }));
    steps.push(ray);

    let folder = root.join("vendor/venv-rliable");
    let arguments = ["test", "--workspace", "--release", "--test", "stats_rliable", "--", "--ignored"];
    let mut rliable = step(root, "rliable", &arguments);
    rliable.command.env("SSKP_RLIABLE_PYTHON", folder.join("bin/python"));
    rliable.optional = true;
    rliable.prepare = Some(Box::new(move || {
        virtual_environment(&folder, &Python::new("python3"), &RLIABLE, "about 130 MB").map(|_| ())
    }));
    steps.push(rliable);

    let folder = root.join("vendor/venv-kubernetes");
    let arguments = ["test", "--workspace", "--release", "--test", "cells", "manifest", "--", "--ignored"];
    let mut kubernetes = step(root, "kubernetes", &arguments);
    kubernetes.command.env("SSKP_KUBERNETES_PYTHON", folder.join("bin/python"));
    kubernetes.optional = true;
    kubernetes.prepare = Some(Box::new(move || {
        virtual_environment(&folder, &Python::new("python3"), &KUBERNETES, "about 25 MB").map(|_| ())
    }));
    steps.push(kubernetes);

    // The test starts a Slurm of its own; its programs come with Slurm's packages.
    let path = std::env::var_os("PATH");
    let slurm = ["sbatch", "slurmctld", "slurmd"].iter().all(|name| find_program(path.as_deref(), &[*name]).is_some());
    if slurm {
        let arguments =
            ["test", "--workspace", "--release", "--test", "cells", "real_slurm", "--", "--ignored", "--nocapture"];
        steps.push(step(root, "slurm", &arguments));
    }

    // A browser is no prerequisite, so the tests that need one are ignored by default and asked for here. They are
    // selected over the whole workspace, not by `--package`: another selection could compile dependencies anew.
    let browser = find_browser(path.as_deref());
    if browser.is_some() {
        let arguments = ["test", "--workspace", "--release", "--test", "browser", "--", "--ignored"];
        steps.push(step(root, "browser", &arguments));
    }

    let outcome = run_steps(steps);
    if !slurm {
        println!("slurm: not run, because no Slurm is installed (sbatch, slurmctld and slurmd; on Debian slurm-wlm)");
    }
    if browser.is_none() {
        println!("browser: not run, because no Chromium is installed (chromium, chromium-browser or google-chrome)");
    }
    outcome
}

fn step(root: &Path, name: &'static str, arguments: &[&str]) -> Step {
    let mut command = cargo(root);
    command.args(arguments);
    Step { name, command, prepare: None, optional: false }
}

/// Runs the steps in order and prints a line for each at the end.
fn run_steps(steps: Vec<Step>) -> Result<()> {
    let mut summary = Vec::new();
    let mut failed = None;
    for Step { name, mut command, prepare, optional } in steps {
        if failed.is_some() {
            summary.push(format!("{name:<14} not run"));
            continue;
        }
        let shown = shown(&command);
        println!("\n== {name}: {shown}");
        let start = Instant::now();
        if let Some(Err(error)) = prepare.map(|prepare| prepare()) {
            if !optional {
                return Err(error);
            }
            println!("== {name}: left out: {error:#}");
            summary.push(format!("{name:<14} left out: {error:#}"));
            continue;
        }
        let status = command.status().with_context(|| format!("{shown} could not be started"))?;
        let word = if status.success() { "passed" } else { "failed" };
        summary.push(format!("{name:<14} {word:<8} {:>9}", seconds(start.elapsed())));
        println!("== {name}: {word} in {}", seconds(start.elapsed()));
        if !status.success() {
            failed = Some((name, shown));
        }
    }
    println!("\nsummary");
    for line in summary {
        println!("  {line}");
    }
    match failed {
        None => Ok(()),
        Some((name, shown)) => bail!("the step \"{name}\" failed; to repeat it alone: {shown}"),
    }
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        words.push(format!("{}='{}'", name.display(), value.unwrap_or_default().display()));
    }
    let program = Path::new(command.get_program());
    words.push(program.file_name().unwrap_or(program.as_os_str()).display().to_string());
    words.extend(command.get_args().map(|argument| argument.display().to_string()));
    words.join(" ")
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

/// The name of the first Chromium on the search path.
fn find_browser(path: Option<&OsStr>) -> Option<&'static str> {
    find_program(path, &["chromium", "chromium-browser", "google-chrome"])
}

/// The first of these names that is on the search path.
fn find_program(path: Option<&OsStr>, names: &[&'static str]) -> Option<&'static str> {
    let folders: Vec<_> = std::env::split_paths(path?).collect();
    names.iter().copied().find(|name| folders.iter().any(|folder| folder.join(name).is_file()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell(name: &'static str, script: &str) -> Step {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Step { name, command, prepare: None, optional: false }
    }

    #[test]
    fn a_failing_step_is_named_and_stops_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mark = |name: &str| format!("touch '{}'", folder.path().join(name).display());
        let steps = vec![shell("first", &mark("first")), shell("second", "exit 3"), shell("third", &mark("third"))];
        let error = run_steps(steps).unwrap_err().to_string();
        assert!(error.starts_with("the step \"second\" failed"), "{error}");
        assert!(error.ends_with("sh -c exit 3"), "{error}");
        assert!(folder.path().join("first").exists());
        assert!(!folder.path().join("third").exists());
    }

    #[test]
    fn all_steps_passing_is_success() {
        run_steps(vec![shell("first", "true"), shell("second", "true")]).unwrap();
    }

    #[test]
    fn what_cannot_be_prepared_stops_the_rest_unless_it_may_be_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("after");
        let steps = |optional: bool| {
            let mut offline = shell("offline", "exit 3");
            offline.prepare = Some(Box::new(|| bail!("no network")));
            offline.optional = optional;
            vec![offline, shell("after", &format!("touch '{}'", mark.display()))]
        };
        assert_eq!(run_steps(steps(false)).unwrap_err().to_string(), "no network");
        assert!(!mark.exists());
        run_steps(steps(true)).unwrap();
        assert!(mark.exists());
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["doc", "--release"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --release");
    }

    #[test]
    fn a_browser_is_looked_for_on_the_search_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().as_os_str());
        assert_eq!(find_browser(path), None);
        fs::write(folder.path().join("google-chrome"), "").unwrap();
        assert_eq!(find_browser(path), Some("google-chrome"));
        assert_eq!(find_browser(None), None);
    }
}
