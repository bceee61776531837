//! When was a fall decided, and could a choice have been told from others? Falls of a trained policy, rewound and played again.
//!
//! From every place the policy is played as in training, which says when the fall was decided. Where it plans, as many tries begin with a
//! skill that is a draw of its policy: what planning chooses among. Those say whether the predicted risk, or anything else, can tell a skill that
//! falls from one that does not ([`within`]).

pub mod within;

use std::fmt::Write as _;

use sskp_blocks::env::{End, Env};
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};
use sskp_methods::Actor;

use self::within::{Judge, share};
use crate::evaluate::Trained;
use crate::rollout::snapshot;
use crate::stats::Spread;
use crate::wording::plural;

/// Steps between the places a fall is rewound to: the length of the paper's skills. A policy that decides at every step is
/// rewound to the same places.
pub const STRIDE: usize = 10;

/// What to play.
#[derive(Clone, Copy, Debug)]
pub struct FallSearch {
    /// Falls to look at.
    pub falls: usize,
    /// Times that each is played again from each place.
    pub tries: u32,
    /// Places before the one in which it fell.
    pub back: usize,
    /// Episodes after which the search for falls ends.
    pub episodes: u64,
    /// Whether the policy plans while it is looked for falls and after the first stride of a try, as in training. Falls in spite of planning are
    /// falls of skills that were predicted to be safe, so the predicted risk looks worse there than it is; falls of draws choose places by what
    /// draws do there, whatever was predicted.
    pub planned: bool,
    /// Seed of the start states, and of the skills that the risk of a state is averaged over.
    pub seed: u64,
}

/// One fall, played again from one place before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rewound {
    /// Number of the fall, from 1.
    pub fall: usize,
    /// Steps of the episode that ended in it.
    pub length: usize,
    /// How many strides before the one in which it fell; 0 is the beginning of that one.
    pub back: usize,
    /// Steps from that place to the fall.
    pub ahead: usize,
    /// Played again as in training.
    pub tries: Vec<Try>,
    /// Played again with a first skill that was drawn and not planned; empty where nothing is planned.
    pub drawn: Vec<Try>,
}

/// One of many times that a place was played again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Try {
    /// Whether it fell, within the steps of the fall it repeats and one stride more.
    pub fell: bool,
    /// The risk predicted for what it played first; none where the policy predicts none.
    pub predicted: Option<f64>,
    /// The state's risk after the first stride, infinite where it had fallen by then; none where that was not asked.
    pub at_end: Option<f64>,
    /// Whether it fell once more, with the same first stride and other choices after it; none where that was not played.
    pub again: Option<bool>,
}

/// Falls that were played again.
#[derive(Clone, Debug, Default)]
pub struct FallStudy {
    /// Row by row, in the order of the falls and then of `back`.
    pub rows: Vec<Rewound>,
    /// Falls found.
    pub falls: usize,
    /// Episodes played to find them.
    pub episodes: u64,
}

/// All falls from the same distance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Strides before the one in which it fell.
    pub back: usize,
    /// Falls long enough to be rewound so far.
    pub falls: usize,
    /// Mean share of the tries that fell again.
    pub mean: f64,
    /// Median share.
    pub median: f64,
    /// Mean predicted risk of the tries that fell, and of those that stood.
    pub risks: [Option<f64>; 2],
}

/// Plays a policy as in training until it has fallen often enough; every fall is rewound to the beginnings of the last strides and
/// played again with fresh random choices.
pub fn fall_study(trained: &mut Trained, search: FallSearch) -> Result<FallStudy> {
    let mut env = trained.make_env()?;
    study(&mut *env, &mut *trained.actor, search)
}

fn study(env: &mut dyn Env, actor: &mut dyn Actor, search: FallSearch) -> Result<FallStudy> {
    let mut rng = Rng::stream(search.seed, "starts");
    let mut player = Player { planned: search.planned, ..Player::new(actor, env, search.seed) };
    let mut study = FallStudy::default();
    while study.falls < search.falls && study.episodes < search.episodes {
        env.reset(&mut rng)?;
        study.episodes += 1;
        player.actor.begin();
        let (mut places, mut length) = (Vec::new(), 0);
        let end = loop {
            if length % STRIDE == 0 {
                places.push(snapshot(env)?.save());
            }
            length += 1;
            if let Some(end) = player.step(env, search.planned)? {
                break end;
            }
        };
        if end != End::Violation {
            continue;
        }
        study.falls += 1;
        for (back, place) in places.iter().rev().take(search.back + 1).enumerate() {
            let ahead = length - (places.len() - 1 - back) * STRIDE;
            let mut row = Rewound { fall: study.falls, length, back, ahead, ..Rewound::default() };
            let plans = player.actor.skip_planning();
            for _ in 0..search.tries {
                row.tries.push(player.again(env, place, ahead, true, !plans)?);
                if plans {
                    row.drawn.push(player.again(env, place, ahead, false, true)?);
                }
            }
            study.rows.push(row);
        }
    }
    match study.falls {
        0 => Err(Error::other(format!("no fall in {}: there is nothing to study", plural(study.episodes, "episode")))),
        _ => Ok(study),
    }
}

