//! Grids of runs: robots × methods × seeds, each run a process of its own, several at a time. A sweep that was stopped, or
//! killed, goes on where it was: finished runs are left alone, the others resume at their checkpoints.
//!
//! The form of a grid file is described in `docs/experiments.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Deserialize;
use sskp_blocks::{Error, Result};
use toml::{Table, Value};

use crate::config::{Config, Overrides, RunConfig, read_toml};
use crate::episodes;
use crate::registry::Registry;
use crate::run_dir::Lock;
use crate::train::{Session, Stop, prepare, read_config};
use crate::wording::duration;
use sskp_blocks::files::write_whole;

/// A grid file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Folder of the runs.
    pub out: PathBuf,
    /// Environment steps of every run.
    pub steps: u64,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Settings files of methods, relative to the grid file.
    #[serde(default)]
    pub files: BTreeMap<String, PathBuf>,
    /// Settings of all runs: `[set.run]`, and `[set.METHOD]` for runs of that method.
    #[serde(default)]
    pub set: Table,
    /// Settings of a robot's runs, in the same form; they win over `set`.
    #[serde(default)]
    pub robot: BTreeMap<String, Table>,
    /// What is run on what.
    pub cells: Vec<Block>,
}

/// Methods on robots; seeds and steps where they differ from the grid's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Robots.
    pub robots: Vec<String>,
    /// Methods.
    pub methods: Vec<String>,
    /// Seeds, if others than the grid's.
    pub seeds: Option<Vec<u64>>,
    /// Environment steps, if others than the grid's.
    pub steps: Option<u64>,
}

/// How far a cell is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// Nothing is there.
    New,
    /// Begun; the steps of the last whole episode.
    Unfinished(u64),
    /// Finished, in so many seconds.
    Finished(f64),
}

/// One run of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its settings, complete, with the hash of its demonstrations.
    pub config: Config,
    /// Its run directory, `OUT/ROBOT/METHOD/seed-N`.
    pub folder: PathBuf,
    /// How far it is.
    pub state: State,
    /// What the skill model depends on, which cells share: a second cell would fit the same one at the same time.
    fit: Option<String>,
}

impl Cell {
    /// "sskp on hopper, seed 1".
    pub fn name(&self) -> String {
        let run = &self.config.run;
        format!("{} on {}, seed {}", run.algo, run.env, run.seed)
    }

    fn kind(&self) -> (String, String) {
        (self.config.run.env.clone(), self.config.run.algo.clone())
    }

    /// Whether it is still learning from demonstrations.
    fn fitting(&self) -> bool {
        !self.folder.join("offline.json").exists()
    }
}

/// Demonstrations and settings of the skill model that a run fits; none where it fits none.
fn shared_fit(registry: &Registry, config: &Config) -> Result<Option<String>> {
    let Some(skills) = registry.method(&config.run.algo)?.skills.filter(|_| config.run.skills.is_empty()) else {
        return Ok(None);
    };
    Ok(Some(format!("{} {:?}", config.run.demos_sha256, skills(&config.method_toml())?)))
}

/// A grid, judged whole before anything starts.
pub struct Sweep {
    /// Folder of the runs.
    pub out: PathBuf,
    /// Its runs, in the order in which they start.
    pub cells: Vec<Cell>,
}

/// How a sweep ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cells that are finished now.
    pub finished: usize,
    /// Names of cells that failed, with the last line of what they said.
    pub failed: Vec<(String, String)>,
    /// Whether it was asked to stop.
    pub stopped: bool,
}

