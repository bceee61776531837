//! Playing a trained policy and keeping what happened: how demonstrations are made.
//!
//! A good agent hardly falls, and demonstrations without falls cannot teach what leads to one. So a set may have two
//! kinds of episodes, told apart in its metadata and in the attributes of every episode:
//!
//! * **calm**: the policy's actions plus Gaussian noise, drawn anew at every step;
//! * **disturbed**: the same, and from a random step in the first half of the time limit on also pushes: a random vector
//!   added to the actions for ten steps, then another one. Noise that changes at every step averages out and hardly ever
//!   fells a robot; pushes do, and they begin in full motion, not at rest where every episode starts.
//!
//! Disturbed episodes come first, until enough of them ended in a violation; the ones that did not are kept too. Calm
//! ones then fill up the number of episodes or steps asked for, half of which is theirs in any case. Last, all are put
//! into a random order, so that no part of the file is of one kind.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::env::Env;
use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::rng::Rng;
use sskp_blocks::run::{Clock, Run};
use sskp_blocks::{Error, Result};
use sskp_methods::Actor;

use super::{About, Played, round_to_bits};
use crate::display::Display;
use crate::evaluate::{Trained, evaluate};
use crate::stats::Spread;
use crate::wording::plural;

/// Resolution of actions when a set is to be compact: steps of 1/256 are far below any noise worth adding.
pub const ACTION_BITS: u32 = 8;

/// Steps a push lasts: the paper's H, the length of a skill.
const PUSH_STEPS: u64 = 10;
/// Disturbed episodes in a row that may stay upright before pushes grow, where they may grow, and the factor.
const PATIENCE: (u64, f64) = (2, 1.5);
/// Where an environment has no time limit, a push comes in the first half of the longest episode so far, and before there is one, of so
/// many steps.
const EPISODE: usize = 20;

/// What to collect.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The robot.
    pub env: String,
    /// Stop after so many episodes.
    pub episodes: Option<u64>,
    /// Stop after the episode in which so many steps are reached: episodes are never cut.
    pub steps: Option<u64>,
    /// Standard deviation of the noise added to every action.
    pub noise: f64,
    /// Play disturbed episodes until so many ended in a violation.
    pub falls: u64,
    /// Standard deviation of the pushes in disturbed episodes.
    pub push: f64,
    /// Lets pushes grow until they fell the robot: nobody knows beforehand how much a robot of one's own withstands.
    pub grow: bool,
    /// Seed of start states, noise and order.
    pub seed: u64,
    /// The policy's best guess instead of a sample.
    pub deterministic: bool,
    /// Store observations as multiples of 2^−bits, which packs better; none stores them as they are. (A state that would
    /// cross the bound of the constraint by rounding is stored as it is.) Actions are then rounded too, to multiples of 2^−[`ACTION_BITS`], but before they are played, so those stored are exact.
    pub bits: Option<u32>,
    /// Episodes without noise that measure the agent itself; not part of the set.
    pub agent_episodes: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            env: String::new(),
            episodes: None,
            steps: None,
            noise: 0.0,
            falls: 0,
            push: 0.5,
            grow: false,
            seed: 0,
            deterministic: false,
            bits: None,
            agent_episodes: 10,
        }
    }
}

impl Plan {
    /// Says in one sentence what is wrong with it.
    pub fn validate(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::other(text));
        if self.episodes.is_none() && self.steps.is_none() {
            return wrong("say how much to collect with --episodes or --steps");
        }
        if self.episodes == Some(0) || self.steps == Some(0) {
            return wrong("--episodes and --steps must be at least 1");
        }
        if !(self.noise >= 0.0 && self.noise.is_finite() && self.push >= 0.0 && self.push.is_finite()) {
            return wrong("--noise and --push must be numbers of at least 0");
        }
        if self.bits.is_some_and(|bits| !(6..=20).contains(&bits)) {
            return wrong("--bits must be between 6 and 20");
        }
        Ok(())
    }

    /// Refuses a policy of another robot.
    pub fn check_policy(&self, trained: &Trained) -> Result<()> {
        let trained_on = &trained.config.run.env;
        match *trained_on == self.env {
            true => Ok(()),
            false => Err(Error::other(format!("the policy was trained on {trained_on}; it cannot play {}", self.env))),
        }
    }
}

