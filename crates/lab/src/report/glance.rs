//! The first screen: what was found, in a sentence for each robot and one picture; when; and what is missing.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::figures::{self, Drawing, Figure, colours};
use super::groups::Cell;
use super::variant::Variant;
use super::{Group, Report, paper};
use crate::chart::{Axis, Chart, Mark, Series};
use crate::wording::{capital, grouped, measured, plural};

/// Name of the picture.
const OVERVIEW: &str = "overview";
/// In percent of the best: who lost more than that is drawn there, or the others would lie on one line.
const LOWEST: f64 = -100.0;

/// Whether runs repeat the paper's study.
pub fn of_the_paper(groups: &[Group]) -> bool {
    let known = |g: &Group| paper::ratio(paper::METHOD, &g.robot).is_some();
    let long = |g: &Group| g.runs.iter().all(|run| run.budget == paper::STEPS);
    groups.iter().any(|g| g.variant.method == paper::METHOD) && groups.iter().all(|g| known(g) && long(g))
}

/// The day, in the calendar that dates are written in, as in 2025-03-01.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date((seconds / 86_400) as i64)
}

/// A day by its number since 1 January 1970.
fn date(day: i64) -> String {
    // Years that begin in March end with the day that not all of them have.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}

fn robots(groups: &[Group]) -> Vec<&str> {
    let mut names: Vec<&str> = groups.iter().map(|g| g.robot.as_str()).collect();
    names.dedup();
    names
}

/// A sentence for each robot: which method earned most for its violations, and how the next one did.
pub fn found(groups: &[Group]) -> Vec<String> {
    let sentence = |robot: &str| {
        let mut here: Vec<&Group> = groups.iter().filter(|g| g.robot == robot).collect();
        // A method without any violation that earns something is before all others.
        let worth = |g: &Group| {
            g.ratio_of_means_x1000.unwrap_or(if g.ptr.mean > 0.0 { f64::INFINITY } else { f64::NEG_INFINITY })
        };
        here.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let said = |g: &Group| {
            let violations = g.violations.mean;
            let count = match violations {
                0.0 => "no violation".into(),
                1.0 => "1 violation".into(),
                some => format!("{} violations", measured(some)),
            };
            format!("{} a step with {count}", measured(g.ptr.mean))
        };
        let seeds = |g: &Group| {
            if g.runs.len() > 1 { format!(" (means of {} seeds)", g.runs.len()) } else { " (one seed)".into() }
        };
        let mut text = match here.as_slice() {
            [] => return String::new(),
            [only] => format!("{} earned {}{}", only.variant.title, said(only), seeds(only)),
            [first, next, ..] => format!(
                "{} earned {}{}, the next best for its violations was {}: {}",
                first.variant.title,
                said(first),
                seeds(first),
                next.variant.title,
                said(next)
            ),
        };
        let most = here.iter().max_by(|a, b| a.ptr.mean.total_cmp(&b.ptr.mean)).expect("one is there");
        if most.variant != here[0].variant && most.ptr.mean > 1.02 * here[0].ptr.mean {
            text += &match here.get(1) {
                Some(next) if next.variant == most.variant => ", the most reward".into(),
                _ => format!("; most reward had {}: {}", most.variant.title, said(most)),
            };
        }
        format!("{}: {text}.", capital(robot))
    };
    robots(groups).into_iter().map(sentence).collect()
}

/// What is not there and would be asked for.
pub fn missing(groups: &[Group], cells: &[Cell]) -> Vec<String> {
    let mut list = Vec::new();
    let variants: BTreeSet<&Variant> = groups.iter().map(|g| &g.variant).collect();
    for variant in &variants {
        let there: Vec<&str> = groups.iter().filter(|g| &&g.variant == variant).map(|g| g.robot.as_str()).collect();
        let gone: Vec<String> = robots(groups).into_iter().filter(|r| !there.contains(r)).map(capital).collect();
        if !gone.is_empty() {
            list.push(format!("{} has no run on {}", variant.title, gone.join(", ")));
        }
    }
    let poor: Vec<String> = robots(groups).into_iter().filter(|r| best(groups, r).is_none()).map(capital).collect();
    if variants.len() > 1 && !poor.is_empty() {
        list.push(format!("no method earned anything on {}: the picture is without", poor.join(", ")));
    }
    let most = groups.iter().map(|g| g.runs.len()).max().unwrap_or(0);
    for group in groups.iter().filter(|g| g.runs.len() < most) {
        let seeds = plural(group.runs.len() as u64, "seed");
        list.push(format!("{} on {} has {seeds}, others {most}", group.variant.title, capital(&group.robot)));
    }
    for group in groups {
        let cut = group.runs.iter().filter(|run| !run.finished);
        list.extend(cut.map(|run| {
            let (steps, budget) = (grouped(run.stats.steps), grouped(run.budget));
            format!(
                "{} on {}, seed {}, is not finished: {steps} of {budget} steps",
                group.variant.title,
                capital(&group.robot),
                run.seed
            )
        }));
    }
    let planned = groups.iter().any(|g| g.variant.method.starts_with("sskp"));
    if planned && groups.iter().all(|g| g.calibration.is_none()) {
        list.push("no run has its predicted risks compared with what came of them: they are older than that".into());
    }
    if planned && cells.iter().flat_map(|c| &c.runs).all(|rows| rows.fall_study.is_none()) {
        list.push("nobody has looked when falls were decided: sskp fall-study RUN --out RUN/fall-study.csv".into());
    }
    list
}

/// Most reward per step that a method earned on a robot; none where all lost.
fn best(groups: &[Group], robot: &str) -> Option<f64> {
    let here = groups.iter().filter(|g| g.robot == robot);
    here.map(|g| g.ptr.mean).max_by(f64::total_cmp).filter(|best| *best > 0.0)
}

/// Every method on every robot as a dot: how much reward, for how many violations. One method alone has nothing to be compared with, and is shown as it learns.
pub fn picture(report: &Report) -> Figure {
    let best = |robot: &str| best(&report.groups, robot);
    // Where nobody earned anything there is nothing to be compared with, either.
    let mut robots = report.robots();
    robots.retain(|robot| best(robot).is_some());
    let mut learning = report.sections.iter().flat_map(|s| &s.figures);
    if let (true, Some(curve)) = (
        robots.is_empty() || report.variants().len() == 1,
        learning.find(|figure| figure.name.starts_with(figures::LEARNING)),
    ) {
        return Figure { name: OVERVIEW.into(), shows: curve.shows.clone() };
    }
    let colours = colours(report.groups.iter().map(|g| &g.variant));
    let share = |g: &Group| Some(100.0 * g.ptr.mean / best(&g.robot)?);
    let series = report.variants().into_iter().map(|variant| Series {
        name: variant.title.clone(),
        about: variant.title.clone(),
        points: robots
            .iter()
            .filter_map(|robot| report.group(variant, robot))
            .filter_map(|g| Some((g.violations.mean, share(g)?.max(LOWEST))))
            .collect(),
        mark: Mark::Dots,
        colour: colours[variant],
        ..Series::default()
    });
    let of = if robots.len() > 1 { ", a dot for every robot" } else { "" };
    let cut = report.groups.iter().filter_map(share).any(|share| share < LOWEST);
    let down_to = if cut { format!(", down to {LOWEST:.0}").replace('-', "−") } else { String::new() };
    let shows = Drawing::Curves(Chart {
        title: "Best: much reward, few violations (top left)".into(),
        subtitle: format!("means over seeds{of}"),
        x_label: "violations in a run".into(),
        y_label: format!("reward, % of the best on the robot{down_to}"),
        small: true,
        from_zero: true,
        tight: true,
        log: Some(Axis::X),
        series: series.collect(),
        ..Chart::default()
    });
    Figure { name: OVERVIEW.into(), shows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (day, expected) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_454, "2026-01-01"), (-1, "1969-12-31")]
        {
            assert_eq!(date(day), expected);
        }
    }
}
