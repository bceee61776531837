//! `sskp report` and `sskp verify` on real runs, through the binary.

#[path = "common/program.rs"]
mod program;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fs;
use std::path::Path;
use std::process::Command;

fn sskp(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(program::program());
    command.current_dir(folder).env("SSKP_CACHE", folder.join("cache")).args(args);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("not killed"), text(output.stdout), text(output.stderr))
}

fn train(folder: &Path, algo: &str, seed: &str, to: &str) {
    let mut args =
        vec!["train", "--quiet", "--algo", algo, "--env", "toy", "-n", "1500", "--seed", seed, "--log-dir", to];
    let sets = small::settings(algo, "toy");
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let (code, _, error) = sskp(folder, &args);
    assert_eq!(code, 0, "{error}");
}

#[test]
fn rows_are_reported_committed_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    train(here, "sac", "0", "runs/a");
    train(here, "sskp", "1", "runs/deeper/b");
    let (code, out, error) = sskp(here, &["report", "runs", "--out", "r.html", "--rows", "results"]);
    assert_eq!((code, error.as_str()), (0, ""), "{out}");
    let html = fs::read_to_string(here.join("r.html")).unwrap();
    assert!(html.contains("data-label=\"method\">SSkP</td>") && html.contains("Where the time went"));
    let rows = "results/toy/sskp/seed-1.csv.gz";
    // The committed rows say what the runs said, but for where they lie.
    let (code, _, error) = sskp(here, &["report", "results", "--out", "again.html"]);
    assert_eq!(code, 0, "{error}");
    let again = fs::read_to_string(here.join("again.html")).unwrap();
    assert_eq!(again.replace(rows, "runs/deeper/b").replace("results/toy/sac/seed-0.csv.gz", "runs/a"), html);
    for run in ["runs/a", rows] {
        let (code, out, error) = sskp(here, &["verify", run, "--episodes", "4", "--quiet"]);
        assert_eq!((code, error.as_str()), (0, ""));
        assert!(out.starts_with("4 episodes") && out.contains("the same"), "{out}");
    }
    // Who made the rows is said, and that nothing was learnt in so little.
    let (_, out, _) = sskp(here, &["verify", "runs/a", "--episodes", "1", "--quiet"]);
    assert!(
        out.starts_with("1 episode, ") && out.contains("no update was made") && out.contains("which is this one"),
        "{out}"
    );
    let (_, out, _) = sskp(here, &["verify", "runs/a", "--quiet"]);
    assert!(!out.contains("no update") && out.contains(" updates\n"), "{out}");
    // All of it, the episode that the budget cut included.
    let (code, out, _) = sskp(here, &["verify", "runs/a", "--episodes", "1000", "--quiet"]);
    assert!(code == 0 && out.contains(" 1500 steps: the same"), "{out}");

    // A better return, a wrong seed.
    let file = here.join("runs/a/episodes.csv");
    let text = fs::read_to_string(&file).unwrap();
    let third = text.lines().nth(3).unwrap();
    let cells: Vec<&str> = third.split(',').collect();
    let better = third.replace(cells[3], "123.5");
    fs::write(&file, text.replace(third, &better)).unwrap();
    let (code, _, error) = sskp(here, &["verify", "runs/a", "--quiet"]);
    assert!(code == 1 && error.contains("episode 3 is") && error.contains("123.5"), "{error}");
    assert_eq!(error.lines().count(), 1);
    let (code, ..) = sskp(here, &["verify", "runs/a", "--quiet", "--episodes", "2"]);
    assert_eq!(code, 0, "the first two are as they were");
    let settings = here.join("results/toy/sskp/seed-1.toml");
    let changed = fs::read_to_string(&settings).unwrap().replace("seed = 1\n", "seed = 2\n");
    fs::write(&settings, changed).unwrap();
    let manifest = here.join("results/toy/sskp/seed-1.manifest.json");
    let text_of = fs::read_to_string(&manifest).unwrap();
    let binary = text_of.split("\"binary_sha256\": \"").nth(1).unwrap().split('"').next().unwrap();
    fs::write(&manifest, text_of.replace(binary, "0123456789abcdef").replace("\"commit\": \"", "\"commit\": \"0ld"))
        .unwrap();
    let (code, _, error) = sskp(here, &["verify", rows, "--quiet"]);
    assert!(code == 1 && error.contains("episode 1 is") && error.contains("binary 0123456789ab, another"), "{error}");
    assert_eq!(error.lines().count(), 1);

    // Settings of another version.
    let older = fs::read_to_string(&settings).unwrap().replace("placebo = false\n", "");
    fs::write(&settings, older).unwrap();
    let (code, _, error) = sskp(here, &["verify", rows, "--quiet"]);
    let needed = ["cannot be played again here", "missing field `placebo`", "another version than this one"];
    assert!(code == 1 && needed.iter().all(|word| error.contains(word)) && error.lines().count() == 1, "{error}");

    // A run that is not finished is no result yet.
    fs::write(&file, text.lines().take(4).fold(String::new(), |all, line| all + line + "\n")).unwrap();
    let (code, out, error) = sskp(here, &["report", "runs", "--out", "r.html", "--rows", "early"]);
    assert!(code == 0 && error.contains("seed 0, is not finished"), "{error}");
    assert!(out.contains("runs written to early: 1, and 1 unfinished left out"), "{out}");
    assert!(here.join("early/toy/sskp/seed-1.csv.gz").exists() && !here.join("early/toy/sac").exists());

    // What cannot be read is bad usage.
    for (args, needed) in [
        (vec!["verify", "none"], "none"),
        (vec!["verify", "r.html"], "holds no rows"),
        (vec!["report", "cache"], "holds no run"),
        (vec!["report", "nowhere"], "nowhere"),
        (vec!["report", "runs", "results"], "with seed 0 is there twice"),
    ] {
        let (code, _, error) = sskp(here, &args);
        assert!(code == 2 && error.contains(needed) && error.lines().count() == 1, "{args:?}: {error}");
    }
    let (code, _, error) = sskp(here, &["report", "runs/a", "--out", "no/such/r.html"]);
    assert!(code == 1 && error.contains("there is no folder"), "{error}");
    let (code, _, error) = sskp(here, &["report", "runs/a", "--out", "/dev/full"]);
    assert!(code == 1 && error.contains("No space left"), "{error}");
}
