//! `cargo xtask bench envs`: how fast the robots step, against Gymnasium's environments of the same physics.
//!
//! Machines are shared and clocks drift, so the two sides take turns within each repeat, ratios are taken between
//! neighbours in time, and the median over repeats is what counts.
//!
//! Random actions cost time, too. Ours are drawn step by step within the measured time. Gymnasium is measured twice:
//! with `action_space.sample()`, the way its users draw actions, which the aims refer to; and with actions drawn a
//! block at a time by NumPy, which takes that cost away almost entirely and is therefore shown beside it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;
use sskp_fetch::Python;

use super::peers::measure;
use super::record;
use super::table::{markdown, verdict};
use crate::venv::virtual_environment;
use crate::{build, json};

/// A robot by its name in `sskp` and in benches/envs_gymnasium.py, and how many times Gymnasium's speed we aim at.
struct Robot {
    name: &'static str,
    aim: f64,
}

/// Hopper and Cheetah are light, so that Python's share of a step is large; Ant and Humanoid spend theirs in MuJoCo.
const ROBOTS: [Robot; 4] = [
    Robot { name: "hopper", aim: 2.5 },
    Robot { name: "cheetah", aim: 2.5 },
    Robot { name: "ant", aim: 1.6 },
    Robot { name: "humanoid", aim: 1.6 },
];

/// Two threads must be worth this many times one.
const THREADS_AIM: f64 = 1.8;

/// Resident memory that one more environment may take, beyond the model that all share.
const MEMORY_AIM_KIB: f64 = 2048.0;

/// What the virtual environment holds. The stamp in it repeats this, so that a change here makes a new one.
/// Gymnasium's own extra names what its MuJoCo environments import, whether or not anything is drawn.
const REQUIREMENTS: [&str; 3] = ["mujoco==3.17.0", "gymnasium[mujoco]==1.4.0", "numpy"];

#[derive(Args)]
pub struct Options {
    /// How often to measure everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// How long each measurement takes
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Measure only this robot (may be given more than once)
    #[arg(long = "env", value_name = "ROBOT", value_parser = ROBOTS.map(|robot| robot.name))]
    robots: Vec<String>,
}

/// One measurement.
struct Row {
    repeat: u32,
    robot: &'static str,
    side: Side,
    steps: f64,
    seconds: f64,
    steps_per_second: f64,
    /// Ours only.
    rss_per_env_kib: Option<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Ours {
        threads: u32,
    },
    /// Actions by `action_space.sample()`.
    Gymnasium,
    /// Actions drawn a block at a time.
    GymnasiumBlock,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Ours { .. } => "sskp",
            Side::Gymnasium => "gymnasium",
            Side::GymnasiumBlock => "gymnasium-block",
        }
    }

    fn threads(self) -> u32 {
        match self {
            Side::Ours { threads } => threads,
            Side::Gymnasium | Side::GymnasiumBlock => 1,
        }
    }
}

const ONE: Side = Side::Ours { threads: 1 };
const TWO: Side = Side::Ours { threads: 2 };

pub fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(options.seconds > 0.0 && options.seconds.is_finite(), "--seconds must be above zero");
    let script = root.join("benches/envs_gymnasium.py");
    let python =
        virtual_environment(&root.join("vendor/venv-envs"), &Python::new("python3"), &REQUIREMENTS, "about 240 MB")?;
    let sskp = build::program(root, build::BENCH)?;

    let time = record::now();
    let mut sides = vec![Side::GymnasiumBlock, ONE, Side::Gymnasium];
    if record::cores() >= 2 {
        sides.push(TWO);
    } else {
        println!("two threads are not measured: this machine has one core");
    }
    let chosen = |robot: &&Robot| options.robots.is_empty() || options.robots.iter().any(|name| name == robot.name);
    let robots: Vec<&Robot> = ROBOTS.iter().filter(chosen).collect();

    let mut rows = Vec::new();
    let mut versions = String::new();
    for repeat in 1..=options.repeats {
        for robot in &robots {
            println!("repeat {repeat} of {}: {}", options.repeats, robot.name);
            for &side in &sides {
                let seconds = options.seconds.to_string();
                let mut command = match side {
                    Side::Ours { threads } => {
                        let mut command = Command::new(&sskp);
                        command.args(["envs", "--json", "--threads", &threads.to_string()]);
                        command
                    }
                    Side::Gymnasium | Side::GymnasiumBlock => {
                        let actions = if side == Side::Gymnasium { "sample" } else { "block" };
                        let mut command = Command::new(&python);
                        // Not in the repository: MuJoCo may write a log file where it runs.
                        command.current_dir(root.join("vendor/venv-envs")).arg(&script).args(["--actions", actions]);
                        command
                    }
                };
                let line =
                    measure(command.env("OMP_NUM_THREADS", "1").args(["--env", robot.name, "--seconds", &seconds]))?;
                rows.push(row(repeat, robot.name, side, &line)?);
                if side == Side::Gymnasium && versions.is_empty() {
                    versions = their_versions(&line);
                }
            }
        }
        // The side that went first goes last next time, so that drift within a repeat favours nobody.
        sides.reverse();
    }

    let summaries: Vec<Summary> = robots.iter().map(|robot| Summary::of(robot, &rows)).collect();
    println!("\n{}", table(&summaries));
    println!("{}", verdict(summaries.iter().flat_map(Summary::aims)));

    let commit = record::commit(root);
    let folder = record::folder(root, &time)?;
    let file = folder.join("envs.csv");
    let lines: Vec<String> = rows.iter().map(|row| csv(row, &time, &commit)).collect();
    record::append(&file, HEADER, &lines)?;
    record::explain(&folder, "envs", &section(&summaries, options, &time, &commit, &versions))?;
    println!("raw rows: {}", file.strip_prefix(root).unwrap_or(&file).display());
    Ok(())
}

