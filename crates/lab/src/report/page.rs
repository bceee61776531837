//! The report as one HTML file: no network, and no script but the one that sorts a table.

use std::fmt::Write as _;

use super::{Group, Report, Variant, calibration, runs};
use crate::markup::{escape, page_with};
use crate::stats::SeedStats;
use crate::wording::{capital, grouped, measured, measured_like, plural};

const STYLE: &str = include_str!("page.css");

pub fn html(report: &Report) -> String {
    let mut out = String::new();
    let runs: usize = report.groups.iter().map(|g| g.runs.len()).sum();
    let steps: u64 = report.groups.iter().flat_map(|g| &g.runs).map(|r| r.stats.steps).sum();
    let title = title(report);
    let _ = write!(
        out,
        "<h1>{}</h1>\n<p class=\"soft\">{}: {} on {}, {} environment steps in all.</p>\n<section class=\"glance\"><div><ul class=\"found\">",
        escape(&title),
        escape(&report.date),
        plural(runs as u64, "run"),
        plural(report.robots().len() as u64, "robot"),
        grouped(steps)
    );
    for sentence in &report.found {
        let (robot, rest) = sentence.split_once(':').unwrap_or(("", sentence));
        let _ = write!(out, "<li><strong>{}</strong>{}</li>", escape(robot), escape(rest));
    }
    out.push_str("</ul>");
    let doubts: Vec<&String> = report.missing.iter().chain(&report.warnings).collect();
    if !doubts.is_empty() {
        let item = |text: &&String| format!("<li>{}</li>", escape(text));
        let (first, rest) = doubts.split_at(doubts.len().min(4));
        let _ = write!(
            out,
            "<div class=\"warn\"><strong>Missing</strong><ul>{}</ul>",
            first.iter().map(item).collect::<String>()
        );
        if !rest.is_empty() {
            let _ = write!(
                out,
                "<details><summary>and {} more</summary><ul>{}</ul></details>",
                rest.len(),
                rest.iter().map(item).collect::<String>()
            );
        }
        out.push_str("</div>");
    }
    let _ = writeln!(out, "</div><figure id=\"overview\">{}</figure></section>", report.overview().svg());
    let _ = writeln!(
        out,
        "<p class=\"soft\">{} Made by sskp {}; every number is in the JSON file beside this page, every figure also a file of its own.</p>",
        escape(&report.budget),
        escape(&report.version)
    );
    // The first figure, then the table, then the rest: the order of the paper.
    let (first, rest) = report
        .sections
        .split_at(report.sections.iter().take(1).filter(|s| s.title.starts_with("Reward against violations")).count());
    first.iter().for_each(|section| figures(&mut out, section));
    table_1(&mut out, report);
    numbers(&mut out, report);
    comparisons(&mut out, report);
    for section in rest {
        figures(&mut out, section);
        if section.title == calibration::TITLE {
            calibration::tables(&mut out, report);
        }
    }
    runs::table(&mut out, report);
    page_with(&title, STYLE, &out, runs::SCRIPT)
}

/// What this report is of.
fn title(report: &Report) -> String {
    if report.of_the_paper {
        return "Skill-based safe reinforcement learning with risk planning".into();
    }
    let methods: std::collections::BTreeSet<&str> = report.groups.iter().map(|g| g.variant.method.as_str()).collect();
    let variants = report.variants();
    let robots = report.robots().iter().map(|robot| capital(robot)).collect::<Vec<_>>().join(", ");
    match (methods.len(), variants.as_slice()) {
        (_, [only]) => format!("{} on {robots}", only.title),
        (1, all) => {
            format!("{} variants of {} on {robots}", all.len(), all[0].title.split(" (").next().unwrap_or_default())
        }
        (n, all) if all.len() == n => format!("{n} methods on {robots}"),
        (n, all) => format!("{n} methods, {} variants, on {robots}", all.len()),
    }
}

fn figures(out: &mut String, section: &super::Section) {
    let _ =
        writeln!(out, "<section><h2>{}</h2><p class=\"soft\">{}</p>", escape(&section.title), escape(&section.about));
    out.push_str("<div class=\"figures\">\n");
    for figure in &section.figures {
        let _ = writeln!(out, "<figure id=\"{}\">{}</figure>", escape(&figure.name), figure.svg());
    }
    out.push_str("</div></section>\n");
}

/// Mean ± standard deviation, and the interquartile mean with its interval below.
fn cell(value: &SeedStats) -> String {
    let number = |x: f64| measured_like(x, value.mean);
    let spread = value.std.map_or(String::new(), |std| format!(" ± {}", number(std)));
    let below = match value.interval {
        Some([low, high]) => format!("<small>IQM {} [{}, {}]</small>", number(value.iqm), number(low), number(high)),
        None => "<small>one run</small>".into(),
    };
    format!("{}{spread}{below}", number(value.mean))
}

