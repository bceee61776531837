//! A dataset card: how a set was made and what is in it, in Markdown, with a picture beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sskp_blocks::{Error, Result};

use super::Set;
use super::check::Report;
use crate::stats::Spread;
use crate::svg::escape;
use sskp_blocks::files::write_whole;

/// Writes the card to `out` and its picture beside it; gives the picture's path.
pub fn write(set: &Set, report: &Report, out: &Path) -> Result<PathBuf> {
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

fn markdown(set: &Set, report: &Report, picture: &str) -> String {
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
        line(&format!("- {} × {}; first {}", problem.count, problem.kind, problem.first));
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

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const BINS: usize = 24;

/// Two histograms side by side; violating episodes in a second colour on top of the others.
fn draw(report: &Report) -> String {
    let stats = &report.stats;
    let mut svg = format!(
        concat!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img">"#,
            "\n<title>{title}</title>\n<style>\n",
            "  text {{ font: 13px system-ui, sans-serif; fill: #57606a }}\n",
            "  .head {{ font-weight: 600 }}\n",
            "  .end {{ text-anchor: end }} .middle {{ text-anchor: middle }}\n",
            "  .axis {{ stroke: #8b949e; stroke-width: 1 }}\n",
            "  .safe {{ fill: #3d7fc4 }} .fell {{ fill: #d9822b }}\n",
            "  @media (prefers-color-scheme: dark) {{ text {{ fill: #adbac7 }} .safe {{ fill: #539bf5 }} .fell {{ fill: #e09b4d }} }}\n",
            "</style>\n"
        ),
        w = WIDTH,
        h = HEIGHT,
        title = escape(&format!("{}: returns and lengths of {} episodes", stats.id, stats.episodes)),
    );
    histogram(&mut svg, 0.0, "Episodes by return", &stats.all_returns, &stats.all_violations);
    histogram(&mut svg, WIDTH / 2.0, "Episodes by length (steps)", &stats.all_lengths, &stats.all_violations);
    let legend = [("safe", "no violation", stats.episodes - stats.violations), ("fell", "violation", stats.violations)];
    for (i, (class, label, count)) in legend.iter().enumerate() {
        let x = 44.0 + 170.0 * i as f64;
        let _ = writeln!(svg, r#"<rect class="{class}" x="{x}" y="279" width="11" height="11"/>"#);
        let _ = writeln!(svg, r#"<text x="{}" y="289">{label} ({count})</text>"#, x + 17.0);
    }
    svg.push_str("</svg>\n");
    svg
}

fn histogram(svg: &mut String, left: f64, title: &str, values: &[f64], fell: &[bool]) {
    let (x0, y0, width, height) = (left + 44.0, 232.0, WIDTH / 2.0 - 64.0, 190.0);
    let finite = || values.iter().zip(fell).filter(|(v, _)| v.is_finite());
    let low = finite().map(|(v, _)| *v).fold(f64::INFINITY, f64::min);
    let high = finite().map(|(v, _)| *v).fold(f64::NEG_INFINITY, f64::max);
    let _ = writeln!(svg, r#"<text class="head" x="{x0}" y="24">{}</text>"#, escape(title));
    if !low.is_finite() {
        return;
    }
    let span = if high > low { high - low } else { 1.0 };
    let mut counts = [[0_usize; 2]; BINS];
    for (v, fell) in finite() {
        let bin = ((v - low) / span * BINS as f64) as usize;
        counts[bin.min(BINS - 1)][usize::from(*fell)] += 1;
    }
    let top = counts.iter().map(|c| c[0] + c[1]).max().unwrap_or(1).max(1) as f64;
    let bar = width / BINS as f64;
    for (i, [safe, fell]) in counts.iter().enumerate() {
        let mut y = y0;
        for (class, count) in [("safe", *safe), ("fell", *fell)] {
            if count > 0 {
                let tall = height * count as f64 / top;
                y -= tall;
                let x = x0 + bar * i as f64;
                let _ = writeln!(
                    svg,
                    r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{tall:.1}"/>"#,
                    bar - 1.0
                );
            }
        }
    }
    let _ = writeln!(svg, r#"<line class="axis" x1="{x0}" y1="{y0}" x2="{}" y2="{y0}"/>"#, x0 + width);
    let _ = writeln!(svg, r#"<text class="end" x="{}" y="{}">{top}</text>"#, x0 - 6.0, y0 - height + 10.0);
    let _ = writeln!(svg, r#"<text class="end" x="{}" y="{}">0</text>"#, x0 - 6.0, y0);
    let ends = if high > low { vec![(0.0, low), (0.5, (low + high) / 2.0), (1.0, high)] } else { vec![(0.0, low)] };
    for (share, value) in ends {
        let class = if share == 0.0 {
            ""
        } else if share < 1.0 {
            "middle"
        } else {
            "end"
        };
        let _ =
            writeln!(svg, r#"<text class="{class}" x="{:.1}" y="{}">{value:.0}</text>"#, x0 + share * width, y0 + 18.0);
    }
}
