//! Methods that begin with demonstrations, through the real binary.

#[path = "../../../tests/root.rs"]
mod root;
#[path = "common/runs.rs"]
mod runs;
#[path = "../../lab/tests/common/small.rs"]
mod small;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use runs::{program, signal, wait_for, wait_while_it_runs};
use sskp_blocks::demos::{Demonstrations, Ending};
use sskp_lab::data::{About, write_minari};
use sskp_lab::registry::Registry;

/// A folder in which the program runs, with a place of its own for fitted models.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.0.path()).env("SSKP_CACHE", self.path("cache"));
        command
    }
    fn sskp(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
    /// The arguments of a small run into the folder `run`, with what a test adds.
    fn train<'a>(&self, algo: &str, sets: &'a [String], run: &'a str, more: &[&'a str]) -> Output {
        self.sskp(&train(algo, sets, run, more))
    }
    /// Names of the files in a folder here.
    fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
    /// A set in this folder.
    fn set(&self, name: &str, demos: &Demonstrations) -> String {
        let root = self.path("sets");
        write_minari(&root, name, demos, &[], &About::default()).unwrap().display().to_string()
    }
}

fn train<'a>(algo: &str, sets: &'a [String], run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let algo = Registry::standard().method(algo).unwrap().name;
    let mut args = vec!["train", "--algo", algo, "--env", "toy", "--seed", "3", "-n", "400", "--log-dir", run];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    args.extend(more);
    args
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bad usage in one line with all these parts, and no run directory.
fn refused(place: &Place, output: &Output, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said:?}");
    }
    assert!(!place.path("run").exists(), "nothing is written: {said}");
}

