//! `cargo xtask bench python`: our robots, vectors of them and runs through Python, against Gymnasium's and EnvPool's; first, that
//! stable-baselines3 trains on ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use sskp_fetch::Python;

use super::peers::measure;
use super::record;
use super::table::{markdown, verdict};
use crate::venv::virtual_environment;
use crate::{build, json, wheel};

/// What is compared with. PyPI has no PyTorch for Linux without CUDA's libraries: several gigabytes.
pub const PEERS: [&str; 7] = [
    "stable-baselines3==2.9.2",
    "torch==2.15.0",
    "gymnasium[mujoco]==1.4.0",
    "mujoco==3.17.0",
    "envpool==1.2.5",
    "onnxruntime==1.31.1",
    "onnx==1.23.2",
];

#[derive(Args)]
pub struct Options {
    /// How often to measure everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// How long each measurement of environment steps takes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=3600))]
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

/// The interpreter that has everything to compare with.
pub fn environment(root: &Path) -> Result<PathBuf> {
    virtual_environment(&root.join("vendor/venv-peers"), &Python::new("python3"), &PEERS, "about 3 GB")
}

/// Builds the wheel and installs it beside the software that it is compared with.
pub fn installed(root: &Path) -> Result<PathBuf> {
    let interpreter = environment(root)?;
    let built = wheel::build(root)?;
    wheel::install(&interpreter, &built)?;
    Ok(interpreter)
}

struct Row {
    repeat: u32,
    what: &'static str,
    robot: &'static str,
    side: &'static str,
    value: f64,
}

pub fn run(root: &Path, options: &Options) -> Result<()> {
    let python = installed(root)?;
    let program = build::program(root, build::SSKP)?;
    println!("stable-baselines3 on our robots");
    let status = Command::new(&python).arg(root.join("tests/python/check_sb3.py")).status().context("python")?;
    ensure!(status.success(), "stable-baselines3 does not train on ours: see its messages above");
    let (time, commit) = (record::now(), record::commit(root));
    let threads = record::cores().min(usize::from(options.envs)).to_string();
    let (seconds, envs) = (options.seconds.to_string(), options.envs.to_string());
    let ask = |words: &[&str]| -> Result<f64> {
        let mut command = Command::new(&python);
        command.current_dir(root).arg("benches/python_package.py").args(words);
        json::number(&measure(&mut command)?, "value")
    };
    let mut rows = Vec::new();
    for repeat in 1..=options.repeats {
        let mut add = |what, robot, side, value: f64| {
            println!("repeat {repeat}: {what} {robot} {side}: {value:.1}");
            rows.push(Row { repeat, what, robot, side, value });
        };
        for (robot, _) in ROBOTS {
            for draw in ["sample", "block"] {
                for side in ["ours", "gymnasium"] {
                    add(draw, robot, side, ask(&["single", robot, side, draw, &seconds])?);
                }
            }
            for side in ["ours", "envpool", "gymnasium"] {
                add("vector", robot, side, ask(&["vector", robot, side, &envs, &threads, &seconds])?);
            }
        }
        let steps = TRAIN.0.to_string();
        add("train", "hopper", "ours", ask(&["train", "sac", "hopper", &steps, TRAIN.1])?);
        add("train", "hopper", "command line", command_line(&program)?);
        add("foreign", "hopper", "ours", ask(&["foreign", "hopper", "20000"])?);
    }
    let lines: Vec<String> = rows
        .iter()
        .map(|r| format!("{time},{commit},{},{},{},{},{:.2}", r.repeat, r.what, r.robot, r.side, r.value))
        .collect();
    let folder = record::folder(root, &time)?;
    record::append(&folder.join("python.csv"), "time,commit,repeat,what,robot,side,value", &lines)?;
    let section = section(&rows, options, &threads, &time, &commit);
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
    let status =
        command.arg(TRAIN.0.to_string()).arg("--log-dir").arg(&folder).stdout(std::process::Stdio::null()).status()?;
    ensure!(status.success(), "the run from the command line failed");
    let summary = std::fs::read_to_string(folder.join("summary.json"))?.replace('\n', " ");
    let _ = std::fs::remove_dir_all(&folder);
    Ok(f64::from(TRAIN.0) / json::number(&summary, "wall_seconds")?)
}

/// Values of one side, in the order of the repeats.
fn values(rows: &[Row], what: &str, robot: &str, side: &str) -> Vec<f64> {
    rows.iter().filter(|r| (r.what, r.robot, r.side) == (what, robot, side)).map(|r| r.value).collect()
}

/// The median of the ratios within each repeat.
fn ratio(rows: &[Row], what: &str, robot: &str, sides: [&str; 2]) -> f64 {
    let [above, below] = sides.map(|side| values(rows, what, robot, side));
    record::median(above.iter().zip(below).map(|(a, b)| a / b).collect())
}

fn section(rows: &[Row], options: &Options, threads: &str, time: &str, commit: &str) -> String {
    let median = |what, robot, side| record::median(values(rows, what, robot, side));
    let head = [
        "robot",
        "ours",
        "gym",
        "ratio",
        "ours, block",
        "gym, block",
        "ratio",
        "vector",
        "EnvPool",
        "AsyncVectorEnv",
        "/ EnvPool",
        "/ Async",
    ];
    let mut table = vec![head.map(str::to_owned)];
    let mut aims = Vec::new();
    for (robot, aim) in ROBOTS {
        let gym = ["ours", "gymnasium"];
        let (sampled, drawn) = (ratio(rows, "sample", robot, gym), ratio(rows, "block", robot, gym));
        let (pool, processes) = (ratio(rows, "vector", robot, ["ours", "envpool"]), ratio(rows, "vector", robot, gym));
        let whole = |what, side| format!("{:.0}", median(what, robot, side));
        let cells = [
            robot.to_owned(),
            whole("sample", "ours"),
            whole("sample", "gymnasium"),
            format!("{sampled:.2}"),
            whole("block", "ours"),
            whole("block", "gymnasium"),
            format!("{drawn:.2}"),
            whole("vector", "ours"),
            whole("vector", "envpool"),
            whole("vector", "gymnasium"),
            format!("{pool:.2}"),
            format!("{processes:.2}"),
        ];
        table.push(cells);
        aims.push((format!("{robot} {sampled:.2}x Gymnasium (aim {aim}x)"), sampled >= aim));
        aims.push((format!("{robot} vector {pool:.2}x EnvPool (aim 1x)"), pool >= 1.0));
    }
    let share = ratio(rows, "train", "hopper", ["ours", "command line"]);
    aims.push((
        format!("a run from Python {:.1} % of the command line's speed (aim 95 %)", 100.0 * share),
        share >= TRAIN_AIM,
    ));
    format!(
        "`cargo xtask bench python --repeats {} --seconds {} --envs {}`, started {time}, commit {commit}.\n\n\
         Control steps per second through Python under random actions, resets included: medians, and medians of the ratios within a\n\
         repeat. `python.csv` has the raw rows.\n\n\
         - ours, gym: `gymnasium.make`, actions by `action_space.sample()`, as users draw them; the aims refer to this\n\
         - block: the same with actions drawn beforehand, which costs nothing\n\
         - vector: {} robots on {threads} threads, actions drawn beforehand: `sskp.make_vec`, EnvPool 1.2.5 with as many threads, Gymnasium's\n\
           AsyncVectorEnv with a process each\n\n\
         {}\n\n\
         SAC on Hopper from Python has {:.1} steps/s, from the command line {:.1}. A step of Gymnasium's own Hopper costs {:.0} µs more inside of a\n\
         run than in a bare loop of Python (actions drawn, the step kept, two changes of threads).\n\n{}\n",
        options.repeats,
        options.seconds,
        options.envs,
        options.envs,
        markdown(&table),
        median("train", "hopper", "ours"),
        median("train", "hopper", "command line"),
        median("foreign", "hopper", "ours"),
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
        assert_eq!(ratio(&rows, "sample", "ant", ["ours", "gymnasium"]), 3.0);
        let text = section(&rows, &Options { repeats: 3, seconds: 1, envs: 16 }, "2", "T", "c");
        assert!(text.contains("failed: 4 of 9 aims are missed: hopper vector 0.97x EnvPool (aim 1x)"), "{text}");
    }
}
