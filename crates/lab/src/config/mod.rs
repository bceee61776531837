//! Settings of a run: defaults from code, overlaid by a file, overlaid by `--set`. Unknown keys and wrong types are
//! refused with the nearest valid name, before anything starts.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::{Error, Result};
use toml::{Table, Value};

use crate::registry::Registry;

mod overrides;

pub use overrides::{Overrides, read_toml};

/// What every run has, whatever its method: the table `[run]` of `config.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// The method.
    pub algo: String,
    /// The robot.
    pub env: String,
    /// The seed of every random stream.
    #[serde(with = "whole")]
    pub seed: u64,
    /// Environment steps.
    #[serde(with = "whole")]
    pub total_steps: u64,
    /// Threads the learner may use. The bytes of a run depend on it.
    pub threads: usize,
    /// Environment steps between checkpoints.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep_checkpoints: usize,
    /// Environment steps between snapshots of the policy, all of them kept; 0 for none.
    pub policy_every: u64,
    /// Violations, and moments that came near one, of which the last so many can be played again; 0 for none.
    #[serde(default = "keep_violations")]
    pub keep_violations: usize,
    /// Charge contact forces (see `sskp_blocks::registry::EnvOptions`).
    pub contact_costs: bool,
    /// The demonstrations, for methods that begin with some: a path, or the name of a shipped set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub demos: String,
    /// Hash of their content.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub demos_sha256: String,
    /// A fitted skill model to use; empty to fit one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub skills: String,
    /// Hash of its file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub skills_sha256: String,
}

/// A screen of them, and at most two megabytes a run.
fn keep_violations() -> usize {
    20
}

/// Whole numbers up to 2^64 − 1. TOML's end at 2^63 − 1, so larger ones are written as text.
mod whole {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(n: &u64, to: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(*n) {
            Ok(n) => to.serialize_i64(n),
            Err(_) => to.collect_str(n),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(from) {
            Ok(Either::Number(n)) => Ok(n),
            Ok(Either::Text(text)) => text.parse().map_err(|_| D::Error::custom(WANTED)),
            Err(_) => Err(D::Error::custom(WANTED)),
        }
    }

    const WANTED: &str = "must be a whole number from 0 to 18446744073709551615";
}

/// Settings of `[run]` that are left out of the file where they are empty: methods without demonstrations need not know them.
const OPTIONAL: [&str; 4] = ["demos", "demos_sha256", "skills", "skills_sha256"];

impl RunConfig {
    /// Defaults for a method on a robot.
    pub fn new(algo: &str, env: &str, seed: u64, total_steps: u64) -> Self {
        Self {
            algo: algo.into(),
            env: env.into(),
            seed,
            total_steps,
            // Grids run one run per core; a second thread is for somebody who waits for a single run.
            threads: 1,
            // A few minutes of the slowest method.
            checkpoint_every: 50_000,
            // The newest, and one before it in case the newest is damaged.
            keep_checkpoints: 2,
            // Ten policies of a usual run, to look at how it learnt and to demonstrate from.
            policy_every: 100_000,
            keep_violations: keep_violations(),
            contact_costs: false,
            demos: String::new(),
            demos_sha256: String::new(),
            skills: String::new(),
            skills_sha256: String::new(),
        }
    }
}

/// Environment steps of an epoch. No method here has epochs, but OmniSafe's plotter takes the x axis as `Train/Epoch` times
/// `steps_per_epoch`. A number of its own, not the budget, which may grow when a run is resumed.
pub const EPOCH: u64 = 1000;

/// A complete configuration: `[run]` and the method's own table.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The common part.
    pub run: RunConfig,
    /// What the method's table is called ([`sskp_methods::Entry::table`]).
    pub table: String,
    /// The method's own settings, complete.
    pub method: Table,
}

impl Config {
    /// Defaults and overrides made one.
    pub fn resolve(registry: &Registry, run: RunConfig, overrides: &Overrides) -> Result<Self> {
        let entry = registry.method(&run.algo)?;
        let env = registry.make_env(&run.env, EnvOptions::default())?;
        let method: Table = toml::from_str(&(entry.defaults)(env.spec())).expect("defaults are TOML");
        let mut all = Table::new();
        let mut common = Table::try_from(&run).expect("plain");
        if entry.demos && run.demos.is_empty() {
            common.insert("demos".into(), Value::String(crate::places::shipped_set(&run.env)));
        }
        for key in OPTIONAL {
            common.entry(key).or_insert(Value::String(String::new()));
        }
        all.insert("run".into(), Value::Table(common));
        all.insert(entry.table.into(), Value::Table(method));
        let robots: Vec<&str> = registry.envs().iter().map(|env| env.name.as_str()).collect();
        overrides.apply(&mut all, &run.env, &robots)?;
        let config = Self::from_table(all)?;
        if (&config.run.algo, &config.run.env) != (&run.algo, &run.env) {
            return Err(Error::other("run.algo and run.env are chosen by --algo and --env, not by --set or a file"));
        }
        Ok(config)
    }

