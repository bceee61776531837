//! One table of all runs, which a reader sorts by what he looks for.

use std::fmt::Write as _;

use super::{Report, ReportedRun};
use crate::markup::escape;
use crate::wording::{capital, duration, grouped, measured};

const HEADS: [&str; 10] =
    ["robot", "method", "seed", "steps", "PtR", "#V", "PtR/#V × 1000", "return at the end", "time", "from"];

/// Sorts rows by a column; a second click turns the order around. Numbers are sorted by `data-n`.
pub const SCRIPT: &str = r#"
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, i) => {
    const button = head.querySelector("button");
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => { const n = row.cells[i].dataset.n; return n === undefined ? row.cells[i].textContent : n === "" ? NaN : +n; };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (typeof x === "string") return x.localeCompare(y);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return x - y;
      };
      const rows = [...table.tBodies[0].rows].sort(order);
      if (down) rows.reverse();
      table.tBodies[0].append(...rows);
    };
  });
}
"#;

pub fn table(out: &mut String, report: &Report) {
    out.push_str(
        "<section id=\"runs\"><h2>Runs</h2><p class=\"soft\">Where every row comes from, and the settings it was made with; a click on a heading sorts them. \
         <code>sskp verify</code> plays the first episodes of a run again and compares them.</p>\n\
         <div class=\"table\" tabindex=\"0\"><table class=\"sortable\"><thead><tr>",
    );
    for head in HEADS {
        let _ = write!(out, "<th scope=\"col\"><button>{head}</button></th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for group in &report.groups {
        for run in &group.runs {
            row(out, &capital(&group.robot), &group.variant.title, run);
        }
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn row(out: &mut String, robot: &str, method: &str, run: &ReportedRun) {
    let s = &run.stats;
    let time = run.summary.as_ref().and_then(|s| s["wall_seconds"].as_f64());
    let of = if run.finished { String::new() } else { format!(" of {}", grouped(run.budget)) };
    let _ = write!(out, "<tr><th scope=\"row\" data-label=\"{}\">{}</th>", HEADS[0], escape(robot));
    let mut cell = |i: usize, number: Option<f64>, text: String| {
        let number = number.map_or(String::new(), |n| n.to_string());
        let _ = write!(out, "<td data-label=\"{}\" data-n=\"{number}\">{text}</td>", HEADS[i]);
    };
    cell(2, Some(run.seed as f64), run.seed.to_string());
    cell(3, Some(s.steps as f64), format!("{}{of}", grouped(s.steps)));
    cell(4, Some(s.ptr), measured(s.ptr));
    cell(5, Some(s.violations as f64), grouped(s.violations));
    cell(6, s.ptr_per_violation_x1000, s.ptr_per_violation_x1000.map_or("undefined".into(), measured));
    cell(7, s.final_return, s.final_return.map_or("none".into(), measured));
    cell(8, time, time.map_or("unknown".into(), duration));
    let mut details = format!(
        "<details><summary>settings</summary><dl><dt>from</dt><dd>{}</dd><dt>rows, SHA-256</dt><dd>{}</dd><dt>settings, SHA-256</dt><dd>{}</dd></dl><pre>{}</pre>",
        escape(&run.source),
        escape(&run.rows_sha256),
        escape(&run.identity),
        escape(&run.config)
    );
    if let Some(manifest) = &run.manifest {
        let text = serde_json::to_string_pretty(manifest).expect("plain data");
        let _ = write!(details, "<pre>{}</pre>", escape(&text));
    }
    let _ = writeln!(out, "<td class=\"words\" data-label=\"{}\">{details}</details></td></tr>", HEADS[9]);
    // The method stands second, after the robot.
    let method = format!("<td class=\"words\" data-label=\"{}\">{}</td>", HEADS[1], escape(method));
    let at = out.rfind("</th>").expect("just written") + 5;
    out.insert_str(at, &method);
}
