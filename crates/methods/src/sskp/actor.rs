//! The trained agent, which no longer learns.

use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::nets::{Mlp, Tape};
use sskp_blocks::rng::Rng;

use super::planner::{Gaussian, Planner, Planning};
use super::risk::RiskPredictor;
use super::risk_by_iteration::risks_by_iteration;
use super::skill::SkillModel;
use crate::Actor;

/// Skills of the policy over which the risk of a state is averaged.
const STATE_SKILLS: usize = 64;

/// Plans a skill, plays it, plans the next.
pub(super) struct SskpActor {
    /// What planning starts from: π_θ, or the prior.
    start: Mlp,
    skills: SkillModel,
    risk: RiskPredictor,
    planner: Planner,
    rng: Rng,
    state: Vec<f32>,
    tape: Tape,
    /// Steps of the skill played so far; a new one is planned at H.
    played: usize,
    /// P_ζ of the skill being played.
    predicted: Option<f32>,
    /// Whether the next skill is drawn and not planned.
    unplanned: bool,
}

impl SskpActor {
    pub(super) fn new(start: Mlp, skills: SkillModel, risk: RiskPredictor, planner: Planner, rng: Rng) -> Self {
        let (state, played) = (vec![0.0; start.inputs()], skills.config().horizon);
        Self {
            start,
            skills,
            risk,
            planner,
            rng,
            state,
            tape: Tape::default(),
            played,
            predicted: None,
            unplanned: false,
        }
    }

    /// The start's Gaussian in the standardised state.
    fn gaussian(&mut self) -> Gaussian {
        let mut gaussian = Gaussian::default();
        gaussian.read(self.start.forward(&self.state, 1, &mut self.tape));
        gaussian
    }

    /// The next skill. Without `explore` it depends on the state alone.
    fn plan(&mut self, explore: bool) -> Vec<f32> {
        let policy = self.gaussian();
        if std::mem::take(&mut self.unplanned) {
            let mut skill = policy.mean.clone();
            self.planner.draw(&policy, &mut self.rng, &mut skill);
            return skill;
        }
        let (risk, state) = (&mut self.risk, &self.state);
        let score = |z: &[f32], out: &mut [f32]| risk.score(state, z, out);
        match explore {
            true => self.planner.plan(&policy, score, &mut self.rng, |_| ()),
            false => self.planner.plan_mean(&policy, score),
        }
    }
}

impl Actor for SskpActor {
    fn begin(&mut self) {
        self.played = self.skills.config().horizon;
        self.predicted = None;
        self.unplanned = false;
    }

    fn risk(&self) -> Option<f32> {
        self.predicted
    }

    fn state_risk(&mut self, state: &[f32], rng: &mut Rng) -> Option<f32> {
        // Without planning no risk was ever learnt.
        if self.planner.config.planning == Planning::Off {
            return None;
        }
        self.skills.standardiser.apply(state, &mut self.state);
        let policy = self.gaussian();
        let mut skills = vec![0.0; STATE_SKILLS * policy.mean.len()];
        self.planner.draw(&policy, rng, &mut skills);
        let mut logits = [0.0; STATE_SKILLS];
        self.risk.score(&self.state, &skills, &mut logits);
        Some(logits.iter().map(|logit| sigmoid(*logit)).sum::<f32>() / STATE_SKILLS as f32)
    }

    fn skip_planning(&mut self) -> bool {
        self.unplanned = self.planner.config.planning != Planning::Off;
        self.unplanned
    }

    fn planned_risks(&mut self, state: &[f32], rng: &mut Rng) -> Option<Vec<f64>> {
        if self.planner.config.planning == Planning::Off {
            return None;
        }
        self.skills.standardiser.apply(state, &mut self.state);
        let policy = self.gaussian();
        Some(risks_by_iteration(&mut self.planner, &mut self.risk, &policy, &self.state, rng))
    }

    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        self.skills.standardiser.apply(state, &mut self.state);
        if self.played == self.skills.config().horizon {
            let z = self.plan(explore);
            if self.planner.config.planning != Planning::Off {
                let mut logit = [0.0];
                self.risk.score(&self.state, &z, &mut logit);
                self.predicted = Some(sigmoid(logit[0]));
            }
            self.skills.decoder.begin(&z);
            self.played = 0;
        }
        self.skills.decoder.act(self.played, &self.state, action);
        self.played += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{PlannerConfig, RiskConfig};
    use super::super::pairs::tests::small_skills;
    use super::*;

    fn actor(planning: Planning) -> SskpActor {
        let skills = small_skills(2);
        let risk =
            RiskPredictor::new(RiskConfig { width: 16, ..Default::default() }, 2, 3, &mut Rng::stream(1, "risk"));
        let config = PlannerConfig { planning, near_policy: 0.0, tolerance: 0.0, ..Default::default() };
        let planner = Planner::new(config, vec![4.0; 3]);
        SskpActor::new(skills.prior_net().clone(), skills, risk, planner, Rng::stream(2, "actor"))
    }

    /// Mean predicted risk of many first skills in one state.
    fn mean_risk(actor: &mut SskpActor, planned: bool) -> f32 {
        let mut sum = 0.0;
        for _ in 0..400 {
            actor.begin();
            if !planned {
                assert!(actor.skip_planning());
            }
            actor.act(&[0.3, -0.4], true, &mut [0.0]);
            sum += actor.risk().unwrap() / 400.0;
        }
        sum
    }

    #[test]
    fn a_skill_that_is_not_planned_is_as_risky_as_the_state() {
        let mut actor = actor(Planning::Risk);
        let (planned, drawn) = (mean_risk(&mut actor, true), mean_risk(&mut actor, false));
        let mut rng = Rng::stream(3, "state risk");
        let state = (0..20).map(|_| actor.state_risk(&[0.3, -0.4], &mut rng).unwrap()).sum::<f32>() / 20.0;
        assert!((drawn - state).abs() < 0.1 * (drawn - planned), "planned {planned}, drawn {drawn}, state {state}");
        // Only the next skill is drawn: H = 2, so the third action belongs to a planned one again.
        actor.begin();
        actor.skip_planning();
        (0..3).for_each(|_| actor.act(&[0.3, -0.4], true, &mut [0.0]));
        assert!((actor.risk().unwrap() - planned).abs() < 0.2 * (drawn - planned));
    }

    #[test]
    fn the_risk_of_a_state_does_not_disturb_what_is_played() {
        let play = |asked: bool| {
            let (mut actor, mut rng) = (actor(Planning::Risk), Rng::stream(3, "state risk"));
            let mut actions = [0.0; 6];
            for action in actions.chunks_exact_mut(1) {
                if asked {
                    actor.state_risk(&[9.0, 9.0], &mut rng);
                }
                actor.act(&[0.3, -0.4], true, action);
            }
            actions
        };
        assert_eq!(play(true), play(false));
        let mut off = actor(Planning::Off);
        assert!(off.state_risk(&[0.0, 0.0], &mut Rng::stream(0, "x")).is_none() && !off.skip_planning());
    }
}
