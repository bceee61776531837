//! The methods, as equals. A method is its difference from the shared blocks.
//!
//! To add a method: one file (or folder) like [`sac`], its `pub mod` line and one line of [`METHODS`].
//!
//! ```
//! use sskp_blocks::env::Env;
//! use sskp_blocks::record::Memory;
//! use sskp_blocks::run::Run;
//! use sskp_blocks::toy::Toy;
//! use sskp_methods::{Setup, find};
//!
//! let (spec, entry) = (Toy::default().spec().clone(), find("sac")?);
//! let settings = (entry.defaults)(&spec).replace("random_steps = 10000", "random_steps = 100");
//! let settings = settings.replace("width = 256", "width = 16").replace("batch = 256", "batch = 16");
//! let mut method = (entry.build)(&spec, &settings, Setup::new(entry.table, 0, 1))?;
//! let mut memory = Memory::default();
//! method.train(&mut Run::new(Box::<Toy>::default(), 0, 300, &mut memory))?;
//!
//! let mut action = [0.0; 2];
//! method.actor().act(&[0.0; 5], false, &mut action);
//! assert!(action.iter().all(|a| *a != 0.0 && a.abs() < 1.0), "{action:?}");
//! # Ok::<(), sskp_blocks::Error>(())
//! ```

pub mod cpq;
#[cfg(test)]
mod differences;
pub mod portable;
pub mod recovery_rl;
pub mod sac;
pub mod smbpo;
pub mod sskp;
pub mod sskp_plus;

use std::path::PathBuf;

use sskp::planner::Planning;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::{Env, Spec};
use sskp_blocks::offline::{OfflineReport, StageSeen};
use sskp_blocks::policy::SquashedPolicy;
use sskp_blocks::rng::Rng;
use sskp_blocks::run::Run;
use sskp_blocks::{Error, Result};

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What `--algo` takes.
    pub name: &'static str,
    /// What its table of settings is called. Methods that differ in nothing but their name share one.
    pub table: &'static str,
    /// Its name in tables and figures: the paper's.
    pub title: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Whether it begins with demonstrations ([`Method::pretrain`]).
    pub demos: bool,
    /// Of a method that takes a fitted skill model ([`Setup::skills`]): that model's settings, out of its own. Runs with the same ones
    /// and the same demonstrations share it.
    pub skills: Option<fn(&str) -> Result<sskp::SkillConfig>>,
    /// Updates of the policy per environment step that these settings ask for; where they are counted per skill, of a whole one.
    pub updates_per_step: fn(&toml::Table) -> Option<f64>,
    /// Its defaults for a robot, as a TOML table in text form: every key there is, with its value.
    pub defaults: fn(&Spec) -> String,
    /// Builds one from a complete table of settings.
    pub build: fn(&Spec, &str, Setup) -> Result<Box<dyn Method>>,
}

impl Entry {
    /// A method of your own that begins with nothing; what it has besides is put over it: `Entry { about: "…", ..Entry::new(…) }`.
    ///
    /// ```
    /// use sskp_methods::{Entry, parse, sac, settings};
    ///
    /// let patient = Entry {
    ///     about: "SAC that collects for longer before it learns",
    ///     ..Entry::new(
    ///         "patient",
    ///         |_| settings(&sac::SacConfig { random_steps: 20_000, ..Default::default() }),
    ///         |spec, text, setup| Ok(Box::new(sac::Sac::new(spec, parse(setup.table, text)?, setup)?)),
    ///     )
    /// };
    /// assert_eq!((patient.table, patient.demos), ("patient", false));
    /// ```
    pub const fn new(
        name: &'static str,
        defaults: fn(&Spec) -> String,
        build: fn(&Spec, &str, Setup) -> Result<Box<dyn Method>>,
    ) -> Self {
        Self {
            name,
            table: name,
            title: name,
            about: "",
            demos: false,
            skills: None,
            updates_per_step,
            defaults,
            build,
        }
    }
}

/// What a method is given besides its own settings.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What its table of settings is called, for messages about them.
    pub table: &'static str,
    /// The run's seed.
    pub seed: u64,
    /// Threads it may use.
    pub threads: usize,
    /// A fitted skill model to use instead of fitting one to the demonstrations.
    pub skills: Option<PathBuf>,
    /// Folder in which what depends on demonstrations alone is kept for the next run; none to keep nothing.
    pub cache: Option<PathBuf>,
    /// Hears in one sentence of what went wrong without stopping anything.
    pub warn: fn(&str),
}

