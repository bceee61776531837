//! The run directory: what a run writes, and how it goes on after being stopped. The files are described in
//! `docs/run-directory.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{self, Loader, Saver};
use sskp_blocks::judge::{FORESIGHT, Reliability};
use sskp_blocks::keep::Moment;
use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::run::{Clock, Times};
use sskp_blocks::{Error, Result};

use crate::config::{Config, EPOCH};
use crate::display::Display;
use crate::train::{Listener, News};
use crate::{episodes, events, manifest};
use sskp_blocks::files::write_whole;

pub mod claim;
mod lock;
mod log;
pub mod moments;

pub use claim::Claim;
pub use lock::Lock;
use log::Log;
use moments::Moments;

/// How many of the last episodes the progress display and `Metrics/EpRet` average over.
const RECENT: usize = 20;

/// Where the time went, while the run goes on: for whoever watches. No part of what resuming reproduces.
pub const TIME: &str = "time.json";
/// Seconds between two of it.
const TIME_EVERY: f64 = 10.0;

/// Reads and writes one run's folder.
pub struct RunDir {
    path: PathBuf,
    identity: String,
    config: String,
    every: u64,
    keep: usize,
    episodes: Log,
    progress: Log,
    progress_columns: Vec<String>,
    events: Log,
    anomalies: Log,
    moments: Moments,
    /// When [`TIME`] was written last.
    timed: Option<Instant>,
    recent: Vec<EpisodeRow>,
    last_checkpoint: u64,
    snapshot_every: u64,
    last_snapshot: u64,
    stop: Arc<AtomicBool>,
    display: Display,
    started: Instant,
    earlier_seconds: f64,
    calibration: Option<Reliability>,
    listener: Option<Listener>,
    claim: Option<Arc<Claim>>,
    /// Held as long as this process writes the run.
    _lock: Lock,
}

/// What a checkpoint remembers of the folder's files, so that a resumed run cuts off what was written after it.
#[derive(Serialize, Deserialize)]
struct FileState {
    episodes: u64,
    progress: u64,
    anomalies: u64,
    recent: Vec<(u64, f64, bool)>,
    last_snapshot: u64,
    wall_seconds: f64,
    /// The run's settings, so that it can be said which one was changed since. Checkpoints of before have none.
    #[serde(default)]
    config: String,
}

impl RunDir {
    /// Makes the folder of a new run. One that already holds a run is refused.
    pub fn create(
        path: &Path,
        config: &Config,
        model: Option<&str>,
        stop: Arc<AtomicBool>,
        quiet: bool,
    ) -> Result<Self> {
        Self::refuse_existing(path)?;
        fs::create_dir_all(path).map_err(|e| Error::io(path, e))?;
        let lock = Lock::of_run(path)?;
        // Again, now that nobody else can begin one here.
        Self::refuse_existing(path)?;
        describe(path, config, model, 0)?;
        let mut dir = Self::new(path, config, stop, quiet, lock);
        dir.episodes.line(episodes::COLUMNS)?;
        Ok(dir)
    }

    /// An error if `path` already holds a run.
    pub fn refuse_existing(path: &Path) -> Result<()> {
        if path.join("config.toml").exists() {
            return Err(Error::other(format!(
                "{} already holds a run; continue it with `sskp resume {0}`, or name another --log-dir",
                path.display()
            )));
        }
        Ok(())
    }

    /// Opens the folder of a run that was stopped, at its newest usable checkpoint (or at its beginning).
    pub fn reopen(
        path: &Path,
        config: &Config,
        stop: Arc<AtomicBool>,
        quiet: bool,
        mut refused: impl FnMut(&Error),
    ) -> Result<(Self, Option<Loader>)> {
        let mut dir = Self::new(path, config, stop, quiet, Lock::of_run(path)?);
        let folder = path.join("checkpoints");
        let found = checkpoint::newest(&folder, Some(&dir.identity), &mut refused)?;
        match &found {
            None => {
                // Nothing usable: starting over would throw away rows that others may have, so only do it when the
                // run never got as far as a checkpoint.
                if let Some(newest) = checkpoint::list(&folder).last() {
                    return Err(match changed(newest, config) {
                        Some(difference) => Error::other(format!(
                            "{} was changed since the run began: {difference}; put it back, or begin a new run. Nothing was \
                             touched",
                            path.join("config.toml").display()
                        )),
                        None => {
                            let why = "no checkpoint of this run can be used; nothing was changed".into();
                            Error::Checkpoint { path: newest.clone(), why }
                        }
                    });
                }
                dir.progress.cut(0)?;
                dir.events.cut(0)?;
                dir.anomalies.cut(0)?;
                dir.moments.load(None)?;
                dir.episodes.cut(0)?;
                dir.episodes.line(episodes::COLUMNS)?;
            }
            Some(loader) => {
                let (taken, asked) = (loader.manifest.steps, config.run.total_steps);
                if asked < taken {
                    return Err(Error::other(format!(
                        "{} has taken {taken} steps already: it cannot end at {asked}. Nothing was touched",
                        path.display()
                    )));
                }
                let state: FileState = loader.json("files")?;
                dir.episodes.cut(state.episodes)?;
                dir.progress.cut(state.progress)?;
                dir.anomalies.cut(state.anomalies)?;
                dir.moments.load(Some(loader))?;
                dir.earlier_seconds = state.wall_seconds;
                dir.last_checkpoint = loader.manifest.steps;
                dir.last_snapshot = state.last_snapshot;
                dir.calibration = loader.json(FORESIGHT).ok();
                let mut text = String::new();
                if state.progress > 0 {
                    text = fs::read_to_string(&dir.progress.path).map_err(|e| Error::io(&dir.progress.path, e))?;
                    dir.progress_columns = text.lines().next().unwrap_or("").split(',').map(String::from).collect();
                }
                dir.events.put(&events::of_progress(&text))?;
                let row = |(length, total_reward, violation)| EpisodeRow {
                    episode: 0,
                    steps: 0,
                    length,
                    total_reward,
                    violation,
                    cumulative_violations: 0,
                    anomaly: None,
                };
                dir.recent = state.recent.into_iter().map(row).collect();
            }
        }
        Ok((dir, found))
    }

