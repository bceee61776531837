//! `cargo xtask bench plan`: the time of one decision of the risk planner, against the same computation in PyTorch.
//!
//! Both sides draw 512 skills in each of six iterations, score them with a perceptron of the same sizes, and refit a Gaussian to
//! 64 of them, on one thread. The sides take turns within each repeat, ratios are taken between neighbours in time, and the
//! median over repeats is what counts. PyTorch is measured twice: as one writes it, and with the state's part of the first layer
//! computed once, as ours has it.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use super::peers::measure;
use super::record;
use super::table::markdown;
use super::update;
use crate::{build, json};

#[derive(Args)]
pub struct Options {
    /// How often to measure everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// How long each measurement takes, start and warm-up not counted
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
}

const ROBOTS: [&str; 4] = ["ant", "cheetah", "hopper", "humanoid"];
const WIDTHS: [u32; 2] = [128, 256];

/// One repeat of one robot at one width: the fastest plan of each measurement.
struct Row {
    repeat: u32,
    env: &'static str,
    width: u32,
    obs: f64,
    ours_us: f64,
    gflop_per_second: f64,
    peak_gflop_per_second: f64,
    share_of_peak: f64,
    torch_us: f64,
    torch_split_us: f64,
}

pub fn run(root: &Path, options: &Options) -> Result<()> {
    let script = root.join("benches/plan_python.py");
    let (environment, python) = update::environment(root)?;
    let sskp = build::program(root, build::BENCH)?;
    let time = record::now();
    let seconds = options.seconds.to_string();
    let mut rows: Vec<Row> = Vec::new();
    let mut versions = String::new();
    for repeat in 1..=options.repeats {
        println!("repeat {repeat} of {}", options.repeats);
        for env in ROBOTS {
            for width in WIDTHS {
                let ours = || {
                    let mut command = Command::new(&sskp);
                    command.args(["plan", "--json", "--env", env, "--seconds", &seconds]);
                    measure(command.args(["--width", &width.to_string()]))
                };
                let theirs = |obs: f64| {
                    let mut command = Command::new(&python);
                    command.current_dir(&environment).arg(&script).args(["--seconds", &seconds]);
                    measure(command.args(["--obs", &obs.to_string(), "--width", &width.to_string()]))
                };
                // The side that went first goes last next time, so that drift within a repeat favours nobody. Ours knows the
                // robot's sizes, so it goes first the first time.
                let known = rows.iter().find(|row| row.env == env).map(|row| row.obs);
                let (ours, theirs) = match known.filter(|_| repeat % 2 == 0) {
                    Some(obs) => {
                        let theirs = theirs(obs)?;
                        (ours()?, theirs)
                    }
                    None => {
                        let ours = ours()?;
                        let obs = json::number(&ours, "obs")?;
                        (ours, theirs(obs)?)
                    }
                };
                let row = row(repeat, env, width, &ours, &theirs)?;
                let Row { ours_us, torch_us, torch_split_us, .. } = row;
                println!(
                    "  {env:>8} {width} wide: sskp {ours_us:.0} us, torch {torch_us:.0} us, split {torch_split_us:.0} us"
                );
                rows.push(row);
                versions = json::text(&theirs, "versions").unwrap_or(versions);
            }
        }
    }
    let table = table(&rows);
    println!("\n{table}");

    let commit = record::commit(root);
    let folder = record::folder(root, &time)?;
    let file = folder.join("plan.csv");
    let lines: Vec<String> = rows.iter().map(|row| csv(row, &time, &commit)).collect();
    record::append(&file, HEADER, &lines)?;
    record::explain(&folder, "plan", &section(&table, options, &time, &commit, &versions))?;
    println!("raw rows: {}", file.strip_prefix(root).unwrap_or(&file).display());
    Ok(())
}

fn row(repeat: u32, env: &'static str, width: u32, ours: &str, theirs: &str) -> Result<Row> {
    Ok(Row {
        repeat,
        env,
        width,
        obs: json::number(ours, "obs")?,
        ours_us: json::number(ours, "us_per_plan")?,
        gflop_per_second: json::number(ours, "gflop_per_second")?,
        peak_gflop_per_second: json::number(ours, "peak_gflop_per_second")?,
        share_of_peak: json::number(ours, "share_of_peak")?,
        torch_us: json::number(theirs, "us_per_plan")?,
        torch_split_us: json::number(theirs, "us_per_plan_split")?,
    })
}

