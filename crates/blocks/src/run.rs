//! A run: budget, clock and record. Every environment step of every method passes through [`Run::step`], so that no
//! method can count steps, episodes, violations or reward differently from another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Loader, Saver};
use crate::env::{End, Env, Spec, Step};
use crate::keep::{Came, Tape};
use crate::record::{EpisodeRow, Metrics, Recorder};
use crate::rng::{Rng, RngState};
use crate::{Error, Result};

/// What has been spent and earned so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Environment steps.
    pub steps: u64,
    /// Episodes that have ended, the one cut by the budget included.
    pub episodes: u64,
    /// Episodes that ended in a violation.
    pub violations: u64,
    /// Sum of all rewards, the running episode's included: the numerator of PtR (section 5.2).
    pub reward: f64,
}

impl Clock {
    /// Per-timestep reward, PtR.
    pub fn ptr(&self) -> f64 {
        self.reward / self.steps.max(1) as f64
    }
    /// PtR/#V × 1000, the measure of Table 1. Undefined without violations.
    pub fn ptr_per_violation_x1000(&self) -> Option<f64> {
        (self.violations > 0).then(|| 1000.0 * self.ptr() / self.violations as f64)
    }
}

/// What playing a skill gave: s_t … s_t', the reward between, and whether it ended in a violation.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// States, `steps + 1` of them, one after the other.
    pub states: Vec<f32>,
    /// Actions played, `steps` of them.
    pub actions: Vec<f32>,
    /// Rewards, `steps` of them.
    pub rewards: Vec<f32>,
    /// Steps played, t' − t.
    pub steps: usize,
    /// r̃_t, undiscounted.
    pub reward: f64,
    /// How the episode ended with it, if it did.
    pub end: Option<End>,
}

impl Segment {
    /// c > 0.
    pub fn violated(&self) -> bool {
        self.end == Some(End::Violation)
    }
}

/// Time spent by phase.
pub type Times = BTreeMap<&'static str, Duration>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct EpisodeSoFar {
    length: u64,
    total_reward: f64,
    over: bool,
}

#[derive(Serialize, Deserialize)]
struct RunState {
    clock: Clock,
    episode: EpisodeSoFar,
    env_rng: RngState,
}

/// One training run of one method on one robot.
///
/// ```
/// use sskp_blocks::record::{Memory, Metrics};
/// use sskp_blocks::run::Run;
/// use sskp_blocks::toy::Toy;
///
/// let mut memory = Memory::default();
/// let mut run = Run::new(Box::<Toy>::default(), 1, 500, &mut memory);
/// while run.next_episode()? {
///     while !run.over() {
///         let step = run.step(&[0.2, -run.state()[0]])?; // counted here
///         if step.violated() {
///             run.record(&Metrics(vec![("off the bridge at", f64::from(run.state()[0]))]))?;
///         }
///         run.checkpoint(|_to| ())?; // when due: a method saves itself
///     }
/// }
/// assert_eq!(run.clock().steps, 500);
/// let episodes = run.clock().episodes;
/// assert_eq!(memory.episodes.len() as u64, episodes);
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
/// A method keeps all its state in itself, so the same loop continues a run restored in the middle of an episode.
pub struct Run<'a> {
    env: Box<dyn Env>,
    recorder: &'a mut dyn Recorder,
    seed: u64,
    budget: u64,
    env_rng: Rng,
    clock: Clock,
    episode: EpisodeSoFar,
    resumed_inside_episode: bool,
    stopped: bool,
    state: Vec<f32>,
    times: Times,
    /// What is kept of the way here, where the recorder wants moments and the robot can be set back to them.
    tape: Option<Tape>,
    /// Risk predicted for the skill that is to be played next.
    predicted: f32,
}

impl<'a> Run<'a> {
    /// A run of `budget` environment steps.
    pub fn new(mut env: Box<dyn Env>, seed: u64, budget: u64, recorder: &'a mut dyn Recorder) -> Self {
        let keeps = recorder.keeps_moments() && env.snapshot().is_some();
        let tape = keeps.then(|| Tape::new(env.spec().dt));
        let state = vec![0.0; env.spec().obs_dim];
        let episode = EpisodeSoFar { over: true, ..EpisodeSoFar::default() };
        Self {
            env,
            recorder,
            seed,
            budget,
            env_rng: Rng::stream(seed, "env"),
            clock: Clock::default(),
            episode,
            resumed_inside_episode: false,
            stopped: false,
            state,
            times: Times::new(),
            tape,
            predicted: f32::NAN,
        }
    }