impl Sweep {
    /// Reads a grid file and looks at what is there already. `out` wins over the file's.
    pub fn read(registry: &Registry, file: &Path, out: Option<&Path>) -> Result<Self> {
        let grid: Grid = read_toml(file)?;
        let fail = |why: String| Error::other(format!("{}: {why}", file.display()));
        let out = out.unwrap_or(&grid.out).to_path_buf();
        let mut cells: Vec<Cell> = Vec::new();
        let mut kinds: BTreeMap<(String, String), Config> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let session = Session { registry: registry.clone(), ..Session::default() };
        check_names(registry, &grid).map_err(|e| fail(e.to_string()))?;
        // Seed by seed, so that a sweep stopped half-way has whole comparisons of fewer seeds.
        let mut order = Vec::new();
        for block in &grid.cells {
            for (rank, seed) in block.seeds.as_ref().unwrap_or(&grid.seeds).iter().enumerate() {
                for robot in &block.robots {
                    for method in &block.methods {
                        order.push((rank, *seed, robot, method, block.steps.unwrap_or(grid.steps)));
                    }
                }
            }
        }
        order.sort_by_key(|cell| cell.0);
        for (_, seed, robot, method, steps) in order {
            if !seen.insert((robot, method, seed)) {
                return Err(fail(format!("{method} on {robot} with seed {seed} stands there twice")));
            }
            let kind = (robot.clone(), method.clone());
            // Cells that differ in seed and length alone read the same demonstrations.
            let mut config = match kinds.get(&kind) {
                Some(config) => config.clone(),
                None => {
                    let config = grid
                        .config(registry, file, robot, method)
                        .and_then(|config| Ok(prepare(&config, session.clone())?.config))
                        .map_err(|e| fail(format!("{method} on {robot}: {e}")))?;
                    kinds.insert(kind, config.clone());
                    config
                }
            };
            (config.run.seed, config.run.total_steps) = (seed, steps);
            let folder = out.join(robot).join(method).join(format!("seed-{seed}"));
            let state = state(&folder, &config)?;
            let fit = shared_fit(registry, &config)?;
            cells.push(Cell { config, folder, state, fit });
        }
        if cells.is_empty() {
            return Err(fail("there is nothing to run: robots, methods or seeds are empty".into()));
        }
        Ok(Self { out, cells })
    }

    /// Runs what is not finished, `jobs` cells at a time, each as a process of `program`.
    pub fn run(&mut self, program: &Path, jobs: usize, stop: &Stop, quiet: bool) -> Result<Outcome> {
        fs::create_dir_all(&self.out).map_err(|e| Error::io(&self.out, e))?;
        let _lock = Lock::take(&self.out)?
            .ok_or_else(|| Error::other(format!("another sweep is running in {}", self.out.display())))?;
        let mut speeds = Speeds::default();
        for cell in &self.cells {
            if let State::Finished(seconds) = cell.state {
                speeds.note(cell.kind(), cell.config.run.total_steps as f64 / seconds.max(1e-9));
            }
        }
        let mut queue: VecDeque<usize> =
            (0..self.cells.len()).filter(|i| !matches!(self.cells[*i].state, State::Finished(_))).collect();
        let mut outcome = Outcome { finished: self.cells.len() - queue.len(), ..Outcome::default() };
        let mut view = View::new(self.cells.iter().map(|c| c.config.run.total_steps).sum(), quiet);
        let mut running: Vec<Running> = Vec::new();
        loop {
            if stop.load(Ordering::Relaxed) && !outcome.stopped {
                outcome.stopped = true;
                queue.clear();
                view.say("stopping: waiting for checkpoints");
                for job in &mut running {
                    job.leash.take(); // the end of its standard input
                }
            }
            while running.len() < jobs
                && let Some(at) = self.startable(&queue, &running)
            {
                let i = queue.remove(at).expect("it is in there");
                match start(program, &self.cells[i]) {
                    Ok(child) => {
                        view.say(&format!("{}: {}", self.cells[i].name(), begun(self.cells[i].state)));
                        running.push(Running::new(i, child));
                    }
                    Err(e) => {
                        view.say(&format!("{}: failed: {e}", self.cells[i].name()));
                        outcome.failed.push((self.cells[i].name(), e.to_string()));
                    }
                }
            }
            let mut still = Vec::new();
            for mut job in running.drain(..) {
                let cell = &mut self.cells[job.cell];
                let ended = job.child.try_wait().map_err(|e| Error::other(format!("{}: {e}", cell.name())))?;
                // Looked at after the process, so that what it wrote last is seen.
                if ended.is_some() || job.looked.elapsed() > LOOK {
                    job.looked = Instant::now();
                    let state = state(&cell.folder, &cell.config).unwrap_or(cell.state);
                    job.look(state, cell, &mut speeds);
                    cell.state = state;
                }
                match (ended, cell.state) {
                    (None, _) => still.push(job),
                    (Some(_), State::Finished(seconds)) => {
                        outcome.finished += 1;
                        view.say(&format!("{}: finished in {}", cell.name(), duration(seconds)));
                    }
                    (Some(status), _) if status.success() && outcome.stopped => {}
                    (Some(status), _) => {
                        let why = keep_error(cell, status);
                        view.say(&format!("{}: failed: {why}", cell.name()));
                        outcome.failed.push((cell.name(), why));
                    }
                }
            }
            running = still;
            if running.is_empty() && queue.is_empty() {
                break;
            }
            let left = (!outcome.stopped).then(|| time_left(&self.cells, &running, &queue, &speeds, jobs)).flatten();
            view.draw(&self.cells, &running, outcome.finished, left);
            std::thread::sleep(POLL);
        }
        view.finish();
        Ok(outcome)
    }