const HEADER: &str = "time,commit,repeat,env,obs,width,sskp_us,gflop_per_second,peak_gflop_per_second,share_of_peak,torch_us,\
                      torch_split_us";

fn csv(row: &Row, time: &str, commit: &str) -> String {
    format!(
        "{time},{commit},{},{},{},{},{:.2},{:.2},{:.2},{:.4},{:.2},{:.2}",
        row.repeat,
        row.env,
        row.obs,
        row.width,
        row.ours_us,
        row.gflop_per_second,
        row.peak_gflop_per_second,
        row.share_of_peak,
        row.torch_us,
        row.torch_split_us
    )
}

/// Medians over the repeats as a Markdown table, which reads well in a terminal, too.
fn table(rows: &[Row]) -> String {
    let mut cells = vec![
        [
            "robot",
            "width",
            "sskp us",
            "torch us",
            "split us",
            "torch / sskp",
            "split / sskp",
            "GFLOP/s",
            "peak",
            "share",
        ]
        .map(str::to_owned),
    ];
    for env in ROBOTS {
        for width in WIDTHS {
            let median = |value: fn(&Row) -> f64| {
                record::median(rows.iter().filter(|r| r.env == env && r.width == width).map(value).collect())
            };
            cells.push([
                env.to_owned(),
                width.to_string(),
                format!("{:.0}", median(|r| r.ours_us)),
                format!("{:.0}", median(|r| r.torch_us)),
                format!("{:.0}", median(|r| r.torch_split_us)),
                format!("{:.2}", median(|r| r.torch_us / r.ours_us)),
                format!("{:.2}", median(|r| r.torch_split_us / r.ours_us)),
                format!("{:.1}", median(|r| r.gflop_per_second)),
                format!("{:.1}", median(|r| r.peak_gflop_per_second)),
                format!("{:.0} %", 100.0 * median(|r| r.share_of_peak)),
            ]);
        }
    }
    markdown(&cells)
}

fn section(table: &str, options: &Options, time: &str, commit: &str, versions: &str) -> String {
    format!(
        "`cargo xtask bench plan --repeats {} --seconds {}`, started {time}, commit {commit}.\n\n\
         Microseconds of one plan (Algorithm 1: 512 skills, 64 kept, six iterations, ten coordinates) on one thread, with a risk\n\
         predictor of two hidden layers: the fastest plan within each measurement, as\n\
         the peak is that of the fastest product. `plan.csv` has the raw rows of this and earlier runs of the day. The table has medians for\n\
         the last run, those of the ratios taken within each repeat.\n\n\
         - torch: the same in PyTorch as one writes it; split: with the state's part of the first layer computed once, as ours\n\
         - GFLOP/s: the matrix products of one of our plans over its whole time; drawing, choosing and refitting count as time only\n\
         - peak: the best that our matrix product reaches on this machine with one thread; share: of that peak\n\n\
         Versions: ours {}; theirs {versions}.\n\n{table}\n",
        options.repeats,
        options.seconds,
        record::compiler(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_repeat_and_rows_have_as_many_cells_as_the_header() {
        let mut rows = Vec::new();
        for env in ROBOTS {
            for width in WIDTHS {
                // The machine is twice as slow in the second repeat: the ratios do not notice.
                for (repeat, ours, torch) in [(1, 100.0, 400.0), (2, 200.0, 800.0), (3, 100.0, 300.0)] {
                    let ours = format!(
                        r#"{{"obs":11,"us_per_plan":{ours},"gflop_per_second":50.0,"peak_gflop_per_second":100.0,"share_of_peak":0.5}}"#
                    );
                    let theirs = format!(r#"{{"us_per_plan":{torch},"us_per_plan_split":{}}}"#, torch / 2.0);
                    rows.push(row(repeat, env, width, &ours, &theirs).unwrap());
                }
            }
        }
        let table = table(&rows);
        assert_eq!(table.lines().count(), 2 + 8);
        assert!(
            table.lines().skip(2).all(|l| l.contains(" 4.00 |") && l.contains(" 2.00 |") && l.contains(" 50 % |")),
            "{table}"
        );
        assert_eq!(csv(&rows[0], "T", "c"), "T,c,1,ant,11,128,100.00,50.00,100.00,0.5000,400.00,200.00");
        assert_eq!(csv(&rows[0], "T", "c").split(',').count(), HEADER.split(',').count());
        assert!(row(1, "ant", 128, "{}", "{}").is_err());
    }
}
