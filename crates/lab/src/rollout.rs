//! Episodes as they are played: where they start, what is kept of them for a replay page, and files written whole.
//!
//! [`Stage`] wraps a robot so that `blocks::run::Run`, which owns the robot and counts every step, needs no second way of
//! stepping for a recorded episode or for one from a given state.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use blocks::env::{Anomaly, End, Env, Geom, Pose, Spec, Step};
use blocks::rng::Rng;
use blocks::{Error, Result};

use crate::replay::{Frame, Replay};

/// One episode, as far as it has been played, with a picture of every step.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Registry name of the robot.
    pub env: String,
    /// Seconds of simulated time in one step.
    pub dt: f64,
    /// The robot's shapes.
    pub geoms: Vec<Geom>,
    /// The start state, then one frame per step.
    pub frames: Vec<Frame>,
    /// How the episode ended, if it did.
    pub end: Option<End>,
    /// Set when the simulation itself broke.
    pub anomaly: Option<Anomaly>,
}

impl Recording {
    /// Begins with the robot's current state as frame 0.
    pub fn begin(env: &mut dyn Env) -> Self {
        let (name, dt) = (env.spec().name.into(), env.spec().dt);
        let geoms = env.scene();
        let frames = vec![Frame { poses: poses(env), reward: 0.0, cost: 0.0, risk: None }];
        Self { env: name, dt, geoms, frames, end: None, anomaly: None }
    }

    /// Adds the step the robot has just taken.
    pub fn push(&mut self, env: &mut dyn Env, step: &Step) {
        self.frames.push(Frame { poses: poses(env), reward: step.reward, cost: step.cost, risk: None });
        (self.end, self.anomaly) = (step.end, step.anomaly);
    }

    /// Notes the risk predicted for the skill chosen in the current state: it belongs to the newest frame.
    pub fn note_risk(&mut self, risk: f32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.risk = Some(risk);
        }
    }

    /// Steps played.
    pub fn steps(&self) -> usize {
        self.frames.len() - 1
    }

    /// Sum of the rewards.
    pub fn total_reward(&self) -> f64 {
        self.frames.iter().map(|f| f.reward).sum()
    }

    /// The page's data. `title` heads the page; `subtitle` says what was played.
    pub fn into_replay(self, title: impl Into<String>, subtitle: impl Into<String>) -> Replay {
        Replay {
            title: title.into(),
            subtitle: subtitle.into(),
            env: self.env,
            dt: self.dt,
            geoms: self.geoms,
            frames: self.frames,
            end: self.end,
            anomaly: self.anomaly,
        }
    }
}

fn poses(env: &mut dyn Env) -> Vec<Pose> {
    let mut poses = Vec::new();
    env.poses(&mut poses);
    poses
}

/// What a recorded [`Stage`] has seen. Clones share one tape.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Vec<Recording>>>);

impl Tape {
    /// Notes a predicted risk on the episode being played; see [`Recording::note_risk`].
    pub fn note_risk(&self, risk: f32) {
        self.with(|episodes| {
            if let Some(episode) = episodes.last_mut() {
                episode.note_risk(risk);
            }
        });
    }

    /// Takes the episodes recorded so far, oldest first. The last may still be running; its later steps are dropped.
    pub fn take(&self) -> Vec<Recording> {
        self.with(std::mem::take)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Vec<Recording>) -> T) -> T {
        f(&mut self.0.lock().expect("recording does not panic"))
    }
}

/// A robot whose episodes may start from a given state and may be recorded. Otherwise it is the robot it wraps.
pub struct Stage {
    robot: Box<dyn Env>,
    start: Option<Vec<f64>>,
    tape: Option<Tape>,
}

impl Stage {
    /// The robot as it is.
    pub fn new(robot: Box<dyn Env>) -> Self {
        Self { robot, start: None, tape: None }
    }

    /// Every episode starts from these positions and velocities (`qpos` then `qvel`) instead of a random start state.
    ///
    /// # Errors
    /// When the robot refuses the state.
    pub fn starting_from(mut self, state: Vec<f64>) -> Result<Self> {
        self.robot.start_from(&state)?;
        self.start = Some(state);
        Ok(self)
    }

