//! The trained agent, which no longer learns.

use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::nets::{Mlp, Tape};
use sskp_blocks::rng::Rng;

use super::config::SkillConfig;
use super::decoder::Decoder;
use super::planner::{Gaussian, Planner, Planning};
use super::risk::RiskPredictor;
use super::risk_by_iteration::risks_by_iteration;
use super::skill::SkillModel;
use crate::Actor;
use crate::portable::{Body, Network, Portable};

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
    policy: Gaussian,
    skill: Vec<f32>,
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
        let SkillConfig { horizon: played, dim: skill, .. } = *skills.config();
        let state = vec![0.0; start.inputs()];
        Self {
            start,
            skills,
            risk,
            planner,
            rng,
            state,
            policy: Gaussian::default(),
            skill: vec![0.0; skill],
            tape: Tape::default(),
            played,
            predicted: None,
            unplanned: false,
        }
    }

    /// Asks for the start's Gaussian in the standardised state.
    fn ask(&mut self) {
        self.policy.read(self.start.forward(&self.state, 1, &mut self.tape));
    }

    /// The next skill. Without `explore` it depends on the state alone, and nothing is allocated.
    fn plan(&mut self, explore: bool) {
        self.ask();
        let Self { policy, skill, risk, state, planner, rng, .. } = self;
        if std::mem::take(&mut self.unplanned) {
            return planner.draw(policy, rng, skill);
        }
        let score = |z: &[f32], out: &mut [f32]| risk.score(state, z, out);
        match explore {
            true => skill.copy_from_slice(&planner.plan(policy, score, rng, |_| ())),
            false => planner.plan_mean_into(policy, score, skill),
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
        self.ask();
        let mut skills = vec![0.0; STATE_SKILLS * self.policy.mean.len()];
        self.planner.draw(&self.policy, rng, &mut skills);
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
        self.ask();
        Some(risks_by_iteration(&mut self.planner, &mut self.risk, &self.policy, &self.state, rng))
    }

    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        self.skills.standardiser.apply(state, &mut self.state);
        if self.played == self.skills.config().horizon {
            self.plan(explore);
            if self.planner.config.planning != Planning::Off {
                let mut logit = [0.0];
                self.risk.score(&self.state, &self.skill, &mut logit);
                self.predicted = Some(sigmoid(logit[0]));
            }
            self.skills.decoder.begin(&self.skill);
            self.played = 0;
        }
        self.skills.decoder.act(self.played, &self.state, action);
        self.played += 1;
    }

    fn portable(&self) -> Option<Portable> {
        // A placebo deals scores out at random: there is nothing to be said of it outside.
        if self.planner.config.placebo {
            return None;
        }
        let (obs, config, planner) = (self.start.inputs(), self.skills.config(), &self.planner.config);
        let planning = match planner.planning {
            Planning::Risk => "risk",
            Planning::Naive => "naive",
            Planning::Off => "off",
        };
        let (shift, scale) = self.skills.standardiser.shift_and_scale();
        let mut recipe = serde_json::json!({
            "standardise": { "shift": shift, "scale": scale, "clip": self.skills.standardiser.clip },
            "skill_length": config.horizon,
            "skill_dim": config.dim,
            "planner": {
                "planning": planning,
                "iterations": planner.iterations,
                "samples": planner.samples,
                "elites": planner.elites,
                "min_std": planner.min_std,
                "near_policy": planner.near_policy,
                "tolerance": planner.tolerance,
                "bound": self.planner.bound,
            },
        });
        let network = |name, inputs, body| Network { name, inputs, body };
        let both = || vec![("state", obs), ("skill", config.dim)];
        let mut networks = vec![network("policy", vec![("state", obs)], Body::Gaussian(self.start.clone()))];
        if planner.planning != Planning::Off {
            networks.push(network("risk", both(), Body::Logit(self.risk.net().clone())));
        }
        match &self.skills.decoder {
            Decoder::Closed(_) => {
                let net = self.skills.decoder.net().expect("a closed loop").clone();
                recipe["decoder"] = "closed-loop".into();
                networks.push(network("decoder", both(), Body::Clipped(net)));
            }
            Decoder::Open(open) => {
                let (cell, head, [h, c, action]) = open.parts_of();
                recipe["decoder"] = "open-loop".into();
                recipe["start"] = serde_json::json!({ "h": h, "c": c, "action": action });
                let inputs = vec![("action", action.len()), ("skill", config.dim)];
                networks.push(network("decoder", inputs, Body::Cell(cell.clone(), head.clone())));
            }
        }
        let noise = (planner.planning != Planning::Off).then(|| self.planner.mean_noise());
        Some(Portable { kind: "skill", networks, recipe, noise })
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