fn row(repeat: u32, robot: &'static str, side: Side, line: &str) -> Result<Row> {
    Ok(Row {
        repeat,
        robot,
        side,
        steps: json::number(line, "steps")?,
        seconds: json::number(line, "seconds")?,
        steps_per_second: json::number(line, "steps_per_second")?,
        rss_per_env_kib: match side {
            Side::Ours { .. } => Some(json::number(line, "rss_per_env_kib")?),
            Side::Gymnasium | Side::GymnasiumBlock => None,
        },
    })
}

fn their_versions(line: &str) -> String {
    let version = |name: &str| format!("{name} {}", json::text(line, name).unwrap_or_else(|| "unknown".to_owned()));
    ["gymnasium", "mujoco", "numpy", "python"].map(version).join(", ")
}

const HEADER: &str = "time,commit,repeat,env,side,threads,steps,seconds,steps_per_second,rss_per_env_kib";

fn csv(row: &Row, time: &str, commit: &str) -> String {
    let memory = row.rss_per_env_kib.map_or_else(String::new, |kib| format!("{kib:.1}"));
    format!(
        "{time},{commit},{},{},{},{},{},{:.4},{:.1},{memory}",
        row.repeat,
        row.robot,
        row.side.name(),
        row.side.threads(),
        row.steps,
        row.seconds,
        row.steps_per_second
    )
}

/// What the repeats of one robot amount to.
struct Summary {
    robot: &'static str,
    aim: f64,
    /// Medians of steps per second.
    one: f64,
    two: Option<f64>,
    gymnasium: f64,
    block: f64,
    /// Medians of the ratios within each repeat.
    against_gymnasium: f64,
    against_block: f64,
    two_against_one: Option<f64>,
    /// The largest seen.
    memory_kib: f64,
}

impl Summary {
    fn of(robot: &Robot, rows: &[Row]) -> Summary {
        let speeds = |side: Side| -> Vec<f64> {
            let of_side = rows.iter().filter(|row| row.robot == robot.name && row.side == side);
            of_side.map(|row| row.steps_per_second).collect()
        };
        // Both lists are in the order of the repeats.
        let ratio =
            |above: &[f64], below: &[f64]| record::median(above.iter().zip(below).map(|(a, b)| a / b).collect());
        let (one, two) = (speeds(ONE), speeds(TWO));
        let (gymnasium, block) = (speeds(Side::Gymnasium), speeds(Side::GymnasiumBlock));
        let memory = rows.iter().filter(|row| row.robot == robot.name).filter_map(|row| row.rss_per_env_kib);
        Summary {
            robot: robot.name,
            aim: robot.aim,
            against_gymnasium: ratio(&one, &gymnasium),
            against_block: ratio(&one, &block),
            two_against_one: (!two.is_empty()).then(|| ratio(&two, &one)),
            memory_kib: memory.fold(0.0, f64::max),
            one: record::median(one),
            two: (!two.is_empty()).then(|| record::median(two)),
            gymnasium: record::median(gymnasium),
            block: record::median(block),
        }
    }

    /// Every aim of this robot in words, and whether it was met.
    fn aims(&self) -> Vec<(String, bool)> {
        let mut aims = vec![
            (
                format!("{} {:.2}x Gymnasium (aim {}x)", self.robot, self.against_gymnasium, self.aim),
                self.against_gymnasium >= self.aim,
            ),
            (
                format!("{} {:.0} KiB per environment (aim below {MEMORY_AIM_KIB})", self.robot, self.memory_kib),
                self.memory_kib < MEMORY_AIM_KIB,
            ),
        ];
        if let Some(ratio) = self.two_against_one {
            aims.push((
                format!("{} two threads {ratio:.2}x one (aim {THREADS_AIM}x)", self.robot),
                ratio >= THREADS_AIM,
            ));
        }
        aims
    }
}

