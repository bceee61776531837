//! D_d, the demonstrations of section 4.1: trajectories of (s, a, c), with the rewards that CPQ needs besides.
//!
//! All numbers are `f32` in flat arrays, so that a set of 1e5 steps is a few allocations. Files are `lab`'s business.

use sha2::{Digest, Sha256};

use crate::checkpoint::{bytes_of, hex};
use crate::env::{End, Env, Spec};
use crate::replay::Transition;
use crate::rng::Rng;
use crate::{Error, Result};

/// How a recorded trajectory ended. Sets of other people know more endings than our robots do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Terminated by a violation: the last step has a cost.
    Violation,
    /// The time limit was reached.
    Truncated,
    /// Terminated without a cost (a goal, or a set that does not know costs).
    Terminated,
    /// The recording stops in the middle of an episode, or the file does not say.
    Cut,
}

impl Ending {
    /// Whether a value function may look past this end: only what the robot itself ended is final.
    pub fn bootstraps(self) -> bool {
        matches!(self, Ending::Truncated | Ending::Cut)
    }
    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Violation => "violation",
            Ending::Truncated => "truncated",
            Ending::Terminated => "terminated",
            Ending::Cut => "cut",
        }
    }
}

impl From<End> for Ending {
    fn from(end: End) -> Self {
        match end {
            End::Violation => Ending::Violation,
            End::Terminated => Ending::Terminated,
            End::Truncated => Ending::Truncated,
        }
    }
}

/// One episode of T steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// s_0 … s_T, (T + 1) × obs_dim numbers.
    pub observations: Vec<f32>,
    /// a_0 … a_{T−1}, T × action_dim numbers in `[-1, 1]`.
    pub actions: Vec<f32>,
    /// r_0 … r_{T−1}.
    pub rewards: Vec<f32>,
    /// c_0 … c_{T−1}: what step t cost, so the state it led to is s_{t+1}.
    pub costs: Vec<f32>,
    /// How it ended.
    pub end: Ending,
}

impl Trajectory {
    /// What step t ended, as far as a learner is concerned: a cost is a violation, wherever it stands.
    pub fn end_at(&self, t: usize) -> Option<End> {
        match self.end {
            _ if self.costs[t] > 0.0 => Some(End::Violation),
            _ if t + 1 < self.steps() => None,
            Ending::Terminated => Some(End::Terminated),
            Ending::Truncated => Some(End::Truncated),
            Ending::Violation | Ending::Cut => None,
        }
    }
    /// T.
    pub fn steps(&self) -> usize {
        self.rewards.len()
    }
    /// Undiscounted sum of rewards.
    pub fn total_reward(&self) -> f64 {
        self.rewards.iter().map(|r| f64::from(*r)).sum()
    }
    /// Whether any step has a cost.
    pub fn violates(&self) -> bool {
        self.costs.iter().any(|c| *c > 0.0)
    }

    /// What is wrong with the arrays, with the field's name first: lengths that do not fit, numbers that are not finite.
    pub fn defect(&self, obs_dim: usize, action_dim: usize) -> Option<String> {
        let steps = self.steps();
        if steps == 0 {
            return Some("rewards: there is no step".into());
        }
        let lengths = [
            ("observations", self.observations.len(), (steps + 1) * obs_dim),
            ("actions", self.actions.len(), steps * action_dim),
            ("costs", self.costs.len(), steps),
        ];
        for (field, got, needed) in lengths {
            if got != needed {
                return Some(format!("{field}: {steps} steps need {needed} numbers, there are {got}"));
            }
        }
        let arrays = [
            ("observations", &self.observations, obs_dim),
            ("actions", &self.actions, action_dim),
            ("rewards", &self.rewards, 1),
            ("costs", &self.costs, 1),
        ];
        for (field, numbers, width) in arrays {
            if let Some(i) = numbers.iter().position(|x| !x.is_finite()) {
                return Some(format!("{field}: {} in row {}, column {}", numbers[i], i / width, i % width));
            }
        }
        None
    }
}

