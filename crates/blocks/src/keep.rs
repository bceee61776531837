//! Moments worth looking at again: the simulator's state some seconds before a violation, and the actions that led there.
//!
//! [`crate::run::Run`] writes a `Tape` along while it steps: two stretches of actions, each with the state it begins with. The older one is
//! whole, so that a violation is always preceded by [`BEFORE`] seconds, or by its whole episode. Playing the actions again from that state gives the same
//! motion, bit for bit, which is all that a [`Moment`] has to hold.

use crate::env::{Anomaly, Snapshot};
use crate::{Error, Result};

/// Seconds of simulated time that a moment has before it, at least, where its episode is as long; at most twice as many, and a little more after one that came near.
pub const BEFORE: f64 = 2.5;
/// Seconds that are kept after a moment that only came near, to see how it was saved.
pub const AFTER: f64 = 0.5;
/// Steps of a stretch, whatever the robot's clock: a simulation with a tiny step must not fill the disk.
const STEPS: [usize; 2] = [10, 400];

/// A violation, or a moment that came near one, that can be played again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Whether it was a violation.
    pub violation: bool,
    /// Number of its episode.
    pub episode: u64,
    /// Environment steps of the run when it came.
    pub steps: u64,
    /// Steps of its episode when it came.
    pub length: u64,
    /// How near it came ([`crate::env::Constraint::margin`]); not finite where the constraint has no gauge.
    pub margin: f64,
    /// The observation when it came.
    pub obs: Vec<f64>,
    /// What broke in the simulation, if it did; else empty.
    pub anomaly: String,
    /// After how many of the actions it came.
    pub at: usize,
    /// The simulator's state where the actions begin.
    pub state: Vec<f64>,
    /// The actions, one after the other.
    pub actions: Vec<f32>,
    /// Before which of the actions the method chose anew, and the risk it predicted for its choice; NaN where it predicted none.
    pub choices: Vec<(u32, f32)>,
}

/// Actions since a state.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stretch {
    state: Vec<f64>,
    actions: Vec<f32>,
    steps: usize,
    choices: Vec<(u32, f32)>,
}

impl Stretch {
    fn begin(&mut self, from: &dyn Snapshot) {
        from.save_into(&mut self.state);
        self.actions.clear();
        self.choices.clear();
        self.steps = 0;
    }
}

/// What is written along.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    /// Steps of a stretch.
    stride: usize,
    after: usize,
    older: Stretch,
    newer: Stretch,
    /// Least margin of the episode, and steps until the moment around it is kept; 0 once it is.
    nearest: f64,
    due: usize,
    /// The nearest moment of the episode so far.
    near: Option<Moment>,
}

impl Tape {
    pub(crate) fn new(dt: f64) -> Self {
        let steps = |seconds: f64| (seconds / dt.max(1e-9)).ceil() as usize;
        let stride = steps(BEFORE).clamp(STEPS[0], STEPS[1]);
        Self { stride, after: steps(AFTER).clamp(1, STEPS[1]), nearest: 1.0, ..Self::default() }
    }

    /// An episode begins.
    pub(crate) fn begin(&mut self, from: &dyn Snapshot) {
        self.older.state.clear();
        self.older.actions.clear();
        self.older.choices.clear();
        self.older.steps = 0;
        self.newer.begin(from);
        (self.nearest, self.due, self.near) = (1.0, 0, None);
    }

    /// Whether it has seen its episode begin. One that was resumed from a checkpoint of before has not.
    fn knows(&self) -> bool {
        !self.newer.state.is_empty()
    }

    /// A choice is made for the actions to come.
    pub(crate) fn choose(&mut self, risk: f32) {
        self.newer.choices.push((self.newer.steps as u32, risk));
    }

    /// An action was played.
    pub(crate) fn push(&mut self, action: &[f32]) {
        if self.knows() {
            self.newer.actions.extend_from_slice(action);
            self.newer.steps += 1;
        }
    }

