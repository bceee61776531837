use sskp_blocks::env::{Snapshot, Spec, Step};

use super::*;

fn tries(risks: &[(bool, Option<f64>)]) -> Vec<Try> {
    risks.iter().map(|(fell, predicted)| Try { fell: *fell, predicted: *predicted, ..Try::default() }).collect()
}

fn table() -> FallStudy {
    let row = |fall, back, tries| Rewound { fall, length: 25, back, ahead: 5, tries, drawn: Vec::new() };
    let risk = |fell, x| (fell, Some(x));
    let rows = vec![
        row(1, 0, tries(&[risk(true, 0.9); 4])),
        row(1, 1, tries(&[risk(true, 0.5), risk(false, 0.3), risk(false, 0.2), risk(false, 0.1)])),
        row(2, 0, tries(&[risk(true, 1.0), risk(true, 0.8), risk(false, 0.2), risk(false, 0.0)])),
        row(2, 1, tries(&[(false, None); 4])),
        row(3, 0, tries(&[(false, None); 4])),
    ];
    FallStudy { rows, falls: 3, episodes: 40 }
}

#[test]
fn falls_are_put_together_by_distance() {
    let [here, before] = table().by_distance().try_into().unwrap();
    assert_eq!((here.back, here.falls, here.mean, here.median), (0, 3, 0.5, 0.5));
    // (3.6 + 1.8)/6 tries that fell, 0.2/2 that stood; the fall without predictions does not count.
    assert!((here.risks[0].unwrap() - 0.9).abs() < 1e-12 && (here.risks[1].unwrap() - 0.1).abs() < 1e-12);
    assert_eq!((before.back, before.falls, before.mean, before.median), (1, 2, 0.125, 0.125));
    assert!((before.risks[0].unwrap() - 0.5).abs() < 1e-12 && (before.risks[1].unwrap() - 0.2).abs() < 1e-12);
}

#[test]
fn the_table_leaves_unknown_risks_empty() {
    let text = table().csv();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "1,25,0,5,4,4,0.900000,,4,4,,,,,,");
    assert_eq!(lines[2], "1,25,1,5,4,1,0.500000,0.200000,4,1,1.000000,0.000000,,,,");
    assert_eq!(lines[4], "2,25,1,5,4,0,,,4,0,,,,,,");
    assert_eq!(lines.len(), 6);
}

/// Three strides of ten steps. The sign of the actions in the second decides: with a positive one it falls five steps into the third.
struct Ledge {
    spec: Spec,
    /// Steps so far, and whether it is decided.
    state: [f64; 2],
}

impl Env for Ledge {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Rng) -> Result<()> {
        self.state = [0.0; 2];
        Ok(())
    }
    fn step(&mut self, action: &[f32]) -> Result<Step> {
        self.state[0] += 1.0;
        let [step, doomed] = &mut self.state;
        if *step > 10.0 && *step <= 20.0 {
            *doomed = f64::from(u8::from(action[0] > 0.0));
        }
        let end = match *step {
            25.0 if *doomed > 0.0 => Some(End::Violation),
            30.0 => Some(End::Truncated),
            _ => None,
        };
        Ok(Step::new(0.0, end))
    }
    fn obs(&self) -> &[f64] {
        &self.state
    }
    fn snapshot(&mut self) -> Option<&mut dyn Snapshot> {
        Some(self)
    }
}

impl Snapshot for Ledge {
    fn save(&self) -> Vec<f64> {
        self.state.to_vec()
    }
    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.state.copy_from_slice(state);
        Ok(())
    }
    fn state_names(&self) -> Vec<String> {
        Vec::new()
    }
    fn start_from(&mut self, state: &[f64]) -> Result<()> {
        self.restore(state)
    }
}

/// Holds +1 or −1 for ten steps; knows nothing of skills and everything of states. Planning, it holds −1.
struct Walker {
    plans: bool,
    planned: bool,
    held: usize,
    skill: f32,
    rng: Rng,
}

