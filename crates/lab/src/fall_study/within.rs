//! Whether a number tells tries apart that begin in the same place: what planning needs to know, where the state alone does not help.

use sskp_blocks::judge::auc;

use super::{FallStudy, Rewound, Try};
use crate::stats::{Spread, grouped_interval};

/// Tries among which the least risky is picked.
pub const PICK: usize = 32;
/// Shares of tries that fell between which a place says something: where nearly all fall, or nearly none, there is nothing to choose.
pub const UNDECIDED: [f64; 2] = [0.05, 0.95];
/// Places below which the numbers are not to be believed: with ten, a predictor has looked like 0.62 that was 0.52 with 36.
pub const ENOUGH: usize = 30;

/// What judges a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The risk predicted for its first skill, before it is played: what planning has.
    Predicted,
    /// The state's risk where the first skill really ended, a fall being the riskiest of all: what planning would have if it knew where a
    /// skill leads.
    AtEnd,
    /// Whether it fell when the same first skill was followed by other choices: how much of the outcome the first skill decides at all.
    Again,
}

impl Judge {
    /// All of them.
    pub const ALL: [Judge; 3] = [Judge::Predicted, Judge::AtEnd, Judge::Again];

    /// In words, for tables.
    pub fn words(self) -> &'static str {
        match self {
            Judge::Predicted => "predicted risk of the skill",
            Judge::AtEnd => "state's risk where the skill ended",
            Judge::Again => "same skill played again",
        }
    }

    fn of(self, one: &Try) -> Option<f64> {
        match self {
            Judge::Predicted => one.predicted,
            Judge::AtEnd => one.at_end,
            Judge::Again => one.again.map(|fell| f64::from(u8::from(fell))),
        }
    }
}

/// How well a judge does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skilled<T> {
    /// The chance that a try that fell was judged riskier than one that stood, ties counting half.
    pub auc: T,
    /// How often the least risky of [`PICK`] tries fell; of all where there are fewer.
    pub pick: T,
}

/// A mean over places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The mean.
    pub mean: f64,
    /// Its 95 % bootstrap interval, falls resampled with all their places; none of one fall.
    pub interval: Option<[f64; 2]>,
}

/// The places that were undecided.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecided {
    /// How many.
    pub places: usize,
    /// Falls they belong to.
    pub falls: usize,
    /// Share of the tries that fell when the first skill was a draw of the policy.
    pub drawn: Measured,
    /// The same when it was planned as in training; none where nothing is planned.
    pub planned: Option<Measured>,
    /// Each of [`Judge::ALL`]; none where it has nothing to say.
    pub judges: [Option<Skilled<Measured>>; 3],
}

impl Rewound {
    /// Tries whose first skill was a draw of the policy.
    pub fn choices(&self) -> &[Try] {
        if self.drawn.is_empty() { &self.tries } else { &self.drawn }
    }

    /// Whether some of the choices fell and some stood.
    pub fn undecided(&self) -> bool {
        (UNDECIDED[0]..=UNDECIDED[1]).contains(&share(self.choices()))
    }

    /// How a judge does here; none where the place is decided or the judge has nothing to say.
    pub fn judged(&self, judge: Judge) -> Option<Skilled<f64>> {
        let scored = |one: &Try| Some((judge.of(one)?, one.fell));
        let scored: Vec<(f64, bool)> = self.choices().iter().map(scored).collect::<Option<_>>()?;
        let of = |kind: bool| scored.iter().filter(|(_, fell)| *fell == kind).map(|(s, _)| *s).collect::<Vec<_>>();
        let auc = auc(&of(true), &of(false)).filter(|_| self.undecided())?;
        Some(Skilled { auc, pick: pick(scored) })
    }
}

/// Share of tries that fell.
pub(super) fn share(tries: &[Try]) -> f64 {
    tries.iter().filter(|one| one.fell).count() as f64 / tries.len().max(1) as f64
}

/// The chance that the least risky of [`PICK`] tries, drawn without replacement, fell: the exact expectation. Among equals it is anyone.
fn pick(mut scored: Vec<(f64, bool)>) -> f64 {
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n = scored.len();
    let drawn = PICK.min(n);
    // The chance that none of the first `out` is drawn: C(n − out, drawn)/C(n, drawn).
    let missed = |out: usize| match n - out >= drawn {
        true => (0..out).map(|i| (n - drawn - i) as f64 / (n - i) as f64).product(),
        false => 0.0,
    };
    let (mut first, mut chance) = (0, 0.0);
    for tie in scored.chunk_by(|a, b| a.0 == b.0) {
        let fell = tie.iter().filter(|(_, fell)| *fell).count() as f64 / tie.len() as f64;
        chance += (missed(first) - missed(first + tie.len())) * fell;
        first += tie.len();
    }
    chance
}