    fn new(path: &Path, config: &Config, stop: Arc<AtomicBool>, quiet: bool, lock: Lock) -> Self {
        let log = |name: &str| Log::new(path.join(name));
        Self {
            path: path.into(),
            identity: config.identity(),
            config: config.to_toml(),
            every: config.run.checkpoint_every,
            keep: config.run.keep_checkpoints,
            episodes: log(episodes::FILE),
            progress: log("progress.csv"),
            progress_columns: Vec::new(),
            events: log(events::FILE),
            anomalies: log("anomalies.csv"),
            moments: Moments::new(path.join(moments::FILE), config.run.keep_violations),
            timed: None,
            recent: Vec::new(),
            last_checkpoint: 0,
            snapshot_every: config.run.policy_every,
            last_snapshot: 0,
            stop,
            display: Display::new(config.run.total_steps, "steps", quiet),
            started: Instant::now(),
            earlier_seconds: 0.0,
            calibration: None,
            listener: None,
            claim: None,
            _lock: lock,
        }
    }

    /// Tells somebody what it shows, too.
    pub fn heard_by(self, listener: Option<Listener>) -> Self {
        Self { listener, ..self }
    }

    fn tell(&self, news: News) {
        if let Some(listener) = &self.listener {
            listener.hear(news);
        }
    }

    /// From now on nothing is written without this right.
    pub fn guard(&mut self, claim: Option<Arc<Claim>>) {
        self.claim = claim;
    }

    /// An error if another process may be writing this run by now.
    pub fn still_ours(&self) -> Result<()> {
        self.claim.as_ref().map_or(Ok(()), |claim| claim.check())
    }

    /// Wall-clock seconds of the run, all its parts together.
    pub fn wall_seconds(&self) -> f64 {
        self.earlier_seconds + self.started.elapsed().as_secs_f64()
    }

    /// What the method's predictions of risk were worth, as its last checkpoint has it; none of a method that makes none.
    pub fn calibration(&self) -> Option<Reliability> {
        self.calibration
    }

    /// Shows how far a stage of pre-training has come.
    pub fn stage(&mut self, stage: &'static str, done: u64, total: u64) {
        self.display.stage(stage, done, total);
        self.tell(News::Stage { name: stage, done, total });
    }

    /// Shows lines that stay on the screen.
    pub fn say(&mut self, lines: &[String]) {
        self.display.say(lines);
        lines.iter().for_each(|line| self.tell(News::Line(line)));
    }

    /// Ends the progress display.
    pub fn finish(&mut self) {
        self.display.finish();
    }

    fn snapshot_due(&self, at: Clock) -> bool {
        self.snapshot_every > 0 && at.steps >= self.last_snapshot + self.snapshot_every
    }

    fn recent_mean(&self, f: impl Fn(&EpisodeRow) -> f64) -> f64 {
        self.recent.iter().map(f).sum::<f64>() / self.recent.len().max(1) as f64
    }
}

impl Recorder for RunDir {
    fn episode(&mut self, row: &EpisodeRow) -> Result<()> {
        self.still_ours()?;
        self.episodes.line(&episodes::line(row))?;
        if let Some(anomaly) = row.anomaly {
            if self.anomalies.bytes == 0 {
                self.anomalies.line("episode,steps,anomaly")?;
            }
            self.anomalies.line(&format!("{},{},{}", row.episode, row.steps, anomaly.name()))?;
        }
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(row.clone());
        self.tell(News::Episode(row));
        Ok(())
    }

