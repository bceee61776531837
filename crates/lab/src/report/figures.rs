//! The report's figures, in sections.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::groups::Cell;
use super::over_seeds::{self, Curve};
use super::paper::{ABLATION, METHOD};
use super::variant::Variant;
use super::{calibration, falls};
use crate::chart::{Axis, Chart, METHODS, Mark, Series, ShareBar, ShareChart};
use crate::stats::SeedStats;
use crate::wording::{capital, plural};

/// Figures that belong together, one per robot.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What is drawn.
    pub about: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// A figure, in the page and as a file of its own.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of its file, without `.svg`.
    pub name: String,
    /// What it shows.
    pub shows: Drawing,
}

/// What a figure shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawing {
    /// Curves with bands from the lowest to the highest run.
    Curves(Chart),
    /// How time was spent.
    Shares(ShareChart),
}

impl Figure {
    /// The figure as a file of its own.
    pub fn svg(&self) -> String {
        match &self.shows {
            Drawing::Curves(chart) => chart.svg(),
            Drawing::Shares(chart) => chart.svg(),
        }
    }

    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        match &self.shows {
            Drawing::Curves(chart) => chart.is_empty(),
            Drawing::Shares(chart) => chart.bars.is_empty(),
        }
    }
}

/// What names of figures begin with that show returns against steps.
pub const LEARNING: &str = "return";

const VIOLATIONS: &str = "cumulative violations";
const RETURN: &str = "mean return of 20 episodes";

/// Every section that has a figure.
pub fn sections(cells: &[Cell], of_the_paper: bool) -> Vec<Section> {
    let mut robots: Vec<&str> = cells.iter().map(|c| c.robot).collect();
    robots.dedup();
    let colours = colours(cells.iter().map(|c| &c.variant));
    let make = |id: &str, [x_label, y_label]: [&str; 2], curve: &dyn Fn(&Cell) -> Option<Curve>| -> Vec<Figure> {
        let figures = robots.iter().map(|robot| {
            let of = |cell: &Cell| Some((cell.variant.clone(), curve(cell)?));
            let curves: Vec<(Variant, Curve)> = cells.iter().filter(|c| c.robot == *robot).filter_map(of).collect();
            let far_apart = |column| over_seeds::far_apart(curves.iter().map(|c| &c.1), column);
            let log = match VIOLATIONS {
                label if label == x_label && far_apart(0) => Some(Axis::X),
                label if label == y_label && far_apart(1) => Some(Axis::Y),
                _ => None,
            };
            let series = curves.iter().map(|(variant, curve)| series(variant, curve, colours[variant]));
            Figure {
                name: format!("{id}-{robot}"),
                shows: Drawing::Curves(Chart {
                    title: capital(robot),
                    x_label: x_label.into(),
                    y_label: y_label.into(),
                    small: true,
                    // Returns begin where they are; counts and changes at nothing.
                    from_zero: y_label != RETURN,
                    tight: y_label == RETURN,
                    log,
                    series: series.collect(),
                    ..Chart::default()
                }),
            }
        });
        figures.filter(|figure| !figure.is_empty()).collect()
    };
    let ablation = |cell: &Cell| ABLATION.contains(&cell.variant.method.as_str());
    let rival = |cell: &Cell| cell.variant.method == METHOD || !ablation(cell);
    let ablated = |robot: &str| cells.iter().any(|c| c.robot == robot && c.variant.method != METHOD && ablation(c));
    let by_violations = |cell: &Cell| over_seeds::by_violations(&cell.episodes());
    let by_steps = |cell: &Cell, value: over_seeds::Value| Some(over_seeds::by_steps(&cell.episodes(), value));
    let thin = "Thick lines are means over seeds, as far as all of them come; thin ones are the seeds.";
    // The paper's numbers of figures help where its study is repeated, and nowhere else.
    let numbered =
        |title: &str, figure: &str| if of_the_paper { format!("{title} ({figure})") } else { title.to_string() };
    let band = "Lines are means over seeds, bands reach from the lowest to the highest seed.";
    let orders = "Violations are drawn by orders of magnitude where methods end more than one apart.";
    let section =
        |title: &str, about: String, figures: Vec<Figure>| Section { title: title.to_string(), about, figures };
    let all = vec![
        section(
            &numbered("Reward against violations", "Figure 3"),
            format!("Return of the training episodes against the violations spent so far. {orders} {thin}"),
            make("figure-3", [VIOLATIONS, RETURN], &|c| rival(c).then(|| by_violations(c))),
        ),
        section(
            &numbered("Ablation", "Figure 4"),
            format!(
                "SSkP, the same with naive planning (NP), and without risk planning (w/o-RP). Dots are the violations of each seed, bars the mean with its 95 % \
                 bootstrap interval. {orders} {thin}"
            ),
            {
                let curves = make("figure-4", [VIOLATIONS, RETURN], &|c| {
                    (ablation(c) && ablated(c.robot)).then(|| by_violations(c))
                });
                let dots = |robot: &&str| {
                    let here: Vec<&Cell> =
                        cells.iter().filter(|c| c.robot == *robot && ablation(c) && ablated(robot)).collect();
                    seeds_apart(robot, &here, &colours)
                };
                // Each robot's dots beside its curves.
                let mut both: Vec<Figure> = curves.into_iter().chain(robots.iter().filter_map(dots)).collect();
                both.sort_by_key(|f| f.name.rsplit('-').next().map(String::from));
                both
            },
        ),
        section(
            &numbered("Risk along planning iterations", "Figure 5"),
            format!(
                "Mean predicted risk of skills sampled in each iteration of the planner, minus that of the policy's own. {band}"
            ),
            make("figure-5", ["planning iteration", "change of predicted risk"], &plan_study),
        ),
        section(
            calibration::TITLE,
            calibration::ABOUT.into(),
            robots.iter().filter_map(|robot| foreseen(cells, robot, &colours)).collect(),
        ),
        section(
            falls::TITLE,
            falls::ABOUT.into(),
            robots.iter().filter_map(|robot| falls::figure(cells, robot, &colours)).collect(),
        ),
        section(
            "Sample efficiency",
            format!("Return of the training episodes against environment steps. {band}"),
            make(LEARNING, ["environment steps", RETURN], &|c| by_steps(c, over_seeds::recent_return)),
        ),
        section(
            "Violations during training",
            format!("Violations against environment steps. {orders} {band}"),
            make("violations", ["environment steps", VIOLATIONS], &|c| by_steps(c, over_seeds::violations)),
        ),
        section(
            "Where the time went",
            "Share of the phases in the last uninterrupted part of each run, and mean wall-clock time of a run.".into(),
            robots.iter().filter_map(|robot| time_split(cells, robot)).collect(),
        ),
    ];
    all.into_iter().filter(|section| !section.figures.is_empty()).collect()
}