pub(super) fn table(out: &mut String, head: &[String], rows: &[(String, Vec<String>)]) {
    out.push_str("<div class=\"table\" tabindex=\"0\"><table><thead><tr>");
    head.iter().for_each(|cell| {
        let _ = write!(out, "<th scope=\"col\">{cell}</th>");
    });
    out.push_str("</tr></thead><tbody>\n");
    for (name, cells) in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{name}</th>");
        for (i, cell) in cells.iter().enumerate() {
            // On a phone every cell stands in a line of its own, behind its heading.
            let label = head.get(i + 1).map_or("", String::as_str);
            out.push_str(&cell.replacen("<td", &format!("<td data-label=\"{label}\""), 1));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn table_1(out: &mut String, report: &Report) {
    let robots = report.robots();
    let (number, beside) = match report.of_the_paper {
        true => (" (Table 1)", ", and the paper's mean of three runs, which has no interval"),
        false => ("", ""),
    };
    let _ = writeln!(
        out,
        "<section id=\"table-1\"><h2>Reward per step per violation{number}</h2><p class=\"soft\">PtR/#V × 1000: mean ± standard \
         deviation over seeds, interquartile mean with 95 % bootstrap interval{beside}. The best mean of each robot is marked. A run without \
         violations has no ratio.</p>"
    );
    let best = |robot: &str| {
        let means = report.groups.iter().filter(|g| g.robot == robot);
        means.filter_map(|g| g.ptr_per_violation_x1000.as_ref().map(|t| t.mean)).fold(f64::NEG_INFINITY, f64::max)
    };
    let mut head = vec!["method".to_string()];
    head.extend(robots.iter().map(|robot| capital(robot)));
    let row = |variant: &&Variant| {
        let of = |robot: &&str| {
            let paper = report.paper(variant, robot);
            let paper = paper.map_or(String::new(), |p| format!("<small>paper {p:.2}</small>"));
            let Some(group) = report.group(variant, robot) else {
                return format!("<td><span class=\"soft\">no run</span>{paper}</td>");
            };
            let without = match group.without_violation {
                0 => String::new(),
                n => format!("<small>{n} of {} without violation</small>", group.runs.len()),
            };
            let (class, value) = match &group.ptr_per_violation_x1000 {
                Some(t) => (if t.mean == best(robot) { " class=\"best\"" } else { "" }, cell(t)),
                None => ("", "undefined".into()),
            };
            format!("<td{class}>{value}{without}{paper}</td>")
        };
        (escape(&variant.title), robots.iter().map(of).collect())
    };
    let rows: Vec<(String, Vec<String>)> = report.variants().iter().map(row).collect();
    table(out, &head, &rows);
    out.push_str("</section>\n");
}

fn numbers(out: &mut String, report: &Report) {
    out.push_str(
        "<section><h2>What the ratio is made of</h2><p class=\"soft\">A ratio hides both of its parts: few violations may come from \
         learning nothing. The ratio of the means is there also where a run has none, and is not decided by one lucky run. Return at the end is that of the episodes in the last tenth of the steps; return at a number of violations \
         is read where every run of the robot has come.</p>\n",
    );
    for robot in report.robots() {
        let groups: Vec<&Group> = report.groups.iter().filter(|g| g.robot == robot).collect();
        let at = groups.iter().filter_map(|g| g.return_at.as_ref()).map(|r| r.violations).max();
        let heads = ["method", "PtR", "#V", "1000 × ratio of the means", "return at the end"];
        let mut head: Vec<String> = heads.map(String::from).to_vec();
        head.extend(at.map(|n| format!("return at {}", plural(n, "violation"))));
        let rows: Vec<(String, Vec<String>)> = groups
            .iter()
            .map(|g| {
                let td = |value: Option<&SeedStats>| format!("<td>{}</td>", value.map_or("none".into(), cell));
                let ratio = g.ratio_of_means_x1000.map_or("undefined".into(), measured);
                let mut cells = vec![td(Some(&g.ptr)), td(Some(&g.violations)), format!("<td>{ratio}</td>")];
                cells.push(td(g.final_return.as_ref()));
                cells.extend(at.map(|_| td(g.return_at.as_ref().map(|r| &r.value))));
                (escape(&g.variant.title), cells)
            })
            .collect();
        let _ = writeln!(out, "<h3>{}</h3>", escape(&capital(robot)));
        table(out, &head, &rows);
    }
    out.push_str("</section>\n");
}

fn comparisons(out: &mut String, report: &Report) {
    if report.improvements.is_empty() && report.relative.is_empty() {
        return;
    }
    out.push_str("<section><h2>Over all robots</h2>\n");
    let names = |robots: &[String]| robots.iter().map(|r| capital(r)).collect::<Vec<_>>().join(", ");
    let interval = |[low, high]: [f64; 2]| format!("[{}, {}]", measured(low), measured(high));
    if !report.improvements.is_empty() {
        out.push_str(
            "<p class=\"soft\">How likely a run of SSkP has a higher PtR/#V than a run of another method, on a robot drawn at random; ½ \
             is a tie. With three seeds the intervals are wide, and should be.</p>\n",
        );
        let head = ["SSkP against", "probability", "95 % interval", "robots"].map(String::from);
        let rows: Vec<(String, Vec<String>)> = report
            .improvements
            .iter()
            .map(|i| {
                let cells = [measured(i.probability), interval(i.interval), escape(&names(&i.robots))];
                let other = if i.x.settings.is_empty() {
                    i.y.title.clone()
                } else {
                    format!("{} (by {})", i.y.title, i.x.title)
                };
                (escape(&other), cells.map(|c| format!("<td>{c}</td>")).to_vec())
            })
            .collect();
        table(out, &head, &rows);
    }
    if !report.relative.is_empty() {
        out.push_str("<p class=\"soft\" style=\"margin-top:14px\">PtR/#V divided by what the paper reports for SSkP on the same robot, all runs together.</p>\n");
        let head = ["method", "interquartile mean", "95 % interval", "robots"].map(String::from);
        let rows: Vec<(String, Vec<String>)> = report
            .relative
            .iter()
            .map(|r| {
                let ends = r.value.interval.map_or("one run".into(), interval);
                let cells = [measured(r.value.iqm), ends, escape(&names(&r.robots))];
                (escape(&r.variant.title), cells.map(|c| format!("<td>{c}</td>")).to_vec())
            })
            .collect();
        table(out, &head, &rows);
    }
    out.push_str("</section>\n");
}
