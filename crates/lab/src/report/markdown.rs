//! The report's tables as Markdown, for a README.

use std::fmt::Write as _;

use super::{Group, Report, Variant, calibration};
use crate::stats::{RunStats, SeedStats, grouped_interval};
use crate::wording::{capital, measured, measured_like, plural};

pub fn markdown(report: &Report) -> String {
    let most = report.groups.iter().map(|g| g.runs.len()).max().unwrap_or(0);
    let mut out = String::new();
    table(&mut out, report, "PtR/#V × 1000", |variant, robot| {
        let theirs = report.paper(variant, robot).map_or(String::new(), |p| format!(" (paper {p:.2})"));
        let ours = report.group(variant, robot).map_or("–".into(), |group| ratio(group, most));
        format!("{ours}{theirs}")
    });
    out.push('\n');
    table(&mut out, report, "PtR, #V → 1000 × ratio of the means", |variant, robot| {
        let parts = |g: &Group| {
            let ratio = g.ratio_of_means_x1000.map_or(String::new(), |ratio| format!(" → {}", measured(ratio)));
            format!("{}, {}{ratio}", spread(&g.ptr), spread(&g.violations))
        };
        report.group(variant, robot).map_or("–".into(), parts)
    });
    out.push('\n');
    table(&mut out, report, "reward per step in the last tenth; #V; means [95 %]", |variant, robot| {
        let cell = |g: &Group| {
            let of = |value: &dyn Fn(&RunStats) -> Option<f64>| {
                interval(&g.runs.iter().filter_map(|run| value(&run.stats)).collect::<Vec<_>>())
            };
            format!("{}; {}", of(&|stats| stats.final_ptr), of(&|stats| Some(stats.violations as f64)))
        };
        report.group(variant, robot).map_or("–".into(), cell)
    });
    if report.groups.iter().any(|group| group.calibration.is_some()) {
        out.push('\n');
        table(&mut out, report, "risk of a skill, predicted → actual", |variant, robot| {
            report.group(variant, robot).and_then(calibration::cell).unwrap_or("–".into())
        });
    }
    let _ = writeln!(out, "\n{}", report.budget);
    out
}

fn table(out: &mut String, report: &Report, name: &str, cell: impl Fn(&Variant, &str) -> String) {
    let robots = report.robots();
    let heads: Vec<String> = robots.iter().map(|robot| capital(robot)).collect();
    let _ = writeln!(out, "| {name} | {} |", heads.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(robots.len()));
    for variant in report.variants() {
        let cells: Vec<String> = robots.iter().map(|robot| cell(variant, robot)).collect();
        // Of methods that predict no risk a row of dashes says nothing.
        if cells.iter().all(|cell| cell == "–") {
            continue;
        }
        let _ = writeln!(out, "| {} | {} |", variant.title, cells.join(" | "));
    }
}

/// The ratio, with what a reader must know of it: other numbers of runs than most, and runs that have none.
fn ratio(group: &Group, most: usize) -> String {
    let mut text = group.ptr_per_violation_x1000.as_ref().map_or("undefined".into(), spread);
    let runs = group.runs.len();
    if runs < most {
        let _ = write!(text, ", {}", plural(runs as u64, "run"));
    }
    if group.without_violation > 0 {
        let _ = write!(text, ", {} without violation", group.without_violation);
    }
    text
}

/// Mean ± standard deviation; the number itself of a single run, whole where it counts something.
fn spread(value: &SeedStats) -> String {
    let number = |x: f64| measured_like(x, value.mean);
    match value.std {
        Some(std) => format!("{} ± {}", number(value.mean), number(std)),
        None if value.mean.fract() == 0.0 => format!("{}", value.mean),
        None => number(value.mean),
    }
}

/// Mean over runs and the bootstrap interval of it; of a single run the number itself.
fn interval(values: &[f64]) -> String {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let number = |x: f64| measured_like(x, mean);
    match grouped_interval(&values.iter().map(|v| vec![*v]).collect::<Vec<_>>()) {
        Some([low, high]) => format!("{} [{}, {}]", number(mean), number(low), number(high)),
        None => number(mean),
    }
}
