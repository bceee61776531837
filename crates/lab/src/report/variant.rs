//! What a row of a table is: a method, and where runs of it differ in their settings, one choice of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use toml::{Table, Value};

use crate::config::{Config, Overrides, RunConfig};
use crate::registry::Registry;
use crate::run_rows::RunRows;
use sskp_blocks::Result;

/// A method; where several choices of its settings stand side by side on one robot, one of them. They are ordered as in tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Variant {
    /// Place of the method in legends and tables, and its colour.
    #[serde(skip)]
    pub rank: usize,
    /// The method.
    pub method: String,
    /// The settings that tell it from the others: "batch 7". Empty where there are no others, and for the defaults.
    pub settings: String,
    /// Its name for people: "SAC", or "SAC (batch 7)".
    pub title: String,
}

/// Methods in the order of legends and tables; others follow as the registry has them.
const ORDER: [&str; 9] = ["sskp", "recovery-rl", "cpq", "smbpo", "sskp-np", "sskp-wo-rp", "sac", "ssac", "spirl"];

impl Variant {
    fn new(registry: &Registry, method: &str, settings: String) -> Self {
        let methods = registry.methods();
        let entry = methods.iter().position(|m| m.name == method);
        let rank = ORDER.iter().position(|name| *name == method);
        // A method that is not known here has rows all the same, under its plain name.
        let plain = entry.map_or(method, |i| methods[i].title);
        Self {
            rank: rank.unwrap_or(ORDER.len() + entry.unwrap_or(methods.len())),
            method: method.into(),
            title: if settings.is_empty() { plain.into() } else { format!("{plain} ({settings})") },
            settings,
        }
    }
}

/// Settings by their dotted names.
type Settings = BTreeMap<String, String>;

/// Settings named in a title, at most; others are counted.
const NAMED: usize = 3;

/// The variant that each run is of. Methods are divided by those settings in which runs on one and the same robot differ; what
/// differs between robots alone is the same choice.
pub fn variants(registry: &Registry, all: &[RunRows]) -> Vec<Variant> {
    let settings: Vec<Settings> = all.iter().map(|rows| settings_of(&rows.config)).collect();
    let of_method =
        |method: &str| -> Vec<usize> { (0..all.len()).filter(|i| all[*i].config.run.algo == method).collect() };
    let mut divided: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for rows in all {
        let run = &rows.config.run;
        divided.entry(&run.algo).or_insert_with(|| {
            let own = of_method(&run.algo);
            let pairs = own.iter().flat_map(|i| own.iter().map(move |j| (*i, *j)));
            let beside = pairs.filter(|(i, j)| i < j && all[*i].config.run.env == all[*j].config.run.env);
            beside.flat_map(|(i, j)| differences(&settings[i], &settings[j])).collect()
        });
    }
    let mut defaults: BTreeMap<[&str; 2], Option<Settings>> = BTreeMap::new();
    let mut named_all = Vec::new();
    for (rows, settings) in all.iter().zip(&settings) {
        let (method, robot) = (rows.config.run.algo.as_str(), rows.config.run.env.as_str());
        let keys = &divided[method];
        // A robot is made for this, so it is asked only where there is something to tell apart.
        let usual = match keys.is_empty() {
            true => None,
            false => defaults.entry([method, robot]).or_insert_with(|| usual(registry, rows).ok()).as_ref(),
        };
        named_all.push(Variant::new(registry, method, named(keys, settings, usual)));
    }
    named_all
}

/// What a run of this method on this robot has where nobody says otherwise.
fn usual(registry: &Registry, rows: &RunRows) -> Result<Settings> {
    let run = &rows.config.run;
    let plain = RunConfig::new(&run.algo, &run.env, run.seed, run.total_steps);
    Ok(settings_of(&Config::resolve(registry, plain, &Overrides::default())?))
}

/// Names of the settings that differ, a missing one included.
fn differences(a: &Settings, b: &Settings) -> Vec<String> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().filter(|key| a.get(*key) != b.get(*key)).cloned().collect()
}

