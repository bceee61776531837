//! `cargo xtask bench policy`: how long a control loop waits for one decision of a trained policy, on one thread: ours, and the exported
//! networks put together in NumPy with onnxruntime and with PyTorch.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use clap::Args;

use super::peers::{self, Peer, measure};
use super::record;
use super::table::markdown;
use crate::{build, json};

#[derive(Args)]
pub struct Options {
    /// How often to measure everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Decisions of one measurement
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1000..))]
    decisions: u32,
    /// Methods whose policies are timed
    #[arg(long, default_values_t = ["sac".to_string(), "sskp-plus".to_string()])]
    algo: Vec<String>,
}

const ROBOTS: [&str; 4] = ["hopper", "cheetah", "ant", "humanoid"];
const SIDES: [&str; 3] = ["sskp", "onnxruntime", "torch"];

/// Whether a side cannot do without a peer: PyTorch's layers are read out of ONNX files.
fn needs(side: &str, peer: Peer) -> bool {
    side == "torch" || (side == "onnxruntime" && peer == Peer::Onnxruntime)
}

struct Row {
    algo: String,
    robot: &'static str,
    side: String,
    p999_us: f64,
    median_us: f64,
}

/// A policy that has hardly learnt: what it decides does not matter, how long it takes does not depend on it.
fn trained(program: &Path, algo: &str, robot: &str, folder: &Path) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["train", "--algo", algo, "--env", robot, "--quiet", "-n", "50", "--log-dir"]).arg(folder.join("run"));
    if algo.starts_with("sskp") {
        let table = if algo.starts_with("sskp-plus") { "sskp-plus" } else { "sskp" };
        for setting in ["skill.steps=20", "risk.steps=20", "risk.calibrate=false"] {
            command.args(["--set", &format!("{table}.{setting}")]);
        }
        if table == "sskp-plus" {
            command.args(["--set", "sskp-plus.adapt.offline_updates=10"]);
        }
    }
    ensure!(command.stdout(Stdio::null()).status()?.success(), "{algo} could not be trained on {robot}");
    let mut export = Command::new(program);
    export.arg("export").arg(folder.join("run")).arg("--onnx").arg(folder.join("onnx"));
    ensure!(export.stdout(Stdio::null()).status()?.success(), "{algo} on {robot} could not be exported");
    Ok(())
}

pub fn run(root: &Path, options: &Options) -> Result<()> {
    let (python, missing) = peers::environment(root, &[Peer::Onnxruntime, Peer::PyTorch])?;
    let sides: Vec<&str> = SIDES.into_iter().filter(|side| !missing.iter().any(|peer| needs(side, *peer))).collect();
    let (program, bench) = (build::program(root, build::SSKP)?, build::program(root, build::BENCH)?);
    let (time, commit) = (record::now(), record::commit(root));
    let base = std::env::temp_dir().join(format!("sskp-bench-{}", std::process::id()));
    let decisions = options.decisions.to_string();
    let mut rows = Vec::new();
    for algo in &options.algo {
        for robot in ROBOTS {
            let folder = base.join(format!("{algo}-{robot}"));
            trained(&program, algo, robot, &folder)?;
            for repeat in 1..=options.repeats {
                // Who went first goes last next time, so that drift within a repeat favours nobody.
                let turn = |i: usize| if repeat % 2 == 0 { sides[sides.len() - 1 - i] } else { sides[i] };
                for side in (0..sides.len()).map(turn) {
                    let mut command = match side {
                        "sskp" => {
                            let mut command = Command::new(&bench);
                            command.arg("policy").arg(folder.join("run")).args(["--decisions", &decisions]);
                            command
                        }
                        _ => {
                            let mut command = Command::new(&python);
                            command.arg(root.join("benches/python_package.py")).arg("decide");
                            command.arg(folder.join("onnx")).args([side, &decisions]);
                            command
                        }
                    };
                    let line = measure(&mut command)?;
                    let (p999_us, median_us) = (json::number(&line, "p999_us")?, json::number(&line, "median_us")?);
                    println!(
                        "repeat {repeat}: {algo} on {robot}, {side}: 99.9 % within {p999_us:.1} us, median {median_us:.1} us"
                    );
                    rows.push(Row { algo: algo.clone(), robot, side: side.to_owned(), p999_us, median_us });
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&base);
    let lines: Vec<String> = rows
        .iter()
        .map(|r| format!("{time},{commit},{},{},{},{:.2},{:.2}", r.algo, r.robot, r.side, r.p999_us, r.median_us))
        .collect();
    let folder = record::folder(root, &time)?;
    record::append(&folder.join("policy.csv"), "time,commit,algo,robot,side,p999_us,median_us", &lines)?;
    let section = section(&rows, options, &time, &commit) + &peers::left_out(&missing);
    record::explain(&folder, "policy", &section)?;
    println!("\n{section}");
    Ok(())
}

fn section(rows: &[Row], options: &Options, time: &str, commit: &str) -> String {
    let median = |algo: &str, robot: &str, side: &str, of: fn(&Row) -> f64| {
        let found: Vec<f64> =
            rows.iter().filter(|r| r.algo == algo && r.robot == robot && r.side == side).map(of).collect();
        if found.is_empty() { "–".to_owned() } else { format!("{:.1}", record::median(found)) }
    };
    let head =
        ["method", "robot", "sskp", "onnxruntime", "PyTorch", "sskp, median", "onnxruntime, median", "PyTorch, median"];
    let mut table = vec![head.map(str::to_owned)];
    for algo in &options.algo {
        for robot in ROBOTS {
            let all = |of: fn(&Row) -> f64| SIDES.map(|side| median(algo, robot, side, of));
            let ([a, b, c], [d, e, f]) = (all(|r| r.p999_us), all(|r| r.median_us));
            table.push([algo.clone(), robot.to_owned(), a, b, c, d, e, f]);
        }
    }
    format!(
        "`cargo xtask bench policy --repeats {} --decisions {}`, started {time}, commit {commit}.\n\n\
         Microseconds of one decision on one thread: the 99.9th percentile, and the median; medians over the repeats. `policy.csv` has the\n\
         raw rows. A skill policy plans in one decision of ten, so its percentile is that of planning.\n\n\
         - sskp: as `sskp_policy_act` does it (`crates/c`)\n\
         - onnxruntime, PyTorch: the exported networks, put together in NumPy by `examples/run_policy.py`\n\n{}\n",
        options.repeats,
        options.decisions,
        markdown(&table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_medians_by_method_and_robot() {
        let mut rows = Vec::new();
        for robot in ROBOTS {
            for (side, base) in SIDES.into_iter().zip([1.0, 10.0, 20.0]) {
                for factor in [1.0, 3.0, 2.0] {
                    rows.push(Row {
                        algo: "sac".into(),
                        robot,
                        side: side.into(),
                        p999_us: base * factor,
                        median_us: base,
                    });
                }
            }
        }
        let options = Options { repeats: 3, decisions: 1000, algo: vec!["sac".into()] };
        let text = section(&rows, &options, "T", "c");
        let line = text.lines().find(|line| line.contains("humanoid")).unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(&cells[1..9], ["sac", "humanoid", "2.0", "20.0", "40.0", "1.0", "10.0", "20.0"]);
        rows.retain(|row| row.side != "torch");
        assert!(section(&rows, &options, "T", "c").contains("–"), "a side that was left out has no numbers");
    }
}
