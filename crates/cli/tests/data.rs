//! Sets of demonstrations on the command line: found by name, looked at, checked before a run learns from them, and made.

mod common;
#[path = "../../lab/tests/common/small.rs"]
#[allow(dead_code)]
mod small;

use common::Folder;
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_lab::data::{About, write_minari};

/// Nine episodes of the toy, each changed, as the set `id` in the folder `sets`.
fn set(folder: &Folder, id: &str, env: &str, change: impl Fn(&mut Trajectory)) {
    let mut demos = Demonstrations::new(env, 5, 2);
    for trajectory in sskp_blocks::toy::demonstrations(9).trajectories() {
        let mut trajectory = trajectory.clone();
        change(&mut trajectory);
        demos.push(trajectory).unwrap();
    }
    write_minari(&folder.path("sets"), id, &demos, &[], &About::default()).unwrap();
}

/// Its first `steps` steps, as if somebody had stopped the recording there.
fn cut(t: &mut Trajectory, steps: usize) {
    t.observations.truncate((steps + 1) * 5);
    t.actions.truncate(steps * 2);
    t.rewards.truncate(steps);
    t.costs.truncate(steps);
    if t.costs.iter().all(|c| *c == 0.0) {
        t.end = Ending::Cut;
    }
}

/// The cost of a fall one step before the step that fell.
fn early_cost(t: &mut Trajectory) {
    if let Some(fell) = t.costs.iter().position(|c| *c > 0.0) {
        t.costs.swap(fell, fell - 1);
    }
}

/// `--set` of a small run without its demonstrations.
fn quick(algo: &str) -> String {
    let mut sets = small::settings(algo, "toy");
    sets.retain(|set| !set.starts_with("run.demos"));
    sets.iter().map(|set| format!(" --set {set}")).collect()
}

#[test]
fn shipped_sets_have_names_and_a_typo_is_answered_with_the_nearest() {
    let folder = Folder::new();
    let info = folder.sskp("data info hopper/medium-v0").ok().out;
    assert!(info.contains("hopper: 11 observations, 3 actions") && info.contains("how it was made"), "{info}");
    let checked = folder.sskp("data check toy/medium-v0").ok().out;
    assert!(checked.ends_with("nothing wrong was found\n") && !checked.contains("note:"), "{checked}");
    folder.sskp("data card toy/medium-v0 --out card.md").ok();
    assert!(folder.read("card.md").starts_with("# toy/medium-v0"));
    let converted = folder.sskp("data convert toy/medium-v0 flat.hdf5 --env toy --format dsrl").ok().out;
    assert!(converted.starts_with("60 episodes, "), "{converted}");
    for verb in [
        "data info hoper/medium-v0",
        "data check hoper/medium-v0",
        "data card hoper/medium-v0 --out other.md",
        "data convert hoper/medium-v0 other.hdf5 --env hopper --format dsrl",
        "train --algo sskp --env hopper --demos hoper/medium-v0 --log-dir run",
        "skills --demos hoper/medium-v0",
        "skills --demos hoper/medium-v0 --env hopper",
    ] {
        folder.sskp(verb).refused(&["no demonstrations hoper/medium-v0", "did you mean hopper/medium-v0?"]);
    }
    assert_eq!(folder.files(), ["card.md", "card.svg", "flat.hdf5"]);
}

#[test]
fn a_set_is_checked_against_the_robot_that_its_path_names() {
    let folder = Folder::new();
    // Nothing but the toy's time limit tells that these are too short.
    for id in ["toy/mine-v0", "elsewhere/mine-v0"] {
        set(&folder, id, "", |t| cut(t, 20));
    }
    let told = folder.sskp("data check sets/toy/mine-v0");
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("truncated before the time limit") && told.out.contains("a set of toy"), "{}", told.out);
    let untold = folder.sskp("data check sets/elsewhere/mine-v0").ok().out;
    assert!(untold.contains("give it with --env") && untold.contains("nothing wrong"), "{untold}");
    let said = folder.sskp("data check sets/elsewhere/mine-v0 --env toy");
    assert!(said.code == 1 && said.out.contains("truncated before the time limit"), "{}", said.out);
    // A folder's name is no proof: Hopper has other sizes.
    set(&folder, "hopper/mine-v0", "", |_| ());
    let other = folder.sskp("data check sets/hopper/mine-v0").ok().out;
    assert!(other.contains("give it with --env"), "{other}");
}

#[test]
fn a_run_refuses_a_set_from_which_it_would_learn_something_wrong() {
    let folder = Folder::new();
    set(&folder, "toy/early-v0", "toy", early_cost);
    let checked = folder.sskp("data check sets/toy/early-v0");
    assert!(checked.code == 1 && checked.out.contains("runs refuse this set"), "{}", checked.out);
    let needed = ["sets/toy/early-v0", "cost one step too early", "episode_0", "`sskp data check"];
    for algo in ["sskp", "cpq"] {
        let command =
            format!("train --algo {algo} --env toy --demos sets/toy/early-v0 --log-dir run -n 300{}", quick(algo));
        folder.sskp(&command).refused(&needed);
    }
    folder.sskp("skills --demos sets/toy/early-v0").refused(&needed);
    let grid = "out = \"run\"\nsteps = 300\nseeds = [0]\n[set.run]\ndemos = \"sets/toy/early-v0\"\n\
                [[cells]]\nrobots = [\"toy\"]\nmethods = [\"cpq\"]\n";
    folder.write("grid.toml", grid);
    folder.sskp("sweep grid.toml").refused(&["cpq on toy", needed[1], needed[3]]);
    assert!(!folder.path("run").exists(), "nothing was written");
}

#[test]
fn a_run_warns_of_what_is_doubtful_about_its_set_and_goes_on() {
    let folder = Folder::new();
    set(&folder, "toy/cut-v0", "toy", |t| cut(t, 150));
    let train = |demos: &str, run: &str| {
        let options = format!("--demos {demos} --log-dir {run} -n 300 --quiet{}", quick("cpq"));
        let ran = folder.sskp(&format!("train --algo cpq --env toy {options}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.err
    };
    let said = train("sets/toy/cut-v0", "doubtful");
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in ["warning: ", "truncated before the time limit", "`sskp data check sets/toy/cut-v0 --env toy`"] {
        assert!(said.contains(part), "no {part:?} in {said:?}");
    }
    assert_eq!(train("toy/medium-v0", "fine"), "", "there is nothing to say about a shipped set");
}

#[test]
fn what_was_collected_is_said_in_words_that_fit_one_of_each() {
    let folder = Folder::new();
    // An agent that has not learnt yet soon falls off.
    let train =
        "train --algo sac --env toy -n 300 --quiet --log-dir run --set sac.learner.width=16 --set sac.random_steps=300";
    folder.sskp(train).ok();
    let collect = "collect --env toy --policy run --agent-episodes 0 --quiet --out sets --falls 1 --push 3";
    let said = folder.sskp(&format!("{collect} --episodes 1")).ok().out;
    assert!(said.starts_with("1 episode, ") && said.contains(" steps, 1 violating episode\n"), "{said}");
    assert!(!said.contains("cannot teach") && folder.sskp("data check toy/demos-v0").code == 2, "{said}");
    folder.sskp("data check sets/toy/demos-v0").ok();
}
