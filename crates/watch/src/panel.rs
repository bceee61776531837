//! One run, closer: its numbers, curves and violations, in parts that are sent when they changed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Map, Value};
use sskp_blocks::{Error, Result};
use sskp_lab::levels::Levels;
use sskp_lab::markup::escape;
use sskp_lab::registry::Registry;
use sskp_lab::run_page::Curves;
use sskp_lab::violations::{self, risk_in_words};
use sskp_lab::wording::grouped;

/// Draws runs; remembers the levels of demonstrations, which take a while to read.
#[derive(Default)]
pub struct Panels {
    levels: Mutex<HashMap<(String, String), Levels>>,
}

impl Panels {
    /// The parts of a run's panel, by name, as markup.
    pub fn parts(&self, registry: &Registry, id: usize, run: &Path) -> Map<String, Value> {
        let mut parts = Map::new();
        match Curves::read(registry, run, |run, limit| self.levels(run, limit)) {
            Err(error) => _ = parts.insert("facts".into(), problem(&error)),
            Ok(curves) => {
                let mut facts =
                    format!("<h2>{}</h2><p class=\"soft\">{}</p><dl>", escape(&curves.title), escape(&curves.about));
                for (name, value) in &curves.facts {
                    let _ = write!(facts, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
                }
                parts.insert("facts".into(), (facts + "</dl>").into());
                for (name, svg) in curves.charts {
                    parts.insert(name.into(), format!("<figure>{svg}</figure>").into());
                }
            }
        }
        let moments = violations::list(registry, run).map(|kept| table(id, &kept));
        parts.insert("moments".into(), moments.map_or_else(|e| problem(&e), Value::from));
        parts
    }

    fn levels(&self, run: &sskp_lab::config::RunConfig, limit: u64) -> Levels {
        let key = (run.env.clone(), run.demos.clone());
        let known = self.levels.lock().expect("nobody panics").get(&key).copied();
        known.unwrap_or_else(|| {
            let levels = Levels::of(run, limit);
            self.levels.lock().expect("nobody panics").insert(key, levels);
            levels
        })
    }
}

fn problem(error: &Error) -> Value {
    format!("<p class=\"problem\">{}</p>", escape(&error.to_string())).into()
}

fn table(id: usize, kept: &[violations::Kept]) -> String {
    if kept.is_empty() {
        return "<h3>Violations to look at</h3><p class=\"soft\">None was kept yet.</p>".into();
    }
    let mut out = String::from(
        "<h3>Violations to look at</h3><p class=\"soft\">The last ones, and moments that came near; each is played again by a click, with what would have happened \
         with other choices.</p><div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">step</th><th scope=\"col\">kind</th><th scope=\"col\">steps in its episode</th>\
         <th scope=\"col\" class=\"words\">constraint</th><th scope=\"col\">predicted risk</th></tr></thead><tbody>",
    );
    for one in kept.iter().rev() {
        let moment = &one.moment;
        let kind = if moment.violation { "violation" } else { "near" };
        let _ = write!(
            out,
            "<tr class=\"{kind}\"><th scope=\"row\"><a href=\"/runs/{id}/violations/{}\">{}</a></th><td>{kind}</td><td>{}</td><td class=\"words\">{}</td><td>{}</td></tr>",
            moment.steps,
            grouped(moment.steps),
            moment.length,
            escape(&one.constraint),
            risk_in_words(one.risk)
        );
    }
    out + "</tbody></table></div>"
}

/// The page of one violation, by the step at which it came.
pub fn violation(registry: &Registry, run: &Path, steps: u64) -> Result<String> {
    let kept = violations::list(registry, run)?;
    let one = kept.iter().find(|one| one.moment.steps == steps);
    let one = one.ok_or_else(|| Error::other("this violation is no longer kept: newer ones have taken its place"))?;
    sskp_lab::replay_page::html(&violations::study(registry, run, one)?.page)
}