/// The same colour for a method in every report; further variants of it have those that are left.
pub fn colours<'a>(all: impl Iterator<Item = &'a Variant>) -> BTreeMap<Variant, usize> {
    let mut colours: BTreeMap<Variant, usize> = BTreeMap::new();
    let mut variants: Vec<&Variant> = all.collect();
    variants.sort();
    let ranks: Vec<usize> = variants.iter().map(|v| v.rank).collect();
    for variant in variants {
        if colours.contains_key(variant) {
            continue;
        }
        let taken = |colour: usize| colours.values().any(|c| *c == colour);
        let free = || (0..METHODS).find(|c| !taken(*c) && !ranks.contains(c));
        let own = variant.rank;
        colours.insert(variant.clone(), if taken(own) { free().unwrap_or(colours.len()) } else { own });
    }
    colours
}

/// Violations of every seed, and the interval of their mean: what curves of a few seeds cannot show.
fn seeds_apart(robot: &str, cells: &[&Cell], colours: &BTreeMap<Variant, usize>) -> Option<Figure> {
    if cells.len() < 2 {
        return None;
    }
    let mut series = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        let at = i as f64;
        let spent: Vec<f64> = cell
            .episodes()
            .iter()
            .map(|rows| rows.last().map_or(0.0, |row| row.cumulative_violations as f64))
            .collect();
        let stats = SeedStats::of(&spent)?;
        let about = format!("{}: {}", cell.variant.title, plural(spent.len() as u64, "run"));
        // Seeds with the same number stand side by side.
        let apart = |k: usize| at - 0.12 + 0.06 * spent[..k].iter().filter(|v| **v == spent[k]).count() as f64;
        let points = (0..spent.len()).map(|k| (apart(k), spent[k])).collect();
        let colour = colours[&cell.variant];
        let dots =
            Series { name: cell.variant.title.clone(), about, points, mark: Mark::Dots, colour, ..Series::default() };
        let band = stats.interval.map_or(Vec::new(), |[low, high]| vec![(at + 0.14, low, high)]);
        let mean = Series {
            points: vec![(at + 0.14, stats.mean)],
            band,
            whiskers: true,
            mark: Mark::Crosses,
            colour,
            ..Series::default()
        };
        series.extend([dots, mean]);
    }
    // Room at both ends.
    series.push(Series {
        points: vec![(-0.5, f64::NAN), (cells.len() as f64 - 0.5, f64::NAN)],
        mark: Mark::Dots,
        ..Series::default()
    });
    let names =
        cells.iter().map(|cell| cell.variant.title.split(" (").next().unwrap_or_default().to_string()).collect();
    let shows = Drawing::Curves(Chart {
        title: format!("{}: violations by seed", capital(robot)),
        y_label: "violations in the whole run".into(),
        small: true,
        from_zero: true,
        x_names: names,
        series,
        ..Chart::default()
    });
    Some(Figure { name: format!("figure-4-seeds-{robot}"), shows })
}