impl Setup {
    /// Without files, and without anybody who listens to warnings.
    pub fn new(table: &'static str, seed: u64, threads: usize) -> Self {
        Self { table, seed, threads, skills: None, cache: None, warn: |_| () }
    }
}

/// Every method there is.
pub const METHODS: &[Entry] = &[
    Entry {
        name: "sac",
        table: "sac",
        title: "SAC",
        about: "soft actor-critic: entropy-regularised, no thought of safety",
        demos: false,
        skills: None,
        updates_per_step,
        defaults: |_| settings(&sac::SacConfig::default()),
        build: |spec, text, setup| Ok(Box::new(sac::Sac::new(spec, parse(setup.table, text)?, setup)?)),
    },
    Entry {
        name: "ssac",
        table: "ssac",
        title: "Safe SAC",
        about: "safe SAC: a violation is worth -C/(1-gamma), as in SMBPO; the agent behind the demonstrations",
        demos: false,
        skills: None,
        updates_per_step,
        defaults: |_| settings(&sac::SacConfig::safe()),
        build: |spec, text, setup| Ok(Box::new(sac::Sac::new(spec, parse(setup.table, text)?, setup)?)),
    },
    Entry {
        name: "smbpo",
        table: "smbpo",
        title: "SMBPO",
        about: "SMBPO: safe SAC on short imagined rollouts of a learnt ensemble, checked by the robot's own constraint",
        demos: false,
        skills: None,
        updates_per_step,
        defaults: |_| settings(&smbpo::SmbpoConfig::default()),
        build: |spec, text, setup| Ok(Box::new(smbpo::Smbpo::new(spec, parse(setup.table, text)?, setup)?)),
    },
    Entry {
        name: "sskp",
        table: "sskp",
        title: "SSkP",
        about: "the paper: skills from demonstrations, their risk learnt and planned with",
        demos: true,
        skills: Some(sskp::settings_of_skills),
        updates_per_step: sskp::updates_per_step,
        defaults: |_| settings(&sskp::SskpConfig::default()),
        build: |spec, text, setup| sskp(spec, text, setup, Planning::Risk),
    },
    Entry {
        name: "sskp-plus",
        table: "sskp-plus",
        title: "SSkP+",
        about: "SSkP with skills that keep learning: the decoder follows critics of single steps, held by how safe it has been",
        demos: true,
        skills: Some(sskp_plus::config::settings_of_skills),
        updates_per_step: sskp_plus::config::updates_per_step,
        defaults: |_| settings(&sskp_plus::SskpPlusConfig::default()),
        build: |spec, text, setup| sskp_plus(spec, text, setup, Planning::Risk),
    },
    Entry {
        name: "sskp-plus-wo-rp",
        table: "sskp-plus",
        title: "SSkP+ w/o RP",
        about: "SSkP+ without risk planning: skills are samples of the policy",
        demos: true,
        skills: Some(sskp_plus::config::settings_of_skills),
        updates_per_step: sskp_plus::config::updates_per_step,
        defaults: |_| settings(&sskp_plus::SskpPlusConfig::default()),
        build: |spec, text, setup| sskp_plus(spec, text, setup, Planning::Off),
    },
    Entry {
        name: "sskp-np",
        table: "sskp",
        title: "SSkP-NP",
        about: "SSkP with naive planning: the least risky of many sampled skills (section 5.3)",
        demos: true,
        skills: Some(sskp::settings_of_skills),
        updates_per_step: sskp::updates_per_step,
        defaults: |_| settings(&sskp::SskpConfig::default()),
        build: |spec, text, setup| sskp(spec, text, setup, Planning::Naive),
    },
    Entry {
        name: "sskp-wo-rp",
        table: "sskp",
        title: "SSkP-w/o-RP (SPiRL)",
        about: "SSkP without risk planning: the skill policy alone (section 5.3)",
        demos: true,
        skills: Some(sskp::settings_of_skills),
        updates_per_step: sskp::updates_per_step,
        defaults: |_| settings(&sskp::SskpConfig::default()),
        build: |spec, text, setup| sskp(spec, text, setup, Planning::Off),
    },
    Entry {
        name: "spirl",
        table: "sskp",
        title: "SPiRL",
        about: "SPiRL: skill-prior RL without any risk; the same learner as sskp-wo-rp, under the name its authors gave it",
        demos: true,
        skills: Some(sskp::settings_of_skills),
        updates_per_step: sskp::updates_per_step,
        defaults: |_| settings(&sskp::SskpConfig::default()),
        build: |spec, text, setup| sskp(spec, text, setup, Planning::Off),
    },
    Entry {
        name: "recovery-rl",
        table: "recovery-rl",
        title: "Recovery RL",
        about: "Recovery RL: a second policy takes over where the learnt risk of the task policy's action is high",
        demos: true,
        skills: None,
        updates_per_step,
        defaults: |_| settings(&recovery_rl::RecoveryRlConfig::default()),
        build: |spec, text, setup| Ok(Box::new(recovery_rl::RecoveryRl::new(spec, parse(setup.table, text)?, setup)?)),
    },
    Entry {
        name: "cpq",
        table: "cpq",
        title: "CPQ",
        about: "CPQ: offline Q-learning that values what leads to cost at nothing, then continued online",
        demos: true,
        skills: None,
        updates_per_step,
        defaults: |_| settings(&cpq::CpqConfig::default()),
        build: |spec, text, setup| Ok(Box::new(cpq::Cpq::new(spec, parse(setup.table, text)?, setup)?)),
    },
];