fn fine(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Rows and weights.
fn outcome(run: &Path) -> Vec<Vec<u8>> {
    let newest = sskp_blocks::checkpoint::list(&run.join("checkpoints")).pop().expect("a checkpoint");
    let files = ["policy", "weights", "optimiser", "replay", "simulator"];
    let mut all: Vec<_> = files.map(|f| fs::read(newest.join(format!("{f}.safetensors"))).unwrap()).to_vec();
    all.extend(["episodes.csv", "offline.json"].map(|f| fs::read(run.join(f)).unwrap()));
    all
}

/// The toy's set, changed.
fn toy(change: impl Fn(&mut sskp_blocks::demos::Trajectory)) -> Demonstrations {
    let mut demos = Demonstrations::new("toy", 5, 2);
    for trajectory in sskp_blocks::toy::demonstrations(9).trajectories() {
        let mut trajectory = trajectory.clone();
        change(&mut trajectory);
        demos.push(trajectory).unwrap();
    }
    demos
}

#[test]
fn demonstrations_that_cannot_be_used_are_refused_before_anything_is_written() {
    let place = Place::new();
    let sets = small::settings("sskp", "toy");
    let with = |demos: &str| place.train("sskp", &sets, "run", &["--demos", demos]);
    refused(&place, &with("nowhere"), &["no demonstrations nowhere", "--demos", "SSKP_DATA"]);
    fs::create_dir(place.path("empty")).unwrap();
    refused(&place, &with("empty"), &["empty", "no Minari set"]);
    let hopper = small::demos("hopper").display().to_string();
    refused(&place, &with(&hopper), &["are of hopper (11 observations, 3 actions), not of toy (5, 2)"]);
    let safe = toy(|t| {
        t.costs.fill(0.0);
        t.end = Ending::Cut;
    });
    refused(&place, &with(&place.set("toy/safe-v0", &safe)), &["safe-v0", "no violation"]);
    let last = |t: &mut sskp_blocks::demos::Trajectory, steps: usize| {
        let from = t.steps() - steps;
        t.observations.drain(..from * 5);
        t.actions.drain(..from * 2);
        t.rewards.drain(..from);
        t.costs.drain(..from);
    };
    let doomed = toy(|t| {
        last(t, 10);
        t.costs[9] = 1.0;
        t.end = Ending::Violation;
    });
    refused(&place, &with(&place.set("toy/doomed-v0", &doomed)), &["doomed-v0", "every state"]);
    let short = toy(|t| last(t, 9));
    refused(&place, &with(&place.set("toy/short-v0", &short)), &["short-v0", "10 steps", "length of a skill"]);
    refused(
        &place,
        &with("toy/medum-v0"),
        &["toy/medum-v0", "did you mean toy/medium-v0?", "--demos PATH", "SSKP_DATA"],
    );
    let other = place.train("sac", &[], "run", &["--demos", "nowhere"]);
    refused(&place, &other, &["sac uses no demonstrations", "--demos"]);
    refused(&place, &place.train("sac", &[], "run", &["--skills", "x"]), &["sac uses no skill model", "--skills"]);
    // Without planning no risk is learnt, and a set without falls will do.
    let sets = small::settings("sskp-wo-rp", "toy");
    let safe = place.path("sets/toy/safe-v0").display().to_string();
    fine(&place.train("sskp-wo-rp", &sets, "run", &["--demos", &safe]));
}

#[test]
fn a_set_is_found_in_the_folder_that_the_environment_names() {
    let place = Place::new();
    place.set("toy/medium-v0", &sskp_blocks::toy::demonstrations(9));
    let mut sets = small::settings("sskp", "toy");
    sets.retain(|s| !s.starts_with("run.demos"));
    let args = train("sskp", &sets, "run", &["--quiet"]);
    fine(&place.command(&args).env("SSKP_DATA", place.path("sets")).output().unwrap());
    let config = fs::read_to_string(place.path("run/config.toml")).unwrap();
    assert!(config.contains("demos = \"toy/medium-v0\"") && config.contains("demos_sha256 = \""), "{config}");
    let shown = fine(&place.train("sskp", &sets, "other", &["--show-config"]));
    assert!(shown.contains("demos = \"toy/medium-v0\"") && !place.path("other").exists(), "{shown}");
}

#[test]
fn a_kept_model_changes_no_byte_and_a_damaged_one_is_named_and_made_anew() {
    let place = Place::new();
    let sets = small::settings("sskp", "toy");
    let run = |name: &str| {
        let output = place.train("sskp", &sets, name, &[]);
        fine(&output);
        (outcome(&place.path(name)), text(&output.stderr))
    };
    let (first, said) = run("a");
    let lines: Vec<&str> = said.lines().collect();
    let stages = ["skills 20/20", "class prior 20/20", "risk 20/20", "calibration 20/20"];
    assert_eq!(lines[..4], stages, "plain lines where there is no terminal");
    let told = [
        "learnt from",
        "risk: auc_as_fitted",
        "skills: kl",
        "held-out episodes: AUC",
        "held-out episodes: Brier",
        "predicted risk -> share",
    ];
    assert!(lines.len() == 10 && lines[4..].iter().zip(told).all(|(line, start)| line.starts_with(start)), "{said}");
    let kept: Vec<PathBuf> = fs::read_dir(place.path("cache/skills")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    assert!(first == run("b").0);
    fs::write(&kept[0], "half a mod").unwrap();
    let (third, said) = run("c");
    assert!(first == third);
    assert!(said.lines().filter(|l| l.starts_with("warning: ")).count() == 1 && said.contains("damaged"), "{said}");
    assert!(!run("d").1.contains("warning"), "it was mended");
}

#[test]
fn a_model_made_by_itself_is_reused_by_name_and_refused_where_it_does_not_fit() {
    let place = Place::new();
    let sets = small::settings("sskp", "toy");
    let demos = small::demos("toy").display().to_string();
    let mut args = vec!["skills", "--quiet", "--demos", &demos, "--out", "mine.safetensors"];
    args.extend(sets.iter().filter(|s| s.starts_with("sskp.")).flat_map(|set| ["--set", set.as_str()]));
    let said = fine(&place.sskp(&args));
    for part in ["60 episodes", "held-out reconstruction", "held-out KL", "log q(z|s)", "wrote mine.safetensors"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.contains("kept") && fine(&place.sskp(&args)).contains("found"), "{said}");

    let skills = ["--skills", "mine.safetensors"];
    let wrong = place.train("sskp", &sets, "run", &["--skills", "mine.safetensors", "--set", "sskp.skill.horizon=8"]);
    refused(&place, &wrong, &["mine.safetensors", "skill.horizon = 10, this run has 8"]);
    fine(&place.train("sskp", &sets, "named", &skills));
    fine(&place.train("sskp", &sets, "fitted", &[]));
    assert!(outcome(&place.path("named")) == outcome(&place.path("fitted")), "the same model either way");
    let config = fs::read_to_string(place.path("named/config.toml")).unwrap();
    assert!(config.contains("skills = \"") && config.contains("skills_sha256 = \""), "{config}");
    // Once the run has begun, it needs neither file.
    fs::remove_file(place.path("mine.safetensors")).unwrap();
    fine(&place.sskp(&["resume", "named", "-n", "500", "--quiet"]));
    refused(&place, &place.train("sskp", &sets, "run", &skills), &["mine.safetensors"]);
}

#[test]
fn a_signal_while_skills_are_fitted_keeps_the_fit_and_resume_goes_on_to_the_same_bytes() {
    let place = Place::new();
    let demos = place.set("toy/mine-v0", &sskp_blocks::toy::demonstrations(9));
    let mut sets = small::settings("sskp", "toy");
    sets.retain(|s| !s.starts_with("run.demos"));
    for name in ["TERM", "INT"] {
        let run = format!("run-{name}");
        // A fit that ends before the signal comes is made anew, ten times as long.
        let mut lengths = [1000, 10_000, 100_000, 1_000_000].into_iter();
        let (said, sets) = loop {
            let steps = lengths.next().expect("a fit that is longer than a signal's way");
            let sets = [&sets[..], &[format!("sskp.skill.steps={steps}")]].concat();
            let args = train("sskp", &sets, &run, &["--quiet", "--demos", &demos]);
            let mut child = place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let begun = || place.path(&run).join("episodes.csv").exists();
            let mut ended = false;
            wait_for("the run directory", || {
                ended = child.try_wait().unwrap().is_some();
                ended || begun()
            });
            if !ended {
                signal(name, child.id());
            }
            let said = fine(&child.wait_with_output().unwrap());
            if said.starts_with("stopped while learning from the demonstrations") {
                break (said, sets);
            }
            for folder in ["cache", &run] {
                fs::remove_dir_all(place.path(folder)).unwrap();
            }
        };
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!place.path(&run).join("checkpoints").exists());
        let kept = |ending: &str| place.files("cache/skills").iter().filter(|name| name.ends_with(ending)).count();
        assert_eq!((kept(".under-way.safetensors"), kept(".safetensors")), (1, 1), "the fit is kept, half done");
        // Without the set, or with another in its place, it cannot begin again.
        let (data, away) = (PathBuf::from(&demos), place.path("away"));
        fs::rename(&data, &away).unwrap();
        let gone = place.sskp(&["resume", &run]);
        assert!(!gone.status.success() && text(&gone.stderr).contains("before its first checkpoint"), "{gone:?}");
        place.set("toy/mine-v0", &sskp_blocks::toy::demonstrations(8));
        let changed = place.sskp(&["resume", &run]);
        assert!(!changed.status.success() && text(&changed.stderr).contains("has changed"), "{changed:?}");
        fs::remove_dir_all(&data).unwrap();
        fs::rename(&away, &data).unwrap();
        fine(&place.sskp(&["resume", &run, "--quiet"]));
        assert_eq!((kept(".under-way.safetensors"), kept(".safetensors")), (0, 1), "the whole model in its place");
        fs::remove_dir_all(place.path("cache")).unwrap();
        let whole = format!("whole-{name}");
        fine(&place.train("sskp", &sets, &whole, &["--demos", &demos]));
        assert!(outcome(&place.path(&whole)) == outcome(&place.path(&run)), "SIG{name}");
        fs::remove_dir_all(place.path("cache")).unwrap();
    }
    // Once it has begun, a run needs its demonstrations no more.
    fs::remove_dir_all(&demos).unwrap();
    fine(&place.sskp(&["resume", "whole-TERM", "-n", "500", "--quiet"]));
}

#[test]
fn sskp_skills_keeps_its_fit_at_a_signal() {
    let place = Place::new();
    let demos = place.set("toy/mine-v0", &sskp_blocks::toy::demonstrations(9));
    // So many steps that it can only be stopped.
    let args = ["skills", "--quiet", "--demos", &demos, "--set", "sskp.skill.steps=1000000"];
    for _ in 0..2 {
        let mut child = place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        wait_while_it_runs(&mut child, "a handler of signals", || listens(id));
        signal("TERM", id);
        let output = child.wait_with_output().unwrap();
        let said = fine(&output);
        assert_eq!(
            (said.as_str(), text(&output.stderr).as_str()),
            ("stopped while fitting; the same command goes on with it\n", "")
        );
        let names = place.files("cache/skills");
        assert!(names.len() == 1 && names[0].ends_with(".under-way.safetensors"), "{names:?}");
    }
}

/// Whether a process has a handler of its own for SIGTERM.
fn listens(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap_or(0) >> (15 - 1) & 1 == 1
}

#[test]
fn the_papers_literal_choices_are_a_file() {
    let place = Place::new();
    let file = root::repository().join("configs/as-printed.toml");
    let shown = |args: &[&str]| -> toml::Table {
        toml::from_str(&fine(&place.train("sskp", &[], "run", &[&["--show-config"], args].concat()))).unwrap()
    };
    let (defaults, printed) = (shown(&[]), shown(&["--config", file.to_str().unwrap()]));
    let named: toml::Table = toml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    // What the file names differs from the default, or it need not be named; all else is the default.
    fn compare(path: &str, defaults: &toml::Value, printed: &toml::Value, named: Option<&toml::Value>) {
        match defaults {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let inner = named.and_then(|named| named.get(key));
                    compare(&format!("{path}.{key}"), value, &printed[key], inner);
                }
            }
            value => assert_eq!(named.is_some(), value != printed, "{path}"),
        }
    }
    compare("sskp", &defaults["sskp"], &printed["sskp"], named.get("sskp"));
}

