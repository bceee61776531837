//! The right to run a cell, on a file system that several machines share.
//!
//! File locks are not enough there: some network file systems have none, and others give back those of a machine that died only
//! after a while, or never. A claim is a file, `.claims/N` in the run's folder. It is written under another name and then linked to its
//! own, which is atomic and fails where that exists, on NFS, too; so nobody ever sees a claim that does not say whose it is, not even
//! of a process that was killed while it made it. Where a file system has no links, `O_EXCL` has to do. Numbers only grow and claims
//! are never removed: whoever follows a holder makes the file of the next number, so of any number of followers one succeeds, and a
//! holder that was given up for dead finds that file.
//!
//! - A holder writes its claim again every twelfth of the time after which it counts as dead. Ages are differences
//!   between times of the file server; no two machines' clocks are compared.
//! - On the machine of the holder nobody waits: its process is there, or is not.
//! - A holder that could not write for half of that time (it was suspended, the server was away) must make the next number itself before
//!   it writes anything else of its run. If somebody else was faster, it stops.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use crate::train::Stop;

/// A holder that has not been heard of for so long is dead. Clients of NFS may show times that are a minute old, so it is three of those.
pub const STALE: Duration = Duration::from_secs(180);
/// How often a holder is heard of in that time: several beats may be lost before anybody takes it for dead.
const BEATS: u32 = 12;
/// Folder of the claims.
const FOLDER: &str = ".claims";

/// Who holds a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Name of its machine.
    pub host: String,
    /// Number of its process, on that machine or in that container.
    pub pid: u32,
    /// Which start of the machine, and which container: process numbers mean something only there.
    place: String,
    /// When the process began, in the system's ticks: numbers of processes are used again.
    born: Option<u64>,
    /// The scheduler's name of what runs it, where there is one.
    pub job: Option<String>,
    /// Seconds without a beat after which it counts as dead.
    stale: f64,
}

impl Holder {
    fn here(stale: Duration) -> Self {
        let pid = std::process::id();
        Self { host: host(), pid, place: place(), born: born(pid), job: job(), stale: stale.as_secs_f64() }
    }

    /// Whether its process is there; none where that cannot be known from here.
    pub fn seen(&self) -> Option<bool> {
        let known = self.place == place() && !self.place.is_empty() && self.born.is_some();
        known.then(|| born(self.pid) == self.born)
    }
}

impl std::fmt::Display for Holder {
    /// "process 4711 on node3 (Slurm 12_3)".
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)?;
        self.job.as_ref().map_or(Ok(()), |job| write!(f, " ({job})"))
    }
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map_or("this machine".into(), |name| name.trim().into())
}

fn place() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let container = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), container.display()).trim().into()
}

/// When a process began, in ticks since the machine did; none where there is no such process.
fn born(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it, in brackets, may contain anything. A zombie has ended.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if "ZX".contains(state) { None } else { fields.nth(18)?.parse().ok() }
}

fn job() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // Whoever starts cells in another way names them by this.
    if let Some(name) = variable("SSKP_JOB") {
        return Some(name);
    }
    if let Some(array) = variable("SLURM_ARRAY_JOB_ID") {
        return Some(format!("Slurm {array}_{}", variable("SLURM_ARRAY_TASK_ID").unwrap_or_default()));
    }
    if let Some(job) = variable("SLURM_JOB_ID") {
        return Some(format!("Slurm {job}"));
    }
    variable("JOB_COMPLETION_INDEX").map(|index| format!("Kubernetes index {index}"))
}

/// What is known of the right to run a folder, from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// Nobody has it: there never was a claim, or the last holder gave it back or is dead.
    Free,
    /// Its process is there, on this machine.
    Held(Holder),
    /// It was heard of so long ago, which is not long enough to call it dead. None where it has only just made its claim.
    Perhaps(Option<Holder>, Duration),
}

/// The newest claim of a folder, and its number; 0 where there is none.
fn newest(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap_or(0)
}

fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(FOLDER).join(number.to_string())
}

fn ended_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(FOLDER).join(format!("{number}-ended"))
}

