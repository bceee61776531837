//! The run directory: what a run writes, and how it goes on after being stopped. The files are described in
//! `docs/run-directory.md`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{self, Loader, Saver};
use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::run::Clock;
use sskp_blocks::{Error, Result};

use crate::config::{Config, EPOCH};
use crate::wording::duration;
use crate::{episodes, events, manifest};
use sskp_blocks::files::write_whole;

/// How many of the last episodes the progress display and `Metrics/EpRet` average over.
const RECENT: usize = 20;

/// Reads and writes one run's folder.
pub struct RunDir {
    path: PathBuf,
    identity: String,
    every: u64,
    keep: usize,
    episodes: Log,
    progress: Log,
    progress_columns: Vec<String>,
    events: Log,
    anomalies: Log,
    recent: Vec<EpisodeRow>,
    last_checkpoint: u64,
    snapshot_every: u64,
    last_snapshot: u64,
    stop: Arc<AtomicBool>,
    display: Display,
    started: Instant,
    earlier_seconds: f64,
    /// Held as long as this process writes the run.
    _lock: Lock,
}

/// The right to write a run. The system takes it back when the process ends, however it ends.
pub struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Takes the right to write in a folder; none if another process has it.
    pub fn take(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(".lock");
        let file = File::options().create(true).append(true).open(&path).map_err(|e| Error::io(&path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Some network file systems have no locks; runs worked there before there were any.
            Err(TryLockError::Error(_)) => Ok(Some(Self { _file: None })),
        }
    }

    fn of_run(folder: &Path) -> Result<Self> {
        Self::take(folder)?.ok_or_else(|| {
            Error::other(format!("{} is being written by another process; wait for it or stop it", folder.display()))
        })
    }
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
}

