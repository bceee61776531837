//! Violations that a run has kept, and moments that came near one: what they were, played again, and what would have happened with other choices.

use std::path::{Path, PathBuf};

use sskp_blocks::checkpoint;
use sskp_blocks::env::{End, Env, Gauge};
use sskp_blocks::keep::Moment;
use sskp_blocks::{Error, Result};

use crate::evaluate::{Trained, load_policy};
use crate::fall_study::{Player, STRIDE};
use crate::registry::Registry;
use crate::replay_page::ReplayPage;
use crate::rollout::{Ghost, Recording, poses, snapshot};
use crate::run_dir::moments;
use crate::train::{env_options, read_config};
use crate::wording::{measured, plural, significant};

/// Places before a moment from which it is played again.
pub const PLACES: usize = 6;
/// Times from each place; as many robots are drawn faint.
pub const TRIES: usize = 8;
/// Seconds before a moment at which the faint robots begin, at least: there the eye can follow.
const GHOSTS_FROM: f64 = 0.4;
/// Seconds they go on beyond it.
const GHOSTS_UNTIL: f64 = 0.8;

/// A moment a run has kept, in words.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its number, from 1, oldest first: what `sskp violations RUN N` takes.
    pub number: usize,
    /// What it was about: the quantity nearest to its bound, with its value and the bound; what broke, if the simulation did.
    pub constraint: String,
    /// Risk predicted for the skill in which it came; none where none was predicted.
    pub risk: Option<f32>,
    /// Itself.
    pub moment: Moment,
}

/// What a run has kept, oldest first.
pub fn list(registry: &Registry, run: &Path) -> Result<Vec<Kept>> {
    let config = read_config(run)?;
    let moments = moments::read(run)?;
    if moments.is_empty() {
        return Ok(Vec::new());
    }
    let env = registry.make_env(&config.run.env, env_options(&config))?;
    let gauges = env.constraint().map_or(&[][..], |constraint| constraint.gauges());
    let kept = |(i, moment): (usize, Moment)| Kept {
        number: i + 1,
        constraint: constraint(gauges, &moment),
        risk: risk(&moment),
        moment,
    };
    Ok(moments.into_iter().enumerate().map(kept).collect())
}

fn constraint(gauges: &[Gauge], moment: &Moment) -> String {
    if !moment.anomaly.is_empty() {
        return format!("the simulation broke: {}", moment.anomaly);
    }
    let read = gauges.iter().map(|gauge| (gauge, (gauge.read)(&moment.obs)));
    let nearest = read.min_by(|(a, x), (b, y)| a.margin(*x).total_cmp(&b.margin(*y)));
    nearest.map_or("the constraint".into(), |(gauge, value)| {
        let bound = if value - gauge.low < gauge.high - value { gauge.low } else { gauge.high };
        format!("{} {}, bound {}", gauge.name, measured(value), measured(bound))
    })
}

/// The risk in force when it came.
fn risk(moment: &Moment) -> Option<f32> {
    let before = moment.choices.iter().rev().find(|(at, _)| (*at as usize) < moment.at)?;
    Some(before.1).filter(|risk| risk.is_finite())
}

/// A moment played again.
#[derive(Clone, Debug)]
pub struct Studied {
    /// The page that shows it.
    pub page: ReplayPage,
    /// From how many steps before it, and how many of [`TRIES`] fell from there; nearest first. Empty without a policy to play with.
    pub again: Vec<(usize, usize)>,
}

/// Plays a moment again, and from the places before it with a policy of the run, the one saved nearest to it.
pub fn study(registry: &Registry, run: &Path, kept: &Kept) -> Result<Studied> {
    let config = read_config(run)?;
    let mut env = registry.make_env(&config.run.env, env_options(&config))?;
    let moment = &kept.moment;
    let (mut recording, places) = play(&mut *env, moment)?;
    let mut said = vec![format!(
        "{}, seed {}, step {} of the run, {} of episode {}",
        config.run.algo, config.run.seed, moment.steps, moment.length, moment.episode
    )];
    let mut again = Vec::new();
    match nearest_policy(registry, run, moment.steps) {
        None => said.push("no policy was saved to play it again with".into()),
        Some(mut trained) => {
            again = what_if(&mut *env, &mut trained, moment, &places, &mut recording)?;
            said.push(faint(&again, &trained));
        }
    }
    let what = if moment.violation { "violation" } else { "near violation" };
    let entry = registry.env(&config.run.env)?;
    let mut page = recording.into_page(entry, said.join("; "));
    page.title = format!("{}: {what}, {}", entry.name, kept.constraint);
    Ok(Studied { page, again })
}