    /// The first cell in the queue that may start now.
    fn startable(&self, queue: &VecDeque<usize>, running: &[Running]) -> Option<usize> {
        queue.iter().position(|i| {
            let cell = &self.cells[*i];
            // A run of a sweep that was killed writes its checkpoint and leaves; until then the folder is its own.
            let free = !cell.folder.exists() || matches!(Lock::take(&cell.folder), Ok(Some(_)) | Err(_));
            let fit = cell.fit.clone().filter(|_| cell.fitting());
            let waits =
                fit.is_some() && running.iter().map(|job| &self.cells[job.cell]).any(|c| c.fitting() && c.fit == fit);
            free && !waits
        })
    }
}

impl Grid {
    /// Settings of a method on a robot, for the first seed.
    fn config(&self, registry: &Registry, file: &Path, robot: &str, method: &str) -> Result<Config> {
        let mut overrides = Overrides::default();
        if let Some(settings) = self.files.get(method) {
            overrides.file(&file.parent().unwrap_or(Path::new("")).join(settings))?;
        }
        let entry = registry.method(method)?;
        for table in [Some(&self.set), self.robot.get(robot)].into_iter().flatten() {
            let own = |(name, _): &(&String, _)| *name == "run" || *name == entry.table;
            let mut table: Table = table.iter().filter(own).map(|(k, v)| (k.clone(), v.clone())).collect();
            // One line may name the demonstrations of all methods of a robot, though some begin with none.
            if let Some(Value::Table(run)) = table.get_mut("run").filter(|_| !entry.demos) {
                run.retain(|key, _| !(key.starts_with("demos") || key.starts_with("skills")));
            }
            overrides.table(table);
        }
        let config = Config::resolve(registry, RunConfig::new(method, robot, 0, self.steps), &overrides)?;
        if (config.run.seed, config.run.total_steps) != (0, self.steps) {
            return Err(Error::other("seeds and steps are named by the grid, not by run.seed and run.total_steps"));
        }
        Ok(config)
    }
}

/// Names that exist, in every place where there are names.
fn check_names(registry: &Registry, grid: &Grid) -> Result<()> {
    for block in &grid.cells {
        block.robots.iter().try_for_each(|name| registry.env(name).map(|_| ()))?;
        block.methods.iter().try_for_each(|name| registry.method(name).map(|_| ()))?;
    }
    grid.files.keys().try_for_each(|name| registry.method(name).map(|_| ()))?;
    grid.robot.keys().try_for_each(|name| registry.env(name).map(|_| ()))?;
    for (place, table) in std::iter::once(("set".into(), &grid.set))
        .chain(grid.robot.iter().map(|(robot, table)| (format!("robot.{robot}"), table)))
    {
        for name in table.keys().filter(|name| *name != "run") {
            if !registry.methods().iter().any(|m| m.table == name) {
                let error = registry.method(name).err().map_or(String::new(), |e| e.to_string());
                return Err(Error::other(format!("[{place}.{name}]: {error}")));
            }
        }
    }
    Ok(())
}

