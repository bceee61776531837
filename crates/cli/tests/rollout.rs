//! `sskp rollout`, end to end.

mod common;

use common::Folder;
use sskp_blocks::env::Env as _;
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::rng::Rng;
use sskp_lab::registry::Registry;
use sskp_robots::robots;
use sskp_robots::sim::MujocoEnv;

/// A file of `steps` mild actions for a robot.
fn actions(robot: &sskp_blocks::registry::EnvEntry, steps: usize) -> String {
    let names: Vec<&str> = robot.contract.action.iter().map(|c| c.name.as_str()).collect();
    let mut text = names.join(",") + "\n";
    for t in 0..steps {
        let row: Vec<String> =
            (0..names.len()).map(|j| format!("{:?}", 0.3 * ((t + 3 * j) as f64 / 5.0).sin())).collect();
        text += &(row.join(",") + "\n");
    }
    text
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    for robot in &robots() {
        let folder = Folder::new();
        let play = |seed: u32, name: &str| {
            folder.sskp(&format!("rollout --env {} --seed {seed} --random 30 --out {name}", robot.name)).ok();
            folder.read(name)
        };
        let first = play(3, "a.csv");
        assert_eq!(first, play(3, "b.csv"), "{}", robot.name);
        assert_ne!(first, play(4, "c.csv"), "{}", robot.name);
        assert_eq!(folder.files(), ["a.csv", "b.csv", "c.csv"]);
    }
}

#[test]
fn the_table_has_a_row_per_step_and_numbers_that_read_back_exactly() {
    let folder = Folder::new();
    let said = folder.sskp("rollout --env toy --seed 3 --random 12 --out a.csv").ok().out;
    assert!(said.starts_with("toy: 12 steps, return ") && said.contains("still running"), "{said}");
    assert!(said.contains("wrote a.csv"), "{said}");
    let text = folder.read("a.csv");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("step,action_0,action_1,obs_0,obs_1,obs_2,obs_3,obs_4,reward,cost,end"));
    let mut env = Registry::standard().make_env("toy", EnvOptions::default()).unwrap();
    env.reset(&mut Rng::stream(3, "env")).unwrap();
    let mut rng = Rng::stream(3, "actions");
    let mut action = [0.0; 2];
    for (i, line) in lines.enumerate() {
        rng.fill_action(&mut action);
        let step = env.step(&action).unwrap();
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!([1, 2].map(|c| cells[c].parse::<f32>().unwrap()), action, "{line}");
        let numbers: Vec<u64> = cells[3..9].iter().map(|c| c.parse::<f64>().unwrap().to_bits()).collect();
        let expected: Vec<u64> = env.obs().iter().chain([&step.reward]).map(|x| x.to_bits()).collect();
        assert_eq!(numbers, expected, "{line}");
        assert_eq!((cells[0], cells[9], cells[10]), ((i + 1).to_string().as_str(), "0", ""));
    }
}

#[test]
fn a_table_that_was_written_can_be_played_again_and_gives_the_same_rows() {
    for robot in &robots() {
        let folder = Folder::new();
        let play = format!("rollout --env {} --seed 5", robot.name);
        folder.sskp(&format!("{play} --random 40 --out first.csv")).ok();
        folder.sskp(&format!("{play} --actions first.csv --out again.csv")).ok();
        assert_eq!(folder.read("first.csv"), folder.read("again.csv"), "{}", robot.name);
        let one = folder.sskp(&format!("{play} --random 1")).ok().out;
        assert!(one.starts_with(&format!("{}: 1 step, return ", robot.name)), "{one}");
    }
}

