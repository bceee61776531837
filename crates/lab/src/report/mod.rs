//! The report: the paper's figures and table out of rows of runs, as one page that needs nothing else, with every number in a
//! JSON file and every figure as SVG beside it.

pub mod curves;
pub mod figure;
mod markdown;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use sskp_blocks::record::EpisodeRow;
use sskp_blocks::{Error, Result};

use crate::registry::Registry;
use crate::run_rows::RunRows;
use crate::stats::{RunStats, SeedStats, improvement, improvement_interval, return_at};
use crate::wording::{capital, grouped};
use figure::{Axis, Bar, Curve, Figure, Shows};
use sskp_blocks::files::write_whole;

/// Table 1 of the paper: PtR/#V × 1000, means of three runs, without intervals.
const PAPER: [(&str, [(&str, f64); 4]); 4] = [
    ("sskp", [("ant", 23.54), ("cheetah", 173.72), ("hopper", 8.86), ("humanoid", 0.72)]),
    ("recovery-rl", [("ant", 13.12), ("cheetah", 146.30), ("hopper", 7.10), ("humanoid", 0.71)]),
    ("cpq", [("ant", 11.80), ("cheetah", 92.25), ("hopper", 6.21), ("humanoid", 0.38)]),
    ("smbpo", [("ant", 28.68), ("cheetah", 147.00), ("hopper", 5.74), ("humanoid", 0.69)]),
];

/// The steps of the paper's runs. Violations add up, so a ratio after fewer of them does not compare.
const PAPER_STEPS: u64 = 1_000_000;

/// The paper's number, if it has one.
fn paper(method: &str, robot: &str) -> Option<f64> {
    let row = PAPER.iter().find(|(name, _)| *name == method)?;
    row.1.iter().find(|(name, _)| *name == robot).map(|(_, value)| *value)
}

/// The paper and its ablations: what Figure 4 compares.
const ABLATION: [&str; 3] = ["sskp", "sskp-np", "sskp-wo-rp"];

/// All that the report says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the program that made it.
    pub version: String,
    /// What a reader must know before believing a number.
    pub warnings: Vec<String>,
    /// Steps and updates of the runs that are compared.
    pub budget: String,
    /// Methods on robots.
    pub groups: Vec<Group>,
    /// SSkP against every other method on PtR/#V, over the robots that both ran on.
    pub improvements: Vec<Improvement>,
    /// PtR/#V of methods over all robots, each robot's divided by the paper's SSkP.
    pub relative: Vec<Relative>,
    /// Figures, in sections.
    pub sections: Vec<Section>,
}

/// The runs of a method on a robot.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The robot.
    pub robot: String,
    /// The method.
    pub method: String,
    /// Reward per step.
    pub ptr: SeedStats,
    /// #V.
    pub violations: SeedStats,
    /// PtR/#V × 1000, of the runs that had a violation.
    pub ptr_per_violation_x1000: Option<SeedStats>,
    /// 1000 × mean PtR / mean #V. It is there also where a run without violations has no ratio, and one run with a single violation does not
    /// decide it.
    pub ratio_of_means_x1000: Option<f64>,
    /// Runs without a violation, which have no ratio.
    pub without_violation: usize,
    /// The paper's number for it.
    pub paper: Option<f64>,
    /// Return in the last tenth of the steps.
    pub final_return: Option<SeedStats>,
    /// Return at a number of violations that every run of the robot reached.
    pub return_at: Option<ReturnAt>,
    /// The runs.
    pub runs: Vec<Run>,
}

/// Return at a number of violations.
#[derive(Clone, Debug, Serialize)]
pub struct ReturnAt {
    /// The number.
    pub violations: u64,
    /// Mean of the last 20 episodes there.
    pub value: SeedStats,
}

/// One run, and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What it came to.
    pub stats: RunStats,
    /// Whether all steps were taken.
    pub finished: bool,
    /// Steps it was to take.
    pub budget: u64,
    /// The run directory or file.
    pub source: String,
    /// Hash of its rows.
    pub rows_sha256: String,
    /// Hash of its settings.
    pub identity: String,
    /// Its settings.
    pub config: String,
    /// `summary.json`, where there is one.
    pub summary: Option<Value>,
    /// `manifest.json`, where there is one.
    pub manifest: Option<Value>,
}

