//! The second table of `cargo xtask bench update`: milliseconds of one gradient update of every learner, its share of the
//! matrix-product peak, and the same update in PyTorch.
//!
//! Which updates there are, and their sizes, our side says; a PyTorch update with another number of parameters is refused. Both
//! sides have one thread, take turns within each repeat and draw their own minibatches; ratios are taken between neighbours
//! in time, and the median over repeats is what counts. PyTorch is measured twice: as one writes it, and with a fused Adam.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::peers::{measure, measure_all};
use super::record;
use super::table::markdown;
use crate::json;

/// What is measured, where and how often.
pub struct Plan<'a> {
    pub env: &'a str,
    pub repeats: u32,
    pub seconds: u16,
    /// When it began, and what is measured.
    pub time: &'a str,
    pub commit: &'a str,
}

/// The programs of both sides, and the folder in which Python may leave files.
pub struct Programs<'a> {
    pub sskp: &'a Path,
    pub python: &'a Path,
    pub environment: &'a Path,
}

/// One repeat of one update.
struct Row {
    repeat: u32,
    name: String,
    methods: String,
    batch: f64,
    parameters: f64,
    ours_ms: f64,
    mflop: f64,
    gflop_per_second: f64,
    peak_gflop_per_second: f64,
    share_of_peak: f64,
    torch_ms: f64,
    fused_ms: f64,
}

/// The updates there are, a line of JSON with its sizes for each. An unknown robot is refused.
pub fn updates(programs: &Programs, env: &str) -> Result<Vec<String>> {
    measure_all(Command::new(programs.sskp).args(["methods", "--json", "--list", "--env", env]))
}

pub fn run(root: &Path, programs: &Programs, updates: &[String], plan: &Plan) -> Result<()> {
    let script = root.join("benches/methods_python.py");
    let (env, seconds) = (plan.env, plan.seconds.to_string());
    let mut rows: Vec<Row> = Vec::new();
    let mut versions = String::new();
    for repeat in 1..=plan.repeats {
        println!("repeat {repeat} of {}: one update of every learner on {env}", plan.repeats);
        for update in updates {
            let name = json::text(update, "row").unwrap_or_default();
            let ours = || {
                let mut command = Command::new(programs.sskp);
                measure(command.args(["methods", "--json", "--env", env, "--row", &name, "--seconds", &seconds]))
            };
            let theirs = || {
                let mut command = Command::new(programs.python);
                command.current_dir(programs.environment).arg(&script).args(["--row", &name, "--seconds", &seconds]);
                for size in ["obs", "action", "batch"] {
                    command.args([format!("--{size}"), json::number(update, size)?.to_string()]);
                }
                measure(&mut command)
            };
            // The side that went first goes last next time, so that drift within a repeat favours nobody.
            let (ours, theirs) = match repeat % 2 {
                1 => {
                    let ours = ours()?;
                    (ours, theirs()?)
                }
                _ => {
                    let theirs = theirs()?;
                    (ours()?, theirs)
                }
            };
            let row = row(repeat, &ours, &theirs)?;
            let Row { ours_ms, torch_ms, fused_ms, .. } = row;
            println!("  {name:>12}: sskp {ours_ms:.2} ms, torch {torch_ms:.2} ms, fused {fused_ms:.2} ms");
            rows.push(row);
            versions = json::text(&theirs, "versions").unwrap_or(versions);
        }
    }
    let table = table(&rows);
    println!("\n{table}");

    let folder = record::folder(root, plan.time)?;
    let file = folder.join("methods.csv");
    let lines: Vec<String> = rows.iter().map(|row| csv(row, plan)).collect();
    record::append(&file, HEADER, &lines)?;
    record::explain(&folder, "methods", &section(&table, &rows, plan, &versions))?;
    println!("raw rows: {}", file.strip_prefix(root).unwrap_or(&file).display());
    Ok(())
}

fn row(repeat: u32, ours: &str, theirs: &str) -> Result<Row> {
    let number = |key: &str| json::number(ours, key);
    let name = json::text(ours, "row").unwrap_or_default();
    for key in ["parameters", "batch"] {
        let (ours, theirs) = (number(key)?, json::number(theirs, key)?);
        ensure!(ours == theirs, "{name} is not the same update in PyTorch: {key} {theirs} there, {ours} here");
    }
    Ok(Row {
        repeat,
        name,
        methods: json::text(ours, "methods").unwrap_or_default(),
        batch: number("batch")?,
        parameters: number("parameters")?,
        ours_ms: number("ms_per_update")?,
        mflop: number("mflop_per_update")?,
        gflop_per_second: number("gflop_per_second")?,
        peak_gflop_per_second: number("peak_gflop_per_second")?,
        share_of_peak: number("share_of_peak")?,
        torch_ms: json::number(theirs, "ms_per_update")?,
        fused_ms: json::number(theirs, "ms_per_update_fused")?,
    })
}

const HEADER: &str = "time,commit,repeat,env,update,batch,parameters,sskp_ms,mflop,gflop_per_second,peak_gflop_per_second,\
                      share_of_peak,torch_ms,torch_fused_ms";

fn csv(row: &Row, plan: &Plan) -> String {
    format!(
        "{},{},{},{},{},{},{},{:.4},{:.3},{:.2},{:.2},{:.4},{:.4},{:.4}",
        plan.time,
        plan.commit,
        row.repeat,
        plan.env,
        row.name,
        row.batch,
        row.parameters,
        row.ours_ms,
        row.mflop,
        row.gflop_per_second,
        row.peak_gflop_per_second,
        row.share_of_peak,
        row.torch_ms,
        row.fused_ms
    )
}