    fn metrics(&mut self, at: Clock, metrics: &Metrics) -> Result<()> {
        if self.recent.is_empty() {
            return Ok(());
        }
        self.still_ours()?;
        let wall = self.wall_seconds();
        let mut values: Vec<(&str, f64)> = vec![
            ("Train/Epoch", at.steps as f64 / EPOCH as f64),
            ("TotalEnvSteps", at.steps as f64),
            ("Metrics/EpRet", self.recent_mean(|r| r.total_reward)),
            ("Metrics/EpCost", self.recent_mean(|r| f64::from(u8::from(r.violation)))),
            ("Metrics/EpLen", self.recent_mean(|r| r.length as f64)),
            ("Metrics/CumulativeCost", at.violations as f64),
            ("Metrics/CostRate", at.violations as f64 / at.steps.max(1) as f64),
            ("Time/Total", wall),
            ("Time/FPS", at.steps as f64 / wall.max(1e-9)),
        ];
        values.extend(metrics.0.iter().copied());
        if self.progress_columns.is_empty() {
            self.progress_columns = values.iter().map(|(name, _)| name.to_string()).collect();
            self.progress.line(&self.progress_columns.join(","))?;
        }
        let value = |column: &String| {
            values.iter().find(|(name, _)| name == column).map(|(_, v)| v.to_string()).unwrap_or_default()
        };
        let line = self.progress_columns.iter().map(value).collect::<Vec<_>>().join(",");
        self.progress.line(&line)?;
        let beginning = if self.events.bytes == 0 { events::beginning() } else { Vec::new() };
        self.events.append(&[beginning, events::of_row(&self.progress_columns, &line)].concat())
    }

    fn keeps_moments(&self) -> bool {
        self.moments.wanted()
    }

    fn moment(&mut self, moment: &Moment) -> Result<()> {
        self.still_ours()?;
        self.moments.add(moment)
    }

    fn times(&mut self, at: Clock, times: &Times) -> Result<()> {
        if self.timed.is_some_and(|last| last.elapsed().as_secs_f64() < TIME_EVERY) {
            return Ok(());
        }
        self.timed = Some(Instant::now());
        let split: serde_json::Map<String, serde_json::Value> =
            times.iter().map(|(phase, time)| (phase.to_string(), time.as_secs_f64().into())).collect();
        let now = serde_json::json!({ "steps": at.steps, "wall_seconds": self.wall_seconds(), "time_split": split });
        write_whole(&self.path.join(TIME), format!("{now:#}\n").as_bytes())
    }

    fn checkpoint_due(&self, at: Clock) -> bool {
        at.steps >= self.last_checkpoint + self.every || self.snapshot_due(at)
    }

    fn checkpoint(&mut self, at: Clock, state: &mut Saver, whole: bool) -> Result<()> {
        self.still_ours()?;
        if self.snapshot_due(at) {
            checkpoint::write_snapshot(&self.path.join("policies"), &self.identity, at.steps, state)?;
            self.last_snapshot = at.steps;
        }
        if !whole && at.steps < self.last_checkpoint + self.every {
            return Ok(());
        }
        for log in [&self.episodes, &self.progress, &self.events, &self.anomalies] {
            log.sync()?;
        }
        self.moments.sync()?;
        let files = FileState {
            episodes: self.episodes.bytes,
            progress: self.progress.bytes,
            anomalies: self.anomalies.bytes,
            recent: self.recent.iter().map(|r| (r.length, r.total_reward, r.violation)).collect(),
            last_snapshot: self.last_snapshot,
            wall_seconds: self.wall_seconds(),
            config: self.config.clone(),
        };
        state.json("files", &files);
        self.moments.save(state);
        self.calibration = state.value(FORESIGHT);
        checkpoint::write(&self.path.join("checkpoints"), &self.identity, at.steps, state, self.keep)?;
        self.last_checkpoint = at.steps;
        Ok(())
    }

    fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn step(&mut self, at: Clock) {
        let recent = self.recent_mean(|r| r.total_reward);
        self.display.step(at, recent);
    }
}

/// The setting in which a run's checkpoint differs from its settings now.
fn changed(checkpoint: &Path, config: &Config) -> Option<String> {
    let state: FileState = Loader::open(checkpoint, None).ok()?.json("files").ok()?;
    let then = Config::from_toml(&state.config).ok()?;
    config.difference(&then)
}

/// Writes what a run is: its settings, and what makes its rows from `steps` on; `model` is the simulated one, as text.
pub(crate) fn describe(path: &Path, config: &Config, model: Option<&str>, steps: u64) -> Result<()> {
    manifest::write(path, config, model, steps)?;
    write_whole(&path.join("config.json"), config.to_json().as_bytes())?;
    // Last: a folder with this file holds a run.
    write_whole(&path.join("config.toml"), config.to_toml().as_bytes())
}
