//! When was a fall decided? Falls of a trained policy, rewound and played again.

use std::fmt::Write as _;

use sskp_blocks::env::{End, Env};
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};
use sskp_methods::Actor;

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
    /// Seed of the start states.
    pub seed: u64,
}

/// One fall, played again from one place before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rewound {
    /// Number of the fall, from 1.
    pub fall: usize,
    /// Steps of the episode that ended in it.
    pub length: usize,
    /// How many strides before the one in which it fell; 0 is the beginning of that one.
    pub back: usize,
    /// Steps from that place to the fall.
    pub ahead: usize,
    /// How often it was played again.
    pub tries: u32,
    /// How often it fell again, within those steps and one stride more.
    pub fell: u32,
    /// Sum of the risks predicted at that place when it fell, and when it stood; none where the policy predicts none.
    pub risks: Option<[f64; 2]>,
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
    let mut rng = Rng::stream(search.seed, "starts");
    let mut player = Player { actor: &mut *trained.actor, action: vec![0.0; env.spec().action_dim], state: Vec::new() };
    let mut study = FallStudy::default();
    while study.falls < search.falls && study.episodes < search.episodes {
        env.reset(&mut rng)?;
        study.episodes += 1;
        player.actor.begin();
        let (mut places, mut length) = (Vec::new(), 0);
        let end = loop {
            if length % STRIDE == 0 {
                places.push(snapshot(&mut *env)?.save());
            }
            length += 1;
            if let Some(end) = player.step(&mut *env)? {
                break end;
            }
        };
        if end != End::Violation {
            continue;
        }
        study.falls += 1;
        for (back, place) in places.iter().rev().take(search.back + 1).enumerate() {
            let ahead = length - (places.len() - 1 - back) * STRIDE;
            let mut row = Rewound { fall: study.falls, length, back, ahead, tries: search.tries, ..Rewound::default() };
            for _ in 0..search.tries {
                snapshot(&mut *env)?.restore(place)?;
                player.again(&mut *env, ahead + STRIDE, &mut row)?;
            }
            study.rows.push(row);
        }
    }
    match study.falls {
        0 => Err(Error::other(format!("no fall in {}: there is nothing to study", plural(study.episodes, "episode")))),
        _ => Ok(study),
    }
}

struct Player<'a> {
    actor: &'a mut dyn Actor,
    action: Vec<f32>,
    state: Vec<f32>,
}

impl Player<'_> {
    fn step(&mut self, env: &mut dyn Env) -> Result<Option<End>> {
        self.state.clear();
        self.state.extend(env.obs().iter().map(|x| *x as f32));
        self.actor.act(&self.state, true, &mut self.action);
        Ok(env.step(&self.action)?.end)
    }

    fn again(&mut self, env: &mut dyn Env, steps: usize, row: &mut Rewound) -> Result<()> {
        self.actor.begin();
        let mut end = self.step(env)?;
        let predicted = self.actor.risk();
        for _ in 1..steps {
            if end.is_some() {
                break;
            }
            end = self.step(env)?;
        }
        let fell = end == Some(End::Violation);
        row.fell += u32::from(fell);
        if let Some(risk) = predicted {
            row.risks.get_or_insert_default()[usize::from(!fell)] += f64::from(risk);
        }
        Ok(())
    }
}

impl FallStudy {
    /// The falls together, by distance.
    pub fn by_distance(&self) -> Vec<Distance> {
        let furthest = self.rows.iter().map(|r| r.back).max().unwrap_or(0);
        let distance = |back| {
            let rows: Vec<&Rewound> = self.rows.iter().filter(|r| r.back == back).collect();
            let shares: Vec<f64> = rows.iter().map(|r| f64::from(r.fell) / f64::from(r.tries)).collect();
            let Spread { mean, median, .. } = Spread::of(&shares);
            let risk = |stood: usize| {
                let count = |r: &Rewound| if stood == 0 { r.fell } else { r.tries - r.fell };
                let seen: u32 = rows.iter().filter(|r| r.risks.is_some()).map(|r| count(r)).sum();
                let sum: f64 = rows.iter().filter_map(|r| r.risks).map(|risks| risks[stood]).sum();
                (seen > 0).then(|| sum / f64::from(seen))
            };
            Distance { back, falls: shares.len(), mean, median, risks: [risk(0), risk(1)] }
        };
        (0..=furthest).map(distance).collect()
    }

    /// A row per fall and place.
    pub fn csv(&self) -> String {
        let mut text = String::from("fall,length,back,ahead,tries,fell,risk_fell,risk_stood\n");
        for r in &self.rows {
            let mean = |which: usize, n: u32| match r.risks {
                Some(risks) if n > 0 => format!("{:.6}", risks[which] / f64::from(n)),
                _ => String::new(),
            };
            let (fell, stood) = (mean(0, r.fell), mean(1, r.tries - r.fell));
            let Rewound { fall, length, back, ahead, tries, fell: n, .. } = r;
            writeln!(text, "{fall},{length},{back},{ahead},{tries},{n},{fell},{stood}").expect("memory");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study() -> FallStudy {
        let row = |fall, back, fell, risks| Rewound { fall, length: 25, back, ahead: 5, tries: 4, fell, risks };
        let rows = vec![
            row(1, 0, 4, Some([3.6, 0.0])),
            row(1, 1, 1, Some([0.5, 0.6])),
            row(2, 0, 2, Some([1.8, 0.2])),
            row(2, 1, 0, None),
            row(3, 0, 0, None),
        ];
        FallStudy { rows, falls: 3, episodes: 40 }
    }

    #[test]
    fn falls_are_put_together_by_distance() {
        let [here, before] = study().by_distance().try_into().unwrap();
        assert_eq!((here.back, here.falls, here.mean, here.median), (0, 3, 0.5, 0.5));
        // (3.6 + 1.8)/6 tries that fell, 0.2/2 that stood; the fall without predictions does not count.
        assert!((here.risks[0].unwrap() - 0.9).abs() < 1e-12 && (here.risks[1].unwrap() - 0.1).abs() < 1e-12);
        assert_eq!((before.back, before.falls, before.mean, before.median), (1, 2, 0.125, 0.125));
        assert!((before.risks[0].unwrap() - 0.5).abs() < 1e-12 && (before.risks[1].unwrap() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn the_table_leaves_unknown_risks_empty() {
        let text = study().csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "1,25,0,5,4,4,0.900000,");
        assert_eq!(lines[4], "2,25,1,5,4,0,,");
        assert_eq!(lines.len(), 6);
    }
}