/// A file that is appended to, row by row.
struct Log {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Log {
    fn new(path: PathBuf) -> Self {
        Self { path, file: None, bytes: 0 }
    }
    /// Opens the file and cuts it to `bytes`.
    fn cut(&mut self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            self.file = None;
            self.bytes = 0;
            return match fs::remove_file(&self.path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&self.path, e)),
                _ => Ok(()),
            };
        }
        let open = || {
            let file = OpenOptions::new().append(true).open(&self.path)?;
            if file.metadata()?.len() < bytes {
                let text = format!("is shorter than the checkpoint says ({bytes} bytes); rows have been lost");
                return Err(std::io::Error::other(text));
            }
            file.set_len(bytes)?;
            Ok(file)
        };
        self.file = Some(open().map_err(|e| Error::io(&self.path, e))?);
        self.bytes = bytes;
        Ok(())
    }
    /// Makes the file hold these bytes. What is right of it stays in place: somebody may be reading along.
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let there = match fs::read(&self.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(&self.path, e)),
            read => read.unwrap_or_default(),
        };
        let right = there.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        self.cut(right as u64)?;
        if right < bytes.len() { self.append(&bytes[right..]) } else { Ok(()) }
    }
    fn line(&mut self, text: &str) -> Result<()> {
        self.append(format!("{text}\n").as_bytes())
    }
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut write = || {
            if self.file.is_none() {
                fs::create_dir_all(self.path.parent().expect("a file in a folder"))?;
                self.file = Some(OpenOptions::new().create(true).append(true).open(&self.path)?);
            }
            self.file.as_mut().expect("just opened").write_all(bytes)
        };
        write().map_err(|e| Error::io(&self.path, e))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |f| f.sync_data().map_err(|e| Error::io(&self.path, e)))
    }
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
                    let why = "no checkpoint of this run can be used; nothing was changed".into();
                    return Err(Error::Checkpoint { path: newest.clone(), why });
                }
                dir.progress.cut(0)?;
                dir.events.cut(0)?;
                dir.anomalies.cut(0)?;
                dir.episodes.cut(0)?;
                dir.episodes.line(episodes::COLUMNS)?;
            }
            Some(loader) => {
                let state: FileState = loader.json("files")?;
                dir.episodes.cut(state.episodes)?;
                dir.progress.cut(state.progress)?;
                dir.anomalies.cut(state.anomalies)?;
                dir.earlier_seconds = state.wall_seconds;
                dir.last_checkpoint = loader.manifest.steps;
                dir.last_snapshot = state.last_snapshot;
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
            every: config.run.checkpoint_every,
            keep: config.run.keep_checkpoints,
            episodes: log(episodes::FILE),
            progress: log("progress.csv"),
            progress_columns: Vec::new(),
            events: log(events::FILE),
            anomalies: log("anomalies.csv"),
            recent: Vec::new(),
            last_checkpoint: 0,
            snapshot_every: config.run.policy_every,
            last_snapshot: 0,
            stop,
            display: Display::new(config.run.total_steps, quiet),
            started: Instant::now(),
            earlier_seconds: 0.0,
            _lock: lock,
        }
    }

    /// Wall-clock seconds of the run, all its parts together.
    pub fn wall_seconds(&self) -> f64 {
        self.earlier_seconds + self.started.elapsed().as_secs_f64()
    }

    /// Shows how far a stage of pre-training has come.
    pub fn stage(&mut self, stage: &'static str, done: u64, total: u64) {
        self.display.stage(stage, done, total);
    }

    /// Shows lines that stay on the screen.
    pub fn say(&mut self, lines: &[String]) {
        self.display.say(lines);
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
        Ok(())
    }

    fn metrics(&mut self, at: Clock, metrics: &Metrics) -> Result<()> {
        if self.recent.is_empty() {
            return Ok(());
        }
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

    fn checkpoint_due(&self, at: Clock) -> bool {
        at.steps >= self.last_checkpoint + self.every || self.snapshot_due(at)
    }

    fn checkpoint(&mut self, at: Clock, state: &mut Saver, whole: bool) -> Result<()> {
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
        let files = FileState {
            episodes: self.episodes.bytes,
            progress: self.progress.bytes,
            anomalies: self.anomalies.bytes,
            recent: self.recent.iter().map(|r| (r.length, r.total_reward, r.violation)).collect(),
            last_snapshot: self.last_snapshot,
            wall_seconds: self.wall_seconds(),
        };
        state.json("files", &files);
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

/// Writes what a run is: its settings, and what makes its rows from `steps` on; `model` is the simulated one, as text.
pub(crate) fn describe(path: &Path, config: &Config, model: Option<&str>, steps: u64) -> Result<()> {
    manifest::write(path, config, model, steps)?;
    write_whole(&path.join("config.json"), config.to_json().as_bytes())?;
    // Last: a folder with this file holds a run.
    write_whole(&path.join("config.toml"), config.to_toml().as_bytes())
}

/// A progress bar on a terminal; elsewhere a plain line now and then.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    /// The stage of pre-training that is under way.
    stage: Option<Stage>,
    plain: bool,
    budget: u64,
    last: Instant,
    last_steps: Option<u64>,
}

/// A stage of pre-training.
struct Stage {
    name: &'static str,
    bar: Option<ProgressBar>,
    /// When it was first heard of, and how far it was then: a fit that was interrupted does not begin at 0.
    began: Instant,
    from: u64,
}

impl Stage {
    /// Seconds left at the speed so far; none before there is any.
    fn seconds_left(&self, done: u64, total: u64) -> Option<f64> {
        let made = done.checked_sub(self.from).filter(|made| *made > 0)?;
        Some(self.began.elapsed().as_secs_f64() / made as f64 * total.saturating_sub(done) as f64)
    }
}

/// Between plain lines.
const PLAIN: Duration = Duration::from_secs(30);
/// Between redraws.
const REDRAW: Duration = Duration::from_millis(200);

impl Display {
    pub(crate) fn new(budget: u64, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::new(budget);
            let style = "{bar:30} {percent:>3}%  {human_pos}/{human_len} steps  {per_sec}  {eta} left  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
            bar
        });
        Self { plain: !terminal && !quiet, bar, stage: None, budget, last: Instant::now(), last_steps: None }
    }

    /// A stage of pre-training.
    pub(crate) fn stage(&mut self, stage: &'static str, done: u64, total: u64) {
        if self.stage.as_ref().is_none_or(|known| known.name != stage) {
            self.end_stage();
            let bar = self.bar.is_some().then(|| {
                let bar = ProgressBar::new(total).with_message(stage);
                let style = "{bar:30} {percent:>3}%  {msg} {human_pos}/{human_len}  {eta} left";
                bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
                bar.set_position(done);
                bar.reset_eta();
                bar
            });
            self.last = Instant::now();
            self.stage = Some(Stage { name: stage, bar, began: self.last, from: done });
        }
        let wait = if self.plain { PLAIN } else { REDRAW };
        if self.last.elapsed() < wait && done < total {
            return;
        }
        self.last = Instant::now();
        match &self.stage {
            Some(Stage { bar: Some(bar), .. }) => bar.set_position(done),
            Some(known) if self.plain => match known.seconds_left(done, total).filter(|_| done < total) {
                Some(left) => eprintln!("{stage} {done}/{total}  {} left", duration(left)),
                None => eprintln!("{stage} {done}/{total}"),
            },
            _ => {}
        }
    }

    /// Lines that stay on the screen, unless somebody asked for quiet.
    fn say(&mut self, lines: &[String]) {
        self.end_stage();
        if self.bar.is_some() || self.plain {
            lines.iter().for_each(|line| eprintln!("{line}"));
        }
    }

    fn end_stage(&mut self) {
        if let Some(Stage { bar: Some(bar), .. }) = self.stage.take() {
            bar.finish_and_clear();
        }
    }

    pub(crate) fn step(&mut self, at: Clock, recent: f64) {
        // Reading the clock every step is cheap; redrawing is not.
        let wait = if self.plain { PLAIN } else { REDRAW };
        let first = self.last_steps.is_none();
        if first {
            self.end_stage();
            self.last = Instant::now();
            self.last_steps = Some(at.steps);
            if let Some(bar) = &self.bar {
                bar.set_position(at.steps);
                bar.reset_eta();
            }
        }
        let elapsed = self.last.elapsed();
        if elapsed < wait {
            return;
        }
        let message = format!("return {recent:.1}  violations {}", at.violations);
        if let Some(bar) = &self.bar {
            bar.set_position(at.steps);
            bar.set_message(message);
        } else if self.plain {
            let speed = (at.steps - self.last_steps.unwrap_or(0)) as f64 / elapsed.as_secs_f64();
            let left = (self.budget.saturating_sub(at.steps)) as f64 / speed.max(1e-9);
            let (steps, budget) = (at.steps, self.budget);
            eprintln!("{steps}/{budget} steps  {speed:.0} steps/s  {} left  {message}", duration(left));
        }
        self.last = Instant::now();
        self.last_steps = Some(at.steps);
    }

    /// Leaves nothing on the screen.
    pub(crate) fn finish(&mut self) {
        self.end_stage();
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