#[test]
fn it_stops_at_the_end_of_the_episode_and_names_it() {
    let folder = Folder::new();
    let said = folder.sskp("rollout --env hopper --seed 0 --out fall.csv").ok().out;
    assert!(said.contains("ended in a violation"), "{said}");
    let text = folder.read("fall.csv");
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert!(rows.len() < 200 && rows.last().unwrap().ends_with(",1,violation"), "{:?}", rows.last());
    assert!(rows[..rows.len() - 1].iter().all(|r| r.ends_with(",0,")), "only the last row has an end and a cost");

    let still = "throttle,steer\n".to_string() + &"0,0\n".repeat(250);
    folder.write("still.csv", still);
    let said = folder.sskp("rollout --env toy --from start.csv --actions still.csv");
    said.refused(&["start.csv", "cannot be read"]);
    folder.write("start.csv", "x,y,vx,vy\n0,0,0,0\n");
    let said = folder.sskp("rollout --env toy --from start.csv --actions still.csv --out limit.csv").ok().out;
    assert!(said.contains("200 steps") && said.contains("reached the time limit"), "{said}");
    assert!(said.contains("50 of the 250 actions were not played"), "{said}");
    assert!(folder.read("limit.csv").trim_end().ends_with(",0,truncated"));
}

#[test]
fn a_rollout_from_a_seeds_start_state_equals_the_one_from_the_seed() {
    let robots = [
        sskp_robots::ant::robot(),
        sskp_robots::cheetah::robot(),
        sskp_robots::hopper::robot(),
        sskp_robots::humanoid::robot(),
    ];
    for robot in robots {
        let name = robot.name.clone();
        let mut env = MujocoEnv::new(robot, EnvOptions::default()).unwrap();
        env.reset(&mut Rng::stream(7, "env")).unwrap();
        let state: Vec<String> = env.data().qpos().iter().chain(env.data().qvel()).map(|x| format!("{x:?}")).collect();
        let folder = Folder::new();
        folder.write("state.csv", env.snapshot().unwrap().state_names().join(",") + "\n" + &state.join(",") + "\n");
        folder.write("actions.csv", actions(Registry::standard().env(&name).unwrap(), 60));
        let play = format!("rollout --env {} --actions actions.csv", name);
        folder.sskp(&format!("{play} --seed 7 --out seeded.csv")).ok();
        folder.sskp(&format!("{play} --from state.csv --out given.csv")).ok();
        assert_eq!(folder.read("seeded.csv"), folder.read("given.csv"), "{name}");
        assert!(folder.read("given.csv").lines().count() > 20, "{name}");
    }
}

#[test]
fn contact_costs_change_ants_reward_and_nothing_else() {
    let folder = Folder::new();
    folder.sskp("rollout --env ant --random 40 --out off.csv").ok();
    folder.sskp("rollout --env ant --random 40 --contact-costs --out on.csv").ok();
    let (off, on) = (folder.read("off.csv"), folder.read("on.csv"));
    let reward = off.lines().next().unwrap().split(',').position(|column| column == "reward").unwrap();
    let without_reward = |text: &str| {
        let rows = text
            .lines()
            .map(|l| l.split(',').enumerate().filter(|(i, _)| *i != reward).map(|(_, c)| c.to_string()).collect());
        rows.collect::<Vec<Vec<String>>>()
    };
    assert_eq!(without_reward(&off), without_reward(&on));
    assert_ne!(off, on);
}

#[test]
fn a_page_is_written_beside_the_table() {
    let folder = Folder::new();
    let said = folder.sskp("rollout --task hopper --seed 3 --out a.csv --html a.html").ok().out;
    assert!(said.contains("wrote a.html"), "{said}");
    let page = folder.read("a.html");
    assert!(page.contains("<title>hopper: random actions, seed 3</title>"));
    let steps = folder.read("a.csv").lines().count() - 1;
    assert!(page.contains(&format!("\"frames\":{},", steps + 1)), "the start state is a frame, too");
    assert_eq!(folder.files(), ["a.csv", "a.html"]);
}

