//! Training a method on a robot, from the start or from a checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::Loader;
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Env;
use sskp_blocks::judge::Reliability;
use sskp_blocks::record::{EpisodeRow, Recorder};
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::run::{Clock, Run};
use sskp_blocks::{Error, Result};
use sskp_methods::{Method, Setup};

use crate::absent::Absent;
use crate::config::{Config, RunConfig};
use crate::registry::Registry;
use crate::run_dir::{Claim, RunDir};
use crate::{data, places, run_dir};
use sskp_blocks::files::write_whole;

/// What a run came to.
const SUMMARY: &str = "summary.json";

/// What `summary.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    pub time_split: BTreeMap<String, f64>,
    /// Risk predicted of every skill before it was played, against what came of it; of methods that predict one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Reliability>,
}

/// How a run is asked to stop. Signals set it; tests may too.
pub type Stop = Arc<AtomicBool>;

/// What a run says of itself while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// So much of a stage of pre-training is done.
    Stage {
        /// What it is called.
        name: &'static str,
        /// Updates made.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// Something to be read.
    Line(&'a str),
    /// An episode has ended.
    Episode(&'a EpisodeRow),
}

/// Hears what a run says of itself, on the run's own thread: the run waits for it.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(News) + Send + Sync>);

impl Listener {
    /// Called for all there is to hear.
    pub fn new(hear: impl Fn(News) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
    /// Tells it.
    pub(crate) fn hear(&self, news: News) {
        (self.0)(news);
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// What a run needs from whoever started it, besides its settings.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The environments and methods there are.
    pub registry: Registry,
    /// Asks it to stop.
    pub stop: Stop,
    /// No progress display.
    pub quiet: bool,
    /// Folder of fitted models that other runs may use ([`crate::places::model_cache`]); none to keep nothing.
    pub cache: Option<PathBuf>,
    /// Hears how far it is.
    pub listener: Option<Listener>,
    /// What the run is on, where that is no part of this program: kept beside its rows.
    pub absent: Option<Absent>,
    /// The right to write the run, where others may want to; none where the folder's lock is enough.
    pub claim: Option<Arc<Claim>>,
}

impl Session {
    /// One that knows these environments and methods, shows how far it is, and keeps no fitted models.
    pub fn of(registry: &Registry) -> Self {
        Self { registry: registry.clone(), ..Self::default() }
    }
}

pub(crate) fn env_options(config: &Config) -> EnvOptions {
    EnvOptions { contact_costs: config.run.contact_costs }
}

pub(crate) fn build(
    registry: &Registry,
    config: &Config,
    cache: Option<&Path>,
) -> Result<(Box<dyn Env>, Box<dyn Method>)> {
    let env = registry.make_env(&config.run.env, env_options(config))?;
    let entry = registry.method(&config.run.algo)?;
    let mut setup = Setup::new(entry.table, config.run.seed, config.run.threads);
    setup.skills = Some(&config.run.skills).filter(|path| !path.is_empty()).map(PathBuf::from);
    setup.cache = cache.map(PathBuf::from);
    setup.warn = |text| eprintln!("warning: {text}");
    let method = (entry.build)(env.spec(), &config.method_toml(), setup)?;
    method.suits(&*env)?;
    Ok((env, method))
}

/// Says what is wrong with a configuration that resolved but cannot be built. Demonstrations are not looked for.
pub fn check(registry: &Registry, config: &Config) -> Result<()> {
    build(registry, config, None)?;
    refuse_files(registry.method(&config.run.algo)?, config)
}

/// A run that is ready to start: nothing has been written, and nothing that can be known to be wrong is wrong.
pub struct Prepared {
    /// Its settings, with the demonstrations it found and their hash.
    pub config: Config,
    session: Session,
    env: Box<dyn Env>,
    method: Box<dyn Method>,
    demos: Option<Demonstrations>,
}

/// Builds everything and reads the demonstrations, before anything is written.
pub fn prepare(config: &Config, session: Session) -> Result<Prepared> {
    let mut config = config.clone();
    if !config.run.skills.is_empty() {
        config.run.skills = absolute(Path::new(&config.run.skills))?;
    }
    let (env, method) = build(&session.registry, &config, session.cache.as_deref())?;
    let demos = first_demonstrations(&session.registry, &mut config, &*env, &*method)?;
    Ok(Prepared { config, session, env, method, demos })
}

impl Prepared {
    /// What it is made of.
    pub(crate) fn parts(self) -> (Config, Box<dyn Env>, Box<dyn Method>, Option<Demonstrations>) {
        (self.config, self.env, self.method, self.demos)
    }

    /// Starts the run in a new folder.
    pub fn train(self, path: &Path) -> Result<Summary> {
        let Self { config, session, env, method, demos } = self;
        let model = session.registry.env(&config.run.env)?.model.clone();
        let dir = RunDir::create(path, &config, model.as_deref(), session.stop, session.quiet)?;
        if let Some(absent) = &session.absent {
            absent.write(path)?;
        }
        let mut dir = dir.heard_by(session.listener);
        dir.guard(session.claim);
        drive(&config, path, dir, env, method, None, demos)
    }
}

/// Starts a run in a new folder.
pub fn train(config: &Config, path: &Path, session: Session) -> Result<Summary> {
    prepare(config, session)?.train(path)
}

/// Continues a run. `total_steps` may extend it. A run that is finished is left as it is; an end before the steps it has taken
/// already is refused.
pub fn resume(path: &Path, total_steps: Option<u64>, session: Session, refused: impl FnMut(&Error)) -> Result<Summary> {
    let mut config = read_config(path)?;
    let before = config.run.total_steps;
    config.run.total_steps = total_steps.unwrap_or(before);
    if let Some(summary) = finished(path)?.filter(|summary| summary.steps >= before) {
        let (taken, asked) = (summary.steps, config.run.total_steps);
        if asked == taken {
            eprintln!("{} is finished already: nothing was changed", path.display());
            return Ok(summary);
        }
        if asked > taken {
            eprintln!(
                "warning: {} was finished at {taken} steps, where its last episode was cut; a run of {asked} steps from the start \
                 has other rows from there on",
                path.display()
            );
        }
    }
    let (env, method) = build(&session.registry, &config, session.cache.as_deref())?;
    if let Some(claim) = &session.claim {
        claim.check()?;
    }
    let (dir, checkpoint) = RunDir::reopen(path, &config, session.stop, session.quiet, refused)?;
    let mut dir = dir.heard_by(session.listener);
    dir.guard(session.claim);
    let mut demos = None;
    if checkpoint.is_none() {
        demos = first_demonstrations(&session.registry, &mut config, &*env, &*method).map_err(|e| {
            Error::other(format!(
                "{} was stopped before its first checkpoint and must begin again: {e}",
                path.display()
            ))
        })?;
        eprintln!("warning: {} was stopped before its first checkpoint: it begins again", path.display());
    }
    let model = session.registry.env(&config.run.env)?.model.as_deref();
    run_dir::describe(path, &config, model, checkpoint.as_ref().map_or(0, |c| c.manifest.steps))?;
    drive(&config, path, dir, env, method, checkpoint, demos)
}

/// What a finished run came to; none of one that is not.
fn finished(path: &Path) -> Result<Option<Summary>> {
    let file = path.join(SUMMARY);
    let text = match std::fs::read(&file) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| Error::io(&file, e))?,
    };
    // One that cannot be read says nothing: the run goes on at its checkpoint and writes another.
    Ok(serde_json::from_slice::<Summary>(&text).ok().filter(|summary| summary.finished))
}

fn absolute(path: &Path) -> Result<String> {
    std::path::absolute(path).map(|p| p.display().to_string()).map_err(|e| Error::io(path, e))
}

/// Refuses files that the method has no use for.
fn refuse_files(entry: &sskp_methods::Entry, config: &Config) -> Result<()> {
    let run = &config.run;
    let refuse = |what: &str, flag: &str| Err(Error::other(format!("{} uses no {what}: leave out {flag}", run.algo)));
    if !(run.demos.is_empty() || entry.demos) {
        return refuse("demonstrations", "--demos");
    }
    if !(run.skills.is_empty() || entry.skills.is_some()) {
        return refuse("skill model", "--skills");
    }
    Ok(())
}

/// The demonstrations of a method that begins with some, read and judged; their hash goes into the configuration. A hash that
/// stands there already must be theirs.
fn first_demonstrations(
    registry: &Registry,
    config: &mut Config,
    env: &dyn Env,
    method: &dyn Method,
) -> Result<Option<Demonstrations>> {
    let entry = registry.method(&config.run.algo)?;
    refuse_files(entry, config)?;
    let run = &mut config.run;
    if !entry.demos {
        return Ok(None);
    }
    let (demos, doubts) = demonstrations(run, env)?;
    if !run.skills.is_empty() {
        let sha256 = data::fingerprint(Path::new(&run.skills))?;
        note_hash(&mut run.skills_sha256, sha256, &format!("the skill model {}", run.skills))?;
    }
    method.accepts(&demos).map_err(|e| Error::other(format!("{}: {e}", run.demos)))?;
    doubts.warn();
    Ok(Some(demos))
}

/// What is doubtful about demonstrations, to be said once nothing else is wrong with them.
#[must_use]
pub(crate) struct Doubts(Vec<String>);

impl Doubts {
    /// Says it.
    pub(crate) fn warn(&self) {
        self.0.iter().for_each(|text| eprintln!("warning: {text}"));
    }
}

/// Reads the demonstrations of a run. Those of another robot are refused, and those with mistakes ([`data::check`]) that would make
/// learning wrong; what is doubtful about others comes with them.
pub(crate) fn demonstrations(run: &mut RunConfig, env: &dyn Env) -> Result<(Demonstrations, Doubts)> {
    let (spec, path) = (env.spec(), places::find_set(&run.demos)?);
    // A path must be found again from another folder; a shipped set has the same name everywhere.
    let named = run.demos.clone();
    if Path::new(&run.demos).exists() {
        run.demos = absolute(&path)?;
    }
    let set = data::Set::open(&path)?;
    let sizes = (set.obs_dim, set.action_dim);
    if sizes != (spec.obs_dim, spec.action_dim) || !(set.env.is_empty() || set.env == spec.name) {
        let whose = if set.env.is_empty() { "another robot" } else { &set.env };
        return Err(Error::other(format!(
            "the demonstrations {} are of {whose} ({} observations, {} actions), not of {} ({}, {})",
            run.demos, sizes.0, sizes.1, spec.name, spec.obs_dim, spec.action_dim
        )));
    }
    let report = data::check::check_against(&set, Some(env));
    let more = format!("`sskp data check {named} --env {}` says more", spec.name);
    if let Some(problem) = report.spoilt() {
        return Err(Error::other(format!(
            "nothing right can be learnt from the demonstrations {named}: {problem}; {more}"
        )));
    }
    let doubts =
        report.problems.iter().map(|problem| format!("the demonstrations {named}: {problem}; {more}")).collect();
    let demos = set.into_demonstrations()?;
    note_hash(&mut run.demos_sha256, demos.sha256(), &format!("the set {}", run.demos))?;
    Ok((demos, Doubts(doubts)))
}

/// Notes a hash, or compares it with the one noted before.
fn note_hash(noted: &mut String, sha256: String, what: &str) -> Result<()> {
    if !(noted.is_empty() || *noted == sha256) {
        return Err(Error::other(format!("{what} has changed: its hash is {sha256}, the configuration says {noted}")));
    }
    *noted = sha256;
    Ok(())
}

/// The configuration of the run in `path`.
pub fn read_config(path: &Path) -> Result<Config> {
    let file = path.join("config.toml");
    if !file.exists() {
        return Err(Error::other(format!("{} is no run directory: it has no config.toml", path.display())));
    }
    Config::read(&file)
}

/// Learns from demonstrations and writes `offline.json`. False when the run was asked to stop meanwhile.
fn pretrain(method: &mut dyn Method, demos: &Demonstrations, dir: &mut RunDir, path: &Path) -> Result<bool> {
    let mut stopped = false;
    let report = method.pretrain(demos, &mut |stage, done, total| {
        dir.stage(stage, done, total);
        stopped = dir.stop_requested();
        if stopped { Err(Error::other("stopped")) } else { Ok(()) }
    });
    if stopped {
        return Ok(false);
    }
    let report = report?;
    let text = serde_json::to_string_pretty(&report).expect("plain data") + "\n";
    write_whole(&path.join("offline.json"), text.as_bytes())?;
    dir.say(&report.lines());
    Ok(true)
}

fn drive(
    config: &Config,
    path: &Path,
    mut dir: RunDir,
    mut env: Box<dyn Env>,
    mut method: Box<dyn Method>,
    checkpoint: Option<Loader>,
    demos: Option<Demonstrations>,
) -> Result<Summary> {
    let began = Instant::now();
    let pretrained = demos.is_some();
    if let Some(demos) = demos
        && !pretrain(&mut *method, &demos, &mut dir, path)?
    {
        let time_split = BTreeMap::from([("pretraining".to_string(), began.elapsed().as_secs_f64())]);
        return finish(config, path, dir, Clock::default(), false, time_split);
    }
    if env.snapshot().is_none() {
        dir.say(&[format!("{} keeps no snapshots: stopping waits for the end of an episode", config.run.env)]);
    }
    let mut run = Run::new(env, config.run.seed, config.run.total_steps, &mut dir);
    if let Some(checkpoint) = checkpoint {
        run.load(&checkpoint)?;
        method.load(&checkpoint)?;
    }
    if pretrained {
        run.add_time("pretraining", began);
        // Whatever happens from here on, nobody has to learn from the demonstrations again.
        run.checkpoint_now(|to| method.save(to))?;
    }
    if let Err(error) = method.train(&mut run) {
        // An environment that cannot begin another episode has lost none of those before.
        let between = run.between_episodes();
        if between {
            run.checkpoint_now(|to| method.save(to))?;
        }
        // Where it did not begin one because the run was to stop, the run has stopped.
        if !(between && run.stop_requested()) {
            return Err(error);
        }
    } else if !run.stopped() {
        run.checkpoint_now(|to| method.save(to))?;
    }
    let clock = run.clock();
    let finished = run.finished();
    let time_split = run.times().iter().map(|(phase, time)| (phase.to_string(), time.as_secs_f64())).collect();
    finish(config, path, dir, clock, finished, time_split)
}

fn finish(
    config: &Config,
    path: &Path,
    mut dir: RunDir,
    clock: Clock,
    finished: bool,
    time_split: BTreeMap<String, f64>,
) -> Result<Summary> {
    dir.finish();
    dir.still_ours()?;
    let summary = summarise(config, clock, &dir, finished, time_split);
    let text = serde_json::to_string_pretty(&summary).expect("plain data") + "\n";
    write_whole(&path.join(SUMMARY), text.as_bytes())?;
    Ok(summary)
}

fn summarise(
    config: &Config,
    clock: Clock,
    dir: &RunDir,
    finished: bool,
    time_split: BTreeMap<String, f64>,
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
        wall_seconds: dir.wall_seconds(),
        finished,
        time_split,
        calibration: dir.calibration(),
    }
}
