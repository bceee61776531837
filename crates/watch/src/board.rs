//! All runs at a glance: how far each is, and what became of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use sskp_lab::config::RunConfig;
use sskp_lab::episodes;
use sskp_lab::run_dir::claim;

use crate::find::{Source, is_run};

/// How often folders are looked through for new runs.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Speed is measured over this many seconds.
const SPEED_OVER: f64 = 60.0;
/// A run without a lock that can be seen is taken to be training if it wrote so recently: some network file systems have no locks.
const FRESH: Duration = Duration::from_secs(20);
/// Episodes whose mean return is shown.
const RECENT: usize = 20;

/// What a row of the board says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    pub id: usize,
    pub name: String,
    pub env: String,
    pub algo: String,
    pub seed: u64,
    pub steps: u64,
    pub total: u64,
    pub violations: u64,
    /// Mean return of the last episodes.
    pub earned: Option<f64>,
    /// Environment steps per second.
    pub speed: Option<f64>,
    /// Seconds left.
    pub left: Option<f64>,
    /// waiting, fitting, training, resumed, finished, stopped, failed, deleted, broken.
    pub state: &'static str,
    /// A sentence to the state, where it needs one.
    pub why: String,
    /// The process that runs it, and on which machine, where it says so: cells of grids do.
    pub place: String,
}

/// What is known of a run.
struct Run {
    path: PathBuf,
    row: Row,
    /// Length and time of the files that were read.
    stamp: Vec<(u64, Option<SystemTime>)>,
    /// When there were how many steps.
    speeds: Vec<(Instant, u64)>,
    /// Whether it was seen to stand still before.
    stood: bool,
    demos: bool,
}

/// The board.
pub struct Board {
    source: Source,
    runs: Vec<Run>,
    known: BTreeMap<PathBuf, usize>,
    looked: Option<Instant>,
    pub left_out: String,
}

impl Board {
    pub fn new(source: Source) -> Self {
        Self { source, runs: Vec::new(), known: BTreeMap::new(), looked: None, left_out: String::new() }
    }

    /// Looks at everything again; gives all rows.
    pub fn poll(&mut self) -> Vec<Row> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.looked = Some(Instant::now());
            let found = self.source.look();
            self.left_out = found.left_out;
            for (path, planned) in found.runs {
                let id = *self.known.entry(path.clone()).or_insert(self.runs.len());
                if id == self.runs.len() {
                    self.runs.push(Run::new(id, path, planned));
                }
            }
            shorten(&mut self.runs);
        }
        let locked = locked();
        self.runs.iter_mut().for_each(|run| run.look(&locked));
        self.runs.iter().map(|run| run.row.clone()).collect()
    }

    /// The folder of a run, by its number.
    pub fn folder(&self, id: usize) -> Option<PathBuf> {
        self.runs.get(id).map(|run| run.path.clone())
    }
}

/// Names without what all of them begin with.
fn shorten(runs: &mut [Run]) {
    let Some(first) = runs.first().map(|run| run.path.clone()) else { return };
    let mut common: Vec<_> = first.parent().map_or(Vec::new(), |parent| parent.components().collect());
    for run in runs.iter() {
        let same = run.path.components().zip(&common).take_while(|(a, b)| a == *b).count();
        common.truncate(same.min(run.path.components().count().saturating_sub(1)));
    }
    for run in runs.iter_mut() {
        let rest: PathBuf = run.path.components().skip(common.len()).collect();
        run.row.name = rest.display().to_string();
    }
}

impl Run {
    fn new(id: usize, path: PathBuf, planned: Option<RunConfig>) -> Self {
        let mut row = Row { id, state: "waiting", ..Row::default() };
        if let Some(run) = planned {
            (row.env, row.algo, row.seed, row.total) = (run.env, run.algo, run.seed, run.total_steps);
        }
        Self { path, row, stamp: Vec::new(), speeds: Vec::new(), stood: false, demos: false }
    }

