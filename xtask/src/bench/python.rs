//! `cargo xtask bench python`: our robots, vectors of them and runs through Python, against Gymnasium's and EnvPool's.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use clap::Args;

use super::peers::{self, Peer, measure};
use super::record;
use super::table::{markdown, verdict};
use crate::{build, json, wheel};

#[derive(Args)]
pub struct Options {
    /// How often to measure everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// How long each measurement of environment steps takes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// Robots of a vector
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    envs: u16,
}

/// The robots, and how many times Gymnasium's speed ours is to have through Python.
const ROBOTS: [(&str, f64); 4] = [("hopper", 2.0), ("cheetah", 2.0), ("ant", 1.4), ("humanoid", 1.4)];
/// A run from Python is to have at least this share of the command line's speed.
const TRAIN_AIM: f64 = 0.95;
/// Steps of the timed runs, and what makes them short.
const TRAIN: (u32, &str) = (1500, "sac.random_steps=500");

struct Row {
    repeat: u32,
    what: &'static str,
    robot: &'static str,
    side: &'static str,
    value: f64,
}

pub fn run(root: &Path, options: &Options) -> Result<()> {
    let (python, missing) = peers::environment(root, &[Peer::EnvPool])?;
    wheel::install(&python, &wheel::build(root)?)?;
    let program = build::program(root, build::SSKP)?;
    let (time, commit) = (record::now(), record::commit(root));
    let threads = record::cores().min(usize::from(options.envs)).to_string();
    let (seconds, envs) = (options.seconds.to_string(), options.envs.to_string());
    let ask = |words: &[&str]| -> Result<f64> {
        let mut command = Command::new(&python);
        // Not in the repository: MuJoCo may write a log file where it runs.
        command.current_dir(root.join("vendor")).arg(root.join("benches/python_package.py")).args(words);
        json::number(&measure(&mut command)?, "value")
    };
    let mut rows = Vec::new();
    for repeat in 1..=options.repeats {
        let mut add = |what, robot, side, value: f64| {
            println!("repeat {repeat}: {what} {robot} {side}: {value:.1}");
            rows.push(Row { repeat, what, robot, side, value });
        };
        // The side that went first goes last next time, so that drift within a repeat favours nobody.
        let turns = |mut sides: Vec<&'static str>| {
            if repeat % 2 == 0 {
                sides.reverse();
            }
            sides
        };
        for (robot, _) in ROBOTS {
            for draw in ["sample", "block"] {
                for side in turns(vec!["ours", "gymnasium"]) {
                    add(draw, robot, side, ask(&["single", robot, side, draw, &seconds])?);
                }
            }
            for side in turns(vec!["ours", "envpool", "gymnasium"]) {
                if side != "envpool" || missing.is_empty() {
                    add("vector", robot, side, ask(&["vector", robot, side, &envs, &threads, &seconds])?);
                }
            }
        }
        for side in turns(vec!["ours", "command line"]) {
            let value = match side {
                "ours" => ask(&["train", "sac", "hopper", &TRAIN.0.to_string(), TRAIN.1])?,
                _ => command_line(&program)?,
            };
            add("train", "hopper", side, value);
        }
        add("foreign", "hopper", "ours", ask(&["foreign", "hopper", "20000"])?);
    }
    let lines: Vec<String> = rows
        .iter()
        .map(|r| format!("{time},{commit},{},{},{},{},{:.2}", r.repeat, r.what, r.robot, r.side, r.value))
        .collect();
    let folder = record::folder(root, &time)?;
    record::append(&folder.join("python.csv"), "time,commit,repeat,what,robot,side,value", &lines)?;
    let section = section(&rows, options, &threads, &time, &commit) + &peers::left_out(&missing);
    record::explain(&folder, "python", &section)?;
    println!("\n{section}");
    Ok(())
}