/// Medians over the repeats, and of the ratios the least and the greatest, as a Markdown table.
fn table(rows: &[Row]) -> String {
    let mut cells = vec![
        [
            "update",
            "batch",
            "parameters",
            "sskp ms",
            "torch ms",
            "fused ms",
            "torch / sskp",
            "fused / sskp",
            "MFLOP",
            "GFLOP/s",
            "peak",
            "share",
        ]
        .map(str::to_owned),
    ];
    for first in rows.iter().filter(|row| row.repeat == 1) {
        let all = |value: fn(&Row) -> f64| -> Vec<f64> {
            rows.iter().filter(|row| row.name == first.name).map(value).collect()
        };
        let median = |value: fn(&Row) -> f64| record::median(all(value));
        let ratio = |value: fn(&Row) -> f64| {
            let ratios = all(value);
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = ratios.iter().copied().fold(0.0, f64::max);
            format!("{:.2} ({least:.2} to {greatest:.2})", record::median(ratios))
        };
        cells.push([
            first.name.clone(),
            first.batch.to_string(),
            first.parameters.to_string(),
            format!("{:.2}", median(|r| r.ours_ms)),
            format!("{:.2}", median(|r| r.torch_ms)),
            format!("{:.2}", median(|r| r.fused_ms)),
            ratio(|r| r.torch_ms / r.ours_ms),
            ratio(|r| r.fused_ms / r.ours_ms),
            format!("{:.0}", first.mflop),
            format!("{:.1}", median(|r| r.gflop_per_second)),
            format!("{:.1}", median(|r| r.peak_gflop_per_second)),
            format!("{:.0} %", 100.0 * median(|r| r.share_of_peak)),
        ]);
    }
    markdown(&cells)
}

fn section(table: &str, rows: &[Row], plan: &Plan, versions: &str) -> String {
    let whose = rows.iter().filter(|row| row.repeat == 1);
    let whose: Vec<String> = whose.map(|row| format!("{} ({})", row.name, row.methods.replace(' ', ", "))).collect();
    let Plan { env, repeats, seconds, time, commit } = plan;
    format!(
        "`cargo xtask bench update --only methods --env {env} --repeats {repeats} --row-seconds {seconds}`, or that part of a whole one,\n\
         started {time}, commit {commit}.\n\n\
         Milliseconds of one gradient update of every learner on one thread, with the sizes of {env} and each method's default\n\
         settings, but that CPQ calls a quarter of its sampled actions foreign, as OSRL does: medians over the updates of a measurement, and of those over repeats. Drawing the minibatch is part of it.\n\
         `methods.csv` has the raw rows of this and earlier runs of the day.\n\n\
         - which methods learn by which update: {}\n\
         - parameters: numbers that learn, the same on both sides\n\
         - torch: the same update in PyTorch (`benches/methods_python.py`), eager, as one writes it; fused: with `Adam(fused=True)`\n\
         - ratios: medians of those within each repeat (the least to the greatest); above 1, ours is faster\n\
         - MFLOP: the matrix products of our update, 2mkn for m x k by k x n, counted where they are done. A layer's way back has\n\
         \x20 two of the size of its way forward, fewer where nobody needs the gradient of its inputs or weights\n\
         - GFLOP/s: those over the whole time of the update; element-wise work counts as time only\n\
         - peak: the best that our matrix product reaches on this machine with one thread in the same run; share: of that peak\n\n\
         Versions: ours {}; theirs {versions}.\n\n{table}\n",
        whose.join(", "),
        record::compiler(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { env: "hopper", repeats: 3, seconds: 1, time: "T", commit: "c" };

    fn ours(ms: f64) -> String {
        format!(
            r#"{{"row":"sac","methods":"sac ssac","env":"hopper","obs":11,"action":3,"batch":256,"parameters":210185,"updates":9,"ms_per_update":{ms},"mflop_per_update":527.0,"gflop_per_second":90.0,"peak_gflop_per_second":120.0,"share_of_peak":0.75}}"#
        )
    }

    fn theirs(ms: f64, parameters: u32) -> String {
        let fused = ms / 2.0;
        format!(
            r#"{{"row": "sac", "batch": 256, "parameters": {parameters}, "ms_per_update": {ms}, "ms_per_update_fused": {fused}}}"#
        )
    }

    #[test]
    fn ratios_are_taken_within_a_repeat_and_rows_have_as_many_cells_as_the_header() {
        // The machine is twice as slow in the second repeat: the ratios do not notice.
        let rows: Vec<Row> = [(1, 5.0, 15.0), (2, 10.0, 30.0), (3, 5.0, 20.0)]
            .map(|(repeat, a, b)| row(repeat, &ours(a), &theirs(b, 210_185)).unwrap())
            .into();
        let table = table(&rows);
        assert_eq!(table.lines().count(), 2 + 1, "one line for each update:\n{table}");
        assert!(table.contains(" 3.00 (3.00 to 4.00) |") && table.contains(" 1.50 (1.50 to 2.00) |"), "{table}");
        assert!(table.contains(" 75 % |"), "{table}");
        assert_eq!(
            csv(&rows[0], &PLAN),
            "T,c,1,hopper,sac,256,210185,5.0000,527.000,90.00,120.00,0.7500,15.0000,7.5000"
        );
        assert_eq!(csv(&rows[0], &PLAN).split(',').count(), HEADER.split(',').count());
        assert!(section(&table, &rows, &PLAN, "torch").contains("sac (sac, ssac)"));
    }

    #[test]
    fn another_update_than_ours_is_refused() {
        let error = row(1, &ours(5.0), &theirs(15.0, 210_184)).err().unwrap().to_string();
        assert_eq!(error, "sac is not the same update in PyTorch: parameters 210184 there, 210185 here");
    }
}