    /// Where the action led.
    pub(crate) fn came(&mut self, came: &Came) {
        if !self.knows() {
            return;
        }
        if came.margin < self.nearest {
            (self.nearest, self.due) = (came.margin, self.after);
            let mut moment = self.near.take().unwrap_or_default();
            (moment.margin, moment.steps, moment.length) = (came.margin, came.steps, came.length);
            moment.episode = came.episode;
            moment.obs.clear();
            moment.obs.extend_from_slice(came.obs);
            moment.actions.clear();
            self.near = Some(moment);
        } else if self.due > 0 {
            self.due -= 1;
            if self.due == 0 {
                self.keep_near(came.length);
            }
        }
    }

    /// Whether the newer stretch is whole. It goes on a little while a moment in it waits for what follows.
    pub(crate) fn due_for_a_state(&self) -> bool {
        self.newer.steps >= self.stride && self.due == 0
    }

    /// The newer stretch is whole, and another begins where the simulator is.
    pub(crate) fn turn(&mut self, from: &dyn Snapshot) {
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.begin(from);
    }

    /// Copies the stretches into the moment that came near.
    fn keep_near(&mut self, length_now: u64) {
        if let Some(mut moment) = self.near.take() {
            let since = length_now.saturating_sub(moment.length) as usize;
            self.copy(&mut moment);
            moment.at = (self.older.steps + self.newer.steps).saturating_sub(since);
            self.near = Some(moment);
        }
        self.due = 0;
    }

    fn copy(&self, into: &mut Moment) {
        let first = if self.older.state.is_empty() { &self.newer } else { &self.older };
        into.state.clone_from(&first.state);
        into.actions.clear();
        into.choices.clear();
        for (stretch, offset) in [(&self.older, 0), (&self.newer, self.older.steps)] {
            into.actions.extend_from_slice(&stretch.actions);
            into.choices.extend(stretch.choices.iter().map(|(at, risk)| (at + offset as u32, *risk)));
        }
    }

    /// The episode is over: the moment to be kept of it, if there is one. Of an episode that ended well the nearest one, if it came near at all.
    pub(crate) fn end(&mut self, came: &Came, violation: bool, anomaly: Option<Anomaly>) -> Option<Moment> {
        if !self.knows() {
            return None;
        }
        if !violation {
            if self.due > 0 {
                self.keep_near(came.length);
            }
            return self.near.take().filter(|moment| !moment.actions.is_empty());
        }
        let mut moment = Moment {
            violation,
            episode: came.episode,
            steps: came.steps,
            length: came.length,
            margin: came.margin,
            obs: came.obs.to_vec(),
            anomaly: anomaly.map_or(String::new(), |a| a.name().into()),
            at: self.older.steps + self.newer.steps,
            ..Moment::default()
        };
        self.copy(&mut moment);
        Some(moment)
    }

    /// All of it as bytes, for a checkpoint.
    pub(crate) fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        for stretch in [&self.older, &self.newer] {
            out.f64s(&stretch.state);
            out.f32s(&stretch.actions);
            out.u64(stretch.steps as u64);
            out.choices(&stretch.choices);
        }
        out.f64(self.nearest);
        out.u64(self.due as u64);
        out.u64(u64::from(self.near.is_some()));
        if let Some(near) = &self.near {
            near.write(&mut out);
        }
        out.0
    }

    /// Back to what was saved.
    pub(crate) fn load(&mut self, bytes: &[u8]) -> Result<()> {
        let mut from = Reader(bytes);
        for stretch in [&mut self.older, &mut self.newer] {
            stretch.state = from.f64s()?;
            stretch.actions = from.f32s()?;
            stretch.steps = from.u64()? as usize;
            stretch.choices = from.choices()?;
        }
        self.nearest = from.f64()?;
        self.due = from.u64()? as usize;
        self.near = if from.u64()? == 1 { Some(Moment::read(&mut from)?) } else { None };
        Ok(())
    }
}

/// Where a step led.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came<'a> {
    pub(crate) obs: &'a [f64],
    pub(crate) episode: u64,
    pub(crate) steps: u64,
    pub(crate) length: u64,
    pub(crate) margin: f64,
}