/// How likely a run of `x` has a higher PtR/#V than a run of `y`.
#[derive(Clone, Debug, Serialize)]
pub struct Improvement {
    /// The one.
    pub x: String,
    /// The other.
    pub y: String,
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
    pub method: String,
    /// The robots.
    pub robots: Vec<String>,
    /// 1 is the paper's SSkP.
    pub value: SeedStats,
}

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

/// Rows of one method on one robot.
struct Cell<'a> {
    robot: &'a str,
    method: &'a str,
    runs: Vec<&'a RunRows>,
}

impl Cell<'_> {
    fn episodes(&self) -> Vec<&[EpisodeRow]> {
        self.runs.iter().map(|rows| rows.episodes.as_slice()).collect()
    }
}

impl Report {
    /// Makes it out of rows. `violations` is where the return at a number of violations is read; without it, the largest number
    /// that all runs of a robot reached.
    pub fn new(registry: &Registry, all: &[RunRows], violations: Option<u64>) -> Result<Self> {
        let mut warnings = Vec::new();
        let cells = cells(all, &mut warnings)?;
        let groups =
            cells.iter().map(|cell| group(registry, cell, &cells, violations)).collect::<Result<Vec<Group>>>()?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            improvements: improvements(&groups),
            relative: relative(&groups),
            sections: sections(&cells),
            budget: budget(registry, &cells),
            warnings,
            groups,
        })
    }

    /// Robots in the order of their names, as the paper has them.
    pub fn robots(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.groups.iter().map(|g| g.robot.as_str()).collect();
        names.dedup();
        names
    }

    /// The runs of a method on a robot.
    pub fn group(&self, method: &str, robot: &str) -> Option<&Group> {
        self.groups.iter().find(|g| (g.method.as_str(), g.robot.as_str()) == (method, robot))
    }

    /// The paper's number for a method on a robot, where the runs here are as long as the paper's.
    fn paper(&self, method: &str, robot: &str) -> Option<f64> {
        let mut runs = self.groups.iter().filter(|g| g.robot == robot).flat_map(|g| &g.runs);
        runs.all(|run| run.budget == PAPER_STEPS).then(|| paper(method, robot)).flatten()
    }

    /// Methods in the order of the paper's table.
    pub fn methods(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.groups.iter().map(|g| g.method.as_str()).collect();
        names.sort_by_key(|name| (figure::rank(name), *name));
        names.dedup();
        names
    }

    /// The page.
    pub fn html(&self) -> String {
        page::html(self)
    }

    /// The tables as Markdown.
    pub fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    /// Writes the page, `.json` and `.md` (the tables) beside it and the figures in a folder beside it; gives their paths.
    pub fn write(&self, page: &Path) -> Result<Vec<PathBuf>> {
        let (json, tables) = (page.with_extension("json"), page.with_extension("md"));
        let folder = page.with_extension("figures");
        write_whole(page, self.html().as_bytes())?;
        write_whole(&json, (serde_json::to_string_pretty(self).expect("plain data") + "\n").as_bytes())?;
        write_whole(&tables, self.markdown().as_bytes())?;
        fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        for figure in self.sections.iter().flat_map(|s| &s.figures) {
            write_whole(&folder.join(format!("{}.svg", figure.name)), figure.svg().as_bytes())?;
        }
        Ok(vec![page.into(), json, tables, folder])
    }
}

