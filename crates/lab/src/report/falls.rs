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
    began at most (10 stands for 1 to 10). Where nearly all fell, no choice would have helped any more. Dots are medians over falls, whiskers the middle half of them; all seeds together.";

/// Of a hundred tries how many fell again, by strides before the fall: a list over falls each.
fn shares<'a>(studies: impl Iterator<Item = &'a str>) -> BTreeMap<u64, Vec<f64>> {
    let mut all: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for text in studies {
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| head.iter().position(|column| *column == name);
        let (Some(back), Some(tries), Some(fell)) = (column("back"), column("tries"), column("fell")) else { continue };
        for line in lines {
            let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
            let at = |i: usize| cells.get(i).copied().unwrap_or(f64::NAN);
            if at(tries) > 0.0 && at(fell).is_finite() && at(back).is_finite() {
                all.entry(at(back) as u64).or_default().push(100.0 * at(fell) / at(tries));
            }
        }
    }
    all
}

/// The chart of a robot; none where nobody has looked.
pub fn figure(cells: &[Cell], robot: &str, colours: &BTreeMap<Variant, usize>) -> Option<Figure> {
    let mut series: Vec<Series> = cells
        .iter()
        .filter(|cell| cell.robot == robot)
        .filter_map(|cell| {
            let shares = shares(cell.runs.iter().filter_map(|rows| rows.fall_study.as_deref()));
            let falls = shares.values().map(Vec::len).max()?;
            let of = |back: &u64| ((*back + 1) * STRIDE as u64) as f64;
            let spread = |list: &Vec<f64>| crate::stats::Spread::of(list);
            Some(Series {
                name: format!("{}, {}", cell.variant.title, plural(falls as u64, "fall")),
                about: cell.variant.title.clone(),
                points: shares.iter().map(|(back, list)| (of(back), spread(list).median)).collect(),
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
    // Room before the first whisker, and all of a hundred in sight.
    let room = vec![(0.0, f64::NAN)];
    series.push(Series { points: room, mark: Mark::Dots, ..Series::default() });
    let chart = Chart {
        title: capital(robot),
        x_label: "steps before the fall, at most".into(),
        y_label: "tries that fell again, %".into(),
        small: true,
        from_zero: true,
        series,
        ..Chart::default()
    };
    Some(Figure { name: format!("falls-{robot}"), shows: Drawing::Curves(chart) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_of_all_seeds_are_together_and_broken_lines_are_left_out() {
        let first = "fall,back,tries,fell\n0,0,50,25\n0,1,50,1\n1,0,50,50\n";
        let second = "back,fell,tries\n0,3,4\n1,1,0\n2,x,4\n2\n";
        let all = shares([first, second, "", "no,such,columns\n1,2,3\n"].into_iter());
        assert_eq!(all, BTreeMap::from([(0, vec![50.0, 100.0, 75.0]), (1, vec![2.0])]));
    }
}