/// Steps per second of the same run from the command line, as its summary has them.
fn command_line(program: &Path) -> Result<f64> {
    let folder = std::env::temp_dir().join(format!("sskp-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Command::new(program);
    command.args(["train", "--algo", "sac", "--env", "hopper", "--quiet", "--set", TRAIN.1, "-n"]);
    let status = command.arg(TRAIN.0.to_string()).arg("--log-dir").arg(&folder).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "the run from the command line failed");
    let summary = std::fs::read_to_string(folder.join("summary.json"))?.replace('\n', " ");
    let _ = std::fs::remove_dir_all(&folder);
    Ok(f64::from(TRAIN.0) / json::number(&summary, "wall_seconds")?)
}

/// Values of one side, in the order of the repeats.
fn values(rows: &[Row], what: &str, robot: &str, side: &str) -> Vec<f64> {
    rows.iter().filter(|r| (r.what, r.robot, r.side) == (what, robot, side)).map(|r| r.value).collect()
}

/// The median of the ratios within each repeat; none where a side was left out.
fn ratio(rows: &[Row], what: &str, robot: &str, sides: [&str; 2]) -> Option<f64> {
    let [above, below] = sides.map(|side| values(rows, what, robot, side));
    let ratios: Vec<f64> = above.iter().zip(below).map(|(a, b)| a / b).collect();
    (!ratios.is_empty()).then(|| record::median(ratios))
}

fn section(rows: &[Row], options: &Options, threads: &str, time: &str, commit: &str) -> String {
    let median = |what, robot, side| {
        let values = values(rows, what, robot, side);
        (!values.is_empty()).then(|| record::median(values))
    };
    let cell = |number: Option<f64>, digits: usize| number.map_or("–".to_owned(), |n| format!("{n:.digits$}"));
    let mut single = vec![["robot", "ours", "gym", "ratio", "ours, block", "gym, block", "ratio"].map(str::to_owned)];
    let mut vector = vec![["robot", "ours", "EnvPool", "AsyncVectorEnv", "/ EnvPool", "/ Async"].map(str::to_owned)];
    let mut aims = Vec::new();
    for (robot, aim) in ROBOTS {
        let gym = ["ours", "gymnasium"];
        let speed = |what, side| cell(median(what, robot, side), 0);
        let times = |what, sides| cell(ratio(rows, what, robot, sides), 2);
        single.push([
            robot.to_owned(),
            speed("sample", "ours"),
            speed("sample", "gymnasium"),
            times("sample", gym),
            speed("block", "ours"),
            speed("block", "gymnasium"),
            times("block", gym),
        ]);
        vector.push([
            robot.to_owned(),
            speed("vector", "ours"),
            speed("vector", "envpool"),
            speed("vector", "gymnasium"),
            times("vector", ["ours", "envpool"]),
            times("vector", gym),
        ]);
        if let Some(sampled) = ratio(rows, "sample", robot, gym) {
            aims.push((format!("{robot} {sampled:.2}x Gymnasium (aim {aim}x)"), sampled >= aim));
        }
        if let Some(pool) = ratio(rows, "vector", robot, ["ours", "envpool"]) {
            aims.push((format!("{robot} vector {pool:.2}x EnvPool (aim 1x)"), pool >= 1.0));
        }
    }
    let share = ratio(rows, "train", "hopper", ["ours", "command line"]).unwrap_or(0.0);
    aims.push((
        format!("a run from Python {:.1} % of the command line's speed (aim 95 %)", 100.0 * share),
        share >= TRAIN_AIM,
    ));
    format!(
        "`cargo xtask bench python --repeats {} --seconds {} --envs {}`, started {time}, commit {commit}.\n\n\
         Control steps per second through Python under random actions, resets included: medians, and medians of the ratios within a\n\
         repeat. `python.csv` has the raw rows.\n\n\
         - ours, gym: `gymnasium.make`, actions by `action_space.sample()`, as users draw them; the aims refer to this\n\
         - block: the same with actions drawn beforehand, which costs nothing\n\n{}\n\n\
         {} robots on {threads} threads, actions drawn beforehand, all stepped together: `sskp.make_vec`; EnvPool 1.2.5 with as many threads\n\
         and the `v4` robots, which have our models, observations and ends; Gymnasium's AsyncVectorEnv, a process for each robot.\n\n{}\n\n\
         SAC on Hopper from Python has {} steps/s, from the command line {}: {:.1} %. A step of Gymnasium's own Hopper costs {} µs more inside of\n\
         a run than in a bare loop of Python (actions drawn, the step kept, two changes of threads).\n\n{}\n",
        options.repeats,
        options.seconds,
        options.envs,
        markdown(&single),
        options.envs,
        markdown(&vector),
        cell(median("train", "hopper", "ours"), 1),
        cell(median("train", "hopper", "command line"), 1),
        100.0 * share,
        cell(median("foreign", "hopper", "ours"), 0),
        verdict(aims.into_iter())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_repeat_and_a_missed_aim_is_named() {
        let mut rows = Vec::new();
        for (repeat, slow) in [(1, 1.0), (2, 0.5), (3, 1.0)] {
            for (robot, _) in ROBOTS {
                for what in ["sample", "block", "vector"] {
                    for (side, value) in [("ours", 300.0), ("gymnasium", 100.0), ("envpool", 310.0)] {
                        rows.push(Row { repeat, what, robot, side, value: value * slow });
                    }
                }
            }
            for (side, value) in [("ours", 99.0), ("command line", 100.0)] {
                rows.push(Row { repeat, what: "train", robot: "hopper", side, value });
            }
            rows.push(Row { repeat, what: "foreign", robot: "hopper", side: "ours", value: 20.0 });
        }
        assert_eq!(ratio(&rows, "sample", "ant", ["ours", "gymnasium"]), Some(3.0));
        let options = Options { repeats: 3, seconds: 1, envs: 16 };
        let text = section(&rows, &options, "2", "T", "c");
        assert!(text.contains("failed: 4 of 9 aims are missed: hopper vector 0.97x EnvPool (aim 1x)"), "{text}");
        rows.retain(|row| row.side != "envpool");
        let text = section(&rows, &options, "2", "T", "c");
        assert!(text.contains("passed: all 5 aims are met") && text.contains(" – |"), "{text}");
    }
}
