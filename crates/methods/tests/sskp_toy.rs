//! The paper's method on the toy, from a demonstrator of middling quality.

use blocks::demos::{Demonstrations, Ending, Trajectory};
use blocks::env::{End, Env};
use blocks::record::Memory;
use blocks::rng::Rng;
use blocks::run::Run;
use blocks::toy::Toy;
use methods::sskp::decoder::DecoderKind;
use methods::sskp::planner::Planning;
use methods::sskp::{Sskp, SskpConfig};
use methods::{Method, Setup};

/// A careful demonstrator at half throttle whose steering shakes; some of its episodes end off the bridge.
fn demonstrations(episodes: usize) -> Demonstrations {
    let mut rng = Rng::stream(0, "demonstrator");
    let mut toy = Toy::default();
    let mut demos = Demonstrations::new("toy", 5, 2);
    for episode in 0..episodes {
        toy.reset(&mut rng);
        // Every third episode shakes so much that it falls sooner or later.
        let shake = if episode % 3 == 0 { 1.2 } else { 0.2 };
        let (mut observations, mut actions, mut rewards, mut costs) = (vec![], vec![], vec![], vec![]);
        observations.extend(toy.obs().iter().map(|x| *x as f32));
        let mut wind = 0.0;
        let end = loop {
            let o = toy.obs();
            // Shaking that lasts for several steps throws further than noise that cancels itself.
            wind = 0.8 * wind + shake * 0.6 * rng.normal();
            let steer = -0.25 * o[2] * o[3] - 1.5 * o[0] - o[1] + wind;
            let throttle = 0.5 + 0.2 * rng.normal();
            let action = [throttle, steer].map(|a| (a as f32).clamp(-1.0, 1.0));
            let step = toy.step(&action);
            observations.extend(toy.obs().iter().map(|x| *x as f32));
            actions.extend(action);
            rewards.push(step.reward as f32);
            costs.push(step.cost as f32);
            match step.end {
                Some(End::Violation) => break Ending::Violation,
                Some(End::Truncated) => break Ending::Truncated,
                None => {}
            }
        };
        demos.push(Trajectory { observations, actions, rewards, costs, end }).unwrap();
    }
    demos
}

fn config(planning: Planning) -> SskpConfig {
    let mut config = SskpConfig::with_planning(planning);
    config.skill.hidden = 32;
    config.skill.prior_width = 32;
    config.skill.prior_layers = 2;
    config.skill.steps = 2000;
    config.skill.batch = 64;
    config.risk.width = 64;
    config.risk.steps = 1500;
    config.risk.batch = 128;
    config.planner.samples = 128;
    config.planner.elites = 16;
    config.policy.width = 64;
    config.policy.batch = 64;
    config.policy.rate = 1e-3;
    config.policy.warm_up = 64;
    config.policy.updates_per_skill = 4.0;
    // The toy earns a tenth of what a robot does per step.
    config.policy.reward_scale = 1.0;
    config
}

#[test]
fn the_offline_stage_learns_skills_and_risk_and_the_policy_walks_the_bridge() {
    let demos = demonstrations(60);
    assert!((10..30).contains(&demos.violations()), "{} of 60 demonstrations fall", demos.violations());
    for planning in [Planning::Risk, Planning::Naive, Planning::Off] {
        let setup = Setup { algo: "sskp", seed: 1, threads: 1 };
        let mut method = Sskp::new(Toy::default().spec(), config(planning), setup).unwrap();
        let report = method.offline(&demos).unwrap();
        // The demonstrator's actions vary by about 0.35 around their mean.
        assert!(report.reconstruction < 0.1, "{planning:?}: {report:?}");
        if planning != Planning::Off {
            assert!(report.auc > 0.9, "{planning:?}: {report:?}");
            assert!((0.02..=0.3).contains(&report.class_prior), "{planning:?}: {report:?}");
        }
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 1, 12_000, &mut memory);
        method.train(&mut run).unwrap();
        assert_eq!(run.clock().steps, 12_000);
        let last = memory.episodes.iter().rev().take(20).map(|r| r.total_reward).sum::<f64>() / 20.0;
        // Random actions earn about 0 and full throttle without steering about 5. With risk planning as the paper has it the
        // toy is walked worse than without (8 to 19 against 15 to 30): the predictor knows states, not skills, and the planner
        // follows whatever slope it has in z. That is not asserted away here.
        if planning == Planning::Off {
            assert!(last > 10.0, "the last 20 episodes earn {last}");
        }
    }
}

/// A decoder that sees the state keeps its balance within a skill. With it all three plan safely: 0 to 3 violations in 12 000
/// steps on two seeds each, against 91 to 263 with the open-loop decoder and risk planning.
#[test]
fn with_a_closed_loop_decoder_every_planning_walks_the_bridge_safely() {
    for planning in [Planning::Risk, Planning::Naive, Planning::Off] {
        let mut config = config(planning);
        config.skill.decoder = DecoderKind::ClosedLoop;
        let mut method = Sskp::new(Toy::default().spec(), config, Setup { algo: "sskp", seed: 0, threads: 1 }).unwrap();
        method.offline(&demonstrations(60)).unwrap();
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 0, 12_000, &mut memory);
        method.train(&mut run).unwrap();
        let violations = run.clock().violations;
        let last = memory.episodes.iter().rev().take(20).map(|r| r.total_reward).sum::<f64>() / 20.0;
        assert!(violations < 12, "{planning:?}: {violations} violations");
        assert!(last > 20.0, "{planning:?}: the last 20 episodes earn {last}");
    }
}

#[test]
fn demonstrations_that_cannot_be_learnt_from_are_refused_before_any_work() {
    let setup = Setup { algo: "sskp", seed: 1, threads: 1 };
    let mut method = Sskp::new(Toy::default().spec(), config(Planning::Risk), setup).unwrap();
    let other = Demonstrations::new("hopper", 11, 3);
    assert!(method.offline(&other).unwrap_err().to_string().contains("hopper"));
    let mut safe = Demonstrations::new("toy", 5, 2);
    for trajectory in demonstrations(6).trajectories().iter().filter(|t| !t.violates()) {
        safe.push(trajectory.clone()).unwrap();
    }
    assert!(method.offline(&safe).unwrap_err().to_string().contains("no violation"));
}