impl Actor for Walker {
    fn begin(&mut self) {
        (self.held, self.planned) = (0, self.plans);
    }
    fn act(&mut self, _: &[f32], _: bool, action: &mut [f32]) {
        if self.held == 0 {
            let drawn = if self.rng.below(2) == 0 { 1.0 } else { -1.0 };
            // Planning finds −1 three times in four.
            self.skill = if self.planned && self.rng.below(2) == 0 { -1.0 } else { drawn };
            (self.held, self.planned) = (STRIDE, self.plans);
        }
        self.held -= 1;
        action[0] = self.skill;
    }
    fn risk(&self) -> Option<f32> {
        Some(0.5 - 0.1 * self.skill) // it says the opposite of what is true
    }
    fn state_risk(&mut self, state: &[f32], _: &mut Rng) -> Option<f32> {
        Some(state[1])
    }
    fn skip_planning(&mut self) -> bool {
        self.planned = false;
        self.plans
    }
}

fn walk(plans: bool, planned: bool, falls: usize, tries: u32) -> FallStudy {
    let spec = Spec { name: "ledge".into(), obs_dim: 2, action_dim: 1, time_limit: Some(30), dt: 0.1 };
    let mut env = Ledge { spec, state: [0.0; 2] };
    let mut walker = Walker { plans, planned: false, held: 0, skill: 0.0, rng: Rng::stream(0, "walker") };
    let search = FallSearch { falls, tries, back: 5, episodes: 1000, planned, seed: 0 };
    study(&mut env, &mut walker, search).unwrap()
}

#[test]
fn a_choice_that_decides_is_told_from_one_that_does_not() {
    for (plans, planned) in [(false, true), (true, true), (true, false)] {
        let seen = walk(plans, planned, 10, 400);
        assert_eq!((seen.falls, seen.rows.len()), (10, 30));
        for row in &seen.rows {
            assert_eq!((row.length, row.ahead, row.drawn.is_empty()), (25, 5 + 10 * row.back, !plans));
            let judged = Judge::ALL.map(|judge| row.judged(judge));
            let near = |x: f64, y: f64| (x - y).abs() < 0.12;
            match row.back {
                // Decided already.
                0 => assert_eq!((share(row.choices()), judged), (1.0, [None; 3])),
                // The first skill decides: what is predicted is wrong, where it leads and the same skill again say it exactly.
                1 => {
                    let [wrong, end, again] = judged.map(|j| j.unwrap());
                    assert_eq!((wrong.auc, end.auc, again.auc), (0.0, 1.0, 1.0));
                    // Thirty-two coins do not fall on one side.
                    assert!(wrong.pick > 1.0 - 1e-6 && end.pick < 1e-6 && again.pick < 1e-6, "{wrong:?} {end:?}");
                    assert!(near(share(row.choices()), 0.5) && near(share(&row.tries), if plans { 0.25 } else { 0.5 }));
                }
                // The second skill does, and nothing is known of it yet: it is planned where that is asked for.
                _ => {
                    let rate = if plans && planned { 0.25 } else { 0.5 };
                    assert!(near(share(row.choices()), rate) && near(share(&row.tries), rate), "{row:?}");
                    let [predicted, end, again] = judged.map(|j| j.unwrap());
                    assert!(near(predicted.auc, 0.5) && near(again.auc, 0.5), "{predicted:?} {again:?}");
                    assert!(end.auc == 0.5 && near(end.pick, share(row.choices())), "{end:?}");
                }
            }
        }
    }
}

#[test]
fn falls_are_looked_for_with_planning_or_without() {
    // Half of the draws fall, a quarter of the planned skills: a hundred falls take about 200 episodes (one deviation 14), or 400 (35).
    let episodes = |plans, planned| walk(plans, planned, 100, 1).episodes;
    let (drawn, planned) = (episodes(true, false), episodes(true, true));
    assert!(drawn.abs_diff(200) < 50 && planned.abs_diff(400) < 120, "{drawn} {planned}");
    assert_eq!(episodes(false, false), episodes(false, true), "nothing is planned either way");
}
