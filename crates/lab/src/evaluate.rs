//! What a run has learnt, played: its policy out of a checkpoint, episodes with it, and what is looked at meanwhile.

use std::path::{Path, PathBuf};

use sskp_blocks::checkpoint::{self, Loader};
use sskp_blocks::env::{End, Env, Step};
use sskp_blocks::record::{EpisodeRow, Memory};
use sskp_blocks::registry::EnvEntry;
use sskp_blocks::run::Run;
use sskp_blocks::{Error, Result};
use sskp_methods::{Actor, Method};

use crate::absent::registry_for;
use crate::config::Config;
use crate::registry::Registry;
use crate::rollout::Recording;
use crate::run_rows::find_runs;
use crate::train::{build, env_options, read_config};
use crate::wording::plural;

/// A trained policy out of a run directory (its newest usable checkpoint) or out of one checkpoint folder.
pub struct Trained {
    /// The run's configuration.
    pub config: Config,
    /// The environment it was trained on.
    pub env: EnvEntry,
    /// The checkpoint it came from.
    pub checkpoint: PathBuf,
    /// Environment steps it had learnt for.
    pub steps: u64,
    /// The policy.
    pub actor: Box<dyn Actor>,
    /// What it came out of.
    method: Box<dyn Method>,
    run: PathBuf,
}

impl Trained {
    /// A new one of the environment it was trained on.
    pub fn make_env(&self) -> Result<Box<dyn Env>> {
        self.env.make(env_options(&self.config))
    }

    /// The policy once more, for a second loop beside the first.
    pub fn another_actor(&self) -> Box<dyn Actor> {
        self.method.actor()
    }

    /// The folder of its run.
    pub fn run(&self) -> &Path {
        &self.run
    }
}

/// The run that a path means: itself, or where it is a folder of runs, the one in it whose checkpoint was written last, and how many
/// there are.
pub fn newest_run(path: &Path) -> Result<(PathBuf, usize)> {
    let itself = ["config.toml", "manifest.json"].iter().any(|file| path.join(file).exists());
    if itself || !path.is_dir() {
        return Ok((path.into(), 1));
    }
    let written = |run: &PathBuf| {
        let newest = checkpoint::list(&run.join("checkpoints")).pop()?;
        let time = newest.metadata().and_then(|data| data.modified()).ok()?;
        Some((time, run.clone()))
    };
    let Ok(found) = find_runs(&[path.into()]) else { return Ok((path.into(), 1)) };
    let runs: Vec<_> = found.iter().filter_map(written).collect();
    let newest = runs.iter().max().map(|(_, run)| run.clone());
    let none = || Error::other(format!("no run in {} has a checkpoint yet", path.display()));
    Ok((newest.ok_or_else(none)?, runs.len()))
}

/// Loads a trained policy.
pub fn load_policy(registry: &Registry, path: &Path, refused: impl FnMut(&Error)) -> Result<Trained> {
    // A run directory has a manifest too, but a checkpoint has no settings.
    let inside = path.join("manifest.json").exists() && !path.join("config.toml").exists();
    let run = if inside { path.parent().and_then(Path::parent).unwrap_or(path) } else { path };
    let config = read_config(run)?;
    let registry = &*registry_for(registry, run)?;
    let identity = config.identity();
    let loader = if inside {
        Loader::open(path, Some(&identity))?
    } else {
        checkpoint::newest(&path.join("checkpoints"), Some(&identity), refused)?
            .ok_or_else(|| Error::other(format!("{} has no usable checkpoint yet", path.display())))?
    };
    let (_, mut method) = build(registry, &config, None)?;
    method.load_policy(&loader)?;
    Ok(Trained {
        env: registry.env(&config.run.env)?.clone(),
        actor: method.actor(),
        checkpoint: loader.path.clone(),
        steps: loader.manifest.steps,
        run: run.into(),
        config,
        method,
    })
}