    fn from_table(mut all: Table) -> Result<Self> {
        let run = all.remove("run").ok_or_else(|| Error::other("there is no table [run]"))?;
        let text = toml::to_string(&run).expect("a table");
        let run: RunConfig = toml::from_str(&text).map_err(|e| sskp_methods::wrong_setting("run", &text, &e))?;
        // One table is left, whatever method this is: rows can be read without knowing it.
        let mut tables = all.into_iter();
        let (Some((table, Value::Table(method))), None) = (tables.next(), tables.next()) else {
            return Err(Error::other(format!("besides [run] there must be one table, the settings of {}", run.algo)));
        };
        check_range("run.total_steps", run.total_steps > 0, "at least 1")?;
        check_range("run.threads", (1..=256).contains(&run.threads), "between 1 and 256")?;
        check_range("run.checkpoint_every", run.checkpoint_every > 0, "at least 1")?;
        check_range("run.keep_checkpoints", run.keep_checkpoints > 0, "at least 1")?;
        Ok(Self { run, table, method })
    }

    /// Where the run goes if nobody says where: `runs/ALGO-ENV/seed-N-TIME`.
    pub fn default_folder(&self) -> PathBuf {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let RunConfig { algo, env, seed, .. } = &self.run;
        PathBuf::from(format!("runs/{algo}-{env}/seed-{seed:03}-{seconds}"))
    }

    /// Updates of the policy per environment step; none where the method is not known, or has no such setting.
    pub fn updates_per_step(&self, registry: &Registry) -> Option<f64> {
        (registry.method(&self.run.algo).ok()?.updates_per_step)(&self.method)
    }

    /// Reads the `config.toml` of a run directory.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        Self::from_toml(&text).map_err(|e| Error::other(format!("{}: {e}", path.display())))
    }

    /// Reads back what [`Config::to_toml`] gave.
    pub fn from_toml(text: &str) -> Result<Self> {
        Self::from_table(toml::from_str(text).map_err(|e| Error::other(e.message()))?)
    }

    /// The resolved text.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.tables()).expect("plain")
    }

    /// The same as JSON, with what OmniSafe's plotter looks for under its own names (`omnisafe/utils/plotter.py`: `exp_name`,
    /// `algo`, `algo_cfgs.steps_per_epoch`, which was once called `algo_cfgs.update_cycle`).
    pub fn to_json(&self) -> String {
        let mut all = serde_json::to_value(self.tables()).expect("plain");
        let RunConfig { algo, env, seed, total_steps, .. } = &self.run;
        all["exp_name"] = format!("{algo}-{env}").into();
        all["algo"] = algo.as_str().into();
        all["env_id"] = env.as_str().into();
        all["seed"] = (*seed).into();
        all["algo_cfgs"] = serde_json::json!({ "steps_per_epoch": EPOCH, "update_cycle": EPOCH });
        all["train_cfgs"] = serde_json::json!({ "total_steps": total_steps });
        serde_json::to_string_pretty(&all).expect("plain") + "\n"
    }

    fn tables(&self) -> Table {
        let mut all = Table::new();
        all.insert("run".into(), Value::Table(Table::try_from(&self.run).expect("plain")));
        all.insert(self.table.clone(), Value::Table(self.method.clone()));
        all
    }

    /// The method's settings as text, for its builder.
    pub fn method_toml(&self) -> String {
        toml::to_string(&self.method).expect("plain")
    }

    /// What makes two runs the same run: everything but how far it goes, how it is kept, and where the files lie whose
    /// content it began with.
    pub fn identity(&self) -> String {
        let same = self.identifying();
        let mut tables = same.tables();
        // Runs of before have no such setting, and are the same runs.
        if let Some(Value::Table(run)) = tables.get_mut("run") {
            run.remove("keep_violations");
        }
        sskp_blocks::checkpoint::sha256(toml::to_string(&tables).expect("plain"))
    }

    /// Itself, with everything levelled that does not belong to its identity.
    fn identifying(&self) -> Self {
        let mut same = self.clone();
        same.run.total_steps = 0;
        same.run.checkpoint_every = 0;
        same.run.keep_checkpoints = 0;
        same.run.policy_every = 0;
        same.run.keep_violations = 0;
        same.run.demos.clear();
        same.run.skills.clear();
        same
    }

    /// The first setting, of those that make the identity, in which another configuration differs: "run.seed is 1 there, 2
    /// here".
    pub fn difference(&self, there: &Self) -> Option<String> {
        let table = |c: &Self| -> Table { toml::from_str(&c.identifying().to_toml()).expect("its own text") };
        first_difference(&table(self), &table(there), "")
    }
}

