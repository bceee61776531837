//! The verbs other than `rollout`, and what all of them share.

mod common;

use common::Folder;
use sskp_robots::robots;

#[test]
fn the_list_of_robots_has_a_row_for_each_with_its_violation() {
    let out = Folder::new().sskp("robots").ok().out;
    for robot in &robots() {
        let row = out.lines().find(|l| l.split_whitespace().next() == Some(&*robot.name)).expect(&robot.name);
        assert!(row.contains(&robot.contract.violation) && row.contains(&robot.contract.about), "{row}");
    }
}

#[test]
fn a_robots_contract_lists_every_action_and_observation() {
    for robot in &robots() {
        let out = Folder::new().sskp(&format!("robots {}", robot.name)).ok().out;
        let c = &robot.contract;
        for column in c.action.iter().chain(&c.observation) {
            assert!(out.contains(&column.name) && out.contains(&column.what), "{}: {}", robot.name, column.name);
        }
        for text in [&c.reward, &c.start, &c.violation, &c.about] {
            assert!(out.contains(text), "{}: {text}", robot.name);
        }
        let rows = out.lines().filter(|l| l.trim_start().starts_with(|c: char| c.is_ascii_digit())).count();
        assert_eq!(rows, c.action.len() + c.observation.len());
    }
}

#[test]
fn an_unknown_robot_is_refused_with_the_list_of_known_ones() {
    let folder = Folder::new();
    for args in ["robots hoper", "rollout --env hoper", "rollout --env-id hoper", "rollout --task hoper"] {
        let ran = folder.sskp(args);
        assert_eq!(ran.code, 2, "{args}");
        for robot in &robots() {
            assert!(ran.err.contains(&robot.name), "{args}: {}", ran.err);
        }
        assert_eq!(ran.err.matches("error:").count(), 1, "{}", ran.err);
    }
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let folder = Folder::new();
    for args in ["robots", "robots humanoid", "rollout --env toy --random 3", "--help"] {
        let ran = folder.sskp_unheard(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args}");
    }
}

#[test]
fn the_demo_trains_prints_the_measures_and_names_the_pages_it_wrote() {
    let folder = Folder::new();
    // As quick as it can be: what is learnt is another test's.
    let quick = [
        "skill.steps=5",
        "skill.batch=16",
        "risk.steps=5",
        "risk.batch=16",
        "policy.batch=16",
        "planner.samples=64",
        "adapt.offline_updates=5",
    ];
    let sets: String = quick.map(|s| format!(" --set sskp-plus.{s}")).concat();
    let ran = folder.sskp(&format!("demo --out shown -n 1500 --quiet{sets}"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in [
        "sskp-plus on cheetah",
        "violations (#V)",
        "reward per step (PtR)",
        "PtR/#V x 1000",
        "mean predicted risk",
        "median return of the first",
        "; the demonstrator's 5",
        "; the expert's 9",
    ] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
    assert!(ran.out.contains("shown/curves.html") && ran.out.contains("shown/replay.html"), "{}", ran.out);
    let (curves, replay) = (folder.read("shown/curves.html"), folder.read("shown/replay.html"));
    // Returns, violations, where the time went; and what was predicted, where that has rows.
    let predicted = ["Predicted against actual risk", "Predicted risk of the skills"];
    assert_eq!(curves.matches("<svg").count(), 3 + predicted.iter().filter(|title| curves.contains(**title)).count());
    assert!(curves.contains(">demonstrator 5") && curves.contains(">expert 9"), "{curves}");
    assert!(curves.contains("PtR/#V × 1000") && !curves.contains("http-equiv=\"refresh"), "{curves}");
    assert!(replay.contains("\"risks\":\""));
    // All other settings are the defaults.
    let run = ran.out.lines().find_map(|l| l.strip_prefix("written to ")).unwrap();
    let config: toml::Table = toml::from_str(&folder.read(&format!("{run}/config.toml"))).unwrap();
    let defaults = toml::Table::try_from(sskp_methods::sskp_plus::SskpPlusConfig::default()).unwrap();
    for part in ["skill", "risk", "planner", "policy", "adapt"] {
        for (key, value) in defaults[part].as_table().unwrap() {
            let changed = quick.iter().any(|set| set.starts_with(&format!("{part}.{key}=")));
            assert_eq!(changed, config["sskp-plus"][part][key] != *value, "{part}.{key}");
        }
    }
}

#[test]
fn a_demo_that_cannot_make_its_folder_says_so() {
    let folder = Folder::new();
    folder.write("runs", "a file");
    folder.sskp("demo").refused(&["runs/demo cannot be made"]);
}

#[test]
fn completions_have_the_verbs_and_the_names_of_the_registry() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.sskp(&format!("completions {shell}")).ok().out;
        assert!(script.contains("rollout") && script.contains("plan-study"), "{shell}: {script}");
        // The others do not complete values.
        let names = ["humanoid", "recovery-rl"].iter().all(|name| script.contains(name));
        assert_eq!(names, ["bash", "zsh", "fish"].contains(&shell), "{shell}: {script}");
    }
    let bash = folder.sskp("completions bash").out;
    assert!(bash.contains("complete -F _sskp"), "{bash}");
    assert_eq!(folder.sskp("completions tcsh").code, 2);
    assert_eq!(folder.sskp_unheard("completions bash").code, 0);
}

#[test]
fn the_newest_run_of_a_folder_is_played_and_named_and_twice_alike() {
    let folder = Folder::new();
    let train = |name: &str, seed: u32| {
        let sets = "--set sac.learner.width=16 --set sac.random_steps=100 --set sac.batch=16";
        folder.sskp(&format!("train --algo sac --env toy -n 300 --seed {seed} --quiet --log-dir {name} {sets}")).ok();
    };
    // The newer one comes first by name, and lies deeper.
    train("runs/later", 1);
    train("runs/a/deeper", 2);
    let newest = folder.sskp("eval runs --episodes 2");
    assert_eq!(newest.code, 0, "{}", newest.err);
    assert_eq!(newest.err, "runs holds 2 runs; the newest is taken: runs/a/deeper\n");
    assert_eq!(newest.out, folder.sskp("eval runs/a/deeper --episodes 2").ok().out);
    assert_ne!(newest.out, folder.sskp("eval runs/later --episodes 2").ok().out);
    assert!(newest.out.starts_with("sac on toy after 300 steps, mean actions\n"), "{}", newest.out);
    folder.write("empty", "");
    folder.sskp("eval empty").refused(&["empty", "no run directory"]);
    folder.sskp("eval runs/later/policies").refused(&["runs/later/policies"]);
}
