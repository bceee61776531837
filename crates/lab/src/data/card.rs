//! A dataset card: how a set was made and what is in it, in Markdown, with a picture beside it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sskp_blocks::{Error, Result};

use super::Set;
use super::check::SetReport;
use crate::chart::{Chart, Mark, Series, side_by_side};
use crate::stats::Spread;
use crate::wording::plural;
use sskp_blocks::files::write_whole;

/// Writes the card to `out` and its picture beside it; gives the picture's path.
pub fn write(set: &Set, report: &SetReport, out: &Path) -> Result<PathBuf> {
    let picture = out.with_extension("svg");
    if picture == out {
        return Err(Error::other("the card is Markdown: give it a name that ends in .md"));
    }
    if let Some(parent) = out.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
    }
    write_whole(&picture, draw(report).as_bytes())?;
    let name = picture.file_name().unwrap_or_default().to_string_lossy();
    write_whole(out, markdown(set, report, &name).as_bytes())?;
    Ok(picture)
}

/// A value out of nested objects, as text.
fn lookup(set: &Set, path: &[&str]) -> Option<String> {
    let mut value = set.metadata.get("sskp")?;
    for key in path {
        value = value.get(key)?;
    }
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => {
            let x = n.as_f64().unwrap_or(f64::NAN);
            // Settings such as a noise of 0.05 are short already; measurements are not.
            if x.to_string().len() <= 6 { x.to_string() } else { format!("{x:.2}") }
        }
        other => other.to_string(),
    })
}

fn markdown(set: &Set, report: &SetReport, picture: &str) -> String {
    let stats = &report.stats;
    let mut text = String::new();
    let mut line = |row: &str| {
        text.push_str(row);
        text.push('\n');
    };
    let robot = if stats.env.is_empty() { "an unknown robot" } else { &stats.env };
    line(&format!("# {}\n", stats.id));
    if let Some(description) = set.metadata.get("description").and_then(Value::as_str) {
        line(&format!("{description}\n"));
    }
    line(&format!("![returns and lengths of the episodes]({picture})\n"));

    line("## What is in it\n");
    line("| | |\n|---|---|");
    line(&format!("| robot | {robot}: {} observations, {} actions |", stats.obs_dim, stats.action_dim));
    line(&format!("| steps | {} |", stats.steps));
    line(&format!("| episodes | {} |", stats.episodes));
    line(&format!("| violating episodes | {} |", stats.violations));
    line(&format!("| violating steps | {:.3} % of all |", 100.0 * stats.violating_share));
    line(&format!("| reward per step | {:.3} |", stats.reward_per_step));
    line(&format!("| stored as | {}, {:.1} MB |\n", stats.format, stats.bytes as f64 / 1e6));
    line("| | least | quarter | median | three quarters | greatest | mean |\n|---|---|---|---|---|---|---|");
    let row = |s: &Spread, digits: usize| {
        [s.min, s.low, s.median, s.high, s.max, s.mean].map(|x| format!("{x:.digits$}")).join(" | ")
    };
    line(&format!("| return | {} |", row(&stats.returns, 1)));
    line(&format!("| length | {} |\n", row(&stats.lengths, 0)));

    line("## How it was made\n");
    if let Some(command) = lookup(set, &["command"]) {
        line(&format!("```sh\n{command}\n```\n"));
    }
    let rows: &[(&str, &[&str])] = &[
        ("made by", &["made_by"]),
        ("simulator", &["simulator"]),
        ("seed", &["seed"]),
        ("agent", &["agent", "algo"]),
        ("agent's training steps", &["agent", "steps"]),
        ("agent's training seed", &["agent", "seed"]),
        ("agent's configuration, SHA-256", &["agent", "config_sha256"]),
        ("agent's own return, without noise, mean", &["agent", "return_mean"]),
        ("agent's own return, least", &["agent", "return_min"]),
        ("agent's own return, greatest", &["agent", "return_max"]),
        ("agent's own reward per step", &["agent", "reward_per_step"]),
        ("episodes those were measured on", &["agent", "episodes"]),
        ("violations among them", &["agent", "violations"]),
        ("actions", &["actions"]),
        ("noise (standard deviation)", &["noise"]),
        ("calm episodes", &["calm", "episodes"]),
        ("violations among them", &["calm", "violations"]),
        ("disturbed episodes", &["disturbed", "episodes"]),
        ("violations among them", &["disturbed", "violations"]),
        ("pushes (standard deviation of an action)", &["disturbed", "push"]),
        ("steps a push lasts", &["disturbed", "push_steps"]),
        ("they begin", &["disturbed", "pushes_begin"]),
        ("episodes dropped because the simulation broke", &["episodes_dropped_as_the_simulation_broke"]),
        ("converted from", &["converted_from", "set"]),
        ("which was", &["converted_from", "format"]),
        ("its SHA-256", &["converted_from", "sha256"]),
        ("costs", &["converted_from", "costs"]),
    ];
    let rows: Vec<_> = rows.iter().filter_map(|(name, path)| Some((name, lookup(set, path)?))).collect();
    if rows.is_empty() {
        line("The file does not say.\n");
    } else {
        line("| | |\n|---|---|");
        for (name, value) in rows {
            line(&format!("| {name} | {value} |"));
        }
        line("");
    }
    let step = |key: &str| set.provenance()?.get(key)?.as_f64();
    if let (Some(observation), Some(action)) = (step("observation_step"), step("action_step")) {
        line(&format!(
            "To be compact, observations are stored as multiples of 1/{:.0} (an error of at most {:.1e}), except states \
             that rounding would move over the bound of the safety constraint, which are exact. Actions are \
             multiples of 1/{:.0}; they were rounded before they were played, so those stored are exact.\n",
            1.0 / observation,
            observation / 2.0,
            1.0 / action
        ));
    }

    line("## Checked\n");
    if report.fine() {
        line("`sskp data check` finds nothing wrong.");
    }
    for problem in &report.problems {
        line(&format!("- {problem}"));
    }
    for note in &report.notes {
        line(&format!("\nNote: {note}."));
    }
    if let (Some(id), super::Format::Minari) = (set.metadata.get("dataset_id").and_then(Value::as_str), set.format) {
        line("\n## Load it\n");
        line(&format!("```python\nimport minari  # MINARI_DATASETS_PATH names the folder above {id}"));
        line(&format!("dataset = minari.load_dataset(\"{id}\")"));
        line("cost_of_step = dataset[0].infos[\"cost\"][1:]  # the first entry belongs to the reset\n```");
    }
    text
}