    /// Every episode goes onto the returned tape.
    pub fn recorded(mut self) -> (Self, Tape) {
        let tape = Tape::default();
        self.tape = Some(tape.clone());
        (self, tape)
    }

    fn record_start(&mut self) {
        if let Some(tape) = &self.tape {
            let recording = Recording::begin(&mut *self.robot);
            tape.with(|episodes| episodes.push(recording));
        }
    }
}

impl Env for Stage {
    fn spec(&self) -> &Spec {
        self.robot.spec()
    }
    fn reset(&mut self, rng: &mut Rng) {
        match &self.start {
            None => self.robot.reset(rng),
            Some(state) => self.robot.start_from(state).expect("the robot accepted this state before"),
        }
        self.record_start();
    }
    fn step(&mut self, action: &[f32]) -> Step {
        let step = self.robot.step(action);
        if let Some(tape) = &self.tape {
            tape.with(|episodes| {
                if let Some(episode) = episodes.last_mut() {
                    episode.push(&mut *self.robot, &step);
                }
            });
        }
        step
    }
    fn obs(&self) -> &[f64] {
        self.robot.obs()
    }
    fn violates(&self, obs: &[f64]) -> bool {
        self.robot.violates(obs)
    }
    fn save(&self) -> Vec<f64> {
        self.robot.save()
    }
    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.robot.restore(state)?;
        self.record_start();
        Ok(())
    }
    fn start_from(&mut self, state: &[f64]) -> Result<()> {
        self.robot.start_from(state)?;
        self.record_start();
        Ok(())
    }
    fn state_names(&self) -> Vec<String> {
        self.robot.state_names()
    }
    fn scene(&self) -> Vec<Geom> {
        self.robot.scene()
    }
    fn poses(&mut self, out: &mut Vec<Pose>) {
        self.robot.poses(out);
    }
}

/// The word for an end in files: empty, `violation`, `truncated`, or `violation:` and what broke in the simulation.
pub fn end_word(end: Option<End>, anomaly: Option<Anomaly>) -> String {
    match (end, anomaly) {
        (None, _) => String::new(),
        (Some(end), None) => end.name().into(),
        (Some(end), Some(anomaly)) => format!("{}:{}", end.name(), anomaly.name()),
    }
}

/// A file that appears whole or not at all: written under a hidden name in its folder and renamed by
/// [`PendingFile::commit`]. Dropped without that, it leaves nothing behind.
pub struct PendingFile {
    target: PathBuf,
    /// Where the bytes go meanwhile. None for what cannot be replaced by renaming: a device or a pipe.
    partial: Option<PathBuf>,
    file: BufWriter<File>,
}

impl PendingFile {
    /// Opens it. An unwritable folder shows here, before any work is done.
    pub fn create(path: &Path) -> Result<Self> {
        // A link stays a link: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let fail = |why: String| Error::other(format!("{} cannot be written: {why}", path.display()));
        match fs::metadata(&target) {
            Ok(there) if there.is_dir() => return Err(fail("it is a folder".into())),
            Ok(there) if !there.is_file() => {
                let file = File::options().write(true).open(&target).map_err(|e| fail(e.to_string()))?;
                return Ok(Self { target, partial: None, file: BufWriter::new(file) });
            }
            _ => {}
        }
        let name = target.file_name().ok_or_else(|| fail("the path names no file".into()))?;
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(fail(format!("there is no folder {}", folder.display())));
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        let partial = folder.join(hidden);
        let file = File::create(&partial)
            .map_err(|e| fail(format!("no file can be created in the folder {} ({e})", folder.display())))?;
        Ok(Self { target, partial: Some(partial), file: BufWriter::new(file) })
    }

