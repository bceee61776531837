//! `cargo xtask bench update`: how fast SAC learns, against stable-baselines3 (PyTorch) and sbx (JAX); then what one update
//! of every learner takes, which is [`super::methods`].
//!
//! Everybody has the same task (Hopper, one environment step and one update per step), the same sizes (minibatches of 256,
//! two hidden layers of 256) and the same number of threads. The sides take turns within each repeat, ratios are taken
//! between neighbours in time, and the median over repeats is what counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::Args;
use sskp_fetch::Python;

use super::methods;
use super::peers::measure;
use super::record;
use super::table::{markdown, verdict};
use crate::venv::virtual_environment;
use crate::{build, json};

/// What the virtual environment holds. The stamp in it repeats this, so that a change here makes a new one. PyPI has no
/// PyTorch for Linux without CUDA's libraries, which is why this takes several gigabytes.
const REQUIREMENTS: [&str; 6] = [
    "stable-baselines3==2.9.2",
    "torch==2.15.0",
    "sbx-rl==0.28.0",
    "jax==0.10.2",
    "gymnasium[mujoco]==1.4.0",
    "mujoco==3.17.0",
];

#[derive(Args)]
pub struct Options {
    /// How often to measure everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// How long each measurement of environment steps takes, start and warm-up not counted
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// How long each measurement of a learner's update takes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3600))]
    row_seconds: u16,
    /// Robot whose sizes the learners' updates have; environment steps are always Hopper's
    #[arg(long, default_value = "hopper")]
    env: String,
    /// Measure one part only
    #[arg(long)]
    only: Option<Part>,
}

/// The two tables.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    /// Environment steps per second of SAC
    Steps,
    /// One update of every learner
    Methods,
}

/// Who learns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Ours,
    Sb3,
    Sbx,
}

impl Side {
    /// The name in the raw rows and on the scripts' command lines.
    fn name(self) -> &'static str {
        match self {
            Side::Ours => "sskp",
            Side::Sb3 => "sb3",
            Side::Sbx => "sbx",
        }
    }

    /// How many times its speed we aim at, on the same number of threads.
    fn aim(self) -> Option<f64> {
        match self {
            Side::Ours => None,
            Side::Sb3 => Some(3.0),
            Side::Sbx => Some(1.5),
        }
    }
}

/// One measurement.
struct Row {
    repeat: u32,
    side: Side,
    threads: u32,
    steps: f64,
    seconds: f64,
    steps_per_second: f64,
    arithmetic: Option<Arithmetic>,
}

/// What only our side tells.
#[derive(Clone, Copy)]
struct Arithmetic {
    update_ms: f64,
    gflop_per_second: f64,
    peak_gflop_per_second: f64,
    share_of_peak: f64,
}

pub fn run(root: &Path, options: &Options) -> Result<()> {
    let (environment, python) = environment(root)?;
    let sskp = build::program(root, build::BENCH)?;
    // Before anything is written that would make the tree another.
    let (time, commit) = (record::now(), record::commit(root));
    let programs = methods::Programs { sskp: &sskp, python: &python, environment: &environment };
    let updates = methods::updates(&programs, &options.env)?;
    if options.only != Some(Part::Methods) {
        steps(root, options, &programs, &time, &commit)?;
    }
    if options.only != Some(Part::Steps) {
        let (env, repeats, seconds) = (&options.env, options.repeats, options.row_seconds);
        let plan = methods::Plan { env, repeats, seconds, time: &time, commit: &commit };
        methods::run(root, &programs, &updates, &plan)?;
    }
    Ok(())
}

/// Environment steps per second of SAC.
fn steps(root: &Path, options: &Options, programs: &methods::Programs, time: &str, commit: &str) -> Result<()> {
    let script = root.join("benches/update_python.py");
    let mut threads = vec![1];
    if record::cores() >= 2 {
        threads.push(2);
    } else {
        println!("two threads are not measured: this machine has one core");
    }
    let mut sides = [Side::Sb3, Side::Ours, Side::Sbx];
    let mut rows = Vec::new();
    let mut versions: Vec<String> = Vec::new();
    for repeat in 1..=options.repeats {
        for &threads in &threads {
            println!("repeat {repeat} of {}: {}", options.repeats, with_unit(threads));
            for side in sides {
                let mut command = match side {
                    Side::Ours => {
                        let mut command = Command::new(programs.sskp);
                        command.args(["update", "--json"]);
                        command
                    }
                    Side::Sb3 | Side::Sbx => {
                        let mut command = Command::new(programs.python);
                        // Not in the repository: MuJoCo may write a log file where it runs.
                        command.current_dir(programs.environment).arg(&script).args(["--library", side.name()]);
                        command
                    }
                };
                let (threads_text, seconds) = (threads.to_string(), options.seconds.to_string());
                command.args(["--env", "hopper", "--threads", &threads_text, "--seconds", &seconds]);
                let line = measure(&mut command)?;
                let row = row(repeat, side, threads, &line)?;
                println!("  {:>4} {:8.1} steps/s", side.name(), row.steps_per_second);
                rows.push(row);
                versions.extend(json::text(&line, "versions").filter(|text| !versions.contains(text)));
            }
        }
        // The side that went first goes last next time, so that drift within a repeat favours nobody.
        sides.reverse();
    }

    let summaries: Vec<Summary> = threads.iter().map(|&threads| Summary::of(threads, &rows)).collect();
    println!("\n{}", table(&summaries));
    println!("{}", verdict(summaries.iter().flat_map(Summary::aims)));

    let folder = record::folder(root, time)?;
    let file = folder.join("update.csv");
    let lines: Vec<String> = rows.iter().map(|row| csv(row, time, commit)).collect();
    record::append(&file, HEADER, &lines)?;
    record::explain(&folder, "update", &section(&summaries, options, time, commit, &versions))?;
    println!("raw rows: {}", file.strip_prefix(root).unwrap_or(&file).display());
    Ok(())
}

