//! One gradient update of every learner, ready to be timed by `methods.rs`.
//!
//! Each row builds a learner as training does, with its default settings, gives it made-up transitions, and calls the very
//! function that training calls, the drawing of the minibatch included. `benches/methods_python.py` has the same updates in
//! PyTorch, under the same names.
//!
//! To add a row: one line of [`ROWS`], the function it names, and a function of that name in Python.

use sskp_blocks::Result;
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::env::{End, Spec};
use sskp_blocks::replay::Replay;
use sskp_blocks::rng::Rng;

use sskp_methods::cpq::{Cpq, CpqConfig};
use sskp_methods::recovery_rl::{RecoveryRl, RecoveryRlConfig};
use sskp_methods::sac::{Sac, SacConfig};
use sskp_methods::smbpo::dynamics::Dynamics;
use sskp_methods::smbpo::{Smbpo, SmbpoConfig};
use sskp_methods::sskp::decoder::DecoderKind;
use sskp_methods::sskp::pairs::Pairs;
use sskp_methods::sskp::planner::Planning;
use sskp_methods::sskp::risk::RiskPredictor;
use sskp_methods::sskp::skill::{SkillModel, Windows};
use sskp_methods::sskp::{RiskConfig, SkillConfig, Sskp, SskpConfig};
use sskp_methods::sskp_plus::{SskpPlus, SskpPlusConfig};
use sskp_methods::{Method as _, Setup};

/// An update and who does it.
pub struct Row {
    /// Its name here and in Python.
    pub name: &'static str,
    /// The methods that learn by it.
    pub methods: &'static [&'static str],
    /// Its learner for a robot, on one thread.
    pub build: fn(&Spec) -> Result<Update>,
}

/// A learner that waits to be updated.
pub struct Update {
    /// Rows of a minibatch.
    pub batch: usize,
    /// Numbers that learn.
    pub parameters: usize,
    /// One update.
    pub once: Box<dyn FnMut() -> Result<()>>,
}

/// Every update there is.
pub const ROWS: &[Row] = &[
    Row { name: "sac", methods: &["sac", "ssac"], build: sac },
    Row { name: "recovery-rl", methods: &["recovery-rl"], build: recovery_rl },
    Row { name: "cpq", methods: &["cpq"], build: cpq },
    Row { name: "smbpo-model", methods: &["smbpo"], build: smbpo_model },
    Row { name: "smbpo-policy", methods: &["smbpo"], build: smbpo_policy },
    Row { name: "sskp-policy", methods: &["sskp", "sskp-np", "sskp-wo-rp", "spirl"], build: sskp_policy },
    Row { name: "sskp-risk", methods: &["sskp", "sskp-np"], build: sskp_risk },
    Row { name: "sskp-skills", methods: &["sskp", "sskp-np", "sskp-wo-rp", "spirl"], build: sskp_skills },
    Row { name: "sskp-plus-steps", methods: &["sskp-plus", "sskp-plus-wo-rp"], build: sskp_plus_steps },
];

/// Transitions, states or steps of demonstrations to draw from: more than a cache of the second level holds, as in a run.
const KEPT: usize = 10_000;

fn rng() -> Rng {
    Rng::stream(0, "bench methods")
}

/// Transitions of no robot; every tenth may be a violation. Numbers do not change the time.
fn fill(replay: &mut Replay, violation: impl Fn(usize) -> bool) {
    let (obs, dim) = replay.sizes();
    let (mut rng, mut state, mut next, mut action) = (rng(), vec![0.0; obs], vec![0.0; obs], vec![0.0; dim]);
    for i in 0..KEPT {
        rng.fill_normal(&mut state);
        rng.fill_normal(&mut next);
        rng.fill_action(&mut action);
        replay.push(&state, &action, rng.normal() as f32, violation(i).then_some(End::Violation), &next);
    }
}

fn every_tenth(i: usize) -> bool {
    i.is_multiple_of(10)
}