/// What came out.
pub struct Collected {
    /// The set.
    pub demos: Demonstrations,
    /// How each of its episodes was played.
    pub played: Vec<Played>,
    /// How it was made.
    pub about: About,
    /// Violating episodes among the disturbed ones.
    pub falls: u64,
}

/// Plays the policy. `command` is what the user typed; it goes into the metadata.
pub fn collect(trained: &mut Trained, plan: &Plan, command: &str, quiet: bool) -> Result<Collected> {
    plan.validate()?;
    plan.check_policy(trained)?;
    let agent = evaluate(trained, plan.agent_episodes, plan.seed, false, |_, _, _| {})?;
    let episodes = play(trained.make_env()?, &mut *trained.actor, plan, &AtomicBool::new(false), quiet)?;
    let mut provenance = provenance(plan, command, &episodes);
    provenance.insert("agent".into(), about_agent(trained, &agent));
    let algo = trained.config.run.algo.clone();
    let who = format!("{algo} after {} training steps", trained.steps);
    episodes.into_set(plan, &algo, &who, provenance)
}

/// Plays any policy in any environment; `who` says whose actions they are. Asked to stop, it gives up what it has.
pub fn collect_from(
    env: Box<dyn Env>,
    actor: &mut dyn Actor,
    plan: &Plan,
    who: &str,
    command: &str,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<Collected> {
    plan.validate()?;
    let episodes = play(env, actor, plan, stop, quiet)?;
    let provenance = provenance(plan, command, &episodes);
    episodes.into_set(plan, who, who, provenance)
}

/// Episodes as they were played.
struct Episodes {
    all: Vec<(Trajectory, Played)>,
    sizes: [usize; 2],
    falls: u64,
    broken: u64,
    clock: Clock,
}

impl Episodes {
    fn into_set(self, plan: &Plan, algorithm: &str, who: &str, provenance: Map<String, Value>) -> Result<Collected> {
        let mut demos = Demonstrations::new(plan.env.clone(), self.sizes[0], self.sizes[1]);
        let mut played = Vec::with_capacity(self.all.len());
        for (trajectory, how) in self.all {
            demos.push(trajectory)?;
            played.push(how);
        }
        let description = format!(
            "Episodes of {} played by {who}. A violation of the safety constraint ends an episode \
             with infos/cost 1 at its last step; the cost of step t is infos/cost[t + 1].",
            plan.env
        );
        let about = About { algorithm: algorithm.into(), description, provenance };
        Ok(Collected { demos, played, about, falls: self.falls })
    }
}

fn play(env: Box<dyn Env>, actor: &mut dyn Actor, plan: &Plan, stop: &AtomicBool, quiet: bool) -> Result<Episodes> {
    let mut counted = Counted::new(plan, quiet);
    // Episodes end by the robot or its time limit, never by the budget: the plan decides when the next one starts.
    let mut run = Run::new(env, plan.seed, u64::MAX, &mut counted);
    let spec = run.spec().clone();
    let mut noise_rng = run.stream("collect-noise");
    let mut push_rng = run.stream("collect-push");
    let mut episodes: Vec<(Trajectory, Played)> = Vec::new();
    let (mut steps, mut falls, mut broken) = (0, 0, 0_u64);
    let (mut strength, mut upright, mut longest) = (plan.push, 0, EPISODE);
    let mut action = vec![0.0; spec.action_dim];
    let mut push = vec![0.0; spec.action_dim];
    let full = |episodes: u64, steps: u64| {
        plan.episodes.is_some_and(|n| episodes >= n) || plan.steps.is_some_and(|n| steps >= n)
    };
    while !full(episodes.len() as u64, steps) && run.next_episode()? {
        actor.begin();
        let disturbed = falls < plan.falls && !full(2 * episodes.len() as u64, 2 * steps);
        let pushed_from = disturbed.then(|| push_rng.below((spec.time_limit.unwrap_or(longest) / 2).max(1)) as u64);
        let played = Played { noise: plan.noise, pushed_from, push: strength };
        let mut trajectory = Trajectory {
            observations: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
            costs: Vec::new(),
            end: Ending::Cut,
        };
        keep(&mut trajectory, &run, plan.bits);
        let mut anomaly = false;
        while !run.over() {
            actor.act(run.state(), !plan.deterministic, &mut action);
            if let Some(since) = pushed_from.and_then(|from| run.episode_length().checked_sub(from)) {
                if since.is_multiple_of(PUSH_STEPS) {
                    push.fill_with(|| (strength * push_rng.normal()) as f32);
                }
                action.iter_mut().zip(&push).for_each(|(a, p)| *a += p);
            }
            disturb(&mut action, plan.noise, plan.bits.map(|_| ACTION_BITS), &mut noise_rng);
            if stop.load(Ordering::Relaxed) {
                return Err(Error::other("collecting was stopped; nothing was written"));
            }
            let step = run.step(&action)?;
            keep(&mut trajectory, &run, plan.bits);
            trajectory.actions.extend_from_slice(&action);
            trajectory.rewards.push(step.reward as f32);
            trajectory.costs.push(step.cost() as f32);
            anomaly |= step.anomaly.is_some();
            if let Some(end) = step.end {
                trajectory.end = end.into();
            }
        }
        if anomaly {
            // The simulation itself broke: its last state is MuJoCo's, not the robot's.
            broken += 1;
            if broken > 100 && broken > episodes.len() as u64 {
                return Err(Error::other(format!("the simulation broke in {broken} episodes; nothing was written")));
            }
            continue;
        }
        steps += trajectory.steps() as u64;
        longest = longest.max(trajectory.steps());
        let fell = trajectory.violates();
        falls += u64::from(disturbed && fell);
        upright = if disturbed && !fell { upright + 1 } else { 0 };
        if plan.grow && upright == PATIENCE.0 {
            (strength, upright) = (strength * PATIENCE.1, 0);
        }
        episodes.push((trajectory, played));
    }
    let clock = run.clock();
    counted.display.finish();

    shuffle(&mut episodes, &mut Rng::stream(plan.seed, "collect-order"));
    Ok(Episodes { all: episodes, sizes: [spec.obs_dim, spec.action_dim], falls, broken, clock })
}

/// Adds the run's state to an episode, rounded unless that would move it over the bound of the robot's constraint: a fall
/// must look like one.
fn keep(trajectory: &mut Trajectory, run: &Run, bits: Option<u32>) {
    let state = run.state();
    if let Some(bits) = bits {
        let rounded = || state.iter().map(|x| round_to_bits(*x, bits));
        let wide = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(f64::from).collect::<Vec<_>>();
        let violates = |numbers: &mut dyn Iterator<Item = f32>| {
            run.env().constraint().is_some_and(|constraint| constraint.violates(&wide(numbers)))
        };
        if violates(&mut rounded()) == violates(&mut state.iter().copied()) {
            trajectory.observations.extend(rounded());
            return;
        }
    }
    trajectory.observations.extend_from_slice(state);
}

/// Adds noise, clips to what the robot takes, and rounds to what the file keeps.
fn disturb(action: &mut [f32], std: f64, bits: Option<u32>, rng: &mut Rng) {
    for a in action {
        let noise = if std > 0.0 { (std * rng.normal()) as f32 } else { 0.0 };
        *a = (*a + noise).clamp(-1.0, 1.0);
        if let Some(bits) = bits {
            *a = round_to_bits(*a, bits);
        }
    }
}

fn shuffle<T>(list: &mut [T], rng: &mut Rng) {
    for i in (1..list.len()).rev() {
        list.swap(i, rng.below(i + 1));
    }
}

fn provenance(plan: &Plan, command: &str, played: &Episodes) -> Map<String, Value> {
    let Episodes { all: episodes, falls, broken, clock, .. } = played;
    let (falls, broken) = (*falls, *broken);
    let disturbed = episodes.iter().filter(|(_, p)| p.pushed_from.is_some()).count();
    let violations = episodes.iter().filter(|(t, _)| t.violates()).count() as u64;
    let mut map = Map::new();
    let mut add = |key: &str, value: Value| {
        map.insert(key.into(), value);
    };
    add("made_by", format!("sskp {}", env!("CARGO_PKG_VERSION")).into());
    add("simulator", simulator(&plan.env).into());
    add("command", command.into());
    add("seed", plan.seed.into());
    add("noise", plan.noise.into());
    add("actions", if plan.deterministic { "deterministic" } else { "sampled" }.into());
    if let Some(bits) = plan.bits {
        add("observation_step", 0.5_f64.powi(bits as i32).into());
        add("action_step", 0.5_f64.powi(ACTION_BITS as i32).into());
    }
    add("steps_played", clock.steps.into());
    add("episodes_dropped_as_the_simulation_broke", broken.into());
    add("calm", json!({ "episodes": episodes.len() - disturbed, "violations": violations - falls }));
    if plan.falls > 0 {
        add(
            "disturbed",
            json!({
                "episodes": disturbed,
                "violations": falls,
                "violations_asked_for": plan.falls,
                "push": plan.push,
                "push_steps": PUSH_STEPS,
                "pushes_begin": "at a random step of the first half of the time limit",
            }),
        );
    }
    map
}

/// How good the agent is without noise.
fn about_agent(trained: &Trained, agent: &[EpisodeRow]) -> Value {
    let returns: Vec<f64> = agent.iter().map(|row| row.total_reward).collect();
    let spread = Spread::of(&returns);
    let steps: u64 = agent.iter().map(|row| row.length).sum();
    let run = &trained.config.run;
    json!({
        "algo": run.algo,
        "seed": run.seed,
        "steps": trained.steps,
        "checkpoint": trained.checkpoint.file_name().unwrap_or_default().to_string_lossy(),
        "config_sha256": trained.config.identity(),
        "contact_costs": run.contact_costs,
        "episodes": agent.len(),
        "return_mean": spread.mean,
        "return_min": spread.min,
        "return_max": spread.max,
        "reward_per_step": returns.iter().sum::<f64>() / steps.max(1) as f64,
        "violations": agent.iter().filter(|row| row.violation).count(),
    })
}

/// What computed the robot's motion.
fn simulator(env: &str) -> String {
    match env {
        "toy" => "the toy's own equations".into(),
        _ if sskp_robots::robots().iter().any(|robot| robot.name == env) => {
            format!("MuJoCo {}", sskp_robots::MUJOCO_VERSION)
        }
        _ => "the environment's own".into(),
    }
}

/// Shows how much of what was asked for there is.
struct Counted {
    display: Display,
    by_steps: bool,
}

impl Counted {
    fn new(plan: &Plan, quiet: bool) -> Self {
        let (by_steps, goal) = match (plan.steps, plan.episodes) {
            (Some(steps), _) => (true, steps),
            (None, episodes) => (false, episodes.unwrap_or(0)),
        };
        Self { display: Display::new(goal, if by_steps { "steps" } else { "episodes" }, quiet), by_steps }
    }
}

impl Recorder for Counted {
    fn episode(&mut self, _: &EpisodeRow) -> Result<()> {
        Ok(())
    }
    fn metrics(&mut self, _: Clock, _: &Metrics) -> Result<()> {
        Ok(())
    }
    fn step(&mut self, at: Clock) {
        let done = if self.by_steps { at.steps } else { at.episodes };
        self.display.at(done, || plural(at.violations, "violation"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_clipped_and_rounded() {
        let mut rng = Rng::stream(0, "test");
        let mut action = vec![0.3_f32; 10_000];
        disturb(&mut action, 0.5, Some(8), &mut rng);
        assert!(action.iter().all(|a| a.abs() <= 1.0 && (a * 256.0).fract() == 0.0));
        let mean = action.iter().sum::<f32>() / 1e4;
        assert!((mean - 0.3).abs() < 0.05, "clipping moves the mean a little: {mean}");
        let mut same = [0.25_f32, -1.5];
        disturb(&mut same, 0.0, None, &mut rng);
        assert_eq!(same, [0.25, -1.0]);
    }

    #[test]
    fn the_simulator_has_a_version() {
        let text = simulator("hopper");
        let version = text.strip_prefix("MuJoCo ").unwrap();
        assert!(version.split('.').count() == 3 && version.split('.').all(|n| n.parse::<u32>().is_ok()), "{text}");
    }

    #[test]
    fn a_plan_without_an_end_is_refused() {
        assert!(Plan::default().validate().unwrap_err().to_string().contains("--episodes or --steps"));
        assert!(Plan { steps: Some(1), bits: Some(3), ..Plan::default() }.validate().is_err());
        assert!(Plan { steps: Some(1), noise: f64::NAN, ..Plan::default() }.validate().is_err());
        assert!(Plan { steps: Some(1), ..Plan::default() }.validate().is_ok());
    }
}