    fn look(&mut self, locked: &Locks) {
        let files = ["config.toml", episodes::FILE, "summary.json", "error.txt", "offline.json", ".lock"];
        let all: Vec<Option<fs::Metadata>> = files.iter().map(|file| fs::metadata(self.path.join(file)).ok()).collect();
        let [config, rows, summary, error, offline, lock] = &all[..] else { unreachable!("as many as files") };
        if config.is_none() {
            self.row.state = match self.row.state {
                "waiting" if !is_run(&self.path) => "waiting",
                _ => "deleted",
            };
            (self.row.why, self.row.speed, self.row.left) = (String::new(), None, None);
            self.row.place.clear();
            self.stamp.clear();
            return;
        }
        let written = |data: &Option<fs::Metadata>| data.as_ref().and_then(|data| data.modified().ok());
        let stamp: Vec<_> = all.iter().map(|data| (data.as_ref().map_or(0, |d| d.len()), written(data))).collect();
        let changed = stamp != self.stamp;
        let gone = self.row.state == "deleted";
        if changed || gone {
            if self.stamp.first() != stamp.first() || gone {
                self.read_settings();
            }
            self.stamp = stamp;
            self.read_rows();
        }
        if self.row.state == "broken" {
            return;
        }
        let fresh = written(rows).and_then(|at| at.elapsed().ok()).is_some_and(|age| age < FRESH);
        let claimed = claim::last_word(&self.path);
        // Locks of other machines are not seen from here.
        let elsewhere = claimed.as_ref().is_some_and(|(holder, heard)| {
            holder.seen().is_none() && heard.elapsed().is_ok_and(|age| age < claim::STALE)
        });
        let runs = match (lock, locked) {
            _ if elsewhere => true,
            (Some(lock), Some(locked)) => locked.contains(&lock.ino()),
            (_, None) => fresh,
            (None, _) => false,
        };
        self.row.place = claimed.filter(|_| runs).map_or(String::new(), |(holder, _)| holder.to_string());
        let finished = || {
            let text = fs::read(self.path.join("summary.json")).unwrap_or_default();
            serde_json::from_slice::<serde_json::Value>(&text).is_ok_and(|said| said["finished"] == true)
        };
        let was = self.row.state;
        self.row.state = match () {
            () if runs && self.demos && offline.is_none() && self.row.steps == 0 => "fitting",
            // A word of its end that is older than its last rows is of a part before.
            () if runs && (self.stood || summary.is_some()) => "resumed",
            () if runs => "training",
            () if !changed && matches!(was, "finished" | "stopped" | "failed") => was,
            () if summary.is_some() && finished() => "finished",
            () if error.is_some() => "failed",
            () => "stopped",
        };
        self.stood |= !runs;
        self.row.why = match self.row.state {
            "failed" => first_line(&self.path.join("error.txt")),
            _ => String::new(),
        };
        self.measure(runs);
    }

    /// Steps per second and what is left of them.
    fn measure(&mut self, runs: bool) {
        let row = &mut self.row;
        if !runs {
            self.speeds.clear();
            (row.speed, row.left) = (None, None);
            return;
        }
        let now = Instant::now();
        match self.speeds.last() {
            Some((_, steps)) if *steps == row.steps => {}
            // A resumed run begins where its checkpoint was.
            Some((_, steps)) if *steps > row.steps => self.speeds = vec![(now, row.steps)],
            _ => self.speeds.push((now, row.steps)),
        }
        self.speeds.retain(|(at, _)| now.duration_since(*at).as_secs_f64() < SPEED_OVER);
        if let ([first, .., last], true) = (&self.speeds[..], row.total > 0) {
            let speed = (last.1 - first.1) as f64 / last.0.duration_since(first.0).as_secs_f64().max(0.1);
            // Rounded, so that what did not change is not sent again.
            row.speed = Some((speed * 10.0).round() / 10.0);
            row.left =
                Some((row.total.saturating_sub(row.steps) as f64 / speed.max(1e-9)).round()).filter(|s| *s < 1e9);
        }
    }

    fn read_settings(&mut self) {
        match sskp_lab::train::read_config(&self.path) {
            Ok(config) => {
                let run = config.run;
                (self.row.env, self.row.algo, self.row.seed) = (run.env, run.algo, run.seed);
                (self.row.total, self.demos) = (run.total_steps, !run.demos.is_empty());
                self.row.state = "waiting";
            }
            Err(error) => (self.row.state, self.row.why) = ("broken", error.to_string()),
        }
    }

    /// The last rows: the others are read when somebody looks at the run.
    fn read_rows(&mut self) {
        let (steps, violations, earned) = tail(&self.path.join(episodes::FILE)).unwrap_or_default();
        (self.row.steps, self.row.violations, self.row.earned) = (steps, violations, earned);
    }
}

fn first_line(path: &Path) -> String {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(400).read_to_string(&mut text));
    if read.is_ok() { text.lines().next().unwrap_or_default().to_string() } else { String::new() }
}

/// Steps, violations and the mean return of the last episodes.
fn tail(path: &Path) -> std::io::Result<(u64, u64, Option<f64>)> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(100 * RECENT as u64)))?;
    let mut bytes = Vec::new();
    file.take(200 * RECENT as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let row = |line: &str| -> Option<(u64, f64, u64)> {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, steps, _, earned, _, violations] = cells[..] else { return None };
        Some((steps.parse().ok()?, earned.parse().ok()?, violations.parse().ok()?))
    };
    let rows: Vec<_> = whole.lines().rev().map_while(row).take(RECENT).collect();
    let Some((steps, _, violations)) = rows.first() else { return Ok((0, 0, None)) };
    let mean = rows.iter().map(|row| row.1).sum::<f64>() / rows.len() as f64;
    Ok((*steps, *violations, Some((mean * 1000.0).round() / 1000.0)))
}

/// Inodes of files that somebody has locked; none where the system does not say. Asking for the lock ourselves could make a run fail that begins at that moment.
type Locks = Option<std::collections::HashSet<u64>>;

