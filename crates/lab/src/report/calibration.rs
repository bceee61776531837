//! Predicted risk against what came of it: every skill of the training runs, predicted before it was played.

use std::fmt::Write as _;

use serde::Deserialize as _;
use sskp_blocks::judge::{Reliability, RiskBin};

use super::groups::Cell;
use super::page::table;
use super::{Group, Report, Variant};
use crate::chart::{Axis, Chart, Mark, Series};
use crate::markup::escape;
use crate::wording::{capital, grouped, plural, significant};

/// The section's heading.
pub const TITLE: &str = "Predicted risk against actual";

/// What is drawn and counted there.
pub const ABOUT: &str = "Of every skill played in training, the risk predicted before it was played, and whether it ended in a violation \
    (or one of the next did, where those before a violation count too). Dots are skills of similar predicted risk, all seeds together, with \
    Wilson's 95 % intervals of the share that violated; on the dashed line predictions are right. Fewer than a hundred skills without a violation are left to the table. Both axes count by orders of \
    magnitude. Skills of one fall come together, so true intervals are wider.";

/// A risk of 1, on the axes.
const ALL: f64 = 1e5;

/// The table of all runs of a variant on a robot; none where no run has one.
pub fn over_seeds(cell: &Cell) -> Option<Reliability> {
    let of = |summary: &serde_json::Value| Reliability::deserialize(summary.get("calibration")?).ok();
    let tables = cell.runs.iter().filter_map(|rows| of(rows.summary.as_ref()?));
    let all = tables.reduce(|mut all, table| {
        all.merge(&table);
        all
    })?;
    (all.total().count > 0).then_some(all)
}

fn filled(table: &Reliability) -> impl Iterator<Item = &RiskBin> {
    table.bins.iter().filter(|bin| bin.count > 0)
}

/// A hundred skills of which none violated say something; fewer are a whisker over the whole chart.
fn drawn(table: &Reliability) -> impl Iterator<Item = &RiskBin> {
    filled(table).filter(|bin| bin.positives > 0 || bin.count >= 100)
}

/// The chart of a robot.
pub fn chart<'a>(robot: &str, tables: impl Iterator<Item = (&'a Variant, Reliability, usize)>) -> Option<Chart> {
    let mut series: Vec<Series> = tables
        .map(|(variant, table, colour)| Series {
            name: variant.title.clone(),
            about: format!("{}, {}", variant.title, plural(table.total().count, "skill")),
            points: drawn(&table).map(|bin| (ALL * bin.predicted(), ALL * bin.actual())).collect(),
            mark: Mark::Dots,
            band: drawn(&table)
                .map(|bin| (ALL * bin.predicted(), ALL * bin.interval()[0], ALL * bin.interval()[1]))
                .collect(),
            whiskers: true,
            colour,
            ..Series::default()
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let right = (0..50).map(|i| ALL.powf(f64::from(i) / 50.0) - 1.0).chain([ALL]).map(|x| (x, x)).collect();
    series.insert(0, Series { points: right, mark: Mark::Dashed, colour: 5, ..Series::default() });
    Some(Chart {
        title: capital(robot),
        x_label: "violating of 100k skills, predicted".into(),
        y_label: "actual".into(),
        small: true,
        from_zero: true,
        log: Some(Axis::Both),
        series,
        ..Chart::default()
    })
}

/// "0.0123 [0.011, 0.014]".
fn share(bin: &RiskBin) -> String {
    let [low, high] = bin.interval().map(significant);
    format!("{} [{low}, {high}]", significant(bin.actual()))
}

/// By how much predictions are too large.
fn too_large(all: &RiskBin) -> String {
    match all.positives {
        0 => "none violated".into(),
        _ => format!("{} ×", significant(all.predicted() / all.actual())),
    }
}

/// Numbers of every robot, and its bins for those who want them.
pub fn tables(out: &mut String, report: &Report) {
    for robot in report.robots() {
        let known = |group: &'_ Group| group.robot == robot && group.calibration.is_some();
        let groups: Vec<&Group> = report.groups.iter().filter(|group| known(group)).collect();
        if groups.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h3>{}</h3>", escape(&capital(robot)));
        let td = |cells: &[String]| cells.iter().map(|cell| format!("<td>{cell}</td>")).collect::<Vec<_>>();
        let heads = ["method", "skills", "violating", "predicted", "actual, 95 % interval", "predicted / actual"];
        let (mut rows, mut bins) = (Vec::new(), Vec::new());
        for group in groups {
            let table = group.calibration.expect("only those that have one");
            let (title, all) = (escape(&group.variant.title), table.total());
            let numbers = [grouped(all.count), grouped(all.positives), significant(all.predicted()), share(&all)];
            rows.push((title.clone(), td(&[&numbers[..], &[too_large(&all)]].concat())));
            for bin in filled(&table) {
                let numbers = [grouped(bin.count), grouped(bin.positives), significant(bin.predicted()), share(bin)];
                bins.push((title.clone(), td(&numbers)));
            }
        }
        table(out, &heads.map(String::from), &rows);
        out.push_str("<details><summary>by predicted risk</summary>");
        table(out, &heads[..5].iter().map(|head| head.to_string()).collect::<Vec<_>>(), &bins);
        out.push_str("</details>\n");
    }
}

/// A cell of the table for a README.
pub fn cell(group: &Group) -> Option<String> {
    let all = group.calibration?.total();
    Some(format!("{} → {}", significant(all.predicted()), share(&all)))
}
