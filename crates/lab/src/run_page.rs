//! Learning curves of a run directory as one HTML page: return of the episodes with the demonstrator's and the expert's level,
//! cumulative violations, and the predicted risk of methods that predict one.

use std::fmt::Write as _;
use std::path::Path;

use sskp_blocks::{Error, Result};

use crate::chart::{Chart, Mark, Series, ShareBar, ShareChart};
use crate::config::RunConfig;
use crate::episodes;
use crate::levels::Levels;
use crate::markup::{escape, page};
use crate::registry::Registry;
use crate::stats::{Spread, WINDOW};
use crate::train::read_config;
use crate::wording::{duration, grouped, measured, plural};
use sskp_blocks::files::write_whole;
use sskp_blocks::record::EpisodeRow;

/// Writes the page of the run in `run`, as far as it has come.
pub fn write_html(registry: &Registry, run: &Path, path: &Path) -> Result<()> {
    let curves = Curves::read(registry, run, Levels::of)?;
    write_whole(path, curves.html().as_bytes())
}

/// Rows of a longer file are not drawn: nobody has so many, and whoever watches would wait.
const LONGEST: u64 = 256 << 20;
/// Points of a curve, at most; dots may be twice as many.
const POINTS: usize = 700;

/// What is seen of a run at a glance, as far as it has come.
#[derive(Clone, Debug)]
pub struct Curves {
    /// "sskp on hopper".
    pub title: String,
    /// Seed, demonstrations.
    pub about: String,
    /// Numbers and their names.
    pub facts: Vec<(&'static str, String)>,
    /// Names and charts as SVG: return, violations, risk, time.
    pub charts: Vec<(&'static str, String)>,
}

impl Curves {
    /// Reads a run, under way or not. Its charts stand beside one another where there is room, and can be read on a phone. `levels` finds what its returns are compared with.
    pub fn read(registry: &Registry, run: &Path, levels: impl FnOnce(&RunConfig, u64) -> Levels) -> Result<Self> {
        let rows = run.join(episodes::FILE);
        if std::fs::metadata(&rows).is_ok_and(|data| data.len() > LONGEST) {
            return Err(Error::other(format!("{} is too long to be drawn", rows.display())));
        }
        let (config, episodes, limit) = read(registry, run)?;
        let whole = uncut(&episodes, config.total_steps, limit);
        let steps = episodes.last().map_or(0, |e| e.steps);
        let levels = levels(&config, limit);
        let mut charts = Vec::new();
        // Before the first episode ends there is nothing to see in them.
        if !episodes.is_empty() {
            charts.extend([("return", returns(whole, steps, limit, levels)), ("violations", violations(&episodes))]);
        }
        let progress = run.join("progress.csv");
        charts.extend(foresight(&progress)?.map(|chart| ("foresight", chart)));
        charts.extend(risks(&progress)?.map(|chart| ("risk", chart)));
        let mut charts: Vec<_> =
            charts.into_iter().map(|(name, chart)| (name, Chart { small: true, ..decimated(chart) }.svg())).collect();
        let (wall, split) = time(run);
        charts.extend(split.map(|split| ("time", split.svg())));
        let earned: f64 = episodes.iter().map(|e| e.total_reward).sum();
        let (ptr, falls) = (earned / steps.max(1) as f64, episodes.last().map_or(0, |e| e.cumulative_violations));
        let ratio = if falls == 0 { "—".into() } else { measured(1000.0 * ptr / falls as f64) };
        let of =
            if steps < config.total_steps { format!(" of {}", grouped(config.total_steps)) } else { String::new() };
        let facts = vec![
            ("reward per step, PtR", if steps == 0 { "—".into() } else { format!("{ptr:.3}").replace('-', "−") }),
            ("violations, #V", grouped(falls)),
            ("PtR/#V × 1000", ratio),
            ("environment steps", grouped(steps) + &of),
            ("episodes", grouped(episodes.len() as u64)),
            ("time", wall.map_or("—".into(), duration)),
        ];
        let mut about = format!("seed {}", config.seed);
        if !config.demos.is_empty() {
            let _ = write!(about, ", after learning from the demonstrations {}", config.demos);
        }
        if episodes.is_empty() {
            about += "; no episode has come to its end yet";
        }
        Ok(Self { title: format!("{} on {}", config.algo, config.env), about, facts, charts })
    }

    fn html(&self) -> String {
        let mut body =
            format!("<h1>{}</h1>\n<p class=\"soft\">{}</p>\n<dl>\n", escape(&self.title), escape(&self.about));
        for (name, value) in &self.facts {
            let _ = writeln!(body, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
        }
        body += "</dl>\n<div class=\"charts\">\n";
        for (_, chart) in &self.charts {
            let _ = writeln!(body, "<figure>{chart}</figure>");
        }
        body += "</div>\n";
        page(&self.title, STYLE, &body)
    }
}

/// Seconds so far, and where they went: as the run said at its end, or while it goes on.
fn time(run: &Path) -> (Option<f64>, Option<ShareChart>) {
    let read = |file: &str| -> Option<(std::time::SystemTime, serde_json::Value)> {
        let path = run.join(file);
        let written = std::fs::metadata(&path).and_then(|data| data.modified()).ok()?;
        Some((written, serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?))
    };
    // A run that was stopped and goes on has an older word of its end.
    let said = ["summary.json", crate::run_dir::TIME].into_iter().filter_map(read).max_by_key(|said| said.0);
    let Some((_, said)) = said else { return (None, None) };
    let split = said["time_split"].as_object();
    let mut parts: Vec<(String, f64)> = split
        .map(|split| split.iter().filter_map(|(phase, s)| Some((phase.clone(), s.as_f64()?))).collect())
        .unwrap_or_default();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let seconds = parts.iter().map(|part| part.1).sum();
    let chart =
        ShareChart { title: "Where the time went".into(), bars: vec![ShareBar { name: "all".into(), seconds, parts }] };
    (said["wall_seconds"].as_f64(), (seconds > 0.0).then_some(chart))
}

/// A chart of at most some hundred points a curve. Of every few neighbours the lowest and the highest stay, so that nothing that stands out is lost.
fn decimated(mut chart: Chart) -> Chart {
    for series in &mut chart.series {
        let most = if matches!(series.mark, Mark::Dots | Mark::Crosses) { 2 * POINTS } else { POINTS };
        let n = series.points.len();
        if n <= most {
            continue;
        }
        let group = (2 * n).div_ceil(most);
        let mut kept = Vec::with_capacity(most + 2);
        for few in series.points.chunks(group) {
            let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let (low, high) = (few.iter().min_by(by).expect("one"), few.iter().max_by(by).expect("one"));
            kept.extend(if low.0 <= high.0 { [*low, *high] } else { [*high, *low] });
        }
        // Where it stands now is what people look for.
        kept.push(series.points[n - 1]);
        kept.dedup();
        series.points = kept;
    }
    chart
}

/// The returns at both ends of the run, and the levels they are compared with, in one line.
pub fn in_words(registry: &Registry, run: &Path) -> Result<String> {
    let (config, episodes, limit) = read(registry, run)?;
    Ok(both_ends(uncut(&episodes, config.total_steps, limit), Levels::of(&config, limit)))
}

fn both_ends(episodes: &[EpisodeRow], levels: Levels) -> String {
    let window = window(episodes.len()).min(episodes.len());
    if window == 0 {
        return "no episode came to its end".into();
    }
    let [first, last] = [window, episodes.len()].map(|end| median_of_last(window, &episodes[..end]));
    let count = plural(window as u64, "episode");
    let mut text = format!("median return of the first {count} {first:.0}, of the last {last:.0}");
    for (whose, level) in [("the demonstrator's", levels.demonstrator), ("the expert's", levels.expert)] {
        text += &level.map_or(String::new(), |level| format!("; {whose} {level:.0}"));
    }
    text
}

/// A run's settings, its episodes, and how long one may last.
fn read(registry: &Registry, run: &Path) -> Result<(RunConfig, Vec<EpisodeRow>, u64)> {
    let config = read_config(run)?.run;
    let (_, episodes) = episodes::read(&run.join(episodes::FILE))?;
    let limit = registry.time_limit(&config.env).map_or(u64::MAX, |limit| limit as u64);
    Ok((config, episodes, limit))
}

/// Without a last episode that the end of the run cut: its return says nothing.
fn uncut(episodes: &[EpisodeRow], total_steps: u64, limit: u64) -> &[EpisodeRow] {
    match episodes {
        [before @ .., last] if last.steps >= total_steps && !last.violation && last.length < limit => before,
        all => all,
    }
}

/// Episodes of the running median: an eighth of a short run, so that it shows what changed within it.
fn window(episodes: usize) -> usize {
    (episodes / 8).clamp(5, WINDOW)
}

/// The median, and not the mean: one fall among them would hide what the others learnt. Falls are counted in a chart of their own.
fn median_of_last(window: usize, episodes: &[EpisodeRow]) -> f64 {
    let last = &episodes[episodes.len().saturating_sub(window)..];
    Spread::of(&last.iter().map(|e| e.total_reward).collect::<Vec<f64>>()).median
}

fn returns(episodes: &[EpisodeRow], steps: u64, limit: u64, levels: Levels) -> Chart {
    let series =
        |name: &str, points, mark, colour| Series { name: name.into(), points, mark, colour, ..Series::default() };
    let point = |e: &EpisodeRow| (e.steps as f64, e.total_reward);
    let level = |name: &str, height: Option<f64>| {
        let points = vec![(0.0, height?), (steps as f64, height?)];
        Some(series(&format!("{name} {:.0}", height?), points, Mark::Level, 5))
    };
    let mut all: Vec<Series> =
        level("demonstrator", levels.demonstrator).into_iter().chain(level("expert", levels.expert)).collect();
    let whole: Vec<(f64, f64)> = episodes.iter().filter(|e| !e.violation && e.length >= limit).map(point).collect();
    let mostly_whole = 2 * whole.len() > episodes.len();
    all.push(series("whole episode", whole, Mark::Dots, 2));
    let window = window(episodes.len());
    // Of a long run only as many medians as are drawn.
    let every = episodes.len().div_ceil(POINTS).max(1);
    let ends = (1..=episodes.len()).filter(|end| end.is_multiple_of(every) || *end == episodes.len());
    let line = ends.map(|end| (episodes[end - 1].steps as f64, median_of_last(window, &episodes[..end])));
    all.push(series(&format!("median of the last {window}"), line.collect(), Mark::Line, 0));
    let heights = || all.iter().flat_map(|s| &s.points).map(|p| p.1);
    let (low, high) = (heights().fold(f64::INFINITY, f64::min), heights().fold(f64::NEG_INFINITY, f64::max));
    // An axis that is mostly empty would hide the rise: then it begins where the whole episodes are.
    let from_zero = !mostly_whole || low < 0.5 * high;
    let fell = episodes.iter().filter(|e| e.violation).map(point);
    let (fell, early): (Vec<_>, Vec<_>) = fell.partition(|p| from_zero || p.1 >= low);
    all.push(series("ended in a violation", fell, Mark::Crosses, 1));
    let name = "ended in a violation, with less than the axis holds";
    all.push(Series { at_bottom: true, ..series(name, early, Mark::Crosses, 1) });
    Chart {
        title: "Return of the episodes".into(),
        x_label: "environment steps".into(),
        y_label: "sum of rewards".into(),
        from_zero,
        series: all,
        ..Chart::default()
    }
}

fn violations(episodes: &[EpisodeRow]) -> Chart {
    let counted = episodes.iter().map(|e| (e.steps as f64, e.cumulative_violations as f64));
    let points = std::iter::once((0.0, 0.0)).chain(counted).collect();
    Chart {
        title: "Violations since the beginning".into(),
        x_label: "environment steps".into(),
        y_label: "episodes that ended in a violation".into(),
        from_zero: true,
        series: vec![Series { points, mark: Mark::Steps, colour: 1, ..Series::default() }],
        ..Chart::default()
    }
}

/// Rows over which predicted and actual risk are averaged: falls are rare.
const RISK_ROWS: usize = 10;

/// Risk predicted of the skills before they were played, and the share of them that violated; none without at least two rows that have both.
fn foresight(progress: &Path) -> Result<Option<Chart>> {
    let columns = ["TotalEnvSteps", "Risk/predicted", "Risk/actual"];
    let Some(rows) = numbers(progress, &columns)?.filter(|rows| rows.len() > 1) else { return Ok(None) };
    let series = |name: &str, column: usize, mark, colour| {
        let mean = |end: usize| {
            let last = &rows[(end + 1).saturating_sub(RISK_ROWS)..=end];
            last.iter().map(|row| row[column]).sum::<f64>() / last.len() as f64
        };
        let points = (0..rows.len()).map(|i| (rows[i][0], mean(i))).collect();
        Series { name: name.into(), points, mark, colour, ..Series::default() }
    };
    Ok(Some(Chart {
        title: "Predicted against actual risk".into(),
        subtitle: format!("of a skill, over the last {RISK_ROWS} rows"),
        x_label: "environment steps".into(),
        y_label: "share of skills that violate".into(),
        from_zero: true,
        series: vec![series("predicted", 1, Mark::Dashed, 3), series("actual", 2, Mark::Line, 1)],
        ..Chart::default()
    }))
}

/// The predicted risk along the run; none without at least two rows that have one.
fn risks(progress: &Path) -> Result<Option<Chart>> {
    let columns = ["TotalEnvSteps", "Risk/policy_mean", "Risk/chosen"];
    let Some(rows) = numbers(progress, &columns)?.filter(|rows| rows.len() > 1) else { return Ok(None) };
    let series = |name: &str, column: usize, mark, colour| Series {
        name: name.into(),
        points: rows.iter().map(|row| (row[0], row[column])).collect(),
        mark,
        colour,
        ..Series::default()
    };
    Ok(Some(Chart {
        title: "Predicted risk of the skills".into(),
        x_label: "environment steps".into(),
        y_label: "probability of a violation".into(),
        from_zero: true,
        series: vec![
            series("the policy's mean", 1, Mark::Dashed, 3),
            series("the skill that was chosen", 2, Mark::LineWithDots, 0),
        ],
        ..Chart::default()
    }))
}

/// Columns of a CSV file by name; none where the file or one of them is missing. A cell that is no number is NaN.
fn numbers(path: &Path, columns: &[&str]) -> Result<Option<Vec<Vec<f64>>>> {
    if !path.exists() {
        return Ok(None);
    }
    let failed = |e: csv::Error| Error::other(format!("{}: {e}", path.display()));
    let mut reader = csv::Reader::from_path(path).map_err(failed)?;
    let header = reader.headers().map_err(failed)?.clone();
    let Some(places) =
        columns.iter().map(|name| header.iter().position(|column| column == *name)).collect::<Option<Vec<usize>>>()
    else {
        return Ok(None);
    };
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = match record {
            // A run that is under way may have written a part of a line.
            Err(e) if matches!(e.kind(), csv::ErrorKind::UnequalLengths { .. }) => continue,
            record => record.map_err(failed)?,
        };
        rows.push(places.iter().map(|i| record[*i].parse().unwrap_or(f64::NAN)).collect());
    }
    Ok(Some(rows))
}

const STYLE: &str = r#":root { --page: #f4f2ee; --card: #fff; --ink: #1d2126; --soft: #5b636c; --line: #d9d6cf; }
@media (prefers-color-scheme: dark) { :root { --page: #111418; --card: #191d23; --ink: #e8eaed; --soft: #a2abb5; --line: #2c323a; } }
body {
  max-width: 1080px; margin: 0 auto; padding: 20px 18px 40px; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1 { margin: 0; font-size: 23px; letter-spacing: -.01em; }
.soft { margin: 2px 0 14px; color: var(--soft); overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(118px, 1fr)); gap: 10px; margin: 0 0 14px; }
dl div { padding: 9px 12px; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
dt { font-size: 12px; color: var(--soft); }
dd { margin: 0; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
/* No chart is wider than it was drawn for, by much, or so narrow that its letters cannot be read. */
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 350px), 1fr)); gap: 14px; align-items: start; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 11px; overflow: hidden; }
figure svg { display: block; width: 100%; height: auto; }
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_missing_ones_are_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        assert_eq!(numbers(&path, &["x"]).unwrap(), None);
        std::fs::write(&path, "y,x\n1,2\n3,\n").unwrap();
        let rows = numbers(&path, &["x", "y"]).unwrap().unwrap();
        assert_eq!(rows[0], [2.0, 1.0]);
        assert!(rows[1][0].is_nan() && rows[1][1] == 3.0);
        assert_eq!(numbers(&path, &["z"]).unwrap(), None);
    }