/// Plays `episodes` with a frozen policy, counted like a training run. `seen` is called at the start of each episode
/// (with no step) and after every step, with the risk that was predicted for what the step was part of.
pub fn evaluate(
    trained: &mut Trained,
    episodes: u64,
    seed: u64,
    explore: bool,
    mut seen: impl FnMut(&mut dyn Env, Option<&Step>, Option<f32>),
) -> Result<Vec<EpisodeRow>> {
    let env = trained.make_env()?;
    let mut memory = Memory::default();
    let mut run = Run::new(env, seed, u64::MAX, &mut memory);
    let mut action = vec![0.0; run.spec().action_dim];
    while run.clock().episodes < episodes && run.next_episode()? {
        trained.actor.begin();
        seen(run.env_mut(), None, None);
        while !run.over() {
            trained.actor.act(run.state(), explore, &mut action);
            let step = run.step(&action)?;
            seen(run.env_mut(), Some(&step), trained.actor.risk());
        }
    }
    Ok(memory.episodes)
}

/// Episodes that were looked at while they were played.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// One row per episode.
    pub rows: Vec<EpisodeRow>,
    /// How each of them ended.
    pub ends: Vec<Option<End>>,
    /// Of each episode: the sum of the risks predicted for its steps, and how many there were.
    pub risks: Vec<[f64; 2]>,
    /// The episodes, with the predicted risks, where they were asked for.
    pub episodes: Vec<Recording>,
}

/// Which of several episodes to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The one of the highest return.
    Best,
    /// The first that fell, of those that did the one of the lowest return; else the one of the lowest return.
    Worst,
    /// The first that ended in a violation.
    FirstFall,
    /// By its number, from 1.
    Number(usize),
}

impl std::str::FromStr for Pick {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "best" => Ok(Self::Best),
            "worst" => Ok(Self::Worst),
            "first-fall" => Ok(Self::FirstFall),
            number => match number.parse() {
                Ok(n) if n > 0 => Ok(Self::Number(n)),
                _ => Err(format!("{text}: best, worst, first-fall or the number of an episode is meant")),
            },
        }
    }
}

impl Watched {
    /// The place of an episode among those that were played, from 0.
    pub fn pick(&self, pick: Pick) -> Result<usize> {
        let by =
            |earlier: usize, later: usize| self.rows[earlier].total_reward.total_cmp(&self.rows[later].total_reward);
        let all = 0..self.rows.len();
        let found = match pick {
            Pick::Best => all.max_by(|a, b| by(*a, *b).then(b.cmp(a))),
            Pick::Worst => all.min_by(|a, b| {
                let fell = |i: &usize| !self.rows[*i].violation;
                fell(a).cmp(&fell(b)).then(by(*a, *b))
            }),
            Pick::FirstFall => all.into_iter().find(|i| self.rows[*i].violation),
            Pick::Number(n) => Some(n - 1).filter(|i| all.contains(i)),
        };
        found.ok_or_else(|| {
            let count = plural(self.rows.len() as u64, "episode");
            Error::other(match pick {
                Pick::Number(n) => format!("there is no episode {n}: {count} were played, see --episodes"),
                _ => format!("none of {count} ended in a violation"),
            })
        })
    }

    /// The mean predicted risk of some episodes' steps; none where none was predicted.
    pub fn mean_risk(risks: &[[f64; 2]]) -> Option<f64> {
        let [sum, n] = risks.iter().fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        (n > 0.0).then(|| sum / n)
    }
}

/// [`evaluate`], with the predicted risks and, with `record`, the episodes kept.
pub fn watch(trained: &mut Trained, episodes: u64, seed: u64, explore: bool, record: bool) -> Result<Watched> {
    let mut watched = Watched::default();
    let Watched { risks, episodes: kept, ends, .. } = &mut watched;
    let rows = evaluate(trained, episodes, seed, explore, |env, step, risk| {
        let Some(step) = step else {
            risks.push([0.0; 2]);
            ends.push(None);
            if record {
                kept.push(Recording::begin(env));
            }
            return;
        };
        if let Some(end) = ends.last_mut() {
            *end = step.end;
        }
        if let (Some(risk), Some([sum, n])) = (risk, risks.last_mut()) {
            *sum += f64::from(risk);
            *n += 1.0;
        }
        if let Some(recording) = kept.last_mut() {
            // It was predicted in the state that the newest frame shows.
            risk.into_iter().for_each(|risk| recording.note_risk(risk));
            recording.push(env, step);
        }
    })?;
    watched.rows = rows;
    Ok(watched)
}