/// Actor, critics, temperature, targets.
fn sac(spec: &Spec) -> Result<Update> {
    let config = SacConfig::default();
    let batch = config.batch;
    let mut sac = Sac::new(spec, config, Setup::new("sac", 0, 1))?;
    fill(&mut sac.replay, every_tenth);
    Ok(Update { batch, parameters: sac.learner.parameters(), once: Box::new(move || sac.update(None)) })
}

/// The task policy's SAC, the risk critic and the recovery policy, each on a minibatch.
fn recovery_rl(spec: &Spec) -> Result<Update> {
    let config = RecoveryRlConfig::default();
    let batch = config.batch;
    let mut learner = RecoveryRl::new(spec, config, Setup::new("recovery-rl", 0, 1))?;
    fill(&mut learner.replay, every_tenth);
    let [positive, other] = &mut learner.memory;
    fill(positive, |_| true);
    fill(other, |_| false);
    Ok(Update { batch, parameters: learner.parameters(), once: Box::new(move || learner.update(false)) })
}

/// Autoencoder, reward critics, cost critics with the term for actions out of distribution, actor.
fn cpq(spec: &Spec) -> Result<Update> {
    let mut config = CpqConfig::default();
    // A quarter of the sampled actions, as in OSRL: against the data their number, and so the cost, would hang on the policy.
    (config.cost.ood_by_data, config.cost.ood_quantile) = (false, 0.75);
    let batch = config.batch;
    let mut cpq = Cpq::new(spec, config, Setup::new("cpq", 0, 1))?;
    fill(&mut cpq.demos, every_tenth);
    Ok(Update { batch, parameters: cpq.parameters(), once: Box::new(move || cpq.update().map(|_| ())) })
}

/// Every member of the ensemble, each on its own minibatch.
fn smbpo_model(spec: &Spec) -> Result<Update> {
    let config = SmbpoConfig::default().model;
    let (obs, action) = (spec.obs_dim, spec.action_dim);
    let mut rng = rng();
    let mut model = Dynamics::new(config.ensemble, obs, action, 1, &mut rng)?;
    let mut replay = Replay::new(obs, action, KEPT);
    fill(&mut replay, every_tenth);
    model.meet(&replay, KEPT as u64);
    let (batch, parameters) = (config.batch, model.parameters());
    Ok(Update { batch, parameters, once: Box::new(move || model.update(&replay, batch, &mut rng).map(|_| ())) })
}

/// Safe SAC on real and imagined transitions.
fn smbpo_policy(spec: &Spec) -> Result<Update> {
    let config = SmbpoConfig::default();
    let batch = config.batch;
    let mut smbpo = Smbpo::new(spec, config, Setup::new("smbpo", 0, 1))?;
    fill(&mut smbpo.real, every_tenth);
    fill(&mut smbpo.imagined, every_tenth);
    Ok(Update { batch, parameters: smbpo.learner.parameters(), once: Box::new(move || smbpo.update_policy(None)) })
}

/// Skill-based SAC, held to the prior (Algorithm 2, line 19).
fn sskp_policy(spec: &Spec) -> Result<Update> {
    let mut config = SskpConfig::default();
    config.policy.learner.width = 256;
    let batch = config.policy.batch;
    let mut sskp = Sskp::new(spec, config, Setup::new("sskp", 0, 1))?;
    fill(&mut sskp.replay, every_tenth);
    let parameters = sskp.policy.parameters();
    Ok(Update { batch, parameters, once: Box::new(move || sskp.update_policy_once(None)) })
}

/// Eq. 4 on a minibatch of each set (Algorithm 2, line 18), all skills drawn from the prior, as on the demonstrations.
fn sskp_risk(spec: &Spec) -> Result<Update> {
    let SskpConfig { skill, risk, .. } = SskpConfig::default();
    let config = RiskConfig { width: 256, ..risk };
    let (obs, dim, batch) = (spec.obs_dim, skill.dim, config.batch);
    let mut rng = rng();
    let skills = SkillModel::new(skill, obs, spec.action_dim, &mut rng);
    let mut state = vec![0.0; obs];
    let [positive, unlabelled] = [(); 2].map(|()| {
        let mut pairs = Pairs::new(obs, dim, KEPT);
        for _ in 0..KEPT {
            rng.fill_normal(&mut state);
            pairs.push_state(&state);
        }
        pairs
    });
    let mut risk = RiskPredictor::new(config, obs, dim, &mut rng);
    let parameters = risk.net().params.len();
    let once = move || {
        risk.update(&positive, &unlabelled, &skills, &mut rng);
        Ok(())
    };
    Ok(Update { batch, parameters, once: Box::new(once) })
}