/// Demonstrations of one robot.
///
/// ```
/// use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
///
/// let mut demos = Demonstrations::new("cart", 2, 1);
/// demos.push(Trajectory {
///     observations: vec![0.0, 0.0, 0.1, 0.2, 0.3, 0.4], // s_0 … s_2
///     actions: vec![1.0, 1.0],
///     rewards: vec![0.5, 0.5],
///     costs: vec![0.0, 1.0],
///     end: Ending::Violation,
/// })?;
/// assert_eq!((demos.steps(), demos.violations()), (2, 1));
/// assert_eq!(demos.state(0, 1), [0.1, 0.2]);
/// // Whether a violation is within one step, and within two.
/// let labels = |ahead| demos.states_with_violation_ahead(ahead).map(|(_, ahead)| ahead).collect::<Vec<_>>();
/// assert_eq!((labels(1), labels(2)), (vec![false, true], vec![true, true]));
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Demonstrations {
    /// The robot's registry name; empty when nobody said which robot it was.
    pub env: String,
    /// Length of an observation.
    pub obs_dim: usize,
    /// Length of an action.
    pub action_dim: usize,
    trajectories: Vec<Trajectory>,
}

impl Demonstrations {
    /// An empty set.
    pub fn new(env: impl Into<String>, obs_dim: usize, action_dim: usize) -> Self {
        assert!(obs_dim > 0 && action_dim > 0, "a robot without observations or actions: {obs_dim}, {action_dim}");
        Self { env: env.into(), obs_dim, action_dim, trajectories: Vec::new() }
    }

    /// An empty set of an environment's episodes.
    pub fn of(spec: &Spec) -> Self {
        Self::new(spec.name.clone(), spec.obs_dim, spec.action_dim)
    }

    /// Plays one episode of a controller and adds it. The controller is given the observation and writes the action; what lies outside
    /// `[-1, 1]` is clipped, as environments do. Where episodes start and what the controller draws comes from `rng`.
    ///
    /// ```
    /// use sskp_blocks::{demos::Demonstrations, env::Env, rng::Rng, toy::Toy};
    ///
    /// let mut toy = Toy::default();
    /// let mut demos = Demonstrations::of(toy.spec());
    /// demos.play(&mut toy, &mut Rng::stream(0, "driver"), |obs, rng, action| {
    ///     action[0] = 0.5;
    ///     action[1] = (-2.0 * obs[0] - obs[1] + 0.1 * rng.normal()) as f32;
    /// })?;
    /// assert_eq!((demos.steps(), demos.violations()), (200, 0));
    /// # Ok::<(), sskp_blocks::Error>(())
    /// ```
    pub fn play(
        &mut self,
        env: &mut dyn Env,
        rng: &mut Rng,
        mut controller: impl FnMut(&[f64], &mut Rng, &mut [f32]),
    ) -> Result<()> {
        env.reset(rng)?;
        let mut episode =
            Trajectory { observations: vec![], actions: vec![], rewards: vec![], costs: vec![], end: Ending::Cut };
        let mut action = vec![0.0; self.action_dim];
        episode.observations.extend(env.obs().iter().map(|x| *x as f32));
        while episode.end == Ending::Cut {
            controller(env.obs(), rng, &mut action);
            action.iter_mut().for_each(|a| *a = a.clamp(-1.0, 1.0));
            let step = env.step(&action)?;
            episode.observations.extend(env.obs().iter().map(|x| *x as f32));
            episode.actions.extend_from_slice(&action);
            episode.rewards.push(step.reward as f32);
            episode.costs.push(step.cost() as f32);
            episode.end = step.end.map_or(Ending::Cut, Ending::from);
        }
        self.push(episode)
    }

    /// Adds an episode. One whose arrays do not fit each other, or hold a number that is not finite, is refused.
    pub fn push(&mut self, trajectory: Trajectory) -> Result<()> {
        if let Some(defect) = trajectory.defect(self.obs_dim, self.action_dim) {
            return Err(Error::other(format!("episode {}: {defect}", self.trajectories.len())));
        }
        self.trajectories.push(trajectory);
        Ok(())
    }

    /// The episodes.
    pub fn trajectories(&self) -> &[Trajectory] {
        &self.trajectories
    }
    /// Steps of all episodes.
    pub fn steps(&self) -> usize {
        self.trajectories.iter().map(Trajectory::steps).sum()
    }
    /// Episodes with a violation.
    pub fn violations(&self) -> usize {
        self.trajectories.iter().filter(|t| t.violates()).count()
    }