/// Plays a policy by hand, from anywhere.
pub(crate) struct Player<'a> {
    pub(crate) actor: &'a mut dyn Actor,
    action: Vec<f32>,
    pub(crate) state: Vec<f32>,
    pub(crate) rng: Rng,
    /// Whether the policy plans but for the first choice of a try.
    planned: bool,
}

impl<'a> Player<'a> {
    /// One that plans as in training; `seed` is of the skills that the risk of a state is averaged over.
    pub(crate) fn new(actor: &'a mut dyn Actor, env: &dyn Env, seed: u64) -> Self {
        let action = vec![0.0; env.spec().action_dim];
        Self { actor, action, state: Vec::new(), rng: Rng::stream(seed, "state risk"), planned: true }
    }

    pub(crate) fn look(&mut self, env: &dyn Env) {
        self.state.clear();
        self.state.extend(env.obs().iter().map(|x| *x as f32));
    }

    pub(crate) fn step(&mut self, env: &mut dyn Env, planned: bool) -> Result<Option<End>> {
        self.look(env);
        if !planned {
            self.actor.skip_planning();
        }
        self.actor.act(&self.state, true, &mut self.action);
        Ok(env.step(&self.action)?.end)
    }

    fn steps(&mut self, env: &mut dyn Env, steps: usize) -> Result<Option<End>> {
        for _ in 0..steps {
            if let Some(end) = self.step(env, self.planned)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// One try from a place, until the fall would have come and one stride more. With `judged`, what is to be known where the first stride
    /// ended, and the rest once more.
    pub(crate) fn again(
        &mut self,
        env: &mut dyn Env,
        place: &[f64],
        ahead: usize,
        planned: bool,
        judged: bool,
    ) -> Result<Try> {
        let fell = |end: Option<End>| end == Some(End::Violation);
        snapshot(env)?.restore(place)?;
        self.actor.begin();
        let mut end = self.step(env, planned)?;
        let mut played = Try { predicted: self.actor.risk().map(f64::from), ..Try::default() };
        if end.is_none() {
            end = self.steps(env, STRIDE - 1)?;
        }
        if judged {
            self.look(env);
            let (actor, state, rng) = (&mut self.actor, &self.state, &mut self.rng);
            let risk = actor.state_risk(state, rng).map(f64::from);
            played.at_end = if fell(end) { risk.map(|_| f64::INFINITY) } else { risk };
        }
        if end.is_some() {
            played.fell = fell(end);
            played.again = judged.then_some(played.fell);
            return Ok(played);
        }
        let there = if judged { Some(snapshot(env)?.save()) } else { None };
        // What follows the first stride is chosen anew in both, also where a skill is longer.
        self.actor.begin();
        played.fell = fell(self.steps(env, ahead)?);
        if let Some(there) = there {
            snapshot(env)?.restore(&there)?;
            self.actor.begin();
            played.again = Some(fell(self.steps(env, ahead)?));
        }
        Ok(played)
    }
}

impl FallStudy {
    /// The falls together, by distance.
    pub fn by_distance(&self) -> Vec<Distance> {
        let furthest = self.rows.iter().map(|r| r.back).max().unwrap_or(0);
        let distance = |back| {
            let rows: Vec<&Rewound> = self.rows.iter().filter(|r| r.back == back).collect();
            let shares: Vec<f64> = rows.iter().map(|r| share(&r.tries)).collect();
            let Spread { mean, median, .. } = Spread::of(&shares);
            let risk = |fell| mean_risk(rows.iter().flat_map(|row| &row.tries), fell);
            Distance { back, falls: shares.len(), mean, median, risks: [risk(true), risk(false)] }
        };
        (0..=furthest).map(distance).collect()
    }

    /// A row per fall and place.
    pub fn csv(&self) -> String {
        let mut text = String::from("fall,length,back,ahead,tries,fell,risk_fell,risk_stood,drawn,drawn_fell");
        text += ",auc,pick,end_auc,end_pick,again_auc,again_pick\n";
        for row in &self.rows {
            let Rewound { fall, length, back, ahead, tries, .. } = row;
            let fell = |tries: &[Try]| tries.iter().filter(|one| one.fell).count();
            let number = |x: Option<f64>| x.map_or(String::new(), |x| format!("{x:.6}"));
            let risks = [true, false].map(|fell| number(mean_risk(tries, fell))).join(",");
            let (n, choices) = (tries.len(), row.choices());
            write!(text, "{fall},{length},{back},{ahead},{n},{},{risks}", fell(tries)).expect("memory");
            write!(text, ",{},{}", choices.len(), fell(choices)).expect("memory");
            for judge in Judge::ALL {
                let judged = row.judged(judge);
                let [auc, pick] = [judged.map(|j| j.auc), judged.map(|j| j.pick)].map(number);
                write!(text, ",{auc},{pick}").expect("memory");
            }
            text.push('\n');
        }
        text
    }
}

/// Mean predicted risk of the tries that fell, or of those that stood; none where there are none, or none was predicted.
fn mean_risk<'a>(tries: impl IntoIterator<Item = &'a Try>, fell: bool) -> Option<f64> {
    let risks: Vec<f64> = tries.into_iter().filter(|one| one.fell == fell).filter_map(|one| one.predicted).collect();
    (!risks.is_empty()).then(|| risks.iter().sum::<f64>() / risks.len() as f64)
}

#[cfg(test)]
mod tests;
