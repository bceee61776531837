//! Methods compared over all robots.

use std::collections::BTreeMap;

use serde::Serialize;

use super::groups::Group;
use super::paper;
use super::variant::Variant;
use crate::stats::{SeedStats, improvement, improvement_interval};

/// How likely a run of `x` has a higher PtR/#V than a run of `y`.
#[derive(Clone, Debug, Serialize)]
pub struct Improvement {
    /// The one.
    pub x: Variant,
    /// The other.
    pub y: Variant,
    /// Where both ran.
    pub robots: Vec<String>,
    /// The probability.
    pub probability: f64,
    /// 95 % interval.
    pub interval: [f64; 2],
}

/// A method over several robots.
#[derive(Clone, Debug, Serialize)]
pub struct Relative {
    /// The method.
    #[serde(flatten)]
    pub variant: Variant,
    /// The robots.
    pub robots: Vec<String>,
    /// 1 is the paper's SSkP.
    pub value: SeedStats,
}

/// PtR/#V × 1000 by variant and robot, where every run has one.
fn ratios(groups: &[Group]) -> BTreeMap<&Variant, BTreeMap<&str, Vec<f64>>> {
    let mut all: BTreeMap<&Variant, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for group in groups {
        let robots = all.entry(&group.variant).or_default();
        robots.extend(group.ratios().map(|ratios| (group.robot.as_str(), ratios)));
    }
    all
}

/// The paper's method, every variant of it, against all others.
pub fn improvements(groups: &[Group]) -> Vec<Improvement> {
    let all = ratios(groups);
    let mut found = Vec::new();
    for (x, ours) in all.iter().filter(|(variant, _)| variant.method == paper::METHOD) {
        for (y, theirs) in all.iter().filter(|(variant, _)| variant != &x) {
            let robots: Vec<&str> = ours.keys().filter(|robot| theirs.contains_key(*robot)).copied().collect();
            let of = |runs: &BTreeMap<&str, Vec<f64>>| -> Vec<Vec<f64>> {
                robots.iter().map(|robot| runs[robot].clone()).collect()
            };
            let (a, b) = (of(ours), of(theirs));
            if robots.is_empty() {
                continue;
            }
            found.push(Improvement {
                x: (*x).clone(),
                y: (*y).clone(),
                robots: robots.into_iter().map(String::from).collect(),
                probability: improvement(&a, &b),
                interval: improvement_interval(&a, &b),
            });
        }
    }
    found
}

/// Every variant, measured by what the paper reports for its own method on the same robot.
pub fn relative(groups: &[Group]) -> Vec<Relative> {
    let of = |(variant, robots): (&Variant, BTreeMap<&str, Vec<f64>>)| {
        let measured = robots.into_iter().filter_map(|(robot, ratios)| {
            let unit = paper::ratio(paper::METHOD, robot)?;
            Some((robot.to_string(), ratios.into_iter().map(|x| x / unit).collect()))
        });
        let (robots, tasks): (Vec<String>, Vec<Vec<f64>>) = measured.unzip();
        Some(Relative { variant: variant.clone(), robots, value: SeedStats::of_tasks(&tasks)? })
    };
    ratios(groups).into_iter().filter_map(of).collect()
}