fn locked() -> Locks {
    let text = fs::read_to_string("/proc/locks").ok()?;
    // "1: FLOCK  ADVISORY  WRITE 709 00:2b:1234 0 EOF"
    let inode = |line: &str| -> Option<u64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "WRITE")?;
        words.get(at + 2)?.rsplit(':').next()?.parse().ok()
    };
    Some(text.lines().filter_map(inode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_lab::config::{Config, Overrides};
    use sskp_lab::registry::Registry;
    use sskp_lab::run_dir::Lock;

    fn run(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(&path).unwrap();
        let run = RunConfig::new("sac", "toy", 7, 1000);
        let config = Config::resolve(&Registry::standard(), run, &Overrides::default()).unwrap();
        fs::write(path.join("config.toml"), config.to_toml()).unwrap();
        rows(&path, &[(20, 1.0, 1), (30, 3.0, 0)]);
        path
    }

    fn rows(path: &Path, all: &[(u64, f64, u64)]) {
        let (mut text, mut steps, mut falls) = (format!("{}\n", episodes::COLUMNS), 0, 0);
        for (i, (length, earned, fell)) in all.iter().enumerate() {
            (steps, falls) = (steps + length, falls + fell);
            text += &format!("{},{steps},{length},{earned},{fell},{falls}\n", i + 1);
        }
        fs::write(path.join(episodes::FILE), text + "9,9").unwrap();
    }

    fn state(board: &mut Board) -> &'static str {
        board.poll()[0].state
    }

    #[test]
    fn a_run_that_starts_stops_goes_on_and_is_deleted_shows_as_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = run(folder.path(), "one");
        let mut board = Board::new(Source::new(&Registry::standard(), &[folder.path().into()]).unwrap());
        let lock = Lock::take(&path).unwrap().unwrap();
        let first = &board.poll()[0];
        assert_eq!((first.state, first.steps, first.violations, first.earned), ("training", 50, 1, Some(2.0)));
        assert_eq!((first.name.as_str(), first.total, first.seed), ("one", 1000, 7));
        drop(lock);
        assert_eq!(state(&mut board), "stopped", "killed without a word");
        let lock = Lock::take(&path).unwrap().unwrap();
        // Resuming cuts what came after the checkpoint.
        rows(&path, &[(20, 1.0, 1)]);
        assert_eq!((state(&mut board), board.poll()[0].steps), ("resumed", 20));
        drop(lock);
        fs::write(path.join("summary.json"), "{\"finished\": true}").unwrap();
        assert_eq!(state(&mut board), "finished");
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(state(&mut board), "deleted");
        run(folder.path(), "one");
        assert_eq!(state(&mut board), "stopped", "there again");
        fs::write(path.join("error.txt"), "the disk is full\nmore").unwrap();
        assert_eq!(board.poll()[0].why, "the disk is full");
    }

    #[test]
    fn a_cell_that_another_machine_runs_is_training_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = run(folder.path(), "one");
        let mut board = Board::new(Source::new(&Registry::standard(), &[folder.path().into()]).unwrap());
        fs::write(path.join(".lock"), "").unwrap();
        assert_eq!((state(&mut board), board.poll()[0].place.as_str()), ("stopped", ""));
        let claim = r#"{"host":"node3","pid":4711,"place":"another boot","born":1,"job":"Slurm 12_3","stale":180.0}"#;
        fs::create_dir(path.join(".claims")).unwrap();
        fs::write(path.join(".claims/1"), claim).unwrap();
        let row = &board.poll()[0];
        assert_eq!((row.state, row.place.as_str()), ("resumed", "process 4711 on node3 (Slurm 12_3)"));
        // It was heard of too long ago; it comes back; it gives its claim back.
        let long_ago = SystemTime::now() - 2 * claim::STALE;
        let file = fs::File::options().write(true).open(path.join(".claims/1")).unwrap();
        file.set_modified(long_ago).unwrap();
        assert_eq!((state(&mut board), board.poll()[0].place.as_str()), ("stopped", ""));
        file.set_modified(SystemTime::now()).unwrap();
        assert_eq!(state(&mut board), "resumed");
        fs::write(path.join(".claims/1-ended"), "finished").unwrap();
        assert_eq!(state(&mut board), "stopped");
    }

    #[test]
    fn broken_files_are_a_state_and_nothing_worse() {
        let folder = tempfile::tempdir().unwrap();
        let path = run(folder.path(), "one");
        let mut board = Board::new(Source::new(&Registry::standard(), &[folder.path().into()]).unwrap());
        fs::write(path.join("config.toml"), [255, 0, 7]).unwrap();
        let row = &board.poll()[0];
        assert!(row.state == "broken" && row.why.contains("config.toml"), "{row:?}");
        run(folder.path(), "one");
        for rubbish in [&b"\xff\xfe\x00"[..], b"", b"1,2,3,4,5,6", b"a,b\n1,2,3,4,5,x\n"] {
            fs::write(path.join(episodes::FILE), rubbish).unwrap();
            assert_eq!(board.poll()[0].steps, 0);
        }
        fs::write(path.join("summary.json"), "{").unwrap();
        assert_eq!(state(&mut board), "stopped");
        // A folder where a file should be.
        fs::remove_file(path.join(episodes::FILE)).unwrap();
        fs::create_dir(path.join(episodes::FILE)).unwrap();
        assert_eq!(board.poll()[0].steps, 0);
    }
}