/// How far the run in a folder is. One that is not this cell's is an error.
fn state(folder: &Path, config: &Config) -> Result<State> {
    if !folder.join("config.toml").exists() {
        return Ok(State::New);
    }
    let there = read_config(folder)?;
    if let Some(difference) = config.difference(&there) {
        return Err(Error::other(format!(
            "{} holds a run with other settings than the grid's ({difference}); name another out, or remove it",
            folder.display()
        )));
    }
    let (were, are) = (there.run.total_steps, config.run.total_steps);
    if were != are {
        // A run cut at another step is another run: its last episode, and whatever follows the budget.
        return Err(Error::other(format!(
            "{} holds a run of {were} steps, and the grid says {are}; name another out, or remove it",
            folder.display()
        )));
    }
    let summary = fs::read(folder.join("summary.json")).ok();
    let summary: Option<serde_json::Value> = summary.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match summary {
        Some(summary) if summary["finished"] == true => {
            Ok(State::Finished(summary["wall_seconds"].as_f64().unwrap_or(0.0)))
        }
        _ => Ok(State::Unfinished(episodes::steps_so_far(&folder.join(episodes::FILE)))),
    }
}

const LOG: &str = "log.txt";
const ERROR: &str = "error.txt";
/// Between looks at the processes.
const POLL: Duration = Duration::from_millis(50);
/// Between looks at what a process has written.
const LOOK: Duration = Duration::from_secs(1);

/// A cell's process.
struct Running {
    cell: usize,
    child: Child,
    /// The other end of its standard input: when it closes, for whatever reason, the run writes a checkpoint and leaves.
    leash: Option<std::process::ChildStdin>,
    /// When its steps were first seen to grow, and to what, for its speed.
    first: Option<(Instant, u64)>,
    seen: u64,
    looked: Instant,
}

impl Running {
    fn new(cell: usize, mut child: Child) -> Self {
        let leash = child.stdin.take();
        Self { cell, child, leash, first: None, seen: 0, looked: Instant::now() }
    }

    fn look(&mut self, state: State, cell: &Cell, speeds: &mut Speeds) {
        let steps = match state {
            State::Finished(seconds) => {
                return speeds.note(cell.kind(), cell.config.run.total_steps as f64 / seconds.max(1e-9));
            }
            State::New => 0,
            State::Unfinished(steps) => steps,
        };
        match self.first {
            None if steps > 0 && steps != self.seen && self.seen > 0 => self.first = Some((Instant::now(), steps)),
            Some((when, from)) if steps > from => {
                speeds.note(cell.kind(), (steps - from) as f64 / when.elapsed().as_secs_f64().max(1e-9));
            }
            _ => {}
        }
        self.seen = steps;
    }
}

fn begun(state: State) -> String {
    match state {
        State::Unfinished(steps) => format!("resumed at {steps} steps or before"),
        _ => "started".into(),
    }
}

