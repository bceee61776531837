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
    let quick =
        ["skill.steps=5", "skill.batch=16", "risk.steps=5", "risk.batch=16", "policy.batch=16", "planner.samples=64"];
    let sets: String = quick.map(|s| format!(" --set sskp.{s}")).concat();
    let ran = folder.sskp(&format!("demo --out shown -n 1500 --quiet{sets}"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in ["sskp on hopper", "violations (#V)", "reward per step (PtR)", "PtR/#V x 1000", "mean predicted risk"] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
    assert!(ran.out.contains("shown/curves.html") && ran.out.contains("shown/replay.html"), "{}", ran.out);
    let (curves, replay) = (folder.read("shown/curves.html"), folder.read("shown/replay.html"));
    assert_eq!(curves.matches("<svg").count(), 2 + usize::from(curves.contains("Predicted risk of the skills")));
    assert!(curves.contains("PtR/#V × 1000") && !curves.contains("http-equiv=\"refresh"), "{curves}");
    assert!(replay.contains("\"risks\":\""));
    // All other settings are the defaults.
    let run = ran.out.lines().find_map(|l| l.strip_prefix("written to ")).unwrap();
    let config: toml::Table = toml::from_str(&folder.read(&format!("{run}/config.toml"))).unwrap();
    let defaults = toml::Table::try_from(sskp_methods::sskp::SskpConfig::default()).unwrap();
    for part in ["skill", "risk", "planner", "policy"] {
        for (key, value) in defaults[part].as_table().unwrap() {
            let changed = quick.iter().any(|set| set.starts_with(&format!("{part}.{key}=")));
            assert_eq!(changed, config["sskp"][part][key] != *value, "{part}.{key}");
        }
    }
}

#[test]
fn a_demo_that_cannot_make_its_folder_says_so() {
    let folder = Folder::new();
    folder.write("runs", "a file");
    folder.sskp("demo").refused(&["runs/demo cannot be made"]);
}
