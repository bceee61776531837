//! The program as `cargo xtask` calls it.

use std::path::Path;
use std::process::{Command, Output};

use sskp_lab::registry::Registry;

fn bench(folder: &Path, words: &str) -> Output {
    let mut command =
        Command::new(std::env::var("NEXTEST_BIN_EXE_sskp-bench").unwrap_or(env!("CARGO_BIN_EXE_sskp-bench").into()));
    command.current_dir(folder).args(words.split(' ')).output().unwrap()
}

/// What a successful call printed.
fn printed(words: &str) -> String {
    let output = bench(Path::new("."), words);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn assert_one_line(words: &str, parts: &[&str]) {
    let out = printed(words);
    assert_eq!(out.lines().count(), 1, "{out}");
    for part in parts {
        assert!(out.contains(part), "{words}: {out}");
    }
}

#[test]
fn every_measurement_is_one_line_of_json() {
    assert_one_line(
        "envs --env toy --threads 2 --seconds 0.05 --json",
        &["{\"env\":\"toy\",\"threads\":2,\"steps\":", "\"seconds\":", "\"steps_per_second\":", "\"rss_per_env_kib\":"],
    );
    assert_one_line(
        "plan --env toy --width 16 --seconds 0.01 --json",
        &["{\"env\":\"toy\",\"obs\":5,\"dim\":10,\"width\":16,", "\"us_per_plan\":", "\"share_of_peak\":"],
    );
    // 15·256 + 256·256 + 256 weights and 513 biases.
    assert_one_line(
        "methods --env toy --row sskp-risk --seconds 0.01 --json",
        &["\"batch\":256,\"parameters\":70145,", "\"ms_per_update\":", "\"share_of_peak\":"],
    );
    let list = printed("methods --env toy --list --json");
    for method in ["sac", "recovery-rl", "cpq", "smbpo", "sskp"] {
        assert!(list.lines().any(|line| line.contains(&format!("\"methods\":\"{method}"))), "{method}: {list}");
    }
}

#[test]
fn wrong_arguments_are_refused_in_one_sentence() {
    assert_eq!(bench(Path::new("."), "envs --env toy --seconds 0").status.code(), Some(2));
    let output = bench(Path::new("."), "envs --env hoper");
    let sentence = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), sentence.lines().count()), (Some(1), 1), "{sentence}");
    assert!(sentence.contains("hopper"), "{sentence}");
}

#[test]
fn the_show_of_the_robots_plays_each_and_writes_a_page_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), "robots --out runs/demo --episodes 1");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    for robot in Registry::standard().envs() {
        let page = format!("runs/demo/{}.html", robot.name);
        assert!(out.contains(&page), "{out}");
        assert!(std::fs::metadata(folder.path().join(&page)).unwrap().len() < 1_000_000);
        for controller in ["random", "scripted"] {
            assert!(out.lines().any(|l| l.starts_with(&robot.name) && l.contains(controller)), "{out}");
        }
    }
    assert!(!err.contains('\u{1b}') && !err.contains('\r'), "no bar where there is no terminal: {err:?}");
}