/// "faint: other choices, by the policy after 20 000 steps; fell by then, of 8 tries each: 3 from 10 steps before, 1 from 20".
fn faint(again: &[(usize, usize)], trained: &Trained) -> String {
    let policy = plural(trained.steps, "step");
    match again {
        [] => "it came too soon to be played again".into(),
        [(back, fell), others @ ..] => {
            let others: String = others.iter().map(|(back, fell)| format!(", {fell} from {back}")).collect();
            format!(
                "faint: other choices, by the policy after {policy}; fell by then, of {TRIES} tries each: {fell} from {back} steps before{others}"
            )
        }
    }
}

/// The motion, and the simulator's states at whole strides before the moment, nearest first, each with its distance.
type Places = Vec<(usize, Vec<f64>)>;

fn play(env: &mut dyn Env, moment: &Moment) -> Result<(Recording, Places)> {
    let dim = env.spec().action_dim;
    snapshot(env)?.restore(&moment.state)?;
    let mut recording = Recording::begin(env);
    let (mut places, mut choices) = (Vec::new(), moment.choices.iter().peekable());
    for (k, action) in moment.actions.chunks_exact(dim).enumerate() {
        let back = moment.at.saturating_sub(k);
        if back > 0 && back.is_multiple_of(STRIDE) && back <= PLACES * STRIDE {
            places.push((back, snapshot(env)?.save()));
        }
        while let Some((_, risk)) = choices.next_if(|(at, _)| *at as usize <= k) {
            recording.note_choice();
            if risk.is_finite() {
                recording.note_risk(*risk);
            }
        }
        let step = env.step(action)?;
        recording.push(env, &step);
    }
    let violated = recording.end == Some(End::Violation);
    if violated != moment.violation {
        return Err(Error::other(format!(
            "the simulator no longer plays this moment as it did (step {}): it was another version, or another machine",
            moment.steps
        )));
    }
    places.reverse();
    Ok((recording, places))
}

/// Shares of falls by place, and the faint robots.
fn what_if(
    env: &mut dyn Env,
    trained: &mut Trained,
    moment: &Moment,
    places: &Places,
    recording: &mut Recording,
) -> Result<Vec<(usize, usize)>> {
    let dt = env.spec().dt;
    let mut player = Player::new(&mut *trained.actor, env, moment.steps);
    let mut again = Vec::new();
    for (back, place) in places {
        let mut fell = 0;
        for _ in 0..TRIES {
            fell += usize::from(player.again(env, place, *back, true, false)?.fell);
        }
        again.push((*back, fell));
    }
    if recording.frames.iter().all(|frame| frame.risk.is_none()) {
        risk_of_states(env, &mut player, moment, recording)?;
    }
    let far_enough = |(back, _): &&(usize, Vec<f64>)| *back as f64 * dt >= GHOSTS_FROM;
    if let Some((back, place)) = places.iter().find(far_enough).or(places.last()) {
        let until = back + (GHOSTS_UNTIL / dt) as usize;
        for _ in 0..TRIES {
            snapshot(env)?.restore(place)?;
            player.actor.begin();
            let mut ghost = Ghost { from: moment.at - back, fell: false, poses: Vec::new() };
            for _ in 0..until {
                let end = player.step(env, true)?;
                ghost.poses.push(poses(env));
                ghost.fell = end == Some(End::Violation);
                if end.is_some() {
                    break;
                }
            }
            recording.ghosts.push(ghost);
        }
    }
    Ok(again)
}

/// Where nothing was predicted at the time: what the saved policy thinks of the states passed through.
fn risk_of_states(env: &mut dyn Env, player: &mut Player, moment: &Moment, recording: &mut Recording) -> Result<()> {
    let dim = env.spec().action_dim;
    snapshot(env)?.restore(&moment.state)?;
    for (k, action) in moment.actions.chunks_exact(dim).enumerate() {
        if k % STRIDE == 0 {
            player.look(env);
            recording.frames[k].risk = player.actor.state_risk(&player.state, &mut player.rng);
        }
        env.step(action)?;
    }
    Ok(())
}

/// The policy saved nearest to a step, in checkpoints or among the snapshots of policies.
fn nearest_policy(registry: &Registry, run: &Path, steps: u64) -> Option<Trained> {
    let step_of = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    let folders = ["checkpoints", "policies"].map(|name| checkpoint::list(&run.join(name)));
    let mut saved: Vec<(u64, PathBuf)> =
        folders.into_iter().flatten().filter_map(|path| Some((step_of(&path)?.abs_diff(steps), path))).collect();
    saved.sort();
    // One may be removed, or be damaged, while we look.
    saved.iter().find_map(|(_, path)| load_policy(registry, path, |_| ()).ok())
}

/// "0.034", or nothing.
pub fn risk_in_words(risk: Option<f32>) -> String {
    risk.map_or("–".into(), |risk| significant(f64::from(risk)))
}
