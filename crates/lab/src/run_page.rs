//! Learning curves of a run directory as one HTML page: return of the episodes, cumulative violations, and the predicted risk of
//! methods that predict one.

use std::fmt::Write as _;
use std::path::Path;

use sskp_blocks::{Error, Result};

use crate::chart::{Chart, Mark, Series};
use crate::episodes;
use crate::markup::{escape, page};
use crate::registry::Registry;
use crate::stats::{WINDOW, window_mean};
use crate::train::{Summary, read_config};
use crate::wording::duration;
use sskp_blocks::files::write_whole;
use sskp_blocks::record::EpisodeRow;

/// Writes the page of the run in `run`.
pub fn write_html(registry: &Registry, run: &Path, summary: &Summary, path: &Path) -> Result<()> {
    write_whole(path, html(registry, run, summary)?.as_bytes())
}

/// The page as text.
fn html(registry: &Registry, run: &Path, summary: &Summary) -> Result<String> {
    let config = read_config(run)?.run;
    let (_, episodes) = episodes::read(&run.join(episodes::FILE))?;
    let limit = registry.time_limit(&config.env).map_or(u64::MAX, |limit| limit as u64);
    let mut charts = vec![returns(&episodes, limit), violations(&episodes)];
    charts.extend(risks(&run.join("progress.csv"))?);
    let title = format!("{} on {}", config.algo, config.env);
    let ratio = summary.ptr_per_violation_x1000.map_or("—".into(), |r| format!("{r:.2}"));
    let facts = [
        ("reward per step, PtR", format!("{:.3}", summary.ptr)),
        ("violations, #V", summary.violations.to_string()),
        ("PtR/#V × 1000", ratio),
        ("environment steps", summary.steps.to_string()),
        ("episodes", summary.episodes.to_string()),
        ("time", duration(summary.wall_seconds)),
    ];
    let mut body = format!("<h1>{}</h1>\n<p class=\"soft\">seed {}", escape(&title), config.seed);
    if !config.demos.is_empty() {
        let _ = write!(body, ", after learning from the demonstrations {}", escape(&config.demos));
    }
    body += "</p>\n<dl>\n";
    for (name, value) in facts {
        let _ = writeln!(body, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    body += "</dl>\n";
    for chart in charts {
        let _ = writeln!(body, "<figure>{}</figure>", chart.svg());
    }
    Ok(page(&title, STYLE, &body))
}

fn returns(episodes: &[EpisodeRow], limit: u64) -> Chart {
    let of = |kind: fn(&EpisodeRow, u64) -> bool| -> Vec<(f64, f64)> {
        episodes.iter().filter(|e| kind(e, limit)).map(|e| (e.steps as f64, e.total_reward)).collect()
    };
    let line = episodes.iter().enumerate().map(|(i, e)| (e.steps as f64, window_mean(episodes, i)));
    let series =
        |name: &str, points, mark, colour| Series { name: name.into(), points, mark, colour, ..Series::default() };
    Chart {
        title: "Return of the episodes".into(),
        x_label: "environment steps".into(),
        y_label: "sum of rewards".into(),
        from_zero: true,
        series: vec![
            series("whole episode", of(|e, limit| !e.violation && e.length >= limit), Mark::Dots, 2),
            series("ended in a violation", of(|e, _| e.violation), Mark::Crosses, 1),
            series(&format!("mean of the last {WINDOW}"), line.collect(), Mark::Line, 0),
        ],
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
        let record = record.map_err(failed)?;
        rows.push(places.iter().map(|i| record[*i].parse().unwrap_or(f64::NAN)).collect());
    }
    Ok(Some(rows))
}

const STYLE: &str = r#":root { --page: #f4f2ee; --card: #fff; --ink: #1d2126; --soft: #5b636c; --line: #d9d6cf; }
@media (prefers-color-scheme: dark) { :root { --page: #111418; --card: #191d23; --ink: #e8eaed; --soft: #a2abb5; --line: #2c323a; } }
body {
  max-width: 800px; margin: 0 auto; padding: 20px 18px 40px; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1 { margin: 0; font-size: 23px; letter-spacing: -.01em; }
.soft { margin: 2px 0 14px; color: var(--soft); overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(118px, 1fr)); gap: 10px; margin: 0 0 14px; }
dl div { padding: 9px 12px; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
dt { font-size: 12px; color: var(--soft); }
dd { margin: 0; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
figure { margin: 0 0 14px; border: 1px solid var(--line); border-radius: 11px; overflow: hidden; }
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
    fn violations_are_counted_and_kinds_of_episodes_kept_apart() {
        let all = crate::stats::tests::rows(&[(10, 4.0, true), (10, 8.0, false), (10, 0.0, true)]);
        let chart = violations(&all);
        assert_eq!(chart.series[0].points, [(0.0, 0.0), (10.0, 1.0), (20.0, 1.0), (30.0, 2.0)]);
        let chart = returns(&all, 10);
        assert_eq!(chart.series[0].points, [(20.0, 8.0)]);
        assert_eq!(chart.series[1].points, [(10.0, 4.0), (30.0, 0.0)]);
        assert_eq!(chart.series[2].points, [(10.0, 4.0), (20.0, 6.0), (30.0, 4.0)]);
    }
}