/// The method called `name`.
pub fn find(name: &str) -> Result<&'static Entry> {
    METHODS.iter().find(|m| m.name == name).ok_or_else(|| {
        let names: Vec<_> = METHODS.iter().map(|m| m.name).collect();
        Error::other(format!("there is no method called \"{name}\"; the methods are {}", names.join(", ")))
    })
}

/// SSkP or an ablation: one table of settings, and the planning that the name stands for.
fn sskp(spec: &Spec, text: &str, setup: Setup, planning: Planning) -> Result<Box<dyn Method>> {
    let mut config: sskp::SskpConfig = parse(setup.table, text)?;
    config.planner.planning = planning;
    Ok(Box::new(sskp::Sskp::new(spec, config, setup)?))
}

/// SSkP+ or its ablation, in the same way.
fn sskp_plus(spec: &Spec, text: &str, setup: Setup, planning: Planning) -> Result<Box<dyn Method>> {
    let mut config: sskp_plus::SskpPlusConfig = parse(setup.table, text)?;
    config.planner.planning = planning;
    Ok(Box::new(sskp_plus::SskpPlus::new(spec, config, setup)?))
}

/// The setting of that name, which most methods have.
fn updates_per_step(settings: &toml::Table) -> Option<f64> {
    number(settings.get("updates_per_step")?)
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| Some(value.as_integer()? as f64))
}

/// A method's settings as the text that [`Entry::defaults`] gives.
pub fn settings(config: &impl serde::Serialize) -> String {
    toml::to_string(config).expect("settings are plain tables")
}

/// Settings out of the text that [`Entry::build`] is given; what is wrong with a value is named by its key.
pub fn parse<T: serde::de::DeserializeOwned>(table: &str, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| wrong_setting(table, text, &e))
}

/// One clear sentence about a value that is no setting: its key, found in the text by the place of the error, comes first.
pub fn wrong_setting(table: &str, text: &str, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let line_end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    let mut key = table.to_string();
    for line in text[..line_end].lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            key = format!("{table}.{header}");
        }
    }
    let last = text[..line_end].lines().next_back().unwrap_or_default();
    if let Some((name, _)) = last.split_once('=') {
        key = format!("{key}.{}", name.trim());
    }
    Error::other(format!("{key}: {}", error.message()))
}

/// One clear sentence about a setting out of its range.
fn need(table: &str, key: &str, fine: bool, needed: &str) -> Result<()> {
    if fine { Ok(()) } else { Err(Error::other(format!("{table}.{key} must be {needed}"))) }
}

/// Demonstrations of another robot cannot be learnt from.
fn same_robot(demos: &Demonstrations, obs: usize, action: usize) -> Result<()> {
    if (demos.obs_dim, demos.action_dim) == (obs, action) {
        return Ok(());
    }
    Err(Error::other(format!(
        "the demonstrations are of {} ({} observations, {} actions), the robot has {obs} and {action}",
        demos.env, demos.obs_dim, demos.action_dim
    )))
}