fn series(variant: &Variant, curve: &Curve, colour: usize) -> Series {
    Series {
        name: variant.title.clone(),
        about: format!("{}, {}", variant.title, plural(curve.runs as u64, "run")),
        points: curve.points.iter().map(|p| (p[0], p[1])).collect(),
        band: match curve.seeds.is_empty() {
            true => curve.points.iter().map(|p| (p[0], p[2], p[3])).collect(),
            false => Vec::new(),
        },
        thin: curve.seeds.clone(),
        mark: Mark::Curve,
        colour,
        ..Series::default()
    }
}

/// The study of the planner that lies in run directories, or beside committed rows.
fn plan_study(cell: &Cell) -> Option<Curve> {
    let studies: Vec<Vec<f64>> = cell.runs.iter().filter_map(|rows| read_study(rows.plan_study.as_deref()?)).collect();
    let iterations = studies.iter().map(Vec::len).min()?;
    let at = |i: usize| over_seeds::point(i as f64, &studies.iter().map(|s| s[i]).collect::<Vec<f64>>());
    Some(Curve { runs: studies.len(), points: (0..iterations).map(at).collect(), seeds: Vec::new() })
}

/// The column `change_mean` of `plan-study.csv`, one row per iteration.
fn read_study(text: &str) -> Option<Vec<f64>> {
    let mut lines = text.lines();
    let column = lines.next()?.split(',').position(|name| name == "change_mean")?;
    lines.map(|line| line.split(',').nth(column)?.parse().ok()).collect()
}

/// Predicted risks of skills against what came of them.
fn foreseen(cells: &[Cell], robot: &str, colours: &BTreeMap<Variant, usize>) -> Option<Figure> {
    let here = cells.iter().filter(|c| c.robot == robot);
    let tables = here.filter_map(|c| Some((&c.variant, calibration::over_seeds(c)?, colours[&c.variant])));
    let shows = Drawing::Curves(calibration::chart(robot, tables)?);
    Some(Figure { name: format!("calibration-{robot}"), shows })
}

fn time_split(cells: &[Cell], robot: &str) -> Option<Figure> {
    let bar = |cell: &Cell| {
        let known: Vec<&Value> = cell.runs.iter().filter_map(|rows| rows.summary.as_ref()).collect();
        let mut parts: BTreeMap<&str, f64> = BTreeMap::new();
        for split in known.iter().filter_map(|summary| summary["time_split"].as_object()) {
            for (phase, seconds) in split {
                *parts.entry(phase).or_default() += seconds.as_f64().unwrap_or(0.0) / known.len() as f64;
            }
        }
        let seconds = known.iter().filter_map(|s| s["wall_seconds"].as_f64()).sum::<f64>() / known.len().max(1) as f64;
        let parts: Vec<(String, f64)> = parts.into_iter().map(|(phase, s)| (phase.to_string(), s)).collect();
        (!parts.is_empty()).then(|| ShareBar { name: cell.variant.title.clone(), seconds, parts })
    };
    let bars: Vec<ShareBar> = cells.iter().filter(|c| c.robot == robot).filter_map(bar).collect();
    let shows = Drawing::Shares(ShareChart { title: capital(robot), bars });
    Some(Figure { name: format!("time-{robot}"), shows }).filter(|figure| !figure.is_empty())
}