/// Runs by robot and method; the same run twice is an error, odd ones are warned of.
fn cells<'a>(all: &'a [RunRows], warnings: &mut Vec<String>) -> Result<Vec<Cell<'a>>> {
    let mut map: BTreeMap<(&str, usize, &str), Vec<&RunRows>> = BTreeMap::new();
    for rows in all {
        let run = &rows.config.run;
        if rows.episodes.is_empty() {
            warnings.push(format!("{} has no finished episode and is left out", rows.source.display()));
            continue;
        }
        map.entry((&run.env, figure::rank(&run.algo), &run.algo)).or_default().push(rows);
    }
    let mut cells = Vec::new();
    for ((robot, _, method), mut runs) in map {
        runs.sort_by_key(|rows| rows.config.run.seed);
        for pair in runs.windows(2) {
            if pair[0].config.run.seed == pair[1].config.run.seed {
                return Err(Error::other(format!(
                    "{method} on {robot} with seed {} is there twice: {} and {}",
                    pair[0].config.run.seed,
                    pair[0].source.display(),
                    pair[1].source.display()
                )));
            }
            let mut as_first = pair[1].config.clone();
            as_first.run.seed = pair[0].config.run.seed;
            if let Some(difference) = pair[0].config.difference(&as_first) {
                let seeds = (pair[0].config.run.seed, pair[1].config.run.seed);
                warnings.push(format!(
                    "{method} on {robot}: seeds {} and {} have different settings ({difference})",
                    seeds.0, seeds.1
                ));
            }
        }
        for rows in runs.iter().filter(|rows| !rows.finished()) {
            warnings.push(format!(
                "{method} on {robot}, seed {}, is not finished: {} of {} steps",
                rows.config.run.seed,
                rows.steps(),
                rows.config.run.total_steps
            ));
        }
        cells.push(Cell { robot, method, runs });
    }
    let budgets = |robot: &str| {
        let of = cells.iter().filter(|c| c.robot == robot).flat_map(|c| &c.runs).map(|r| r.config.run.total_steps);
        (of.clone().min(), of.max())
    };
    for robot in cells.iter().map(|c| c.robot).collect::<std::collections::BTreeSet<_>>() {
        let (least, most) = budgets(robot);
        if least != most {
            let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
            warnings.push(format!(
                "runs on {robot} have different lengths, {least} to {most} steps: numbers per run do not compare"
            ));
        }
    }
    Ok(cells)
}

fn group(registry: &Registry, cell: &Cell, cells: &[Cell], violations: Option<u64>) -> Result<Group> {
    let limit = registry.time_limit(cell.robot).map_or(u64::MAX, |limit| limit as u64);
    let stats: Vec<RunStats> = cell.runs.iter().map(|rows| RunStats::of(&rows.episodes, limit)).collect();
    let reached = |rows: &&RunRows| rows.episodes.last().map_or(0, |row| row.cumulative_violations);
    let common = cells.iter().filter(|c| c.robot == cell.robot).flat_map(|c| &c.runs).map(reached).min().unwrap_or(0);
    let count = violations.unwrap_or(common);
    let there: Vec<f64> = cell.runs.iter().filter_map(|rows| return_at(&rows.episodes, count)).collect();
    let numbers =
        |of: &dyn Fn(&RunStats) -> Option<f64>| SeedStats::of(&stats.iter().filter_map(of).collect::<Vec<f64>>());
    let ptr = numbers(&|s| Some(s.ptr)).expect("a run at least");
    let spent = numbers(&|s| Some(s.violations as f64)).expect("a run at least");
    Ok(Group {
        robot: cell.robot.into(),
        method: cell.method.into(),
        ratio_of_means_x1000: (spent.mean > 0.0).then(|| 1000.0 * ptr.mean / spent.mean),
        ptr,
        violations: spent,
        ptr_per_violation_x1000: numbers(&|s| s.ptr_per_violation_x1000),
        without_violation: stats.iter().filter(|s| s.violations == 0).count(),
        paper: paper(cell.method, cell.robot).filter(|_| cell.runs.iter().all(as_long_as_the_paper)),
        final_return: numbers(&|s| s.final_return),
        return_at: SeedStats::of(&there).map(|value| ReturnAt { violations: count, value }),
        runs: cell.runs.iter().zip(&stats).map(|(rows, stats)| run(rows, stats)).collect(),
    })
}

fn as_long_as_the_paper(rows: &&RunRows) -> bool {
    rows.config.run.total_steps == PAPER_STEPS
}

/// Steps per run and updates of the policy per step: without them no comparison says what it compares.
fn budget(registry: &Registry, cells: &[Cell]) -> String {
    let mut steps: Vec<u64> = cells.iter().flat_map(|c| &c.runs).map(|rows| rows.config.run.total_steps).collect();
    steps.sort_unstable();
    steps.dedup();
    let steps: Vec<String> = steps.into_iter().map(grouped).collect();
    let mut updates: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for cell in cells {
        let known = updates.entry((figure::rank(cell.method), cell.method)).or_default();
        for per_step in cell.runs.iter().filter_map(|rows| rows.config.updates_per_step(registry)) {
            if !known.contains(&per_step) {
                known.push(per_step);
            }
        }
    }
    let updates: Vec<String> = updates
        .into_iter()
        .filter(|(_, known)| !known.is_empty())
        .map(|((_, method), known)| {
            let known: Vec<String> = known.iter().map(f64::to_string).collect();
            format!("{} {}", figure::title(method), known.join(" or "))
        })
        .collect();
    format!("Budget: {} steps per run; updates of the policy per step: {}.", steps.join(" or "), updates.join(", "))
}