fn first_difference(here: &Table, there: &Table, path: &str) -> Option<String> {
    let said = |value: Option<&Value>| value.map_or("missing".into(), |v| v.to_string());
    for key in here.keys().chain(there.keys().filter(|key| !here.contains_key(*key))) {
        let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let found = match (here.get(key), there.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => first_difference(a, b, &full),
            (a, b) if a != b => Some(format!("{full} is {} there, {} here", said(b), said(a))),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The name most like `wanted`, if one is like enough to be meant.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(name, wanted);
    names.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|name| likeness(name) > 0.6)
}

fn check_range(key: &str, fine: bool, needed: &str) -> Result<()> {
    if fine { Ok(()) } else { Err(Error::other(format!("{key} must be {needed}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(sets: &[&str]) -> Result<Config> {
        let mut overrides = Overrides::default();
        for set in sets {
            overrides.set(set)?;
        }
        Config::resolve(&Registry::standard(), RunConfig::new("sac", "toy", 0, 100), &overrides)
    }

    #[test]
    fn overrides_change_what_they_name_and_nothing_else() {
        let (a, b) = (resolve(&[]).unwrap(), resolve(&["sac.learner.width=64", "run.threads=2"]).unwrap());
        assert_eq!(b.method["learner"]["width"].as_integer(), Some(64));
        assert_eq!(a.method["batch"], b.method["batch"]);
        assert_eq!((a.run.threads, b.run.threads), (1, 2));
        assert_ne!(a.identity(), b.identity());
        assert!(
            !a.to_toml().contains("demos"),
            "runs without demonstrations are the runs they were before there were any"
        );
    }

    #[test]
    fn an_integer_is_a_fine_float_and_a_resolved_file_reads_back() {
        let config = resolve(&["sac.updates_per_step=2"]).unwrap();
        assert_eq!(config.method["updates_per_step"].as_float(), Some(2.0));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, config.to_toml()).unwrap();
        assert_eq!(Config::read(&path).unwrap(), config);
    }

    #[test]
    fn the_json_has_the_same_settings_and_omnisafes_names_beside_them() {
        let config = resolve(&["sac.learner.rate=1e-3"]).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&config.to_json()).unwrap();
        assert_eq!(
            (&json["exp_name"], &json["algo"], &json["env_id"]),
            (&"sac-toy".into(), &"sac".into(), &"toy".into())
        );
        assert_eq!(json["algo_cfgs"]["steps_per_epoch"], EPOCH);
        let json = json.as_object_mut().unwrap();
        json.retain(|key, _| ["run", "sac"].contains(&key.as_str()));
        let back: Table = serde_json::from_value(json.clone().into()).unwrap();
        assert_eq!(Config::from_table(back).unwrap(), config);
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_refused_with_the_nearest_name() {
        let text = |sets: &[&str]| resolve(sets).unwrap_err().to_string();
        assert!(text(&["sac.btach=3"]).contains("did you mean sac.batch?"));
        assert!(text(&["sac.learner.widht=3"]).contains("did you mean sac.learner.width?"));
        assert!(text(&["sac.batch=many"]).contains("must be an integer, not a string"));
        assert!(text(&["sac.learner=3"]).contains("must be a table, not an integer"));
        assert!(text(&["sca.batch=3"]).contains("did you mean sac?"));
        assert!(text(&["sac.batch"]).contains("key=value"));
        assert!(text(&["run.threads=0"]).contains("between 1 and 256"));
        assert!(text(&["run.env=hopper"]).contains("--env"));
        assert!(text(&["run.demso=x"]).contains("did you mean run.demos?"));
        assert_eq!(resolve(&["run.demos=x"]).unwrap().run.demos, "x");
    }

    #[test]
    fn the_paper_and_its_ablations_share_a_table_and_their_names_choose_the_planning() {
        let resolve = |algo: &str, set: &str| {
            let mut overrides = Overrides::default();
            overrides.set(set).unwrap();
            Config::resolve(&Registry::standard(), RunConfig::new(algo, "toy", 0, 100), &overrides)
        };
        let configs = ["sskp", "sskp-np", "sskp-wo-rp"].map(|a| resolve(a, "sskp.planner.samples=99").unwrap());
        for config in &configs {
            assert_eq!(config.method, configs[0].method);
            assert_eq!(config.method["planner"]["samples"].as_integer(), Some(99));
        }
        assert_ne!(configs[0].identity(), configs[1].identity());
        let error = resolve("sskp-np", "sskp.planner.planning=risk").unwrap_err().to_string();
        assert!(error.contains("there is no setting called sskp.planner.planning"), "{error}");
        let error = resolve("sskp-np", "sskp-np.planner.samples=9").unwrap_err().to_string();
        assert!(error.ends_with("the keys here are run, sskp"), "{error}");
    }

    #[test]
    fn the_largest_seed_and_number_of_steps_read_back() {
        let mut config = resolve(&[]).unwrap();
        (config.run.seed, config.run.total_steps) = (u64::MAX, u64::MAX - 1);
        let back: Table = toml::from_str(&config.to_toml()).unwrap();
        assert_eq!(Config::from_table(back).unwrap(), config);
        let run = RunConfig::new("sac", "toy", 1 << 63, u64::MAX);
        assert_eq!(Config::resolve(&Registry::standard(), run.clone(), &Overrides::default()).unwrap().run, run);
    }

    #[test]
    fn a_robots_own_settings_win_over_those_for_all_and_lose_against_later_ones() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.toml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        let resolve = |env: &str, sets: &[&str]| {
            let mut overrides = Overrides::default();
            overrides.file(&file)?;
            sets.iter().try_for_each(|set| overrides.set(set))?;
            Config::resolve(&Registry::standard(), RunConfig::new("sac", env, 0, 100), &overrides)
        };
        let batch = |config: Config| config.method["batch"].as_integer().unwrap();
        write("[sac]\nbatch = 1\n[robot.toy.sac]\nbatch = 2\n[robot.ant.run]\nthreads = 2\n");
        assert_eq!(batch(resolve("hopper", &[]).unwrap()), 1);
        assert_eq!(batch(resolve("toy", &[]).unwrap()), 2);
        assert_eq!(batch(resolve("toy", &["sac.batch=3"]).unwrap()), 3);
        write("[robot.hoper.sac]\nbatch = 2\n");
        assert!(resolve("toy", &[]).unwrap_err().to_string().contains("did you mean robot.hopper?"));
        write("[robot.toy.sac]\nbtach = 2\n");
        assert!(resolve("toy", &[]).unwrap_err().to_string().contains("did you mean sac.batch?"));
    }

    #[test]
    fn a_value_that_is_no_setting_is_named_by_its_key() {
        let registry = Registry::standard();
        for (set, key) in [
            ("sac.batch=-3", "sac.batch"),
            ("sac.learner.width=-1", "sac.learner.width"),
            ("run.threads=-2", "run.threads"),
            ("run.seed=-1", "run.seed"),
        ] {
            let built = resolve(&[set]).and_then(|config| crate::train::check(&registry, &config));
            let error = built.unwrap_err().to_string();
            assert!(error.starts_with(key) && !error.contains('\n'), "{set}: {error}");
        }
    }

    #[test]
    fn going_on_for_longer_is_the_same_run() {
        let a = resolve(&[]).unwrap();
        let mut b = a.clone();
        b.run.total_steps = 999;
        assert_eq!(a.identity(), b.identity());
        (b.run.demos, b.run.skills) = ("elsewhere".into(), "elsewhere".into());
        assert_eq!(a.identity(), b.identity(), "a place is not the content");
        for change in [
            |r: &mut RunConfig| r.seed = 5,
            |r: &mut RunConfig| r.demos_sha256 = "ab".into(),
            |r: &mut RunConfig| r.skills_sha256 = "c".into(),
        ] {
            let mut other = a.clone();
            change(&mut other.run);
            assert_ne!(a.identity(), other.identity());
        }
        assert_eq!(a.difference(&b), None);
        b.method.insert("batch".into(), Value::Integer(3));
        assert_eq!(a.difference(&b).unwrap(), "sac.batch is 3 there, 256 here");
    }
}