/// Demonstrations of no robot: steps to draw from, with no violation among them.
fn demonstrations(spec: &Spec) -> Result<Demonstrations> {
    let (obs, action, mut rng) = (spec.obs_dim, spec.action_dim, rng());
    let mut demos = Demonstrations::new(&spec.name, obs, action);
    const EPISODE: usize = 100;
    for episode in 0..KEPT / EPISODE {
        let (mut observations, mut actions) = (vec![0.0; (EPISODE + 1) * obs], vec![0.0; EPISODE * action]);
        rng.fill_normal(&mut observations);
        rng.fill_action(&mut actions);
        let [rewards, mut costs] = [(); 2].map(|()| vec![0.0; EPISODE]);
        // Some violate: SSkP+ learns from the states in which they do.
        let end = if episode.is_multiple_of(2) { Ending::Violation } else { Ending::Truncated };
        costs[EPISODE - 1] = f32::from(end == Ending::Violation);
        demos.push(Trajectory { observations, actions, rewards, costs, end })?;
    }
    Ok(demos)
}

/// Encoder, decoder and prior on a minibatch of windows (section 4.1).
fn sskp_skills(spec: &Spec) -> Result<Update> {
    let config = SkillConfig { decoder: DecoderKind::OpenLoop, ..Default::default() };
    let (batch, horizon) = (config.batch, config.horizon);
    let (mut rng, mut noise) = (rng(), vec![0.0; batch * config.dim]);
    let demos = demonstrations(spec)?;
    let starts: Vec<_> = demos.window_starts(horizon).collect();
    let mut windows = Windows::default();
    let mut skills = SkillModel::new(config, spec.obs_dim, spec.action_dim, &mut rng);
    let parameters = skills.parameters();
    let once = move || {
        skills.update(&demos, &starts, &mut rng, &mut windows, &mut noise);
        Ok(())
    };
    Ok(Update { batch, parameters, once: Box::new(once) })
}

/// The critics of single steps and, with every other of their updates, the decoder: two updates of the critics and one of the decoder.
fn sskp_plus_steps(spec: &Spec) -> Result<Update> {
    let mut config = SskpPlusConfig::default();
    config.planner.planning = Planning::Off;
    (config.skill.steps, config.adapt.offline_updates, config.adapt.warm_up_steps) = (1, 0, 0);
    config.adapt.width = 256;
    let (batch, every) = (config.adapt.batch, config.adapt.decoder_every);
    let mut learner = SskpPlus::new(spec, config, Setup::new("sskp-plus", 0, 1))?;
    learner.pretrain(&demonstrations(spec)?, &mut |_, _, _| Ok(()))?;
    let parameters = learner.parameters();
    Ok(Update { batch, parameters, once: Box::new(move || (0..every).try_for_each(|_| learner.update())) })
}

#[cfg(test)]
mod tests {
    use sskp_blocks::env::Env as _;
    use sskp_blocks::nets::linalg;
    use sskp_blocks::toy::Toy;

    use super::*;

    #[test]
    fn every_method_of_the_paper_has_a_row_and_no_row_is_of_an_unknown_one() {
        for name in ["sskp", "sskp-np", "sskp-wo-rp", "spirl", "recovery-rl", "cpq", "smbpo", "sac", "sskp-plus"] {
            assert!(ROWS.iter().any(|row| row.methods.contains(&name)), "{name}");
        }
        for name in ROWS.iter().flat_map(|row| row.methods) {
            sskp_methods::find(name).unwrap();
        }
    }