impl FallStudy {
    /// What can be told apart in the places where 5 to 95 % of the choices fell; none where there are none.
    pub fn undecided(&self) -> Option<Undecided> {
        let places: Vec<&Rewound> = self.rows.iter().filter(|row| row.undecided()).collect();
        let measured = |value: &dyn Fn(&Rewound) -> Option<f64>| {
            let of = |fall: &[&Rewound]| fall.iter().map(|row| value(row)).collect::<Option<Vec<_>>>();
            let groups: Vec<Vec<f64>> = places.chunk_by(|a, b| a.fall == b.fall).map(of).collect::<Option<_>>()?;
            Some(Measured { mean: Spread::of(&groups.concat()).mean, interval: grouped_interval(&groups) })
        };
        let judge = |judge: Judge| {
            let auc = measured(&|row| row.judged(judge).map(|s| s.auc))?;
            Some(Skilled { auc, pick: measured(&|row| row.judged(judge).map(|s| s.pick))? })
        };
        (!places.is_empty()).then(|| Undecided {
            places: places.len(),
            falls: places.chunk_by(|a, b| a.fall == b.fall).count(),
            drawn: measured(&|row| Some(share(row.choices()))).expect("every place has a share"),
            planned: measured(&|row| (!row.drawn.is_empty()).then(|| share(&row.tries))),
            judges: Judge::ALL.map(judge),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(fall: usize, tries: &[(f64, bool)]) -> Rewound {
        let one = |(risk, fell): &(f64, bool)| Try {
            fell: *fell,
            predicted: Some(*risk),
            at_end: Some(if *fell { f64::INFINITY } else { 0.3 }),
            again: None,
        };
        Rewound { fall, tries: tries.iter().map(one).collect(), ..Rewound::default() }
    }

    #[test]
    fn a_place_by_hand() {
        // Fell: 0.5 and 0.2; stood: 0.1 and 0.2. Pairs: 0.5 beats both, 0.2 beats 0.1 and ties: 3.5 of 4.
        let at = place(1, &[(0.5, true), (0.1, false), (0.2, true), (0.2, false)]);
        assert_eq!(at.judged(Judge::Predicted), Some(Skilled { auc: 0.875, pick: 0.0 }));
        assert_eq!(at.judged(Judge::AtEnd), Some(Skilled { auc: 1.0, pick: 0.0 }));
        assert_eq!(at.judged(Judge::Again), None, "nobody played it");
        // The least risk is shared by two, one of which fell.
        let tied = place(1, &[(0.2, true), (0.2, false), (0.9, false)]);
        assert_eq!(tied.judged(Judge::Predicted), Some(Skilled { auc: 0.25, pick: 0.5 }));
    }

    #[test]
    fn the_pick_is_the_expectation_over_draws_without_replacement() {
        // 33 tries, the least risky alone fell: it is missing from one draw of 32 in 33.
        let scored: Vec<(f64, bool)> = (0..33).map(|i| (f64::from(i), i == 0)).collect();
        assert!((pick(scored) - 32.0 / 33.0).abs() < 1e-12);
        // 64 tries, the two least risky fell: one minus C(62, 32)/C(64, 32) = 32·31/(64·63).
        let scored: Vec<(f64, bool)> = (0..64).map(|i| (f64::from(i), i < 2)).collect();
        assert!((pick(scored) - (1.0 - 32.0 * 31.0 / (64.0 * 63.0))).abs() < 1e-12);
        // A judge that says nothing picks what fell as often as it fell.
        let scored: Vec<(f64, bool)> = (0..50).map(|i| (0.0, i < 12)).collect();
        assert!((pick(scored) - 0.24).abs() < 1e-12);
    }

    #[test]
    fn only_places_where_something_can_be_chosen_count_and_falls_are_what_is_resampled() {
        let none: Vec<(f64, bool)> = vec![(0.5, false); 40];
        let mut one = none.clone();
        one[0].1 = true;
        let mut two = one.clone();
        two[1] = (0.9, true);
        assert!(!place(1, &none).undecided() && !place(1, &one).undecided() && place(1, &two).undecided());
        let sharp = [(0.9, true), (0.1, false)];
        let wrong = [(0.1, true), (0.9, false)];
        let rows =
            vec![place(1, &none), place(1, &sharp), place(1, &sharp), place(2, &wrong), place(3, &[(0.0, true)])];
        let seen = FallStudy { rows, falls: 3, episodes: 9 }.undecided().unwrap();
        assert_eq!((seen.places, seen.falls), (3, 2));
        assert_eq!((seen.drawn.mean, seen.drawn.interval, seen.planned), (0.5, Some([0.5, 0.5]), None));
        let Skilled { auc, pick } = seen.judges[0].unwrap();
        assert_eq!((auc.mean, auc.interval), (2.0 / 3.0, Some([0.0, 1.0])));
        assert_eq!((pick.mean, pick.interval), (1.0 / 3.0, Some([0.0, 1.0])));
        assert_eq!(seen.judges[2], None);
        assert_eq!(FallStudy { rows: vec![place(1, &none)], falls: 1, episodes: 1 }.undecided(), None);
    }

    #[test]
    fn planned_tries_are_counted_beside_the_drawn_ones_and_do_not_choose_the_places() {
        let mut at = place(1, &[(0.1, false), (0.1, false)]);
        at.drawn = place(1, &[(0.5, true), (0.5, false), (0.5, false), (0.5, false)]).tries;
        let seen = FallStudy { rows: vec![at], falls: 1, episodes: 1 }.undecided().unwrap();
        assert_eq!((seen.drawn.mean, seen.planned.unwrap().mean, seen.planned.unwrap().interval), (0.25, 0.0, None));
        assert_eq!(seen.judges[0].unwrap().auc.mean, 0.5);
    }
}