/// Who may be running the cell in a folder. Writes nothing but a file of a moment, to ask the server for its time.
pub fn look(folder: &Path) -> Result<Claimed> {
    judge(folder, newest(folder))
}

/// Who said last that it runs a folder, not having given it back since, and when it was heard of. Unlike [`look`] it writes nothing.
pub fn last_word(folder: &Path) -> Option<(Holder, SystemTime)> {
    let number = newest(folder);
    if number == 0 || ended_of(folder, number).exists() {
        return None;
    }
    let path = file_of(folder, number);
    let heard = fs::metadata(&path).and_then(|data| data.modified()).ok()?;
    Some((serde_json::from_slice(&fs::read(&path).ok()?).ok()?, heard))
}

fn judge(folder: &Path, number: u64) -> Result<Claimed> {
    if number == 0 || ended_of(folder, number).exists() {
        return Ok(Claimed::Free);
    }
    let path = file_of(folder, number);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Claimed::Free),
        read => read.map_err(|e| Error::io(&path, e))?,
    };
    let of = fs::metadata(&path).map_err(|e| Error::io(&path, e))?;
    let (now, me) = server_time(folder)?;
    let holder: Option<Holder> = serde_json::from_str(&text).ok();
    // Other users' processes may be hidden from this one.
    match holder.as_ref().and_then(|holder| holder.seen().filter(|_| of.uid() == me)) {
        Some(true) => return Ok(Claimed::Held(holder.expect("just seen"))),
        Some(false) => return Ok(Claimed::Free),
        None => {}
    }
    let beat = of.modified().map_err(|e| Error::io(&path, e))?;
    let age = now.duration_since(beat).unwrap_or_default();
    let stale = holder.as_ref().map_or(STALE, |holder| Duration::from_secs_f64(holder.stale.clamp(0.0, 1e9)));
    Ok(if age > stale { Claimed::Free } else { Claimed::Perhaps(holder, age) })
}

/// A file of a moment, which nobody else makes.
fn own_file(folder: &Path, what: &str) -> PathBuf {
    folder.join(FOLDER).join(format!(".{what}-{}-{:x}", std::process::id(), RandomState::new().hash_one(0)))
}

/// The file server's time, and who it takes us for.
fn server_time(folder: &Path) -> Result<(SystemTime, u32)> {
    let path = own_file(folder, "time");
    let ask = || {
        let mut file = File::create(&path)?;
        file.write_all(b".")?;
        file.sync_all()?;
        let there = file.metadata()?;
        Ok((there.modified()?, there.uid()))
    };
    let time = ask().map_err(|e| Error::io(&path, e));
    let _ = fs::remove_file(&path);
    time
}

/// The right to run a cell, while it lasts.
#[derive(Debug)]
pub struct Claim(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    stale: Duration,
    lost: AtomicBool,
    given_back: AtomicBool,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    file: File,
    text: String,
    /// When the server last had a beat, by the clock that stands still while a machine sleeps and by the one that does not.
    beat: (Instant, SystemTime),
}

/// How an attempt to claim a folder ended.
pub enum Attempt {
    /// The right is ours.
    Mine(Claim),
    /// Somebody has it, or may have it.
    Theirs(Claimed),
}

