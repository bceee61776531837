//! Training a method on a robot, from the start or from a checkpoint, and evaluating what came out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use blocks::checkpoint::{self, Loader};
use blocks::record::{EpisodeRow, Memory};
use blocks::run::{Clock, Run};
use blocks::{Error, Result};
use methods::{Actor, Method, Setup};
use robots::Options;
use serde::Serialize;

use crate::config::Config;
use crate::files::write_whole;
use crate::run_dir::RunDir;

/// What `summary.json` holds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The method.
    pub algo: String,
    /// The robot.
    pub env: String,
    /// The seed.
    pub seed: u64,
    /// Environment steps taken.
    pub steps: u64,
    /// Episodes, the one the budget cut included.
    pub episodes: u64,
    /// #V: episodes that ended in a violation.
    pub violations: u64,
    /// PtR: reward per environment step over the whole run.
    pub ptr: f64,
    /// PtR/#V × 1000, null without violations.
    pub ptr_per_violation_x1000: Option<f64>,
    /// Wall-clock seconds, all parts of a resumed run together.
    pub wall_seconds: f64,
    /// Whether all steps were taken.
    pub finished: bool,
    /// Seconds by phase, of the last uninterrupted part.
    pub time_split: BTreeMap<&'static str, f64>,
}

/// How a run is asked to stop. Signals set it; tests may too.
pub type Stop = Arc<AtomicBool>;

fn build(config: &Config) -> Result<(Box<dyn blocks::env::Env>, Box<dyn Method>)> {
    let env = robots::make(&config.run.env, Options { contact_costs: config.run.contact_costs })?;
    let entry = methods::find(&config.run.algo)?;
    let setup = Setup { algo: entry.name, seed: config.run.seed, threads: config.run.threads };
    let method = (entry.build)(env.spec(), &config.method_toml(), setup)?;
    Ok((env, method))
}

/// Says what is wrong with a configuration that resolved but cannot be built.
pub fn check(config: &Config) -> Result<()> {
    build(config).map(|_| ())
}

/// Starts a run in a new folder.
pub fn train(config: &Config, path: &Path, stop: Stop, quiet: bool) -> Result<Summary> {
    let (env, method) = build(config)?; // before the folder, so that bad settings leave nothing behind
    let dir = RunDir::create(path, config, stop, quiet)?;
    drive(config, path, dir, env, method, None)
}

/// Continues a run. `total_steps` may extend it.
pub fn resume(
    path: &Path,
    total_steps: Option<u64>,
    stop: Stop,
    quiet: bool,
    refused: impl FnMut(&Error),
) -> Result<Summary> {
    let mut config = read_config(path)?;
    config.run.total_steps = total_steps.unwrap_or(config.run.total_steps);
    let (env, method) = build(&config)?;
    let (dir, checkpoint) = RunDir::reopen(path, &config, stop, quiet, refused)?;
    write_whole(&path.join("config.toml"), config.to_toml().as_bytes())?;
    drive(&config, path, dir, env, method, checkpoint)
}

/// The configuration of the run in `path`.
pub fn read_config(path: &Path) -> Result<Config> {
    let file = path.join("config.toml");
    if !file.exists() {
        return Err(Error::other(format!("{} is no run directory: it has no config.toml", path.display())));
    }
    Config::read(&file)
}

fn drive(
    config: &Config,
    path: &Path,
    mut dir: RunDir,
    env: Box<dyn blocks::env::Env>,
    mut method: Box<dyn Method>,
    checkpoint: Option<Loader>,
) -> Result<Summary> {
    let mut run = Run::new(env, config.run.seed, config.run.total_steps, &mut dir);
    if let Some(checkpoint) = checkpoint {
        run.load(&checkpoint)?;
        method.load(&checkpoint)?;
    }
    method.train(&mut run)?;
    if !run.stopped() {
        run.last_checkpoint(|to| method.save(to))?;
    }
    let clock = run.clock();
    let finished = run.finished();
    let time_split = run.times().iter().map(|(phase, time)| (*phase, time.as_secs_f64())).collect();
    dir.finish();
    let summary = summarise(config, clock, dir.wall_seconds(), finished, time_split);
    let text = serde_json::to_string_pretty(&summary).expect("plain data") + "\n";
    write_whole(&path.join("summary.json"), text.as_bytes())?;
    Ok(summary)
}

fn summarise(
    config: &Config,
    clock: Clock,
    wall_seconds: f64,
    finished: bool,
    time_split: BTreeMap<&'static str, f64>,
) -> Summary {
    Summary {
        algo: config.run.algo.clone(),
        env: config.run.env.clone(),
        seed: config.run.seed,
        steps: clock.steps,
        episodes: clock.episodes,
        violations: clock.violations,
        ptr: clock.ptr(),
        ptr_per_violation_x1000: clock.ptr_per_violation_x1000(),
        wall_seconds,
        finished,
        time_split,
    }
}

/// A trained policy out of a run directory (its newest usable checkpoint) or out of one checkpoint folder.
pub struct Trained {
    /// The run's configuration.
    pub config: Config,
    /// The checkpoint it came from.
    pub checkpoint: PathBuf,
    /// Environment steps it had learnt for.
    pub steps: u64,
    /// The policy.
    pub actor: Box<dyn Actor>,
}

/// Loads a trained policy.
pub fn load_policy(path: &Path, refused: impl FnMut(&Error)) -> Result<Trained> {
    let inside = path.join("manifest.json").exists();
    let run = if inside { path.parent().and_then(Path::parent).unwrap_or(path) } else { path };
    let config = read_config(run)?;
    let identity = config.identity();
    let loader = if inside {
        Loader::open(path, Some(&identity))?
    } else {
        checkpoint::newest(&path.join("checkpoints"), Some(&identity), refused)?
            .ok_or_else(|| Error::other(format!("{} has no usable checkpoint yet", path.display())))?
    };
    let (_, mut method) = build(&config)?;
    method.load_policy(&loader)?;
    Ok(Trained { actor: method.actor(), checkpoint: loader.path.clone(), steps: loader.manifest.steps, config })
}

/// Plays `episodes` with a frozen policy, counted like a training run. `seen` is called at the start of each episode
/// (with no step) and after every step.
pub fn evaluate(
    trained: &mut Trained,
    episodes: u64,
    seed: u64,
    explore: bool,
    mut seen: impl FnMut(&mut dyn blocks::env::Env, Option<&blocks::env::Step>),
) -> Result<Vec<EpisodeRow>> {
    let options = Options { contact_costs: trained.config.run.contact_costs };
    let env = robots::make(&trained.config.run.env, options)?;
    let mut memory = Memory::default();
    let mut run = Run::new(env, seed, u64::MAX, &mut memory);
    let mut action = vec![0.0; run.spec().action_dim];
    while run.clock().episodes < episodes && run.next_episode()? {
        trained.actor.begin();
        seen(run.env_mut(), None);
        while !run.over() {
            trained.actor.act(run.state(), explore, &mut action);
            let step = run.step(&action)?;
            seen(run.env_mut(), Some(&step));
        }
    }
    Ok(memory.episodes)
}
