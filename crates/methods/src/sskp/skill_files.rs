//! FittedSkills skill models as files. One depends on the demonstrations, on the settings `[sskp.skill]` and on nothing else, so it is paid for
//! once per set and not once per seed: kept under a name made of both, or written to a file that other runs name. A fit that is
//! interrupted is kept beside it and gone on with.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sskp_blocks::checkpoint::{self, Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::offline::StageSeen;
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};

use super::config::SkillConfig;
use super::skill::{SkillLoss, SkillModel};
use super::skill_fit::SkillFit;
use crate::Setup;

/// Part of a kept model's name. To be raised when the same settings begin to give another model.
const FORMAT: u32 = 2;

/// Where skill models come from and where they are kept.
#[derive(Clone, Debug)]
pub struct SkillFiles {
    /// The model to use, whatever set it was fitted to.
    pub named: Option<PathBuf>,
    /// Folder for models that may be found again.
    pub cache: Option<PathBuf>,
    /// Hears of kept models that cannot be used.
    pub warn: fn(&str),
}

/// A skill model that is ready, and how well it rebuilds held-out windows.
#[derive(Clone, Debug)]
pub struct FittedSkills {
    /// The model.
    pub model: SkillModel,
    /// Its losses on held-out episodes.
    pub held_out: SkillLoss,
    /// What it was made from.
    pub origin: Origin,
    /// The file it was read from; none if it was fitted just now.
    pub found: Option<PathBuf>,
    /// Where it is kept, if it is.
    pub kept: Option<PathBuf>,
}

/// What a model was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Length of an observation.
    pub observations: usize,
    /// Length of an action.
    pub actions: usize,
    /// Hash of the demonstrations.
    pub demos_sha256: String,
    /// The settings, every one of them.
    pub skill: Map<String, Value>,
}

impl Origin {
    fn new(config: &SkillConfig, obs: usize, action: usize, demos_sha256: String) -> Self {
        let Ok(Value::Object(skill)) = serde_json::to_value(config) else { unreachable!("settings are a table") };
        Self { observations: obs, actions: action, demos_sha256, skill }
    }

    /// The name under which a model of this kind is kept.
    pub fn key(&self) -> String {
        let text = serde_json::to_string(self).expect("plain data");
        sskp_blocks::checkpoint::sha256(format!("{FORMAT} {} {text}", env!("CARGO_PKG_VERSION")))
    }

    /// What keeps a model of this kind from being used where `wanted` is needed. The demonstrations may differ.
    fn misfit(&self, wanted: &Origin) -> Option<String> {
        let sizes = |a: &Origin| format!("{} observations and {} actions", a.observations, a.actions);
        if sizes(self) != sizes(wanted) {
            return Some(format!("it is for a robot with {}, this one has {}", sizes(self), sizes(wanted)));
        }
        let keys = wanted.skill.keys().chain(self.skill.keys());
        let key = keys.into_iter().find(|key| self.skill.get(*key) != wanted.skill.get(*key))?;
        let value = |a: &Origin| a.skill.get(key).map_or("nothing".into(), Value::to_string);
        Some(format!("it was fitted with skill.{key} = {}, this run has {}", value(self), value(wanted)))
    }
}

impl SkillFiles {
    /// Those a method was given.
    pub fn new(setup: Setup) -> Self {
        Self { named: setup.skills, cache: setup.cache, warn: setup.warn }
    }

    /// An error if a model was named that these settings and this robot cannot use.
    pub fn refuse_named(&self, config: &SkillConfig, obs: usize, action: usize) -> Result<()> {
        self.named.as_ref().map_or(Ok(()), |path| {
            let wanted = Origin::new(config, obs, action, String::new());
            read(path, config, &wanted).map(|_| ())
        })
    }

    fn kept(&self, origin: &Origin) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("skills").join(format!("{}.safetensors", origin.key())))
    }
}