/// The folder of the virtual environment with PyTorch and JAX, and its Python. It is made if need be.
pub fn environment(root: &Path) -> Result<(PathBuf, PathBuf)> {
    let folder = root.join("vendor/venv-update");
    let python = virtual_environment(&folder, &Python::new("python3"), &REQUIREMENTS, "several gigabytes")?;
    Ok((folder, python))
}

fn row(repeat: u32, side: Side, threads: u32, line: &str) -> Result<Row> {
    let number = |key: &str| json::number(line, key);
    let arithmetic = match side {
        Side::Ours => Some(Arithmetic {
            update_ms: number("update_ms")?,
            gflop_per_second: number("gflop_per_second")?,
            peak_gflop_per_second: number("peak_gflop_per_second")?,
            share_of_peak: number("share_of_peak")?,
        }),
        Side::Sb3 | Side::Sbx => None,
    };
    Ok(Row {
        repeat,
        side,
        threads,
        steps: number("steps")?,
        seconds: number("seconds")?,
        steps_per_second: number("steps_per_second")?,
        arithmetic,
    })
}

const HEADER: &str = "time,commit,repeat,env,side,threads,steps,seconds,steps_per_second,update_ms,gflop_per_second,\
                      peak_gflop_per_second,share_of_peak";

fn csv(row: &Row, time: &str, commit: &str) -> String {
    let arithmetic = row.arithmetic.map_or(",,,".to_owned(), |a| {
        let [ms, speed, peak, share] = [a.update_ms, a.gflop_per_second, a.peak_gflop_per_second, a.share_of_peak];
        format!("{ms:.4},{speed:.2},{peak:.2},{share:.4}")
    });
    format!(
        "{time},{commit},{},hopper,{},{},{},{:.4},{:.2},{arithmetic}",
        row.repeat,
        row.side.name(),
        row.threads,
        row.steps,
        row.seconds,
        row.steps_per_second
    )
}

/// What the repeats on one number of threads amount to: medians throughout.
struct Summary {
    threads: u32,
    ours: f64,
    sb3: f64,
    sbx: f64,
    /// Of the ratios within each repeat.
    against_sb3: f64,
    against_sbx: f64,
    update_ms: f64,
    gflop_per_second: f64,
    peak_gflop_per_second: f64,
    share_of_peak: f64,
}

impl Summary {
    fn of(threads: u32, rows: &[Row]) -> Summary {
        let of_side = |side: Side| rows.iter().filter(move |row| row.threads == threads && row.side == side);
        let speeds = |side: Side| -> Vec<f64> { of_side(side).map(|row| row.steps_per_second).collect() };
        let (ours, sb3, sbx) = (speeds(Side::Ours), speeds(Side::Sb3), speeds(Side::Sbx));
        // All lists are in the order of the repeats.
        let ratio = |below: &[f64]| record::median(ours.iter().zip(below).map(|(a, b)| a / b).collect());
        let median_of = |value: fn(Arithmetic) -> f64| {
            record::median(of_side(Side::Ours).filter_map(|row| row.arithmetic).map(value).collect())
        };
        Summary {
            threads,
            against_sb3: ratio(&sb3),
            against_sbx: ratio(&sbx),
            update_ms: median_of(|a| a.update_ms),
            gflop_per_second: median_of(|a| a.gflop_per_second),
            peak_gflop_per_second: median_of(|a| a.peak_gflop_per_second),
            share_of_peak: median_of(|a| a.share_of_peak),
            ours: record::median(ours),
            sb3: record::median(sb3),
            sbx: record::median(sbx),
        }
    }

    /// Every aim in words, and whether it was met.
    fn aims(&self) -> Vec<(String, bool)> {
        [(Side::Sb3, self.against_sb3), (Side::Sbx, self.against_sbx)]
            .into_iter()
            .filter_map(|(side, ratio)| {
                let aim = side.aim()?;
                let threads = with_unit(self.threads);
                Some((format!("{threads} {ratio:.2}x {} (aim {aim}x)", side.name()), ratio >= aim))
            })
            .collect()
    }
}

