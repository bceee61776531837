//! The cells of a grid as processes, several at a time.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use super::Sweep;
use super::cell::{Cell, State, state};
use super::time_left::{Speeds, time_left};
use crate::display::Display;
use crate::run_dir::Lock;
use crate::run_dir::claim::{self, Claimed};
use crate::train::Stop;
use crate::wording::duration;

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
    /// Runs what is not finished, `jobs` cells at a time, each as a process of `program`.
    pub fn run(&mut self, program: &Path, jobs: usize, stop: &Stop, quiet: bool) -> Result<Outcome> {
        fs::create_dir_all(&self.out).map_err(|e| Error::io(&self.out, e))?;
        let _lock = lock(&self.out)?;
        let mut speeds = Speeds::default();
        for cell in &self.cells {
            if let State::Finished(seconds) = cell.state {
                speeds.note(cell.kind(), cell.config.run.total_steps as f64 / seconds.max(1e-9));
            }
        }
        let mut queue: VecDeque<usize> =
            (0..self.cells.len()).filter(|i| !matches!(self.cells[*i].state, State::Finished(_))).collect();
        let mut outcome = Outcome { finished: self.cells.len() - queue.len(), ..Outcome::default() };
        let mut display = Display::new(self.cells.iter().map(|c| c.config.run.total_steps).sum(), "steps", quiet);
        let mut running: Vec<Running> = Vec::new();
        loop {
            if stop.load(Ordering::Relaxed) && !outcome.stopped {
                outcome.stopped = true;
                queue.clear();
                display.say(["stopping: waiting for checkpoints"]);
                for job in &mut running {
                    job.leash.take(); // the end of its standard input
                }
            }
            while running.len() < jobs
                && let Some(at) = self.startable(&queue, &running)
            {
                let i = queue.remove(at).expect("it is in there");
                match start(program, &mut self.cells[i]) {
                    Ok(Some(child)) => {
                        display.say([format!("{}: {}", self.cells[i].name(), begun(self.cells[i].state))]);
                        running.push(Running::new(i, child));
                    }
                    // Taken meanwhile: it waits as the others do.
                    Ok(None) => {
                        queue.push_back(i);
                        break;
                    }
                    Err(e) => {
                        display.say([format!("{}: failed: {e}", self.cells[i].name())]);
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
                        display.say([format!("{}: finished in {}", cell.name(), duration(seconds))]);
                    }
                    (Some(status), _) if outcome.stopped && (status.success() || interrupted(status)) => {}
                    (Some(status), _) => {
                        let why = keep_error(cell, status);
                        display.say([format!("{}: failed: {why}", cell.name())]);
                        outcome.failed.push((cell.name(), why));
                    }
                }
            }
            running = still;
            if running.is_empty() && queue.is_empty() {
                break;
            }
            let busy: Vec<usize> = running.iter().map(|job| job.cell).collect();
            let left = (!outcome.stopped).then(|| time_left(&self.cells, &busy, &queue, &speeds, jobs)).flatten();
            let left = left.map_or("time left not known yet".into(), |s| format!("{} left", duration(s)));
            let (finished, all) = (outcome.finished, self.cells.len());
            let words = format!("{finished} of {all} finished, {} running, {left}", busy.len());
            let lines = busy.iter().map(|i| match &self.cells[*i] {
                cell if cell.steps() == 0 => format!("{}: beginning", cell.name()),
                cell => format!("{}: {}/{} steps", cell.name(), cell.steps(), cell.config.run.total_steps),
            });
            display.grid(self.cells.iter().map(Cell::steps).sum(), &words, lines);
            std::thread::sleep(POLL);
        }
        display.finish();
        Ok(outcome)
    }

    /// The first cell in the queue that may start now.
    fn startable(&self, queue: &VecDeque<usize>, running: &[Running]) -> Option<usize> {
        queue.iter().position(|i| {
            let cell = &self.cells[*i];
            let free = !cell.folder.exists() || matches!(take(cell), Ok(Some(_)) | Err(_));
            let fit = cell.fit.clone().filter(|_| cell.fitting());
            let waits =
                fit.is_some() && running.iter().map(|job| &self.cells[job.cell]).any(|c| c.fitting() && c.fit == fit);
            free && !waits
        })
    }
}

const LOG: &str = "log.txt";
/// Why a cell failed.
pub(super) const ERROR: &str = "error.txt";
/// The settings a cell was started with.
pub(super) const CELL: &str = "cell.toml";
/// Between looks at the processes.
const POLL: Duration = Duration::from_millis(50);
/// Between looks at what a process has written.
const LOOK: Duration = Duration::from_secs(1);

/// How long a sweep waits for the folder's lock, in looks.
const PATIENCE: usize = 100;

/// The right to sweep in a folder. A sweep that is killed while it starts a run leaves its lock to that run's process until the
/// program is loaded there: only one that is still locked after a while is another sweep's.
fn lock(out: &Path) -> Result<Lock> {
    for _ in 0..PATIENCE {
        if let Some(lock) = Lock::take(out)? {
            return Ok(lock);
        }
        std::thread::sleep(POLL);
    }
    Err(Error::other(format!("another sweep is running in {}", out.display())))
}

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

/// The log of a cell, opened and locked; none while another process writes there. A run of a sweep that was killed writes its
/// checkpoint and leaves; until then the folder is its own. It takes the folder's lock only after a while, when it has read its
/// demonstrations, but its output goes to the log from its first moment: this lock stays with it, however the sweep ends.
fn take(cell: &Cell) -> Result<Option<File>> {
    let path = cell.folder.join(LOG);
    let file = File::options().create(true).append(true).open(&path).map_err(|e| Error::io(&path, e))?;
    let claimed = !matches!(claim::look(&cell.folder)?, Claimed::Free);
    let locked = || matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    let taken = claimed || locked() || Lock::take(&cell.folder)?.is_none();
    Ok((!taken).then_some(file))
}

/// Starts a cell's process; none if another process writes its folder.
fn start(program: &Path, cell: &mut Cell) -> Result<Option<Child>> {
    fs::create_dir_all(&cell.folder).map_err(|e| Error::io(&cell.folder, e))?;
    let Some(log) = take(cell)? else { return Ok(None) };
    // A process that has left since the grid was read may have begun this run.
    cell.state = state(&cell.folder, &cell.config)?;
    let mut command = Command::new(program);
    if cell.state == State::New {
        let settings = cell.folder.join(CELL);
        write_whole(&settings, cell.config.to_toml().as_bytes())?;
        let run = &cell.config.run;
        command.args(["train", "--algo", &run.algo, "--env", &run.env, "--seed", &run.seed.to_string()]);
        command.args(["--total-steps", &run.total_steps.to_string(), "--threads", &run.threads.to_string()]);
        command.arg("--config").arg(settings).arg("--log-dir").arg(&cell.folder);
    } else {
        command.arg("resume").arg(&cell.folder);
    }
    command.args(["--quiet", "--leash"]);
    let both = log.try_clone().map_err(|e| Error::io(cell.folder.join(LOG), e))?;
    let _ = fs::remove_file(cell.folder.join(ERROR));
    command.stdin(Stdio::piped()).stdout(log).stderr(both);
    command.spawn().map(Some).map_err(|e| Error::other(format!("the run could not be started: {e}")))
}

/// Whether a process was ended by what stopped the sweep too: Ctrl-C reaches both, and a run that has just been started does not
/// listen yet.
fn interrupted(status: ExitStatus) -> bool {
    const SIGHUP: i32 = 1;
    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;
    matches!(status.signal(), Some(SIGHUP | SIGINT | SIGTERM))
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
