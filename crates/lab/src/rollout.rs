//! Episodes as they are played: where they start, and what is kept of them for a replay page.
//!
//! [`Stage`] wraps a robot so that `sskp_blocks::run::Run`, which owns the robot and counts every step, needs no second way of
//! stepping for a recorded episode or for one from a given state.

use std::sync::{Arc, Mutex};

use sskp_blocks::env::{Anomaly, Constraint, End, Env, Gauge, Geom, Pose, Scene, Snapshot, Spec, Step};
use sskp_blocks::registry::EnvEntry;
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};

use crate::replay_page::ReplayPage;

/// One episode, as far as it has been played, with a picture of every step.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Registry name of the robot.
    pub env: String,
    /// Seconds of simulated time in one step.
    pub dt: f64,
    /// The robot's shapes, in the order of each frame's poses.
    pub geoms: Vec<Geom>,
    /// The start state, then one frame per step.
    pub frames: Vec<Frame>,
    /// How the episode ended, if it did.
    pub end: Option<End>,
    /// Set when the simulation itself broke.
    pub anomaly: Option<Anomaly>,
    /// What the constraint is about, in the order of each frame's readings.
    pub gauges: Vec<Gauge>,
    /// What would have happened: the same robot from one of the frames on, with other choices.
    pub ghosts: Vec<Ghost>,
}

/// The robot from a frame on, with other choices.
#[derive(Clone, Debug)]
pub struct Ghost {
    /// The frame it begins with.
    pub from: usize,
    /// Whether it ended in a violation.
    pub fell: bool,
    /// Where its shapes are, in every frame after that one.
    pub poses: Vec<Vec<Pose>>,
}

/// One moment of a recording.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where the shapes are.
    pub poses: Vec<Pose>,
    /// Reward of the step that led here; 0 in the start state.
    pub reward: f64,
    /// Cost of the step that led here.
    pub cost: f64,
    /// Risk predicted here for the skill chosen here. Stays in force until the next frame that has one.
    pub risk: Option<f32>,
    /// Whether something was chosen here for the steps that follow: a skill.
    pub choice: bool,
    /// Readings of the gauges.
    pub readings: Vec<f32>,
}

impl Recording {
    /// Begins with the robot's current state as frame 0.
    pub fn begin(env: &mut dyn Env) -> Self {
        let (name, dt) = (env.spec().name.clone(), env.spec().dt);
        let geoms = env.scene().map_or(Vec::new(), |scene| scene.geoms());
        let gauges = env.constraint().map_or(Vec::new(), |constraint| constraint.gauges().to_vec());
        let frames = vec![Frame::of(env, 0.0, 0.0)];
        Self { env: name, dt, geoms, frames, end: None, anomaly: None, gauges, ghosts: Vec::new() }
    }

    /// Adds the step the robot has just taken.
    pub fn push(&mut self, env: &mut dyn Env, step: &Step) {
        self.frames.push(Frame::of(env, step.reward, step.cost()));
        (self.end, self.anomaly) = (step.end, step.anomaly);
    }

    /// Notes the risk predicted for the skill chosen in the current state: it belongs to the newest frame.
    pub fn note_risk(&mut self, risk: f32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.risk = Some(risk);
        }
    }

    /// Notes that a skill is chosen in the current state.
    pub fn note_choice(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.choice = true;
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

    /// The page that shows it, headed by the robot's name; `subtitle` says what was played.
    pub fn into_page(self, robot: &EnvEntry, subtitle: impl Into<String>) -> ReplayPage {
        let (title, contract) = (robot.name.clone(), robot.contract.clone());
        ReplayPage { title, subtitle: subtitle.into(), contract, episode: self }
    }
}

impl Frame {
    fn of(env: &mut dyn Env, reward: f64, cost: f64) -> Self {
        let read = |gauge: &Gauge| (gauge.read)(env.obs()) as f32;
        let readings = env.constraint().map_or(Vec::new(), |constraint| constraint.gauges().iter().map(read).collect());
        Self { poses: poses(env), reward, cost, risk: None, choice: false, readings }
    }
}

pub(crate) fn poses(env: &mut dyn Env) -> Vec<Pose> {
    let mut poses = Vec::new();
    if let Some(scene) = env.scene() {
        scene.poses(&mut poses);
    }
    poses
}

/// What a recorded [`Stage`] has seen. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Recordings(Arc<Mutex<Vec<Recording>>>);

impl Recordings {
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
    recordings: Option<Recordings>,
}

impl Stage {
    /// The robot as it is.
    pub fn new(robot: Box<dyn Env>) -> Self {
        Self { robot, start: None, recordings: None }
    }

