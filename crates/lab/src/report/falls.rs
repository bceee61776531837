//! When falls were decided: what `sskp fall-study --out RUN/fall-study.csv` found.

use std::collections::BTreeMap;

use super::figures::{Drawing, Figure};
use super::groups::Cell;
use super::variant::Variant;
use crate::chart::{Chart, Mark, Series};
use crate::fall_study::STRIDE;
use crate::wording::{capital, plural};

pub const TITLE: &str = "When falls were decided";

pub const ABOUT: &str = "Falls of trained policies, set back and played again with other choices: the share of tries that fell once more, by how many steps before the fall they \
    began. Where it is near 1, no choice would have helped any more. Dots are means over falls, whiskers the middle half of them; all seeds together.";

/// The share of tries that fell again, by strides before the fall: a list over falls each.
fn shares(cell: &Cell) -> BTreeMap<u64, Vec<f64>> {
    let mut all: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for text in cell.runs.iter().filter_map(|rows| rows.fall_study.as_deref()) {
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| head.iter().position(|column| *column == name);
        let (Some(back), Some(tries), Some(fell)) = (column("back"), column("tries"), column("fell")) else { continue };
        for line in lines {
            let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
            let at = |i: usize| cells.get(i).copied().unwrap_or(f64::NAN);
            if at(tries) > 0.0 && at(fell).is_finite() && at(back).is_finite() {
                all.entry(at(back) as u64).or_default().push(at(fell) / at(tries));
            }
        }
    }
    all
}

/// The chart of a robot; none where nobody has looked.
pub fn figure(cells: &[Cell], robot: &str, colours: &BTreeMap<Variant, usize>) -> Option<Figure> {
    let series: Vec<Series> = cells
        .iter()
        .filter(|cell| cell.robot == robot)
        .filter_map(|cell| {
            let shares = shares(cell);
            let falls = shares.values().map(Vec::len).max()?;
            let of = |x: &u64| (*x * STRIDE as u64) as f64;
            let spread = |list: &Vec<f64>| crate::stats::Spread::of(list);
            Some(Series {
                name: format!("{}, {}", cell.variant.title, plural(falls as u64, "fall")),
                about: cell.variant.title.clone(),
                points: shares.iter().map(|(back, list)| (of(back), spread(list).mean)).collect(),
                band: shares.iter().map(|(back, list)| (of(back), spread(list).low, spread(list).high)).collect(),
                whiskers: true,
                mark: Mark::LineWithDots,
                colour: colours[&cell.variant],
                ..Series::default()
            })
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let chart = Chart {
        title: capital(robot),
        x_label: "steps before the stride in which it fell".into(),
        y_label: "share of tries that fell again".into(),
        small: true,
        from_zero: true,
        series,
        ..Chart::default()
    };
    Some(Figure { name: format!("falls-{robot}"), shows: Drawing::Curves(chart) })
}