/// Bars of a histogram.
const BINS: usize = 24;

/// Two histograms side by side; violating episodes in a second colour on top of the others.
fn draw(report: &SetReport) -> String {
    let stats = &report.stats;
    let label = format!("{}: returns and lengths of {}", stats.id, plural(stats.episodes as u64, "episode"));
    let histogram = |title: &str, x_label: &str, values: &[f64]| Chart {
        title: title.into(),
        x_label: x_label.into(),
        y_label: "episodes".into(),
        small: true,
        series: stacked(values, &stats.all_violations),
        ..Chart::default()
    };
    let returns = histogram("Episodes by return", "sum of rewards", &stats.all_returns);
    side_by_side(&label, &[returns, histogram("Episodes by length", "steps", &stats.all_lengths)])
}

/// Episodes without a violation, and above them those with one.
fn stacked(values: &[f64], violations: &[bool]) -> Vec<Series> {
    let finite = || values.iter().zip(violations).filter(|(v, _)| v.is_finite());
    let low = finite().map(|(v, _)| *v).fold(f64::INFINITY, f64::min);
    let high = finite().map(|(v, _)| *v).fold(f64::NEG_INFINITY, f64::max);
    let width = if high > low { (high - low) / BINS as f64 } else { 1.0 };
    let mut counts = [[0.0; 2]; BINS];
    for (value, violation) in finite() {
        counts[(((value - low) / width) as usize).min(BINS - 1)][usize::from(*violation)] += 1.0;
    }
    let series = |name: &str, kind: usize| {
        let among = violations.iter().filter(|v| usize::from(**v) == kind).count();
        let bar = |(i, [safe, fell]): (usize, &[f64; 2])| {
            let x = low + width * i as f64;
            if kind == 0 { (x, 0.0, *safe) } else { (x, *safe, safe + fell) }
        };
        let band = if low.is_finite() { counts.iter().enumerate().map(bar).collect() } else { Vec::new() };
        Series { name: format!("{name} ({among})"), mark: Mark::Bars, band, colour: kind, ..Series::default() }
    };
    vec![series("no violation", 0), series("violation", 1)]
}