fn run(rows: &RunRows, stats: &RunStats) -> Run {
    Run {
        seed: rows.config.run.seed,
        stats: stats.clone(),
        finished: rows.finished(),
        budget: rows.config.run.total_steps,
        source: rows.source.display().to_string(),
        rows_sha256: rows.sha256(),
        identity: rows.config.identity(),
        config: rows.config.to_toml(),
        summary: rows.summary.clone(),
        manifest: rows.manifest.clone(),
    }
}

/// PtR/#V of a method's runs on a robot; none where a run has none.
fn ratios(group: &Group) -> Option<Vec<f64>> {
    group.runs.iter().map(|run| run.stats.ptr_per_violation_x1000).collect()
}

fn improvements(groups: &[Group]) -> Vec<Improvement> {
    let of = |method: &str| -> BTreeMap<String, Vec<f64>> {
        let own = groups.iter().filter(|g| g.method == method);
        own.filter_map(|g| Some((g.robot.clone(), ratios(g)?))).collect()
    };
    let ours = of("sskp");
    let mut others: Vec<&str> = groups.iter().map(|g| g.method.as_str()).filter(|m| *m != "sskp").collect();
    others.sort_by_key(|m| (figure::rank(m), *m));
    others.dedup();
    let compare = |other: &str| {
        let theirs = of(other);
        let robots: Vec<String> = ours.keys().filter(|robot| theirs.contains_key(*robot)).cloned().collect();
        let x: Vec<Vec<f64>> = robots.iter().map(|robot| ours[robot].clone()).collect();
        let y: Vec<Vec<f64>> = robots.iter().map(|robot| theirs[robot].clone()).collect();
        (!robots.is_empty()).then(|| Improvement {
            x: "sskp".into(),
            y: other.into(),
            robots,
            probability: improvement(&x, &y),
            interval: improvement_interval(&x, &y),
        })
    };
    others.into_iter().filter_map(compare).collect()
}

fn relative(groups: &[Group]) -> Vec<Relative> {
    let mut methods: Vec<&str> = groups.iter().map(|g| g.method.as_str()).collect();
    methods.sort_by_key(|m| (figure::rank(m), *m));
    methods.dedup();
    let of = |method: &str| {
        let own = groups.iter().filter(|g| g.method == method);
        let (robots, tasks): (Vec<String>, Vec<Vec<f64>>) = own
            .filter_map(|g| {
                let unit = paper("sskp", &g.robot)?;
                Some((g.robot.clone(), ratios(g)?.into_iter().map(|x| x / unit).collect()))
            })
            .unzip();
        Some(Relative { method: method.into(), robots, value: SeedStats::of_tasks(&tasks)? })
    };
    methods.into_iter().filter_map(of).collect()
}

const VIOLATIONS: &str = "cumulative violations";

/// Whether curves end more than an order of magnitude apart in a column of their points.
fn far_apart(curves: &[Curve], column: usize) -> bool {
    let ends = || curves.iter().filter_map(|c| c.points.last()).map(|point| point[column]);
    ends().fold(f64::NEG_INFINITY, f64::max) > 10.0 * ends().fold(f64::INFINITY, f64::min)
}