impl Claim {
    /// Claims a folder if nobody has it. From then on a thread keeps it; if it is lost, `stop` is set.
    pub fn take(folder: &Path, stale: Duration, stop: &Stop) -> Result<Attempt> {
        let claims = folder.join(FOLDER);
        fs::create_dir_all(&claims).map_err(|e| Error::io(&claims, e))?;
        let number = newest(folder);
        match judge(folder, number)? {
            Claimed::Free => {}
            other => return Ok(Attempt::Theirs(other)),
        }
        let Some(held) = make(folder, number + 1, stale)? else {
            return Ok(Attempt::Theirs(Claimed::Perhaps(None, Duration::ZERO)));
        };
        let inner = Arc::new(Inner {
            folder: folder.into(),
            stale,
            lost: AtomicBool::new(false),
            given_back: AtomicBool::new(false),
            held: Mutex::new(held),
        });
        let (kept, stop) = (Arc::downgrade(&inner), Arc::clone(stop));
        let pause = stale / BEATS;
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(pause);
                let Some(inner) = kept.upgrade() else { return };
                if inner.given_back.load(Ordering::Relaxed) {
                    return;
                }
                // A beat that cannot be written is missing, and `check` sees that.
                if inner.beat().is_err() && inner.lost.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        });
        Ok(Attempt::Mine(Self(inner)))
    }

    /// An error if somebody else may be writing the run by now. Asked before anything of it is written.
    pub fn check(&self) -> Result<()> {
        let silent = self.0.held().silent();
        if self.0.lost.load(Ordering::Relaxed) || silent > self.0.stale / 2 {
            return self.0.beat();
        }
        Ok(())
    }

    /// Whether somebody else has it now.
    pub fn lost(&self) -> bool {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Gives it back and leaves a word on how it ended.
    pub fn give_back(self, how: &str) -> Result<()> {
        self.check()?;
        self.0.given_back.store(true, Ordering::Relaxed);
        write_whole(&ended_of(&self.0.folder, self.0.held().number), format!("{how}\n").as_bytes())
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// Tells the others that we are there; an error if we are not any more.
    fn beat(&self) -> Result<()> {
        let mut held = self.held();
        let gone = || {
            self.lost.store(true, Ordering::Relaxed);
            let whose = look(&self.folder).ok().and_then(|claimed| match claimed {
                Claimed::Held(holder) | Claimed::Perhaps(Some(holder), _) => Some(holder.to_string()),
                _ => None,
            });
            let whose = whose.unwrap_or("another process".into());
            let why = "this process was not heard of for too long and has stopped without writing more";
            Err(Error::other(format!("{} was taken over by {whose}: {why}", self.folder.display())))
        };
        if self.lost.load(Ordering::Relaxed) || file_of(&self.folder, held.number + 1).exists() {
            return gone();
        }
        if held.silent() > self.stale / 2 {
            // Others may have called us dead. Whoever makes the next claim has the run.
            match make(&self.folder, held.number + 1, self.stale)? {
                Some(next) => *held = next,
                None => return gone(),
            }
            return Ok(());
        }
        let now = (Instant::now(), SystemTime::now());
        let fail = |e| Error::io(file_of(&self.folder, held.number), e);
        held.file.write_all_at(held.text.as_bytes(), 0).and_then(|()| held.file.sync_all()).map_err(fail)?;
        held.beat = now;
        Ok(())
    }
}

impl Held {
    fn silent(&self) -> Duration {
        self.beat.0.elapsed().max(self.beat.1.elapsed().unwrap_or_default())
    }
}

/// Makes the claim of a number; none if somebody has.
fn make(folder: &Path, number: u64, stale: Duration) -> Result<Option<Held>> {
    let (path, draft) = (file_of(folder, number), own_file(folder, "claim"));
    let beat = (Instant::now(), SystemTime::now());
    let text = serde_json::to_string(&Holder::here(stale)).expect("plain data") + "\n";
    let write = |mut file: File| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map(|()| file);
    let mine = File::create(&draft).and_then(write).map_err(|e| Error::io(&draft, e)).and_then(|file| {
        let made = match fs::hard_link(&draft, &path) {
            Ok(()) => Ok(Some(file)),
            // Its answer may have been lost on the way and the server asked again: two names say that the first time was enough.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                file.metadata().map(|of| (of.nlink() == 2).then_some(file))
            }
            Err(_) => match File::options().write(true).create_new(true).open(&path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(None),
                made => made.and_then(write).map(Some),
            },
        };
        made.map_err(|e| Error::io(&path, e))
    });
    let _ = fs::remove_file(&draft);
    Ok(mine?.map(|file| Held { number, file, text, beat }))
}