/// The skill model for these demonstrations: the named one, else the kept one, else one fitted now and kept. All three ways
/// give the same numbers. A folder that cannot be written to keeps nothing, and nobody is told.
pub fn obtain(
    config: &SkillConfig,
    demos: &Demonstrations,
    files: &SkillFiles,
    seen: &mut StageSeen,
) -> Result<FittedSkills> {
    let wanted = Origin::new(config, demos.obs_dim, demos.action_dim, demos.sha256());
    if let Some(path) = &files.named {
        let found = read(path, config, &wanted)?;
        seen("skills", config.steps, config.steps)?;
        return Ok(found);
    }
    let kept = files.kept(&wanted);
    if let Some(path) = kept.as_ref().filter(|path| path.exists()) {
        let same = |f: &FittedSkills| f.origin.demos_sha256 == wanted.demos_sha256;
        match read(path, config, &wanted) {
            Ok(found) if same(&found) => {
                seen("skills", config.steps, config.steps)?;
                return Ok(FittedSkills { kept: Some(path.clone()), ..found });
            }
            Ok(_) => (files.warn)(&format!("{} is of other demonstrations; it is made anew", path.display())),
            Err(error) => (files.warn)(&format!("{error}; it is made anew")),
        }
    }
    let mut fit = SkillFit::new(config, demos)?;
    let under_way = kept.as_ref().map(|path| path.with_extension("under-way.safetensors"));
    if let Some(path) = under_way.as_ref().filter(|path| path.exists())
        && let Err(error) = go_on(&mut fit, path, &wanted)
    {
        (files.warn)(&format!("{error}; the fit begins anew"));
        fit = SkillFit::new(config, demos)?;
    }
    let held_out = fit.finish(demos, |step, _| seen("skills", step, config.steps)).inspect_err(|_| {
        if let Some(path) = &under_way {
            keep(path, |path| leave(&fit, path, &wanted));
        }
    })?;
    let SkillLoss { reconstruction, kl, prior_log_prob } = held_out;
    if ![reconstruction, kl, prior_log_prob].iter().all(|x| x.is_finite()) {
        let text =
            "the skill model came apart: its losses on held-out episodes are not finite; try a smaller skill.rate";
        return Err(Error::other(text));
    }
    let mut fitted = FittedSkills { model: fit.model, held_out, origin: wanted, found: None, kept: None };
    fitted.kept = kept.filter(|path| keep(path, |path| fitted.write(path)));
    if let Some(path) = under_way {
        let _ = fs::remove_file(path);
    }
    Ok(fitted)
}

/// Writes a file of the cache; whether that could be done.
fn keep(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> bool {
    let folder = path.parent().expect("it is in a folder");
    fs::create_dir_all(folder).is_ok() && write(path).is_ok()
}

/// Leaves a fit under way behind; the file appears whole or not at all.
fn leave(fit: &SkillFit, path: &Path, origin: &Origin) -> Result<()> {
    let mut to = Saver::default();
    fit.save(&mut to);
    to.json("skill model", origin);
    checkpoint::write_single(path, &to)
}

/// Makes a fresh fit the one that was left behind.
fn go_on(fit: &mut SkillFit, path: &Path, wanted: &Origin) -> Result<()> {
    let plain = |error| plainly("the unfinished skill model", path, error);
    let from = Loader::open_single(path).map_err(plain)?;
    if from.json::<Origin>("skill model").map_err(plain)? != *wanted {
        return Err(Error::other(format!("the unfinished skill model {} is of another fit", path.display())));
    }
    fit.load(&from).map_err(plain)
}

/// What is wrong with a file, without the words of a checkpoint.
fn plainly(what: &str, path: &Path, error: Error) -> Error {
    match error {
        Error::Checkpoint { why, .. } => Error::other(format!("{what} {}: {why}", path.display())),
        other => other,
    }
}

fn read(path: &Path, config: &SkillConfig, wanted: &Origin) -> Result<FittedSkills> {
    let plain = |error| plainly("the skill model", path, error);
    let from = Loader::open_single(path).map_err(plain)?;
    let origin: Origin = from.json("skill model").map_err(plain)?;
    if let Some(misfit) = origin.misfit(wanted) {
        return Err(Error::other(format!("the skill model {}: {misfit}", path.display())));
    }
    let mut init = Rng::stream(config.seed, "skill model");
    let mut model = SkillModel::new(config.clone(), wanted.observations, wanted.actions, &mut init);
    model.load(&from).map_err(plain)?;
    let held_out = from.json("held out").map_err(plain)?;
    Ok(FittedSkills { model, held_out, origin, found: Some(path.into()), kept: None })
}

impl FittedSkills {
    /// Writes the model; the file appears whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut to = Saver::default();
        self.model.save(&mut to);
        to.json("skill model", &self.origin);
        to.json("held out", &self.held_out);
        checkpoint::write_single(path, &to)
    }
}