    #[test]
    fn before_the_first_episode_ends_nothing_is_drawn_and_no_number_is_made_up() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::standard();
        let run = RunConfig::new("sac", "toy", 0, 1000);
        let config = crate::config::Config::resolve(&registry, run, &Default::default()).unwrap();
        std::fs::write(folder.path().join("config.toml"), config.to_toml()).unwrap();
        std::fs::write(folder.path().join(episodes::FILE), format!("{}\n", episodes::COLUMNS)).unwrap();
        let curves = Curves::read(&registry, folder.path(), |_, _| Levels::default()).unwrap();
        assert!(curves.charts.is_empty() && curves.about.ends_with("no episode has come to its end yet"));
        assert_eq!(curves.facts[0], ("reward per step, PtR", "—".into()));
        let of_all = "0 of 1\u{202f}000".to_string();
        assert_eq!(curves.facts[3], ("environment steps", of_all));
    }

    #[test]
    fn long_curves_keep_their_ends_and_what_stands_out() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        (points[33_333].1, points[77_777].1) = (9.0, -9.0);
        let chart = Chart { series: vec![Series { points, ..Series::default() }], ..Chart::default() };
        let kept = decimated(chart).series.remove(0).points;
        assert!(kept.len() <= POINTS + 1 && kept.len() > POINTS / 4, "{}", kept.len());
        assert!(
            kept.contains(&(33_333.0, 9.0))
                && kept.contains(&(77_777.0, -9.0))
                && kept.last() == Some(&(99_999.0, 1.0))
        );
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn violations_are_counted_and_kinds_of_episodes_kept_apart() {
        let all = crate::stats::tests::rows(&[(10, 4.0, true), (10, 8.0, false), (10, 0.0, true)]);
        let chart = violations(&all);
        assert_eq!(chart.series[0].points, [(0.0, 0.0), (10.0, 1.0), (20.0, 1.0), (30.0, 2.0)]);
        let chart = returns(&all, 30, 10, Levels::default());
        assert_eq!(chart.series[0].points, [(20.0, 8.0)]);
        assert_eq!(chart.series[1].points, [(10.0, 4.0), (20.0, 6.0), (30.0, 4.0)]);
        assert_eq!(chart.series[2].points, [(10.0, 4.0), (30.0, 0.0)]);
        assert!(chart.from_zero && chart.series[3].points.is_empty());
    }

    #[test]
    fn levels_are_lines_across_and_the_axis_begins_where_the_data_are() {
        let mut good: Vec<(u64, f64, bool)> = (0..40).map(|i| (10, 60.0 + f64::from(i), false)).collect();
        good[19] = (10, 7.0, true);
        let all = crate::stats::tests::rows(&good);
        let chart = returns(&all, 400, 10, Levels { demonstrator: Some(61.4), expert: None });
        assert_eq!((chart.series[0].name.as_str(), chart.series[0].mark), ("demonstrator 61", Mark::Level));
        assert_eq!(chart.series[0].points, [(0.0, 61.4), (400.0, 61.4)]);
        assert_eq!(chart.series[2].name, "median of the last 5");
        assert!(!chart.from_zero && chart.series[3].points.is_empty());
        // The fall does not stretch the axis.
        assert!(chart.series[4].at_bottom && chart.series[4].points == [(200.0, 7.0)]);
        let chart = returns(&all, 400, 10, Levels { demonstrator: Some(20.0), expert: Some(150.0) });
        assert_eq!(chart.series[1].name, "expert 150");
        assert!(chart.from_zero && chart.series[4].points == [(200.0, 7.0)]);
        let levels = Levels { demonstrator: Some(61.4), expert: Some(99.6) };
        let said = "median return of the first 5 episodes 62, of the last 97; the demonstrator's 61; the expert's 100";
        assert_eq!(both_ends(&all, levels), said);
        assert_eq!(both_ends(&[], levels), "no episode came to its end");
    }

    #[test]
    fn only_an_episode_that_the_end_of_the_run_cut_is_left_out() {
        let all = crate::stats::tests::rows(&[(10, 4.0, false), (3, 1.0, false)]);
        assert_eq!(uncut(&all, 13, 10), &all[..1]);
        assert_eq!(uncut(&all, 14, 10).len(), 2, "the run goes on: it came to its end by itself");
        assert_eq!(uncut(&all[..1], 10, 10).len(), 1, "a whole one");
        let fell = crate::stats::tests::rows(&[(10, 4.0, false), (3, 1.0, true)]);
        assert_eq!(uncut(&fell, 13, 10).len(), 2);
    }
}
