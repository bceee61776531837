//! The examples that users copy: each is run, and does what it says.

#[path = "../../../tests/root.rs"]
mod root;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The example's program. `cargo test` builds examples and tests: target/release/examples and target/release/deps. Where tests alone
/// were asked for, there may be none, or an old one.
fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    let source = root::repository().join("examples").join(name).with_extension("rs");
    let changed = |file: &Path| file.metadata().and_then(|file| file.modified()).ok();
    assert!(changed(&program) > changed(&source), "cargo build --release --examples makes {name}");
    program
}

/// Runs an example in a folder of its own and gives what it printed.
fn run(name: &str, folder: &Path, args: &[&str]) -> String {
    let output = Command::new(program(name)).current_dir(folder).args(args).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{name}: {err}{out}");
    out
}

/// The number that stands before these words.
fn number(text: &str, words: &str) -> f64 {
    let before = text.split_once(words).unwrap_or_else(|| panic!("no {words:?} in {text}")).0;
    let word = before.split_whitespace().next_back().unwrap();
    word.parse().unwrap_or_else(|_| panic!("{word:?} before {words:?} is no number: {text}"))
}

#[test]
fn the_pendulum_is_learnt_from_nothing_and_far_more_safely_from_its_demonstrations() {
    let folder = tempfile::tempdir().unwrap();
    let out = run("own_environment", folder.path(), &[]);
    let line = |start: &str| out.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{out}"));
    let tipped = number(line("demonstrations"), " tip over");
    assert!((5.0..=30.0).contains(&tipped), "{out}");
    let (sac, sskp) = (line("sac: "), line("sskp: "));
    // Standing upright earns nothing; the demonstrator leans by 0.15 and what leans by 0.5 has tipped over.
    assert!(number(sac, " per step") > 0.15, "{out}");
    assert!(number(sskp, " per step") > 0.15, "SSkP does better than its demonstrator: {out}");
    assert!(number(sskp, " violations") < 0.2 * number(sac, " violations"), "{out}");
}

#[test]
fn a_robot_out_of_an_xml_file_is_trained_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let out = run("own_robot", folder.path(), &[]);
    let trained = out.lines().find(|line| line.starts_with("trained policy")).unwrap();
    // Whoever does nothing drops the pole after some 50 steps, and stands still.
    assert!(number(trained, " steps each") > 150.0 && number(trained, " per step") > 0.5, "{out}");
    let page = out.lines().find_map(|line| line.strip_prefix("replay: ")).unwrap();
    let page = std::fs::read_to_string(folder.path().join(page)).unwrap();
    assert!(page.contains("carrier") && page.contains("pole"));
    // Another file, which has nothing that moves.
    let broken = folder.path().join("broken.xml");
    std::fs::write(&broken, "<mujoco><worldbody/></mujoco>").unwrap();
    let output = Command::new(program("own_robot")).current_dir(folder.path()).arg(&broken).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("carrier"), "{error}");
}

#[test]
fn a_policy_keeps_its_rate_in_a_loop_of_ones_own_and_says_its_risk() {
    let folder = tempfile::tempdir().unwrap();
    let out = run("control_loop", folder.path(), &[]);
    assert!(out.contains("truncated: "), "the episode reaches its time limit: {out}");
    assert!(number(&out, ", slowest decision") > 10.0, "{out}");
    let risk = out.split_once("mean predicted risk ").unwrap().1.split(' ').next().unwrap();
    assert!((0.0..0.2).contains(&risk.parse::<f64>().unwrap()) && out.contains("of 200 steps"), "{out}");
}

#[test]
fn a_method_of_ones_own_learns_the_toy_by_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let train = ["train", "--quiet", "--algo", "cross-entropy", "--env", "toy", "-n", "60000", "-f", "run"];
    run("own_method", folder.path(), &train);
    let out = run("own_method", folder.path(), &["eval", "run", "--json"]);
    let returns = out.split_once("\"returns\":[").unwrap().1.split(']').next().unwrap();
    let returns: Vec<f64> = returns.split(',').map(|r| r.trim().parse().unwrap()).collect();
    // Random actions earn 5, the best steering at full throttle 50.
    assert!(returns.len() == 10 && returns.iter().sum::<f64>() > 300.0, "{out}");
    let rows = std::fs::read_to_string(folder.path().join("run/progress.csv")).unwrap();
    assert!(rows.lines().next().unwrap().contains("Search/MeanReturn") && rows.lines().count() > 3, "{rows}");
}