/// A learner. All its state is in itself, so that [`Method::train`] continues a restored run as if nothing had happened.
pub trait Method: Send {
    /// Says what an environment lacks that it cannot do without, before any work.
    fn suits(&self, _env: &dyn Env) -> Result<()> {
        Ok(())
    }
    /// Says what is wrong with demonstrations it cannot learn from, before any work.
    fn accepts(&self, _demos: &Demonstrations) -> Result<()> {
        Ok(())
    }
    /// Learns from demonstrations before the first step; gives what `offline.json` reports of it. Methods without
    /// demonstrations are never asked.
    fn pretrain(&mut self, _demos: &Demonstrations, _seen: &mut StageSeen) -> Result<OfflineReport> {
        Ok(OfflineReport::default())
    }
    /// Learns until the run is over.
    fn train(&mut self, run: &mut Run) -> Result<()>;
    /// Updates of the policy since the first step of the run; none where they are not counted.
    fn updates(&self) -> Option<u64> {
        None
    }
    /// A copy of the policy as it is now, for evaluation.
    fn actor(&self) -> Box<dyn Actor>;
    /// Adds all state to a checkpoint; what acting needs goes under `policy/`.
    fn save<'a>(&'a self, to: &mut Saver<'a>);
    /// Reads it back.
    fn load(&mut self, from: &Loader) -> Result<()>;
    /// Reads back what acting needs, out of a checkpoint or a snapshot.
    fn load_policy(&mut self, from: &Loader) -> Result<()>;
}

/// A policy that no longer learns. It may hold a plan between steps.
pub trait Actor: Send {
    /// A new episode begins.
    fn begin(&mut self) {}
    /// The action for `state`; with `explore`, sampled as in training, else the policy's best guess.
    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]);
    /// Touches all memory that acting without exploration will need: afterwards that allocates nothing. An episode begins.
    fn warm_up(&mut self, obs: usize, action: usize) {
        self.act(&vec![0.0; obs], false, &mut vec![0.0; action]);
        self.begin();
    }
    /// What it is made of, for use outside of this program; none where that cannot be said.
    fn portable(&self) -> Option<portable::Portable> {
        None
    }
    /// The probability of a violation it predicts for what it is playing, if it predicts any.
    fn risk(&self) -> Option<f32> {
        None
    }
    /// The risk of a state, whatever is played there: the mean of what it predicts for draws of its policy. None where it predicts no
    /// risk. Does not disturb what is being played.
    fn state_risk(&mut self, _state: &[f32], _rng: &mut Rng) -> Option<f32> {
        None
    }
    /// Its next choice is a draw of its policy, unplanned. Whether that changes anything: false where nothing is planned.
    fn skip_planning(&mut self) -> bool {
        false
    }
    /// The mean risk it predicts along the iterations of risk planning in `state`, before the first iteration first
    /// ([`sskp::risk_by_iteration`]). None where there is no risk to plan with. Does not disturb what is being played.
    fn planned_risks(&mut self, _state: &[f32], _rng: &mut Rng) -> Option<Vec<f64>> {
        None
    }
}

/// A squashed Gaussian policy is an actor as it is: the whole of SAC's, SMBPO's and CPQ's.
impl Actor for SquashedPolicy {
    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        SquashedPolicy::act(self, state, explore, action);
    }

    fn portable(&self) -> Option<portable::Portable> {
        Some(portable::Portable {
            kind: "squashed",
            networks: vec![portable::Network {
                name: "actor",
                inputs: vec![("state", self.net().inputs())],
                body: portable::Body::Tanh(self.net().clone(), self.net().outputs() / 2),
            }],
            recipe: serde_json::json!({}),
            noise: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::toy::Toy;

    use super::*;

    #[test]
    fn every_method_says_how_often_it_learns_and_what_the_paper_calls_it() {
        for entry in METHODS {
            let defaults: toml::Table = toml::from_str(&(entry.defaults)(Toy::default().spec())).unwrap();
            let expected = match entry.table {
                "sskp" => 0.1, // once per skill of ten steps
                "smbpo" => 10.0,
                "sskp-plus" => 0.5,
                _ => 1.0,
            };
            assert_eq!((entry.updates_per_step)(&defaults), Some(expected), "{}", entry.name);
            assert_eq!((entry.updates_per_step)(&toml::Table::new()), None, "{}", entry.name);
        }
        // Settings as people write them, whole numbers without a point.
        let written = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
        assert_eq!((find("sac").unwrap().updates_per_step)(&written("updates_per_step = 2")), Some(2.0));
        let skills = written("policy.updates_per_skill = 5\nskill.horizon = 20");
        assert_eq!((find("sskp-np").unwrap().updates_per_step)(&skills), Some(0.25));
        let titles: std::collections::BTreeSet<_> = METHODS.iter().map(|entry| entry.title).collect();
        assert_eq!(titles.len(), METHODS.len(), "no two are called the same: {titles:?}");
    }
}