fn start(program: &Path, cell: &Cell) -> Result<Child> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |e| Error::io(path, e)
    };
    fs::create_dir_all(&cell.folder).map_err(io(&cell.folder))?;
    let mut command = Command::new(program);
    if cell.state == State::New {
        let settings = cell.folder.join("cell.toml");
        write_whole(&settings, cell.config.to_toml().as_bytes())?;
        let run = &cell.config.run;
        command.args(["train", "--algo", &run.algo, "--env", &run.env, "--seed", &run.seed.to_string()]);
        command.args(["--total-steps", &run.total_steps.to_string(), "--threads", &run.threads.to_string()]);
        command.arg("--config").arg(settings).arg("--log-dir").arg(&cell.folder);
    } else {
        command.arg("resume").arg(&cell.folder);
    }
    command.args(["--quiet", "--leash"]);
    let log = cell.folder.join(LOG);
    let file = File::options().create(true).append(true).open(&log).map_err(io(&log))?;
    let both = file.try_clone().map_err(io(&log))?;
    let _ = fs::remove_file(cell.folder.join(ERROR));
    command.stdin(Stdio::piped()).stdout(file).stderr(both);
    command.spawn().map_err(|e| Error::other(format!("the run could not be started: {e}")))
}

/// Writes what a failed process said last beside its log, and gives its last line.
fn keep_error(cell: &Cell, status: ExitStatus) -> String {
    let log = fs::read(cell.folder.join(LOG)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.iter().rev().find(|line| line.starts_with("error: ")).or(lines.last());
    let why = match last {
        Some(line) if status.code().is_some() => line.trim_start_matches("error: ").to_string(),
        _ => format!("the process ended with {status}"),
    };
    let text = format!(
        "{why}\n\n{status}; the last lines of {LOG}:\n{}\n",
        lines[lines.len().saturating_sub(20)..].join("\n")
    );
    // On a full disk there may be no room for this either; the sentence is shown anyway.
    let _ = write_whole(&cell.folder.join(ERROR), text.as_bytes());
    why
}

/// Steps per second that were measured, by robot and method.
#[derive(Default)]
struct Speeds(BTreeMap<(String, String), f64>);

impl Speeds {
    fn note(&mut self, kind: (String, String), speed: f64) {
        if speed.is_finite() && speed > 0.0 {
            self.0.insert(kind, speed);
        }
    }

    /// Of the same kind, else of the same method, else of all.
    fn of(&self, kind: &(String, String)) -> Option<f64> {
        let mean = |speeds: Vec<f64>| (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64);
        let method = || mean(self.0.iter().filter(|(k, _)| k.1 == kind.1).map(|(_, s)| *s).collect());
        self.0.get(kind).copied().or_else(method).or_else(|| mean(self.0.values().copied().collect()))
    }
}

/// Seconds until all is done: every waiting cell goes to the worker that is free first.
fn time_left(
    cells: &[Cell],
    running: &[Running],
    queue: &VecDeque<usize>,
    speeds: &Speeds,
    jobs: usize,
) -> Option<f64> {
    let left = |i: usize| {
        let cell = &cells[i];
        let done = match cell.state {
            State::Unfinished(steps) => steps,
            _ => 0,
        };
        Some(cell.config.run.total_steps.saturating_sub(done) as f64 / speeds.of(&cell.kind())?)
    };
    let busy = running.iter().map(|job| left(job.cell)).collect::<Option<Vec<f64>>>()?;
    let waiting = queue.iter().map(|i| left(*i)).collect::<Option<Vec<f64>>>()?;
    Some(makespan(busy, &waiting, jobs))
}

fn makespan(busy: Vec<f64>, waiting: &[f64], jobs: usize) -> f64 {
    let mut workers = busy;
    workers.resize(jobs.max(workers.len()), 0.0);
    for cell in waiting {
        let first = workers.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("one job at least");
        *first += cell;
    }
    workers.into_iter().fold(0.0, f64::max)
}

/// Between plain lines.
const PLAIN: Duration = Duration::from_secs(30);

/// One bar for all cells and a line for each that runs; where there is no terminal, a plain line now and then.
struct View {
    bars: Option<(MultiProgress, ProgressBar, Vec<ProgressBar>)>,
    quiet: bool,
    last: Instant,
}

impl View {
    fn new(steps: u64, quiet: bool) -> Self {
        let bars = (std::io::stderr().is_terminal() && !quiet).then(|| {
            let all = MultiProgress::new();
            let bar = all.add(ProgressBar::new(steps));
            let style = "{bar:30} {percent:>3}%  {human_pos}/{human_len} steps  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
            (all, bar, Vec::new())
        });
        Self { bars, quiet, last: Instant::now() }
    }

    fn say(&self, line: &str) {
        match &self.bars {
            Some((all, ..)) => drop(all.println(line)),
            None if !self.quiet => eprintln!("{line}"),
            None => {}
        }
    }

    fn draw(&mut self, cells: &[Cell], running: &[Running], finished: usize, left: Option<f64>) {
        let done = |cell: &Cell| match cell.state {
            State::New => 0,
            State::Unfinished(steps) => steps,
            State::Finished(_) => cell.config.run.total_steps,
        };
        let left = left.map_or("time left not known yet".into(), |s| format!("{} left", duration(s)));
        let message = format!("{finished} of {} finished, {} running, {left}", cells.len(), running.len());
        let steps: u64 = cells.iter().map(done).sum();
        if let Some((all, bar, lines)) = &mut self.bars {
            bar.set_position(steps);
            bar.set_message(message);
            while lines.len() < running.len() {
                let line = all.add(ProgressBar::new_spinner());
                line.set_style(ProgressStyle::with_template("  {msg}").expect("a valid template"));
                lines.push(line);
            }
            for (k, line) in lines.iter().enumerate() {
                line.set_message(running.get(k).map_or(String::new(), |job| {
                    let cell = &cells[job.cell];
                    match done(cell) {
                        0 => format!("{}: beginning", cell.name()),
                        steps => format!("{}: {steps}/{} steps", cell.name(), cell.config.run.total_steps),
                    }
                }));
            }
        } else if !self.quiet && self.last.elapsed() > PLAIN {
            self.last = Instant::now();
            let total: u64 = cells.iter().map(|c| c.config.run.total_steps).sum();
            eprintln!("{:.1} %  {message}", 100.0 * steps as f64 / total.max(1) as f64);
        }
    }

    fn finish(&mut self) {
        if let Some((_, bar, lines)) = self.bars.take() {
            lines.iter().for_each(ProgressBar::finish_and_clear);
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Result<Sweep> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grid.toml");
        fs::write(&file, text.replace("OUT", &folder.path().join("out").display().to_string())).unwrap();
        fs::write(folder.path().join("wide.toml"), "[sac.learner]\nwidth = 99\n").unwrap();
        Sweep::read(&Registry::standard(), &file, None)
    }

    const SMALL: &str = "out = \"OUT\"\nsteps = 500\nseeds = [3, 4]\n";

    #[test]
    fn settings_come_from_the_file_then_from_set_then_from_the_robot() {
        let text = format!(
            "{SMALL}[files]\nsac = \"wide.toml\"\n[set.run]\ncheckpoint_every = 7\n[set.sac]\nbatch = 31\n[set.ssac]\nbatch = 30\n\
             [robot.toy.sac]\nbatch = 32\n[[cells]]\nrobots = [\"toy\", \"hopper\"]\nmethods = [\"sac\", \"ssac\"]\n\
             [[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\nseeds = [9]\nsteps = 20\n"
        );
        let sweep = grid(&text).unwrap();
        let of = |robot: &str, method: &str, seed: u64| {
            let is = |c: &&Cell| {
                (c.config.run.env.as_str(), c.config.run.algo.as_str(), c.config.run.seed) == (robot, method, seed)
            };
            sweep.cells.iter().find(is).unwrap_or_else(|| panic!("{robot} {method} {seed}"))
        };
        let batch = |c: &Cell| c.config.method["batch"].as_integer().unwrap();
        let width = |c: &Cell| c.config.method["learner"]["width"].as_integer().unwrap();
        assert_eq!(sweep.cells.len(), 9);
        assert_eq!((batch(of("toy", "sac", 3)), width(of("toy", "sac", 3))), (32, 99));
        assert_eq!((batch(of("hopper", "sac", 4)), width(of("hopper", "sac", 4))), (31, 99));
        assert_eq!((batch(of("toy", "ssac", 4)), width(of("toy", "ssac", 4))), (30, 256));
        assert!(sweep.cells.iter().all(|c| c.config.run.checkpoint_every == 7));
        assert_eq!(of("toy", "sac", 9).config.run.total_steps, 20);
        assert!(of("hopper", "sac", 4).folder.ends_with("out/hopper/sac/seed-4"));
        assert_eq!(sweep.cells[0].config.run.seed, 3, "seed by seed");
        assert!(sweep.cells[5..].iter().all(|c| c.config.run.seed == 4));
    }

    #[test]
    fn a_broken_grid_is_one_clear_sentence() {
        let cells = "[[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\n";
        for (text, needed) in [
            (format!("{SMALL}sedes = [1]\n{cells}"), "grid.toml, line 4: unknown field `sedes`"),
            (format!("out = \"OUT\"\nsteps = \"many\"\nseeds = []\n{cells}"), "line 2: invalid type"),
            (format!("out = \"OUT\"\nsteps = 5\nseeds = []\n{cells}"), "nothing to run"),
            (format!("{SMALL}[[cells]]\nrobots = [\"tyo\"]\nmethods = []\n"), "no robot called \"tyo\""),
            (format!("{SMALL}[[cells]]\nrobots = [\"toy\"]\nmethods = [\"scs\"]\n"), "no method called \"scs\""),
            (format!("{SMALL}[set.sca]\nbatch = 1\n{cells}"), "[set.sca]: there is no method"),
            (format!("{SMALL}[set.sac]\nbtach = 1\n{cells}"), "did you mean sac.batch?"),
            (format!("{SMALL}[set.sac]\nbatch = 1.5\n{cells}"), "sac.batch must be an integer"),
            (format!("{SMALL}[set.sac]\nbatch = 0\n{cells}"), "sac on toy: sac.batch must be"),
            (format!("{SMALL}[robot.tyo.run]\nthreads = 1\n{cells}"), "no robot called"),
            (format!("{SMALL}[set.run]\nseed = 5\n{cells}"), "named by the grid"),
            (format!("{SMALL}[files]\nsac = \"none.toml\"\n{cells}"), "none.toml"),
            (format!("{SMALL}{cells}{cells}"), "sac on toy with seed 3 stands there twice"),
            (
                format!(
                    "{SMALL}[set.run]\ndemos = \"no/such-v0\"\n[[cells]]\nrobots = [\"toy\"]\nmethods = [\"cpq\"]\n"
                ),
                "no/such-v0",
            ),
        ] {
            let error = grid(&text).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(needed) && !error.contains('\n'), "{text}\ngave: {error}");
        }
    }

    #[test]
    fn waiting_cells_go_to_the_worker_that_is_free_first() {
        // Two workers with 4 and 1 seconds to go; 5, 2, 2 wait: 1+5=6, 4+2=6, then 6+2.
        assert_eq!(makespan(vec![4.0, 1.0], &[5.0, 2.0, 2.0], 2), 8.0);
        assert_eq!(makespan(vec![], &[3.0], 4), 3.0);
    }

    #[test]
    fn speeds_of_the_same_kind_come_first() {
        let kind = |env: &str, algo: &str| (env.to_string(), algo.to_string());
        let mut speeds = Speeds::default();
        assert_eq!(speeds.of(&kind("a", "x")), None);
        speeds.note(kind("a", "x"), 10.0);
        speeds.note(kind("b", "y"), 30.0);
        speeds.note(kind("c", "y"), f64::INFINITY);
        assert_eq!(speeds.of(&kind("a", "x")), Some(10.0));
        assert_eq!(speeds.of(&kind("c", "y")), Some(30.0), "another robot, the same method");
        assert_eq!(speeds.of(&kind("c", "z")), Some(20.0), "anything");
    }
}