    /// Makes it appear under its name.
    pub fn commit(mut self) -> Result<()> {
        let fail = |e| Error::io(&self.target, e);
        self.file.flush().map_err(fail)?;
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.target).map_err(fail)?;
        }
        self.partial = None;
        Ok(())
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::record::Memory;
    use blocks::run::Run;
    use blocks::toy::Toy;

    fn play(stage: Stage, budget: u64) -> u64 {
        let mut memory = Memory::default();
        let mut run = Run::new(Box::new(stage), 3, budget, &mut memory);
        while run.next_episode().unwrap() {
            while !run.over() {
                run.step(&[1.0, 0.0]).unwrap();
            }
        }
        run.clock().episodes
    }

    #[test]
    fn a_tape_has_every_episode_with_its_start_state_and_every_step() {
        let (stage, tape) = Stage::new(Box::<Toy>::default()).recorded();
        let episodes = play(stage, 100);
        let recordings = tape.take();
        assert_eq!(recordings.len() as u64, episodes);
        assert_eq!(recordings.iter().map(Recording::steps).sum::<usize>(), 100);
        let (last, whole) = recordings.split_last().unwrap();
        for r in whole {
            assert_eq!(r.end, Some(End::Violation), "full throttle falls");
            assert_eq!((r.frames[0].cost, r.frames.last().unwrap().cost), (0.0, 1.0));
            assert_eq!(r.frames[0].poses.len(), r.geoms.len());
        }
        assert_eq!(last.end, None, "the budget cut it");
        assert!(tape.take().is_empty());
    }

    #[test]
    fn a_recorded_robot_plays_as_an_unrecorded_one() {
        let rewards = |recorded: bool| {
            let mut memory = Memory::default();
            let stage = Stage::new(Box::<Toy>::default());
            let stage = if recorded { stage.recorded().0 } else { stage };
            let mut run = Run::new(Box::new(stage), 3, 60, &mut memory);
            run.next_episode().unwrap();
            let mut rewards = Vec::new();
            while !run.over() {
                rewards.push(run.step(&[0.4, 0.1]).unwrap().reward.to_bits());
            }
            rewards
        };
        assert_eq!(rewards(true), rewards(false));
    }

    #[test]
    fn every_episode_starts_from_the_given_state() {
        let state = vec![1.0, 0.5, 0.0, 0.0];
        let (stage, tape) = Stage::new(Box::<Toy>::default()).starting_from(state).unwrap().recorded();
        play(stage, 100);
        let starts: Vec<[f32; 3]> = tape.take().iter().map(|r| r.frames[0].poses[1].pos).collect();
        assert!(starts.len() > 1);
        assert!(starts.iter().all(|s| *s == [1.0, 0.5, 0.12]), "{starts:?}");
        assert!(Stage::new(Box::<Toy>::default()).starting_from(vec![1.0]).is_err());
    }

    #[test]
    fn a_risk_belongs_to_the_state_it_was_predicted_in() {
        let (mut stage, tape) = Stage::new(Box::<Toy>::default()).recorded();
        tape.note_risk(0.9); // before any episode: nowhere to go
        stage.reset(&mut Rng::stream(0, "env"));
        tape.note_risk(0.25);
        stage.step(&[0.0, 0.0]);
        let risks: Vec<Option<f32>> = tape.take()[0].frames.iter().map(|f| f.risk).collect();
        assert_eq!(risks, [Some(0.25), None]);
    }

    #[test]
    fn a_pending_file_appears_on_commit_and_leaves_nothing_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        let path = folder.path().join("a.txt");
        let mut file = PendingFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert!(names().is_empty());
        let mut file = PendingFile::create(&path).unwrap();
        file.write_all(b"whole").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(), ["a.txt"]);
    }

    #[test]
    fn a_folder_that_is_missing_or_in_the_way_is_named_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| PendingFile::create(path).err().unwrap().to_string();
        let missing = folder.path().join("no").join("a.txt");
        assert!(error(&missing).contains("there is no folder"), "{}", error(&missing));
        assert!(error(folder.path()).contains("it is a folder"));
    }

    #[test]
    fn a_device_is_written_to_and_stays_a_device() {
        let mut file = PendingFile::create(Path::new("/dev/null")).unwrap();
        file.write_all(b"gone").unwrap();
        file.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