/// The medians as a Markdown table, which reads well in a terminal, too.
fn table(summaries: &[Summary]) -> String {
    let or_dash = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let mut rows = vec![
        ["robot", "1 thread", "2 threads", "gym", "gym, block", "1 / gym", "1 / gym, block", "2 / 1", "KiB per env"]
            .map(str::to_owned),
    ];
    rows.extend(summaries.iter().map(|summary| {
        [
            summary.robot.to_owned(),
            format!("{:.0}", summary.one),
            or_dash(summary.two, 0),
            format!("{:.0}", summary.gymnasium),
            format!("{:.0}", summary.block),
            format!("{:.2}", summary.against_gymnasium),
            format!("{:.2}", summary.against_block),
            or_dash(summary.two_against_one, 2),
            format!("{:.0}", summary.memory_kib),
        ]
    }));
    markdown(&rows)
}

fn section(summaries: &[Summary], options: &Options, time: &str, commit: &str, versions: &str) -> String {
    let robots: String = options.robots.iter().map(|robot| format!(" --env {robot}")).collect();
    format!(
        "`cargo xtask bench envs --repeats {} --seconds {}{robots}`, started {time}, commit {commit}.\n\n\
         Control steps per second under random actions, resets included. `envs.csv` has the raw rows of this and earlier\n\
         runs of the day. The table has, for the last run, medians of steps per second, medians of the ratios within each\n\
         repeat, and the largest memory seen.\n\n\
         - 1 thread, 2 threads: ours; actions are drawn step by step\n\
         - gym: one process of Gymnasium; actions by `action_space.sample()`, as its users draw them; the aims refer to this\n\
         - gym, block: the same with actions drawn by NumPy a block at a time, which costs almost nothing\n\n\
         Versions: ours MuJoCo 3.17.0, {}; theirs {versions}.\n\n\
         {}\n\n{}\n",
        options.repeats,
        options.seconds,
        record::compiler(),
        table(summaries),
        verdict(summaries.iter().flat_map(Summary::aims))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(repeat: u32, side: Side, speed: f64) -> Row {
        let rss_per_env_kib = matches!(side, Side::Ours { .. }).then_some(200.0 + f64::from(repeat));
        Row { repeat, robot: "hopper", side, steps: speed, seconds: 1.0, steps_per_second: speed, rss_per_env_kib }
    }

    #[test]
    fn ratios_are_taken_within_a_repeat() {
        // The machine is twice as slow in the second repeat: the ratios 3, 3, 2 do not notice.
        let mut rows = Vec::new();
        for (repeat, one, two, gymnasium) in
            [(1, 300.0, 570.0, 100.0), (2, 150.0, 285.0, 50.0), (3, 300.0, 300.0, 150.0)]
        {
            rows.push(measured(repeat, ONE, one));
            rows.push(measured(repeat, Side::Gymnasium, gymnasium));
            rows.push(measured(repeat, Side::GymnasiumBlock, 2.0 * gymnasium));
            rows.push(measured(repeat, TWO, two));
        }
        let summary = Summary::of(&ROBOTS[0], &rows);
        assert_eq!(summary.against_gymnasium, 3.0);
        assert_eq!(summary.against_block, 1.5);
        assert_eq!(summary.two_against_one, Some(1.9));
        assert_eq!((summary.one, summary.gymnasium), (300.0, 100.0));
        assert_eq!(summary.memory_kib, 203.0);
        assert_eq!(verdict([summary].iter().flat_map(Summary::aims)), "passed: all 3 aims are met");
    }

    #[test]
    fn a_missed_aim_is_named() {
        let sides = [(ONE, 200.0), (Side::Gymnasium, 100.0), (Side::GymnasiumBlock, 150.0)];
        let rows = sides.map(|(side, speed)| measured(1, side, speed));
        let summary = Summary::of(&ROBOTS[0], &rows);
        assert_eq!(summary.two_against_one, None);
        let text = verdict([summary].iter().flat_map(Summary::aims));
        assert_eq!(text, "failed: 1 of 2 aims are missed: hopper 2.00x Gymnasium (aim 2.5x)");
    }

    #[test]
    fn a_row_is_read_and_written() {
        let line =
            r#"{"env":"ant","threads":2,"steps":1000,"seconds":0.5,"steps_per_second":2000.0,"rss_per_env_kib":201.5}"#;
        let row = row(1, "ant", TWO, line).unwrap();
        assert_eq!(csv(&row, "T", "c"), "T,c,1,ant,sskp,2,1000,0.5000,2000.0,201.5");
        assert_eq!(HEADER.split(',').count(), 10);
    }
}