#[test]
fn one_settings_file_serves_the_method_and_its_ablations() {
    let place = Place::new();
    fs::write(place.path("a.toml"), "[sskp.planner]\nsamples = 77\n").unwrap();
    for algo in ["sskp", "sskp-np", "sskp-wo-rp"] {
        let shown = fine(&place.train(algo, &[], "run", &["--config", "a.toml", "--show-config"]));
        assert!(shown.contains("samples = 77") && shown.contains(&format!("algo = \"{algo}\"")), "{shown}");
    }
    let contradiction = place.train("sskp-np", &[], "run", &["--set", "sskp.planner.planning=risk"]);
    refused(&place, &contradiction, &["there is no setting called sskp.planner.planning"]);
}

#[test]
fn the_plan_study_writes_figure_5_and_refuses_what_has_no_risk() {
    let place = Place::new();
    for algo in ["sskp", "sskp-np"] {
        fine(&place.train(algo, &small::settings(algo, "toy"), algo, &["--quiet"]));
        let study = |out: &str, seed: &str| {
            let args = ["plan-study", algo, "--states", "12", "--seed", seed, "--out", out];
            let said = fine(&place.sskp(&args));
            assert!(said.starts_with(&format!("{algo} on toy after 400 steps: 12 states of ")), "{said}");
            let read = |name: &str| fs::read_to_string(place.path(out).join(name)).unwrap();
            (read("plan-study.csv"), read("plan-study-states.csv"), read("plan-study.svg"))
        };
        let (rows, states, figure) = study("one", "1");
        // Iterations 0 to 6.
        assert_eq!((rows.lines().count(), states.lines().count()), (8, 13), "{rows}");
        assert!(figure.starts_with("<svg") && figure.contains("planning iteration"));
        let first: Vec<&str> = rows.lines().nth(1).unwrap().split(',').collect();
        assert_eq!(first[..2], ["0", "12"]);
        assert_eq!(first[8..], ["0"; 6], "there is no change yet");
        assert_eq!(study("again", "1"), (rows.clone(), states, figure), "a seed says it all");
        assert_ne!(study("other", "2").0, rows);
    }
    let said = fine(&place.sskp(&["plan-study", "sskp", "--states", "3"]));
    assert!(said.contains("wrote sskp/plan-study/plan-study.svg"), "{said}");
    // The report finds it there, and keeps it beside the rows.
    fine(&place.sskp(&["report", "sskp", "--rows", "rows"]));
    let study = fs::read(place.path("sskp/plan-study/plan-study.csv")).unwrap();
    assert_eq!(fs::read(place.path("rows/toy/sskp/seed-3.plan-study.csv")).unwrap(), study);
    assert!(place.path("report.figures/figure-5-toy.svg").exists());
    for algo in ["sskp-wo-rp", "sac"] {
        let sets = small::settings(algo, "toy");
        fine(&place.train(algo, &sets, algo, &["--quiet"]));
        refused(&place, &place.sskp(&["plan-study", algo]), &[algo, "no planning to study"]);
        assert!(!place.path(algo).join("plan-study").exists());
    }
}