    /// SHA-256 of the content: sizes, numbers and endings, in whatever file they were. The robot's name is left out, for the
    /// same numbers teach the same.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        hash.update((self.obs_dim as u64).to_le_bytes());
        hash.update((self.action_dim as u64).to_le_bytes());
        for trajectory in &self.trajectories {
            hash.update((trajectory.steps() as u64).to_le_bytes());
            for numbers in [&trajectory.observations, &trajectory.actions, &trajectory.rewards, &trajectory.costs] {
                hash.update(bytes_of(numbers));
            }
            hash.update(trajectory.end.name());
        }
        hex(&hash.finalize())
    }

    /// s_t of an episode; t may be T.
    pub fn state(&self, episode: usize, t: usize) -> &[f32] {
        &self.trajectories[episode].observations[t * self.obs_dim..][..self.obs_dim]
    }
    /// a_t … a_{t+count−1} of an episode, one after the other.
    pub fn actions(&self, episode: usize, t: usize, count: usize) -> &[f32] {
        &self.trajectories[episode].actions[t * self.action_dim..][..count * self.action_dim]
    }

    /// Reward per step over the next `ahead` steps from step t of an episode. After a violation nothing is earned; where the
    /// time limit comes first, what is there is averaged.
    pub fn reward_ahead(&self, episode: usize, t: usize, ahead: usize) -> f64 {
        let trajectory = &self.trajectories[episode];
        let rewards = &trajectory.rewards[t..];
        let seen = rewards.len().min(ahead);
        let counted = if trajectory.violates() { ahead } else { seen };
        rewards[..seen].iter().map(|r| f64::from(*r)).sum::<f64>() / counted as f64
    }

    /// The steps of an episode.
    pub fn transitions(&self, episode: usize) -> impl Iterator<Item = Transition<'_>> {
        let trajectory = &self.trajectories[episode];
        (0..trajectory.steps()).map(move |t| Transition {
            state: self.state(episode, t),
            action: self.actions(episode, t, 1),
            reward: trajectory.rewards[t],
            end: trajectory.end_at(t),
            next_state: self.state(episode, t + 1),
        })
    }

    /// Where the windows (s_t, a_t … a_{t+H−1}) of section 4.1 begin: (episode, t) with t + H ≤ T, each within one episode.
    pub fn window_starts(&self, horizon: usize) -> impl Iterator<Item = (usize, usize)> {
        assert!(horizon > 0, "a window has at least one action");
        let starts =
            move |(i, t): (usize, &Trajectory)| (0..(t.steps() + 1).saturating_sub(horizon)).map(move |s| (i, s));
        self.trajectories.iter().enumerate().flat_map(starts)
    }

    /// Every s_t with a step after it, and whether a violation happens within steps t … t+H−1: the offline labels of
    /// the risk predictor. The last states of an episode have fewer than H steps ahead and are kept.
    pub fn states_with_violation_ahead(&self, horizon: usize) -> impl Iterator<Item = (&[f32], bool)> {
        assert!(horizon > 0, "a horizon of no step sees nothing");
        self.trajectories.iter().enumerate().flat_map(move |(i, trajectory)| {
            let steps = trajectory.steps();
            (0..steps).map(move |t| {
                let ahead = &trajectory.costs[t..steps.min(t + horizon)];
                (self.state(i, t), ahead.iter().any(|c| *c > 0.0))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An episode whose state s_t is (10·episode + t, −t) and whose action a_t is t / 10.
    fn episode(number: usize, steps: usize, end: Ending) -> Trajectory {
        let mut costs = vec![0.0; steps];
        if end == Ending::Violation {
            costs[steps - 1] = 1.0;
        }
        Trajectory {
            observations: (0..=steps).flat_map(|t| [(10 * number + t) as f32, -(t as f32)]).collect(),
            actions: (0..steps).map(|t| t as f32 / 10.0).collect(),
            rewards: vec![2.0; steps],
            costs,
            end,
        }
    }

    fn three() -> Demonstrations {
        let mut demos = Demonstrations::new("toy", 2, 1);
        demos.push(episode(0, 4, Ending::Violation)).unwrap();
        demos.push(episode(1, 2, Ending::Truncated)).unwrap();
        demos.push(episode(2, 3, Ending::Truncated)).unwrap();
        demos
    }

    #[test]
    fn the_reward_ahead_by_hand() {
        let demos = three();
        // A violation after four steps of 2: nothing is earned in the sixth and fifth.
        assert_eq!(demos.reward_ahead(0, 0, 3), 2.0);
        assert_eq!(demos.reward_ahead(0, 0, 6), 8.0 / 6.0);
        assert_eq!(demos.reward_ahead(0, 3, 4), 0.5);
        // A time limit after three: what is there counts.
        assert_eq!(demos.reward_ahead(2, 1, 10), 2.0);
    }

    #[test]
    fn steps_violations_and_returns_by_hand() {
        let demos = three();
        assert_eq!((demos.steps(), demos.violations(), demos.trajectories().len()), (9, 1, 3));
        assert_eq!(demos.trajectories()[0].total_reward(), 8.0);
        assert_eq!(demos.state(2, 3), [23.0, -3.0]);
        assert!(!Ending::Violation.bootstraps() && Ending::Truncated.bootstraps());
    }

    #[test]
    fn windows_stay_inside_their_episode() {
        let demos = three();
        // H = 3: t = 0, 1 of the first episode (4 steps), none of the second (2), t = 0 of the third (3).
        assert_eq!(demos.window_starts(3).collect::<Vec<_>>(), [(0, 0), (0, 1), (2, 0)]);
        assert_eq!((demos.state(0, 1), demos.actions(0, 1, 3)), (&[1.0, -1.0][..], &[0.1, 0.2, 0.3][..]));
        assert_eq!(demos.window_starts(1).count(), 9);
        assert_eq!(demos.window_starts(5).count(), 0);
    }

    #[test]
    fn a_state_is_positive_when_the_violation_is_within_the_horizon() {
        let demos = three();
        // The violation is step 3 of the first episode. With H = 2 the states before steps 2 and 3 see it.
        let labels: Vec<_> = demos.states_with_violation_ahead(2).map(|(s, v)| (s[0], v)).collect();
        let expected = [
            (0.0, false),
            (1.0, false),
            (2.0, true),
            (3.0, true),
            (10.0, false),
            (11.0, false),
            (20.0, false),
            (21.0, false),
            (22.0, false),
        ];
        assert_eq!(labels, expected);
        // At most H positives per violating episode, fewer when the episode is shorter than H.
        assert_eq!(demos.states_with_violation_ahead(10).filter(|(_, v)| *v).count(), 4);
        assert_eq!(demos.states_with_violation_ahead(1).filter(|(_, v)| *v).count(), 1);
    }

    #[test]
    fn the_hash_is_of_the_numbers_and_nothing_else() {
        let (a, mut b) = (three(), three());
        b.env = "another name".into();
        assert_eq!(a.sha256(), b.sha256());
        b.trajectories[1].rewards[0] += 1e-6;
        assert_ne!(a.sha256(), b.sha256());
        let mut cut = three();
        cut.trajectories[2].end = Ending::Cut;
        assert_ne!(a.sha256(), cut.sha256());
    }

    #[test]
    fn transitions_by_hand() {
        let demos = three();
        let steps: Vec<_> = demos.transitions(0).collect();
        assert_eq!(steps.len(), 4);
        let (state, next_state) = (&[2.0, -2.0][..], &[3.0, -3.0][..]);
        assert_eq!(steps[2], Transition { state, action: &[0.2], reward: 2.0, end: None, next_state });
        assert_eq!(steps[3].end, Some(End::Violation));
        assert_eq!(demos.transitions(1).last().unwrap().end, Some(End::Truncated));
    }

    #[test]
    fn an_episode_that_does_not_fit_is_refused_with_its_field() {
        let mut demos = three();
        let refused = |demos: &mut Demonstrations, break_it: fn(&mut Trajectory)| {
            let mut bad = episode(0, 4, Ending::Violation);
            break_it(&mut bad);
            demos.push(bad).unwrap_err().to_string()
        };
        let short = refused(&mut demos, |t| t.observations.truncate(8));
        assert_eq!(short, "episode 3: observations: 4 steps need 10 numbers, there are 8");
        let nan = refused(&mut demos, |t| t.observations[3] = f32::NAN);
        assert_eq!(nan, "episode 3: observations: NaN in row 1, column 1");
        assert!(refused(&mut demos, |t| t.rewards.clear()).contains("no step"));
        assert!(refused(&mut demos, |t| t.costs.truncate(3)).contains("costs"));
        assert_eq!(demos.trajectories().len(), 3);
    }
}