impl Moment {
    /// As bytes, the same for the same moment.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.write(&mut out);
        out.0
    }

    /// Reads back [`Moment::to_bytes`]; what is cut or has another length is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader(bytes);
        let moment = Self::read(&mut from)?;
        if from.0.is_empty() { Ok(moment) } else { Err(broken()) }
    }

    /// Actions of a robot that takes `dim` numbers each.
    pub fn steps_kept(&self, dim: usize) -> usize {
        self.actions.len() / dim.max(1)
    }

    fn write(&self, out: &mut Writer) {
        out.u64(u64::from(self.violation));
        [self.episode, self.steps, self.length, self.at as u64].into_iter().for_each(|n| out.u64(n));
        out.f64(self.margin);
        out.f64s(&self.obs);
        out.bytes(self.anomaly.as_bytes());
        out.f64s(&self.state);
        out.f32s(&self.actions);
        out.choices(&self.choices);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let violation = from.u64()? == 1;
        let [episode, steps, length, at] = [from.u64()?, from.u64()?, from.u64()?, from.u64()?];
        Ok(Self {
            violation,
            episode,
            steps,
            length,
            at: at as usize,
            margin: from.f64()?,
            obs: from.f64s()?,
            anomaly: String::from_utf8(from.bytes()?.to_vec()).map_err(|_| broken())?,
            state: from.f64s()?,
            actions: from.f32s()?,
            choices: from.choices()?,
        })
    }
}

fn broken() -> Error {
    Error::other("a kept moment is damaged")
}

