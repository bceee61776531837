//! Environments that are not part of this program: a run on one says in a file of its own how large it was, so that the policy can
//! be read back, played and exported where the environment is not.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sskp_blocks::env::{Env, Spec, Step};
use sskp_blocks::files::write_whole;
use sskp_blocks::registry::EnvEntry;
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};

use crate::registry::Registry;
use crate::train::read_config;

/// The file's name in a run directory.
pub const FILE: &str = "env.json";

/// What is known of an environment that lives elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// Its name.
    pub name: String,
    /// Length of an observation.
    pub obs_dim: usize,
    /// Length of an action.
    pub action_dim: usize,
    /// Steps after which an episode is truncated, where that is known.
    pub time_limit: Option<usize>,
    /// Seconds in one step.
    pub dt: f64,
    /// What an action of −1 is there, by coordinate.
    pub action_low: Vec<f64>,
    /// What an action of 1 is there.
    pub action_high: Vec<f64>,
    /// Where an observation of several boxes has them, in the order in which they are joined; nothing where it is one box.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observation: Vec<Part>,
}

/// A box inside of an observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The keys that lead to it: names in dicts, numbers in tuples.
    pub at: Vec<serde_json::Value>,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl Absent {
    /// Its fixed numbers.
    pub fn spec(&self) -> Spec {
        let Self { name, obs_dim, action_dim, time_limit, dt, .. } = self.clone();
        Spec { name, obs_dim, action_dim, time_limit, dt }
    }

    /// An entry of a registry, of an environment that cannot be played here.
    pub fn entry(&self) -> EnvEntry {
        let spec = self.spec();
        EnvEntry::new(self.name.clone(), move |_| Ok(Box::new(Numbers(spec.clone()))))
    }

    /// Writes it into a run directory.
    pub fn write(&self, run: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("plain data") + "\n";
        write_whole(&run.join(FILE), text.as_bytes())
    }

    /// Reads it back; none in a run of one of our own robots.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        let file = run.join(FILE);
        if !file.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file).map_err(|e| Error::io(&file, e))?;
        let wrong = |e: serde_json::Error| Error::other(format!("{}: {e}", file.display()));
        serde_json::from_str(&text).map(Some).map_err(wrong)
    }
}

/// The registry, with the environment of the run in `path` where it knows it by its numbers alone.
pub fn registry_for<'a>(registry: &'a Registry, path: &Path) -> Result<Cow<'a, Registry>> {
    let config = read_config(path)?;
    match Absent::read(path)? {
        Some(absent) if registry.env(&config.run.env).is_err() => {
            let mut more = registry.clone();
            more.add_env(absent.entry())?;
            Ok(Cow::Owned(more))
        }
        _ => Ok(Cow::Borrowed(registry)),
    }
}

/// The numbers of an environment, without it.
struct Numbers(Spec);

impl Numbers {
    fn refuse(&self) -> Error {
        let name = &self.0.name;
        Error::other(format!(
            "{name} is no part of this program: play it where it was trained, with sskp.load in Python"
        ))
    }
}

impl Env for Numbers {
    fn spec(&self) -> &Spec {
        &self.0
    }
    fn reset(&mut self, _: &mut Rng) -> Result<()> {
        Err(self.refuse())
    }
    fn step(&mut self, _: &[f32]) -> Result<Step> {
        Err(self.refuse())
    }
    fn obs(&self) -> &[f64] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides, RunConfig};

    #[test]
    fn a_run_on_somebody_elses_environment_says_how_large_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let absent = Absent {
            name: "arm".into(),
            obs_dim: 3,
            action_dim: 1,
            time_limit: None,
            dt: 0.1,
            action_low: vec![-2.0],
            action_high: vec![2.0],
            observation: vec![Part { at: vec!["camera".into(), 1.into()], shape: vec![2] }],
        };
        let mut registry = Registry::standard();
        registry.add_env(absent.entry()).unwrap();
        let config = Config::resolve(&registry, RunConfig::new("sac", "arm", 0, 10), &Overrides::default()).unwrap();
        std::fs::write(dir.path().join("config.toml"), config.to_toml()).unwrap();
        assert!(registry_for(&Registry::standard(), dir.path()).unwrap().env("arm").is_err());
        absent.write(dir.path()).unwrap();
        assert_eq!(Absent::read(dir.path()).unwrap(), Some(absent.clone()));
        let standard = Registry::standard();
        let known = registry_for(&standard, dir.path()).unwrap();
        let mut env = known.make_env("arm", Default::default()).unwrap();
        assert_eq!(env.spec(), &absent.spec());
        assert!(env.step(&[0.0]).unwrap_err().to_string().starts_with("arm is no part of this program"));
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Absent::read(dir.path()).unwrap_err().to_string().contains(FILE));
    }
}