    /// The robot's fixed numbers.
    pub fn spec(&self) -> &Spec {
        self.env.spec()
    }
    /// The robot, for questions that take no step ([`Env::constraint`]).
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }
    /// The robot, to be looked at ([`Env::scene`]). Steps taken through it would not be counted.
    pub fn env_mut(&mut self) -> &mut dyn Env {
        &mut *self.env
    }
    /// What has been spent and earned.
    pub fn clock(&self) -> Clock {
        self.clock
    }
    /// Steps the run may take in all.
    pub fn budget(&self) -> u64 {
        self.budget
    }
    /// The run's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// The random stream called `name`, from its beginning.
    pub fn stream(&self, name: &str) -> Rng {
        Rng::stream(self.seed, name)
    }
    /// s_t, as the learners see it.
    pub fn state(&self) -> &[f32] {
        &self.state
    }
    /// Steps taken in the current episode.
    pub fn episode_length(&self) -> u64 {
        self.episode.length
    }
    /// Whether the current episode has ended, the budget is spent, or the run was asked to stop.
    pub fn over(&self) -> bool {
        self.episode.over || self.stopped
    }
    /// Whether no episode is being played: a checkpoint taken here is resumed exactly by any environment.
    pub fn between_episodes(&self) -> bool {
        self.episode.over
    }
    /// Whether somebody asked it to stop.
    pub fn stop_requested(&self) -> bool {
        self.recorder.stop_requested()
    }
    /// Whether the run was asked to stop and has written its checkpoint.
    pub fn stopped(&self) -> bool {
        self.stopped
    }
    /// Whether all steps have been taken.
    pub fn finished(&self) -> bool {
        self.clock.steps >= self.budget
    }
    /// Time spent by phase, physics among them.
    pub fn times(&self) -> &Times {
        &self.times
    }
    /// Adds to a phase's time.
    pub fn add_time(&mut self, phase: &'static str, since: Instant) {
        *self.times.entry(phase).or_default() += since.elapsed();
    }

    /// Starts the next episode (or goes on with the one a checkpoint was taken in). False when the run is done.
    pub fn next_episode(&mut self) -> Result<bool> {
        if self.stopped || (self.finished() && self.episode.over) {
            return Ok(false);
        }
        if std::mem::take(&mut self.resumed_inside_episode) {
            return Ok(true);
        }
        self.env.reset(&mut self.env_rng)?;
        self.episode = EpisodeSoFar::default();
        if let (Some(tape), Some(snapshot)) = (&mut self.tape, self.env.snapshot()) {
            tape.begin(snapshot);
        }
        self.read_state()?;
        Ok(true)
    }

    /// Goes on after having been stopped, as a run restored from a checkpoint taken there would.
    pub fn go_on(&mut self) {
        self.resumed_inside_episode = self.stopped && !self.episode.over;
        self.stopped = false;
    }

    /// Plays one action and counts it. The new state is [`Run::state`].
    pub fn step(&mut self, action: &[f32]) -> Result<Step> {
        assert!(!self.episode.over, "step after the end of an episode");
        if let Some(i) = action.iter().position(|a| !a.is_finite()) {
            return Err(Error::NotFinite { what: format!("action {i}"), step: self.clock.steps });
        }
        let start = Instant::now();
        let step = self.env.step(action)?;
        self.add_time("physics", start);
        if !step.reward.is_finite() {
            return Err(Error::NotFinite { what: "the reward".into(), step: self.clock.steps });
        }
        self.clock.steps += 1;
        self.clock.reward += step.reward;
        self.episode.length += 1;
        self.episode.total_reward += step.reward;
        let violation = step.violated();
        // A simulation that broke is a violation, and its last observation is never looked at.
        match self.read_state() {
            Err(error) if !violation => return Err(error),
            _ => {}
        }
        let over = step.end.is_some() || self.finished();
        self.keep(action, &step, over)?;
        if over {
            self.episode.over = true;
            self.clock.episodes += 1;
            self.clock.violations += u64::from(violation);
            self.recorder.episode(&EpisodeRow {
                episode: self.clock.episodes,
                steps: self.clock.steps,
                length: self.episode.length,
                total_reward: self.episode.total_reward,
                violation,
                cumulative_violations: self.clock.violations,
                anomaly: step.anomaly,
            })?;
        }
        self.recorder.step(self.clock);
        Ok(step)
    }

    /// Writes the tape along; a moment at its end goes to the recorder.
    fn keep(&mut self, action: &[f32], step: &Step, over: bool) -> Result<()> {
        let Some(tape) = &mut self.tape else { return Ok(()) };
        tape.push(action);
        let came = Came {
            obs: self.env.obs(),
            episode: self.clock.episodes + 1,
            steps: self.clock.steps,
            length: self.episode.length,
            margin: self.env.constraint().map_or(f64::INFINITY, |constraint| constraint.margin(self.env.obs())),
        };
        tape.came(&came);
        if !over && !tape.due_for_a_state() {
            return Ok(());
        }
        let start = Instant::now();
        let moment = if over { tape.end(&came, step.violated(), step.anomaly) } else { None };
        if tape.due_for_a_state()
            && let Some(snapshot) = self.env.snapshot()
        {
            tape.turn(snapshot);
        }
        if let Some(moment) = moment {
            self.recorder.moment(&moment)?;
        }
        self.add_time("keeping", start);
        Ok(())
    }

    /// Says what risk is predicted for the skill that [`Run::execute`] plays next: kept with the moments it leads to, and nothing else.
    pub fn predict(&mut self, risk: f32) {
        self.predicted = risk;
    }

    /// Plays a skill of up to `steps` actions, until they are all played or the episode is over (Algorithm 2, lines 6–7).
    /// `act` writes the k-th action, given the state.
    pub fn execute(
        &mut self,
        steps: usize,
        segment: &mut Segment,
        mut act: impl FnMut(usize, &[f32], &mut [f32]),
    ) -> Result<()> {
        let dim = self.spec().action_dim;
        let predicted = std::mem::replace(&mut self.predicted, f32::NAN);
        if let Some(tape) = &mut self.tape {
            tape.choose(predicted);
        }
        segment.steps = 0;
        segment.reward = 0.0;
        segment.end = None;
        segment.actions.clear();
        segment.rewards.clear();
        segment.states.clear();
        segment.states.extend_from_slice(&self.state);
        while segment.steps < steps && !self.over() {
            let at = segment.steps * dim;
            segment.actions.resize(at + dim, 0.0);
            act(segment.steps, &self.state, &mut segment.actions[at..]);
            let step = self.step(&segment.actions[at..])?;
            segment.steps += 1;
            segment.reward += step.reward;
            segment.rewards.push(step.reward as f32);
            segment.end = step.end;
            segment.states.extend_from_slice(&self.state);
        }
        Ok(())
    }

    fn read_state(&mut self) -> Result<()> {
        let obs = self.env.obs();
        if obs.len() != self.state.len() {
            let (spec, got) = (self.env.spec(), obs.len());
            return Err(Error::other(format!("{} has {} observations, but gave {got}", spec.name, spec.obs_dim)));
        }
        let mut finite = true;
        for (s, o) in self.state.iter_mut().zip(obs) {
            *s = *o as f32;
            finite &= s.is_finite();
        }
        match finite {
            true => Ok(()),
            false => {
                let which = self.state.iter().position(|s| !s.is_finite()).expect("one is not");
                Err(Error::NotFinite { what: format!("observation {which}"), step: self.clock.steps })
            }
        }
    }

    /// Whether a run can be resumed exactly from here: at any step where the environment has snapshots, else between episodes.
    fn resumable_here(&mut self) -> bool {
        self.episode.over || self.env.snapshot().is_some()
    }

    /// Records quantities of the method at the current step.
    pub fn record(&mut self, metrics: &Metrics) -> Result<()> {
        self.recorder.times(self.clock, &self.times)?;
        self.recorder.metrics(self.clock, metrics)
    }

    /// Writes a checkpoint if one is due or a stop was asked for; in the latter case the run is over. Inside an episode of an
    /// environment without [`Env::snapshot`], both wait for its end.
    pub fn checkpoint<'s>(&mut self, save: impl FnOnce(&mut Saver<'s>)) -> Result<()> {
        if !self.resumable_here() {
            return Ok(());
        }
        self.stopped = self.recorder.stop_requested();
        if self.stopped || self.recorder.checkpoint_due(self.clock) {
            self.write_checkpoint(save, self.stopped)?;
        }
        Ok(())
    }

    /// Writes a checkpoint at once: the first after pre-training, and the last of a run.
    pub fn checkpoint_now<'s>(&mut self, save: impl FnOnce(&mut Saver<'s>)) -> Result<()> {
        self.write_checkpoint(save, true)
    }

    fn write_checkpoint<'s>(&mut self, save: impl FnOnce(&mut Saver<'s>), whole: bool) -> Result<()> {
        let mut saver = Saver::default();
        save(&mut saver);
        saver.json("run", &RunState { clock: self.clock, episode: self.episode.clone(), env_rng: self.env_rng.save() });
        if let Some(snapshot) = self.env.snapshot() {
            saver.f64s("simulator/state", snapshot.save());
        }
        if let Some(tape) = &self.tape {
            saver.bytes("moments/tape", tape.save());
        }
        self.recorder.checkpoint(self.clock, &mut saver, whole)
    }

    /// Goes back to a checkpoint. The method loads its own part.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        let state: RunState = from.json("run")?;
        self.clock = state.clock;
        self.episode = state.episode;
        self.env_rng = Rng::load(&state.env_rng)?;
        self.resumed_inside_episode = !self.episode.over;
        // A checkpoint of before there was one: moments are kept from the next episode on.
        if let (Some(tape), Ok(bytes)) = (&mut self.tape, from.bytes("moments/tape")) {
            tape.load(bytes)?;
        }
        match self.env.snapshot() {
            Some(snapshot) => snapshot.restore(&from.f64s("simulator/state")?)?,
            None if self.episode.over => return Ok(()),
            None => {
                let why = "it was taken inside an episode, and the environment has no snapshots any more".into();
                return Err(Error::Checkpoint { path: from.path.clone(), why });
            }
        }
        // An episode that broke the simulation may lie behind.
        if self.resumed_inside_episode { self.read_state() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Memory;
    use crate::toy::Toy;

    fn play(budget: u64, action: [f32; 2]) -> (Clock, Memory) {
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 5, budget, &mut memory);
        while run.next_episode().unwrap() {
            while !run.over() {
                run.step(&action).unwrap();
            }
        }
        (run.clock(), memory)
    }

    #[test]
    fn every_step_episode_and_violation_is_counted_once() {
        let (clock, memory) = play(1000, [1.0, 0.0]);
        let rows = &memory.episodes;
        assert_eq!(clock.steps, 1000);
        assert_eq!(rows.iter().map(|r| r.length).sum::<u64>(), 1000);
        assert_eq!(clock.episodes, rows.len() as u64);
        assert_eq!(clock.violations, rows.iter().filter(|r| r.violation).count() as u64);
        assert!(clock.violations > 5, "full throttle falls: {}", clock.violations);
        assert!((clock.reward - rows.iter().map(|r| r.total_reward).sum::<f64>()).abs() < 1e-9);
        assert_eq!(rows.last().unwrap().cumulative_violations, clock.violations);
        assert_eq!(clock.ptr_per_violation_x1000(), Some(clock.reward / clock.violations as f64));
    }

    #[test]
    fn the_episode_the_budget_cuts_is_a_row_without_violation() {
        let (clock, memory) = play(30, [0.0, 0.0]);
        assert_eq!((clock.steps, clock.episodes, clock.violations), (30, 1, 0));
        assert_eq!(memory.episodes[0].length, 30);
        assert_eq!(clock.ptr_per_violation_x1000(), None);
    }

    #[test]
    fn a_draw_elsewhere_moves_no_start_state() {
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 5, 10, &mut memory);
        run.next_episode().unwrap();
        let start = run.state().to_vec();
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 5, 10, &mut memory);
        run.stream("policy").normal();
        run.next_episode().unwrap();
        assert_eq!(start, run.state());
    }

    #[test]
    fn a_skill_stops_where_the_episode_does() {
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 5, 25, &mut memory);
        run.next_episode().unwrap();
        let mut segment = Segment::default();
        run.execute(10, &mut segment, |_, _, action| action.fill(0.0)).unwrap();
        assert_eq!((segment.steps, segment.states.len(), segment.violated()), (10, 11 * 5, false));
        assert_eq!(segment.states[10 * 5..], run.state()[..]);
        run.execute(30, &mut segment, |_, _, action| action.fill(1.0)).unwrap();
        assert_eq!(segment.actions.len(), segment.steps * 2);
        assert!(segment.steps < 15 && segment.violated(), "hard steering falls: {segment:?}");
        assert_eq!(run.clock().violations, 1);
        run.next_episode().unwrap();
        run.execute(20, &mut segment, |_, _, action| action.fill(0.0)).unwrap();
        assert!(!segment.violated() && run.finished(), "the budget cuts the skill");
        assert_eq!(run.clock().steps, 25);
    }

    #[test]
    fn a_nan_action_stops_the_run_and_is_named() {
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 5, 10, &mut memory);
        run.next_episode().unwrap();
        let error = run.step(&[0.0, f32::NAN]).unwrap_err().to_string();
        assert!(error.contains("action 1"), "{error}");
    }
}