/// Numbers as bytes, the low ones first, lists with their length before them.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u64(&mut self, n: u64) {
        self.0.extend(n.to_le_bytes());
    }
    fn f64(&mut self, x: f64) {
        self.0.extend(x.to_le_bytes());
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend(bytes);
    }
    fn f64s(&mut self, list: &[f64]) {
        self.u64(list.len() as u64);
        list.iter().for_each(|x| self.f64(*x));
    }
    fn f32s(&mut self, list: &[f32]) {
        self.u64(list.len() as u64);
        list.iter().for_each(|x| self.0.extend(x.to_le_bytes()));
    }
    fn choices(&mut self, list: &[(u32, f32)]) {
        self.u64(list.len() as u64);
        for (at, risk) in list {
            self.0.extend(at.to_le_bytes());
            self.0.extend(risk.to_le_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(broken)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }
    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }
    fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }
    /// A list of things of `size` bytes.
    fn list(&mut self, size: usize) -> Result<std::slice::ChunksExact<'a, u8>> {
        let bytes = usize::try_from(self.u64()?).ok().and_then(|n| n.checked_mul(size)).ok_or_else(broken)?;
        Ok(self.take(bytes)?.chunks_exact(size))
    }
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.u64()?).map_err(|_| broken())?;
        self.take(length)
    }
    fn f64s(&mut self) -> Result<Vec<f64>> {
        Ok(self.list(8)?.map(|b| f64::from_le_bytes(b.try_into().expect("eight"))).collect())
    }
    fn f32s(&mut self) -> Result<Vec<f32>> {
        Ok(self.list(4)?.map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect())
    }
    fn choices(&mut self) -> Result<Vec<(u32, f32)>> {
        let pair = |b: &[u8]| {
            let [at, risk] = [0, 4].map(|k| <[u8; 4]>::try_from(&b[k..k + 4]).expect("four"));
            (u32::from_le_bytes(at), f32::from_le_bytes(risk))
        };
        Ok(self.list(8)?.map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Constraint as _, End, Env};
    use crate::record::{EpisodeRow, Metrics, Recorder};
    use crate::rng::Rng;
    use crate::run::{Clock, Run, Segment};
    use crate::toy::Toy;

    #[derive(Default)]
    struct Keeper(Vec<Moment>);

    impl Recorder for Keeper {
        fn episode(&mut self, _: &EpisodeRow) -> Result<()> {
            Ok(())
        }
        fn metrics(&mut self, _: Clock, _: &Metrics) -> Result<()> {
            Ok(())
        }
        fn keeps_moments(&self) -> bool {
            true
        }
        fn moment(&mut self, moment: &Moment) -> Result<()> {
            self.0.push(moment.clone());
            Ok(())
        }
    }

    /// Plays skills of `steps` random actions; gives what was kept.
    fn play(budget: u64, scale: f32) -> Vec<Moment> {
        let mut keeper = Keeper::default();
        let mut run = Run::new(Box::<Toy>::default(), 5, budget, &mut keeper);
        let (mut rng, mut segment) = (Rng::stream(1, "actions"), Segment::default());
        while run.next_episode().unwrap() {
            while !run.over() {
                run.predict(0.25);
                run.execute(7, &mut segment, |_, state, action| {
                    rng.fill_action(action);
                    action[1] = scale * action[1] - (1.0 - scale) * (state[0] + state[1]);
                })
                .unwrap();
            }
        }
        keeper.0
    }

    #[test]
    fn a_kept_violation_plays_again_to_the_same_end() {
        let kept = play(4000, 1.0);
        let falls: Vec<&Moment> = kept.iter().filter(|m| m.violation).collect();
        assert!(falls.len() > 20, "{}", falls.len());
        assert!(falls.iter().any(|m| m.length > 60) && falls.iter().any(|m| m.length < 25));
        for fall in falls {
            let mut toy = Toy::default();
            toy.restore(&fall.state).unwrap();
            let steps = fall.steps_kept(2);
            assert_eq!(steps as u64, fall.length.min(steps as u64));
            assert!(steps as u64 == fall.length || (25..=80).contains(&steps), "2.5 s are 25 steps: {steps}");
            let mut ends = fall.actions.chunks(2).map(|action| toy.step(action).unwrap().end);
            assert!(ends.by_ref().take(steps - 1).all(|end| end.is_none()));
            assert_eq!(ends.next(), Some(Some(End::Violation)));
            assert_eq!((fall.at, toy.margin(toy.obs())), (steps, fall.margin));
            assert_eq!(fall.obs, toy.obs());
            assert!(fall.choices.iter().all(|(at, risk)| (*at as usize) < steps && *risk == 0.25));
            assert!(fall.choices.len() >= steps / 7, "{:?}", fall.choices);
        }
    }

    #[test]
    fn an_episode_that_came_near_and_was_saved_is_kept_where_it_was_nearest() {
        let kept = play(20_000, 0.75);
        let near: Vec<&Moment> = kept.iter().filter(|m| !m.violation).collect();
        assert!(near.len() > 5, "{} of {}", near.len(), kept.len());
        for moment in near {
            let mut toy = Toy::default();
            toy.restore(&moment.state).unwrap();
            let mut margins = moment.actions.chunks(2).map(|action| {
                assert_ne!(toy.step(action).unwrap().end, Some(End::Violation));
                toy.margin(toy.obs())
            });
            assert_eq!(margins.nth(moment.at - 1), Some(moment.margin));
            assert!((0.0..1.0).contains(&moment.margin));
            assert!(margins.all(|margin| margin >= moment.margin));
        }
    }

    #[test]
    fn moments_and_tapes_read_back_and_damaged_ones_are_refused() {
        let kept = play(4000, 1.0);
        for moment in &kept {
            let bytes = moment.to_bytes();
            assert_eq!(Moment::from_bytes(&bytes).unwrap(), *moment);
            for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
                assert!(Moment::from_bytes(&bytes[..cut]).is_err());
            }
            assert!(Moment::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        }
        // A length that no memory has.
        assert!(Moment::from_bytes(&[255; 200]).is_err());
        let mut tape = Tape::new(0.1);
        let mut toy = Toy::default();
        tape.begin(&toy);
        for k in 0..60 {
            tape.choose(f32::NAN);
            toy.step(&[0.3, 0.4]).unwrap();
            tape.push(&[0.3, 0.4]);
            let margin = toy.margin(toy.obs());
            tape.came(&Came { obs: toy.obs(), steps: k, length: k, margin, ..Came::default() });
            if tape.due_for_a_state() {
                tape.turn(&toy);
            }
            let mut back = Tape::new(0.1);
            back.load(&tape.save()).unwrap();
            assert_eq!(back.save(), tape.save());
        }
    }
}