fn sections(cells: &[Cell]) -> Vec<Section> {
    let mut robots: Vec<&str> = cells.iter().map(|c| c.robot).collect();
    robots.dedup();
    let labels = |x: &str, y: &str| (x.to_string(), y.to_string());
    let make = |id: &str, labels: (String, String), curve: &dyn Fn(&Cell) -> Option<Curve>| -> Vec<Figure> {
        let figures = robots.iter().map(|robot| {
            let curves: Vec<Curve> = cells.iter().filter(|c| c.robot == *robot).filter_map(curve).collect();
            Figure {
                name: format!("{id}-{robot}"),
                title: capital(robot),
                x_label: labels.0.clone(),
                y_label: labels.1.clone(),
                log: [(Axis::X, &labels.0, 0), (Axis::Y, &labels.1, 1)]
                    .into_iter()
                    .find(|(_, label, column)| *label == VIOLATIONS && far_apart(&curves, *column))
                    .map(|(axis, ..)| axis),
                shows: Shows::Curves(curves),
            }
        });
        figures.filter(|figure| !figure.is_empty()).collect()
    };
    let rival = |cell: &Cell| cell.method == "sskp" || !ABLATION.contains(&cell.method);
    let of_violations = |cell: &Cell| Some(curves::by_violations(cell.method, &cell.episodes()));
    let episode_return = "mean return of 20 episodes";
    let band = "Lines are means over seeds, bands reach from the lowest to the highest seed.";
    let orders = "Violations are drawn by orders of magnitude where methods end more than one apart.";
    let ablated: Vec<&str> = robots
        .iter()
        .copied()
        .filter(|r| cells.iter().any(|c| c.robot == *r && c.method != "sskp" && ABLATION.contains(&c.method)))
        .collect();
    let section = |title: &str, about: String, figures: Vec<Figure>| Section { title: title.into(), about, figures };
    let all = vec![
        section(
            "Reward against violations (Figure 3)",
            format!(
                "Return of the training episodes against the violations spent so far; a curve ends where fewer than half of the seeds go on. {orders} {band}"
            ),
            make("figure-3", labels(VIOLATIONS, episode_return), &|c| of_violations(c).filter(|_| rival(c))),
        ),
        section(
            "Ablation (Figure 4)",
            format!("SSkP, the same with naive planning (NP), and without risk planning (w/o-RP). {orders} {band}"),
            make("figure-4", labels(VIOLATIONS, episode_return), &|c| {
                of_violations(c).filter(|_| ABLATION.contains(&c.method) && ablated.contains(&c.robot))
            }),
        ),
        section(
            "Risk along planning iterations (Figure 5)",
            format!(
                "Mean predicted risk of skills sampled in each iteration of the planner, minus that of the policy's own. {band}"
            ),
            make("figure-5", labels("planning iteration", "change of predicted risk"), &plan_study),
        ),
        section(
            "Sample efficiency",
            format!("Return of the training episodes against environment steps. {band}"),
            make("return", labels("environment steps", episode_return), &|c| {
                Some(curves::by_steps(c.method, &c.episodes(), curves::recent_return))
            }),
        ),
        section(
            "Violations during training",
            format!("Violations against environment steps. {orders} {band}"),
            make("violations", labels("environment steps", VIOLATIONS), &|c| {
                Some(curves::by_steps(c.method, &c.episodes(), curves::violations))
            }),
        ),
        section(
            "Where the time went",
            "Share of the phases in the last uninterrupted part of each run, and mean wall-clock time of a run.".into(),
            robots.iter().filter_map(|robot| time_split(cells, robot)).collect(),
        ),
    ];
    all.into_iter().filter(|section| !section.figures.is_empty()).collect()
}

/// The study of the planner that lies in run directories, or beside committed rows.
fn plan_study(cell: &Cell) -> Option<Curve> {
    let studies: Vec<Vec<f64>> = cell.runs.iter().filter_map(|rows| read_study(rows.plan_study.as_deref()?)).collect();
    let iterations = studies.iter().map(Vec::len).min()?;
    let at = |i: usize| curves::point(i as f64, &studies.iter().map(|s| s[i]).collect::<Vec<f64>>());
    Some(Curve { method: cell.method.into(), runs: studies.len(), points: (0..iterations).map(at).collect() })
}

/// The column `change_mean` of `plan-study.csv`, one row per iteration.
fn read_study(text: &str) -> Option<Vec<f64>> {
    let mut lines = text.lines();
    let column = lines.next()?.split(',').position(|name| name == "change_mean")?;
    lines.map(|line| line.split(',').nth(column)?.parse().ok()).collect()
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
        (!parts.is_empty()).then(|| Bar { method: cell.method.into(), seconds, parts })
    };
    let bars: Vec<Bar> = cells.iter().filter(|c| c.robot == robot).filter_map(bar).collect();
    let text = |s: &str| s.to_string();
    (!bars.is_empty()).then(|| Figure {
        name: format!("time-{robot}"),
        title: capital(robot),
        x_label: text("share of time"),
        y_label: text("method"),
        log: None,
        shows: Shows::Shares(bars),
    })
}