#[test]
fn bad_input_files_are_named_by_row_and_column_and_nothing_is_written() {
    let action_header = "thigh_joint,leg_joint,foot_joint\n";
    let state_header = "x,z,pitch,thigh,leg,foot,vx,vz,vpitch,vthigh,vleg,vfoot\n";
    let good_state = "0,1.25,0,0,0,0,0,0,0,0,0,0\n";
    let cases: &[(&str, String, &[&str])] = &[
        ("actions", String::new(), &["is empty"]),
        ("actions", action_header.into(), &["nothing below"]),
        ("actions", "0,0,0\n0,0,0\n".into(), &["header row (line 1)", "numbers"]),
        ("actions", format!("{action_header}0,0,0\n0,0\n"), &["row 2 (line 3)", "column 3 (foot_joint) is missing"]),
        ("actions", format!("{action_header}0,0,0,0\n"), &["row 1 (line 2)", "column 4 is one too many"]),
        (
            "actions",
            format!("{action_header}0,zero,0\n"),
            &["row 1 (line 2), column 2 (leg_joint)", "\"zero\" is not a number"],
        ),
        ("actions", format!("{action_header}0,,0\n"), &["row 1 (line 2), column 2 (leg_joint)", "empty"]),
        (
            "actions",
            format!("{action_header}0,0,NaN\n"),
            &["row 1 (line 2), column 3 (foot_joint)", "not a finite number"],
        ),
        (
            "actions",
            format!("{action_header}0,0,-inf\n"),
            &["row 1 (line 2), column 3 (foot_joint)", "not a finite number"],
        ),
        (
            "actions",
            format!("{action_header}0,0,0\n1.5,0,0\n"),
            &["row 2 (line 3), column 1 (thigh_joint)", "outside [-1, 1]"],
        ),
        ("actions", "thigh_joint,leg_joint\n0,0\n".into(), &["header row (line 1), column 3 (foot_joint) is missing"]),
        ("from", String::new(), &["is empty"]),
        ("from", state_header.into(), &["nothing below"]),
        ("from", good_state.into(), &["header row (line 1)", "numbers"]),
        ("from", format!("{state_header}{good_state}{good_state}"), &["row 2 (line 3)", "one row is needed"]),
        ("from", format!("{state_header}0,1.25\n"), &["row 1 (line 2)", "column 3 (qpos_2) is missing"]),
        (
            "from",
            format!("{state_header}{}", good_state.replace("1.25", "up")),
            &["column 2 (qpos_1)", "\"up\" is not a number"],
        ),
        (
            "from",
            format!("{state_header}{}", good_state.replace("1.25", "inf")),
            &["column 2 (qpos_1)", "not a finite number"],
        ),
        (
            "from",
            format!("{state_header}{}", good_state.replace("1.25", "1e12")),
            &["hopper cannot start from that state"],
        ),
    ];
    for (option, text, parts) in cases {
        let folder = Folder::new();
        folder.write("input.csv", text);
        let ran = folder.sskp(&format!("rollout --env hopper --{option} input.csv --out out.csv --html out.html"));
        ran.refused(&[&["input.csv"], *parts].concat());
        assert_eq!(ran.out, "");
        assert_eq!(folder.files(), ["input.csv"], "{text:?}");
    }
}

#[test]
fn what_cannot_be_written_is_said_before_anything_is_played() {
    let folder = Folder::new();
    folder
        .sskp("rollout --env toy --out no/such/a.csv")
        .refused(&["no/such/a.csv cannot be written", "there is no folder"]);
    folder.sskp("rollout --env toy --html .").refused(&["it is a folder"]);
    folder.sskp("rollout --env toy --out a.csv --html no/a.html").refused(&["no/a.html"]);
    folder.sskp("rollout --env toy --out a.csv --html a.csv").refused(&["a.csv is named twice"]);
    folder.write("actions.csv", "throttle,steer\n0,0\n");
    folder.sskp("rollout --env toy --actions actions.csv --out ./actions.csv").refused(&["named twice"]);
    assert_eq!(folder.files(), ["actions.csv"]);
    assert_eq!(folder.read("actions.csv"), "throttle,steer\n0,0\n");
}

#[test]
fn a_disk_that_is_full_is_a_failed_run() {
    let folder = Folder::new();
    let ran = folder.sskp("rollout --env toy --out /dev/full");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.err.matches("No space left").count(), 1, "{}", ran.err);
}

#[test]
fn arguments_that_contradict_each_other_or_make_no_sense_are_bad_usage() {
    let folder = Folder::new();
    for args in [
        "rollout",
        "rollout --env hopper --random 0",
        "rollout --env hopper --random -3",
        "rollout --env hopper --random 5 --actions a.csv",
        "rollout --env hopper --seed x",
        "rollout --env hopper --fly",
        "fly",
        "",
    ] {
        let ran = folder.sskp(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args}: {}", ran.err);
    }
    assert!(folder.files().is_empty());
}