/// "batch 7, learner.width 64", with names as short as they can be; what is as usual is not named.
fn named(keys: &BTreeSet<String>, settings: &Settings, usual: Option<&Settings>) -> String {
    let short = |key: &str| {
        let last = key.rsplit('.').next().unwrap_or(key).to_string();
        let alone = keys.iter().filter(|k| k.rsplit('.').next() == Some(last.as_str())).count() == 1;
        if alone { last } else { key.to_string() }
    };
    let word = |key: &String| match (key.strip_suffix(".on"), settings.get(key).map_or("unset", String::as_str)) {
        (Some(table), "true") => format!("{table} on"),
        (Some(table), "false") => format!("{table} off"),
        (_, value) => format!("{} {value}", short(key)),
    };
    let departs = |key: &&String| usual.is_none_or(|usual| usual.get(*key) != settings.get(*key));
    let all: Vec<String> = keys.iter().filter(departs).map(word).collect();
    if all.len() <= NAMED {
        return all.join(", ");
    }
    // So many may look alike in those that are named.
    let hash = sskp_blocks::checkpoint::sha256(all.join("\n"));
    format!("{} and {} more, {}", all[..NAMED].join(", "), all.len() - NAMED, &hash[..6])
}

/// The settings by which a method may be divided: all of its own, and the demonstrations and skills it began with. Seeds and lengths
/// are no choice of the method, threads change bytes and nothing else.
fn settings_of(config: &Config) -> Settings {
    let mut all = Settings::new();
    flatten(&config.method, "", &mut all);
    let run = &config.run;
    all.insert("contact_costs".into(), run.contact_costs.to_string());
    // Content counts, not where it lay.
    for (name, sha256) in [("demos", &run.demos_sha256), ("skills", &run.skills_sha256)] {
        if !sha256.is_empty() {
            all.insert(name.into(), sha256.chars().take(8).collect());
        }
    }
    all
}

fn flatten(table: &Table, path: &str, into: &mut Settings) {
    for (key, value) in table {
        let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Table(inner) => flatten(inner, &full, into),
            Value::String(text) => _ = into.insert(full, text.clone()),
            other => _ = into.insert(full, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(robot: &str, sets: &[&str]) -> RunRows {
        let mut overrides = Overrides::default();
        sets.iter().for_each(|set| overrides.set(set).unwrap());
        let config = Config::resolve(&Default::default(), RunConfig::new("sac", robot, 0, 100), &overrides).unwrap();
        let (text, source) = (String::new(), "x".into());
        RunRows {
            source,
            config,
            episodes: vec![],
            text,
            summary: None,
            manifest: None,
            plan_study: None,
            fall_study: None,
        }
    }

    fn titles(runs: &[RunRows]) -> Vec<String> {
        variants(&Registry::standard(), runs).into_iter().map(|v| v.title).collect()
    }

    #[test]
    fn methods_are_divided_where_runs_on_one_robot_differ() {
        assert_eq!(titles(&[run("toy", &[]), run("toy", &["run.threads=2"])]), ["SAC", "SAC"]);
        assert_eq!(
            titles(&[run("toy", &[]), run("hopper", &["sac.batch=7"])]),
            ["SAC", "SAC"],
            "one choice for each robot"
        );
        let batches =
            titles(&[run("toy", &["sac.batch=7"]), run("toy", &["sac.batch=8"]), run("hopper", &["sac.batch=8"])]);
        assert_eq!(batches, ["SAC (batch 7)", "SAC (batch 8)", "SAC (batch 8)"]);
        let usual = titles(&[run("toy", &[]), run("toy", &["sac.batch=7"])]);
        assert_eq!(usual, ["SAC", "SAC (batch 7)"], "the defaults keep the plain name");
    }

    #[test]
    fn what_is_named_the_same_twice_has_its_whole_name() {
        let keys = BTreeSet::from(["a.width", "b.width", "b.batch"].map(String::from));
        let settings = Settings::from([("a.width", "1"), ("b.batch", "3")].map(|(k, v)| (k.into(), v.into())));
        assert_eq!(named(&keys, &settings, None), "a.width 1, batch 3, b.width unset");
        let keys = BTreeSet::from(["adapt.on", "planner.placebo"].map(String::from));
        let of = |on: &str, placebo: &str| {
            Settings::from([("adapt.on", on), ("planner.placebo", placebo)].map(|(k, v)| (k.into(), v.into())))
        };
        let usual = of("true", "false");
        let word = |on, placebo| named(&keys, &of(on, placebo), Some(&usual));
        assert_eq!(
            [word("true", "false"), word("false", "false"), word("true", "true"), word("false", "true")],
            ["", "adapt off", "placebo true", "adapt off, placebo true"]
        );
        let many: BTreeSet<String> = (0..5).map(|i| format!("k{i}")).collect();
        let of = |last: &str| named(&many, &Settings::from([("k4".to_string(), last.to_string())]), None);
        assert!(of("1").starts_with("k0 unset, k1 unset, k2 unset and 2 more, ") && of("1") != of("2"), "{}", of("1"));
    }
}