    /// Every episode starts from these positions and velocities (`qpos` then `qvel`) instead of a random start state.
    ///
    /// # Errors
    /// When the robot refuses the state.
    pub fn starting_from(mut self, state: Vec<f64>) -> Result<Self> {
        start_from(&mut *self.robot, &state)?;
        self.start = Some(state);
        Ok(self)
    }

    /// Every episode goes into the returned list.
    pub fn recorded(mut self) -> (Self, Recordings) {
        let recordings = Recordings::default();
        self.recordings = Some(recordings.clone());
        (self, recordings)
    }
}

impl Env for Stage {
    fn spec(&self) -> &Spec {
        self.robot.spec()
    }
    fn reset(&mut self, rng: &mut Rng) -> Result<()> {
        match &self.start {
            None => self.robot.reset(rng)?,
            Some(state) => start_from(&mut *self.robot, state)?,
        }
        if let Some(recordings) = &self.recordings {
            let recording = Recording::begin(&mut *self.robot);
            recordings.with(|episodes| episodes.push(recording));
        }
        Ok(())
    }
    fn step(&mut self, action: &[f32]) -> Result<Step> {
        let step = self.robot.step(action)?;
        if let Some(recordings) = &self.recordings {
            recordings.with(|episodes| {
                if let Some(episode) = episodes.last_mut() {
                    episode.push(&mut *self.robot, &step);
                }
            });
        }
        Ok(step)
    }
    fn obs(&self) -> &[f64] {
        self.robot.obs()
    }
    fn snapshot(&mut self) -> Option<&mut dyn Snapshot> {
        self.robot.snapshot()
    }
    fn constraint(&self) -> Option<&dyn Constraint> {
        self.robot.constraint()
    }
    fn scene(&mut self) -> Option<&mut dyn Scene> {
        self.robot.scene()
    }
}

/// What can be kept and gone back to, or a sentence for those who need it.
pub fn snapshot(env: &mut dyn Env) -> Result<&mut dyn Snapshot> {
    let name = env.spec().name.clone();
    env.snapshot().ok_or_else(|| Error::other(format!("{name} keeps no snapshots: it cannot be set to a given state")))
}

fn start_from(env: &mut dyn Env, state: &[f64]) -> Result<()> {
    snapshot(env)?.start_from(state)
}

/// The word for an end in files: empty, `violation`, `truncated`, or `violation:` and what broke in the simulation.
pub fn end_word(end: Option<End>, anomaly: Option<Anomaly>) -> String {
    match (end, anomaly) {
        (None, _) => String::new(),
        (Some(end), None) => end.name().into(),
        (Some(end), Some(anomaly)) => format!("{}:{}", end.name(), anomaly.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::record::Memory;
    use sskp_blocks::run::Run;
    use sskp_blocks::toy::Toy;

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
    fn recordings_have_every_episode_with_its_start_state_and_every_step() {
        let (stage, recordings) = Stage::new(Box::<Toy>::default()).recorded();
        let episodes = play(stage, 100);
        let taken = recordings.take();
        assert_eq!(taken.len() as u64, episodes);
        assert_eq!(taken.iter().map(Recording::steps).sum::<usize>(), 100);
        let (last, whole) = taken.split_last().unwrap();
        for r in whole {
            assert_eq!(r.end, Some(End::Violation), "full throttle falls");
            assert_eq!((r.frames[0].cost, r.frames.last().unwrap().cost), (0.0, 1.0));
            assert_eq!(r.frames[0].poses.len(), r.geoms.len());
        }
        assert_eq!(last.end, None, "the budget cut it");
        assert!(recordings.take().is_empty());
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
        let (stage, recordings) = Stage::new(Box::<Toy>::default()).starting_from(state).unwrap().recorded();
        play(stage, 100);
        let starts: Vec<[f32; 3]> = recordings.take().iter().map(|r| r.frames[0].poses[1].pos).collect();
        assert!(starts.len() > 1);
        assert!(starts.iter().all(|s| *s == [1.0, 0.5, 0.12]), "{starts:?}");
        assert!(Stage::new(Box::<Toy>::default()).starting_from(vec![1.0]).is_err());
    }

    #[test]
    fn a_risk_belongs_to_the_state_it_was_predicted_in() {
        let (mut stage, recordings) = Stage::new(Box::<Toy>::default()).recorded();
        recordings.note_risk(0.9); // before any episode: nowhere to go
        stage.reset(&mut Rng::stream(0, "env")).unwrap();
        recordings.note_risk(0.25);
        stage.step(&[0.0, 0.0]).unwrap();
        let risks: Vec<Option<f32>> = recordings.take()[0].frames.iter().map(|f| f.risk).collect();
        assert_eq!(risks, [Some(0.25), None]);
    }
}