fn with_unit(threads: u32) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The medians as a Markdown table, which reads well in a terminal, too.
fn table(summaries: &[Summary]) -> String {
    let mut rows = vec![
        ["threads", "sskp", "sb3", "sbx", "sskp / sb3", "sskp / sbx", "ms per update", "GFLOP/s", "peak", "share"]
            .map(str::to_owned),
    ];
    rows.extend(summaries.iter().map(|summary| {
        [
            summary.threads.to_string(),
            format!("{:.1}", summary.ours),
            format!("{:.1}", summary.sb3),
            format!("{:.1}", summary.sbx),
            format!("{:.2}", summary.against_sb3),
            format!("{:.2}", summary.against_sbx),
            format!("{:.2}", summary.update_ms),
            format!("{:.1}", summary.gflop_per_second),
            format!("{:.1}", f64::from(summary.threads) * summary.peak_gflop_per_second),
            format!("{:.0} %", 100.0 * summary.share_of_peak),
        ]
    }));
    markdown(&rows)
}

fn section(summaries: &[Summary], options: &Options, time: &str, commit: &str, versions: &[String]) -> String {
    format!(
        "`cargo xtask bench update --repeats {} --seconds {}`, started {time}, commit {commit}.\n\n\
         Environment steps per second of SAC on Hopper: minibatches of 256, two hidden layers of 256, one update per step.\n\
         `update.csv` has the raw rows of this and earlier runs of the day. The table has, for the last run, medians of steps\n\
         per second and medians of the ratios within each repeat.\n\n\
         - sskp: ours; sb3: stable-baselines3 (PyTorch); sbx: the same in JAX, compiled\n\
         - GFLOP/s: the matrix products of one of our updates over its whole time; element-wise work counts as time only\n\
         - peak: the best that our matrix product reaches on this machine, per thread, times the threads; share: of that peak\n\n\
         Versions: ours MuJoCo 3.17.0, {}; theirs {}.\n\n\
         {}\n\n{}\n",
        options.repeats,
        options.seconds,
        record::compiler(),
        versions.join("; "),
        table(summaries),
        verdict(summaries.iter().flat_map(Summary::aims))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = r#"{"env":"hopper","threads":2,"steps":900,"seconds":5.0,"steps_per_second":180.0,"update_ms":5.0,"gflop_per_second":100.0,"peak_gflop_per_second":125.5,"share_of_peak":0.4}"#;

    fn measured(repeat: u32, side: Side, speed: f64) -> Row {
        let line = format!(r#"{{"steps":{speed},"seconds":1.0,"steps_per_second":{speed}}}"#);
        match side {
            Side::Ours => Row { steps_per_second: speed, ..row(repeat, side, 1, OURS).unwrap() },
            Side::Sb3 | Side::Sbx => row(repeat, side, 1, &line).unwrap(),
        }
    }

    #[test]
    fn ratios_are_taken_within_a_repeat_and_a_missed_aim_is_named() {
        // The machine is twice as slow in the second repeat: the ratios do not notice.
        let mut rows = Vec::new();
        for (repeat, ours, sb3, sbx) in [(1, 160.0, 40.0, 110.0), (2, 80.0, 20.0, 55.0), (3, 160.0, 80.0, 160.0)] {
            rows.push(measured(repeat, Side::Sb3, sb3));
            rows.push(measured(repeat, Side::Ours, ours));
            rows.push(measured(repeat, Side::Sbx, sbx));
        }
        let summary = Summary::of(1, &rows);
        assert_eq!((summary.against_sb3, summary.ours, summary.sbx), (4.0, 160.0, 110.0));
        assert!(table(std::slice::from_ref(&summary)).contains(" 40 % |"));
        assert_eq!(
            verdict([summary].iter().flat_map(Summary::aims)),
            "failed: 1 of 2 aims are missed: 1 thread 1.45x sbx (aim 1.5x)"
        );
    }

    #[test]
    fn rows_are_read_and_written_with_as_many_cells_as_the_header() {
        let ours = row(1, Side::Ours, 2, OURS).unwrap();
        assert_eq!(csv(&ours, "T", "c"), "T,c,1,hopper,sskp,2,900,5.0000,180.00,5.0000,100.00,125.50,0.4000");
        let theirs = measured(1, Side::Sbx, 70.0);
        assert_eq!(csv(&theirs, "T", "c"), "T,c,1,hopper,sbx,1,70,1.0000,70.00,,,,");
        for row in [ours, theirs] {
            assert_eq!(csv(&row, "T", "c").split(',').count(), HEADER.split(',').count());
        }
        assert!(row(1, Side::Ours, 1, r#"{"steps":1,"seconds":1,"steps_per_second":1}"#).is_err());
    }
}