#[test]
fn the_fall_study_plays_falls_again_from_before_them() {
    let place = Place::new();
    // A run of 400 steps from a shaking demonstrator still falls; soft actor-critic predicts no risk.
    for (algo, predicts) in [("sskp", true), ("sac", false)] {
        fine(&place.train(algo, &small::settings(algo, "toy"), algo, &["--quiet"]));
        let study = |out: &str| {
            let args = ["fall-study", algo, "--falls", "3", "--tries", "8", "--back", "2", "--out", out];
            let said = fine(&place.sskp(&args));
            assert!(said.starts_with(&format!("{algo} on toy after 400 steps: 3 falls in ")), "{said}");
            assert!(
                said.contains("Where 5 to 95 % of the tries fell again") && said.contains("too few to believe"),
                "{said}"
            );
            assert_eq!(said.contains("and planned skills fell"), predicts, "{said}");
            let known = said.lines().find(|line| line.starts_with("predicted risk of the skill")).unwrap();
            assert_eq!(known.contains('–'), !predicts, "{said}");
            fs::read_to_string(place.path(out)).unwrap()
        };
        let rows = study("falls.csv");
        assert_eq!(study("again.csv"), rows, "a seed says it all");
        for row in rows.lines().skip(1) {
            let cells: Vec<&str> = row.split(',').collect();
            let number = |i: usize| cells[i].parse::<usize>().unwrap();
            let (length, back, ahead, fell) = (number(1), number(2), number(3), number(5));
            assert!((1..=10).contains(&(ahead - 10 * back)) && ahead <= length && fell <= 8, "{row}");
            assert_eq!(predicts, !(cells[6].is_empty() && cells[7].is_empty()), "{row}");
            // Eight tries: a place is undecided where one to seven of them fell.
            let undecided = (1..=7).contains(&number(9));
            assert_eq!((number(8), cells[15].is_empty()), (8, !undecided), "{row}");
            for i in [10, 11, 12, 13] {
                assert_eq!(cells[i].is_empty(), !(undecided && predicts), "{row}");
            }
            for cell in cells[10..].iter().filter(|cell| !cell.is_empty()) {
                assert!((0.0..=1.0).contains(&cell.parse::<f64>().unwrap()), "{row}");
            }
        }
        assert!(rows.lines().skip(1).filter(|row| row.split(',').nth(2) == Some("0")).count() == 3, "{rows}");
    }
    let args = ["fall-study", "sskp", "--falls", "2", "--tries", "4", "--unplanned"];
    let said = fine(&place.sskp(&args));
    assert!(said.starts_with("sskp on toy after 400 steps, without planning: 2 falls in "), "{said}");
    let args = ["fall-study", "sac", "--episodes", "0"];
    let said = place.sskp(&args);
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains("no fall in 0 episodes"));
}

#[test]
fn a_replay_shows_the_predicted_risk_and_the_table_its_mean() {
    let place = Place::new();
    for (algo, predicts) in [("sskp", true), ("sskp-np", true), ("sskp-wo-rp", false)] {
        let sets = small::settings(algo, "toy");
        fine(&place.train(algo, &sets, algo, &["--quiet"]));
        let said = fine(&place.sskp(&["eval", algo, "--episodes", "2", "--html", "page.html"]));
        assert_eq!(said.contains("predicted risk"), predicts, "{said}");
        let page = fs::read_to_string(place.path("page.html")).unwrap();
        assert_eq!(page.contains("\"risks\":\""), predicts, "{algo}");
        let json = fine(&place.sskp(&["eval", algo, "--episodes", "1", "--json"]));
        assert_eq!(json.contains("\"predicted_risk\":null"), !predicts, "{json}");
    }
}