/// How often a folder was claimed, and how the last claim ended, where it did.
pub fn history(folder: &Path) -> (u64, Option<String>) {
    let number = newest(folder);
    (number, fs::read_to_string(ended_of(folder, number)).ok().map(|text| text.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, stale: f64) -> Option<Claim> {
        match Claim::take(folder, Duration::from_secs_f64(stale), &Stop::default()).unwrap() {
            Attempt::Mine(claim) => Some(claim),
            Attempt::Theirs(_) => None,
        }
    }

    /// Makes the newest claim look like one of another machine.
    fn elsewhere(folder: &Path) {
        let path = file_of(folder, newest(folder));
        let mut holder: Holder = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (holder.host, holder.place) = ("elsewhere".into(), "another boot".into());
        fs::write(path, serde_json::to_string(&holder).unwrap()).unwrap();
    }

    #[test]
    fn of_many_at_once_one_gets_it_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        for round in 1..=5 {
            let all: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..50).map(|_| scope.spawn(|| take(folder.path(), 60.0))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let mut mine: Vec<Claim> = all.into_iter().flatten().collect();
            assert_eq!((mine.len(), history(folder.path()).0), (1, round));
            assert!(matches!(look(folder.path()).unwrap(), Claimed::Held(holder) if holder.pid == std::process::id()));
            mine.pop().unwrap().give_back("stopped").unwrap();
            assert_eq!(history(folder.path()).1.as_deref(), Some("stopped"));
        }
    }

    #[test]
    fn no_claim_is_ever_seen_that_does_not_say_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looker = scope.spawn(|| {
                let mut next = 1;
                while !over.load(Ordering::Relaxed) {
                    if let Ok(text) = fs::read_to_string(file_of(folder.path(), next)) {
                        assert!(serde_json::from_str::<Holder>(&text).is_ok(), "claim {next}: {text:?}");
                        next += 1;
                    }
                }
                next
            });
            for number in 1..=200 {
                assert!(make(folder.path(), number, STALE).unwrap().is_some());
                assert!(make(folder.path(), number, STALE).unwrap().is_none());
            }
            over.store(true, Ordering::Relaxed);
            assert!(looker.join().unwrap() > 1);
        });
        let files = fs::read_dir(folder.path().join(FOLDER)).unwrap().count();
        assert_eq!(files, 200, "nothing else is left");
    }

    #[test]
    fn a_dead_process_of_this_machine_is_followed_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let claim = take(folder.path(), 60.0).unwrap();
        let path = file_of(folder.path(), 1);
        let mut holder: Holder = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        holder.born = Some(1); // the number of a process that began at another time
        fs::write(path, serde_json::to_string(&holder).unwrap()).unwrap();
        let next = take(folder.path(), 60.0).unwrap();
        assert!(claim.0.beat().is_err() && claim.lost(), "the first one notices");
        let said = claim.check().unwrap_err().to_string();
        assert!(said.contains("taken over by process") && said.contains("without writing more"), "{said}");
        next.check().unwrap();
    }

    #[test]
    fn one_of_another_machine_is_followed_when_it_was_not_heard_of_for_the_named_time() {
        let folder = tempfile::tempdir().unwrap();
        let claim = take(folder.path(), 3.0).unwrap();
        claim.0.given_back.store(true, Ordering::Relaxed); // its thread beats no more
        std::thread::sleep(Duration::from_millis(100));
        elsewhere(folder.path());
        assert!(take(folder.path(), 3.0).is_none());
        assert!(
            matches!(look(folder.path()).unwrap(), Claimed::Perhaps(Some(holder), _) if holder.host == "elsewhere")
        );
        std::thread::sleep(Duration::from_millis(3200));
        let next = take(folder.path(), 3.0).expect("nothing was heard of it");
        assert!(claim.check().is_err() && claim.lost(), "it wakes up, and finds another one");
        next.check().unwrap();
    }

    #[test]
    fn one_that_slept_and_was_not_missed_claims_again_before_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let claim = take(folder.path(), 0.2).unwrap();
        claim.0.given_back.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
        claim.check().unwrap();
        assert_eq!(claim.0.held().number, 2);
        assert!(take(folder.path(), 60.0).is_none(), "it is there again");
    }

    #[test]
    fn a_claim_that_is_kept_stays_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let claim = take(folder.path(), 4.0).unwrap();
        std::thread::sleep(Duration::from_millis(4500));
        claim.check().unwrap();
        assert_eq!(claim.0.held().number, 1, "no renewal was needed");
    }
}