    /// Weights of a perceptron without biases, and of its first layer.
    fn weights(sizes: &[usize]) -> (usize, usize) {
        (sizes.windows(2).map(|w| w[0] * w[1]).sum(), sizes[0] * sizes[1])
    }

    /// The products of each update by pencil and paper: with P the weights of a network and P₀ those of its first layer, a row
    /// costs P forwards, 3P − P₀ to learn from, and P − P₀ + (columns × width) for the gradient in some inputs.
    #[test]
    fn operations_by_hand() {
        let spec = Toy::default().spec().clone();
        let (o, a, z) = (5, 2, 10);
        assert_eq!((spec.obs_dim, spec.action_dim), (o, a));
        let learn = |(all, first): (usize, usize)| 3 * all - first;
        let climb = |(all, first): (usize, usize), columns: usize| all - first + columns * 256;
        let (actor, critic) = (weights(&[o, 256, 256, 2 * a]), weights(&[o + a, 256, 256, 1]));
        let sac =
            |climbed: usize| actor.0 + learn(actor) + (2 + climbed) * critic.0 + 2 * learn(critic) + climb(critic, a);
        let recovery = weights(&[o, 256, 256, a]);
        let guard = actor.0 + 4 * critic.0 + 2 * learn(critic) + learn(recovery) + climb(critic, a);
        let (encoder, decoder) = (weights(&[o + a, 400, 400, 4 * a]), weights(&[o + 2 * a, 400, 400, a]));
        // The decoder's gradient goes on into all its inputs. A quarter of ten actions per state is out of distribution.
        let vae = learn(encoder) + 3 * decoder.0;
        let cpq = 256 * (vae + actor.0 + learn(actor) + 8 * critic.0 + 4 * learn(critic) + climb(critic, a))
            + 2560 * encoder.0
            + 640 * 2 * learn(critic);
        // Two layers of trunk, and two heads of two layers whose gradients all go on into the trunk.
        let member = [200 * 200 + 200 * (o + 1); 2].iter().sum::<usize>() + 200 * 200 + (o + a) * 200;
        let model = 5 * 256 * (3 * member - (o + a) * 200);
        let (prior, skill_critic) = (weights(&[o, 128, 128, 128, 2 * z]), weights(&[o + z, 256, 256, 1]));
        let skill_policy =
            3 * prior.0 + learn(prior) + 4 * skill_critic.0 + 2 * learn(skill_critic) + climb(skill_critic, z);
        let risk = weights(&[o + z, 256, 256, 1]);
        // Ten steps of both cells, the encoder's without a gradient in its inputs, the decoder's with a linear head.
        let gates = 4 * 128;
        let steps = 3 * (a + 128) * gates - a * gates + 3 * (a + z + 128) * gates + 3 * 128 * a;
        let skills = 10 * steps + 3 * 128 * 2 * z + learn(prior);
        // Twice: skills, played decoder, and slow copy and itself of each of four reward critics and the risk's. Once: skills, decoder, reference,
        // the slopes of all five.
        let closed = weights(&[o + z, 128, 128, a]);
        let step_critics = prior.0 + closed.0 + 5 * critic.0 + 5 * learn(critic);
        let plus = 2 * step_critics + prior.0 + closed.0 + learn(closed) + 5 * critic.0 + 5 * climb(critic, a);
        let by_hand = [
            ("sac", 256 * sac(2)),
            ("recovery-rl", 256 * (sac(2) + guard)),
            ("cpq", cpq),
            ("smbpo-model", model),
            ("smbpo-policy", 256 * sac(1)),
            ("sskp-policy", 256 * skill_policy),
            ("sskp-risk", 512 * (prior.0 + learn(risk))),
            ("sskp-skills", 128 * skills),
            ("sskp-plus-steps", 256 * plus),
        ];
        for (row, (name, products)) in ROWS.iter().zip(by_hand) {
            assert_eq!(row.name, name);
            let mut update = (row.build)(&spec).unwrap();
            (update.once)().unwrap();
            let before = linalg::operations();
            (update.once)().unwrap();
            assert_eq!(linalg::operations() - before, 2 * products as u64, "{name}");
        }
    }
}
