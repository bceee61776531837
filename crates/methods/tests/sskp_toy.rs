//! The paper's method on the toy, from a demonstrator of middling quality.

use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Env;
use sskp_blocks::judge::Judgement;
use sskp_blocks::offline::OfflineReport;
use sskp_blocks::record::Memory;
use sskp_blocks::run::Run;
use sskp_blocks::toy::{Toy, demonstrations};
use sskp_methods::sskp::decoder::DecoderKind;
use sskp_methods::sskp::planner::Planning;
use sskp_methods::sskp::{Sskp, SskpConfig};
use sskp_methods::{Method, Setup};

fn quiet(_: &'static str, _: u64, _: u64) -> sskp_blocks::Result<()> {
    Ok(())
}

/// Small, and otherwise as the paper reads (`configs/as-printed.toml`).
fn as_printed(planning: Planning) -> SskpConfig {
    let mut config = small(planning);
    (config.skill.decoder, config.skill.beta, config.skill.skip_losses) = (DecoderKind::OpenLoop, 5e-4, false);
    (config.risk.encode_actions, config.risk.executed_half, config.risk.relabel) = (false, false, 0);
    (config.planner.near_policy, config.planner.tolerance, config.policy.learner.alpha) = (0.0, 0.0, 1.0);
    config
}

/// The defaults, small.
fn small(planning: Planning) -> SskpConfig {
    let mut config = SskpConfig::default();
    config.planner.planning = planning;
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
    config.policy.learner.width = 64;
    config.policy.batch = 64;
    config.policy.learner.rate = 1e-3;
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
        let setup = Setup::new("sskp", 1, 1);
        // The estimate of λ is 0.14 to 0.28 on twelve draws, and spoils what is calibrated: Brier scores of 0.09 to 0.49. With 0.05 six
        // seeds had 0.010 to 0.013.
        let mut config = as_printed(planning);
        config.risk.class_prior = 0.05;
        let mut method = Sskp::new(Toy::default().spec(), config, setup).unwrap();
        let report = method.pretrain(&demos, &mut quiet).unwrap();
        // The demonstrator's actions vary by about 0.35 around their mean.
        assert!(report.figure("skills", "reconstruction").unwrap() < 0.1, "{planning:?}: {report:?}");
        if planning != Planning::Off {
            assert!(report.figure("risk", "auc_as_fitted").unwrap() > 0.9, "{planning:?}: {report:?}");
            let calibration = report.held_out.calibration.expect("sixty episodes are enough to hold some out");
            assert!(report.held_out.auc.unwrap() > 0.9 && calibration.brier < 0.03, "{planning:?}: {report:?}");
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

/// A decoder that sees the state keeps its balance within a skill. With it all three plan safely: a few violations in 12 000
/// steps, against 91 to 263 with the open-loop decoder and risk planning.
#[test]
fn with_the_defaults_every_planning_walks_the_bridge_safely() {
    for planning in [Planning::Risk, Planning::Naive, Planning::Off] {
        let mut method = Sskp::new(Toy::default().spec(), small(planning), Setup::new("sskp", 0, 1)).unwrap();
        method.pretrain(&demonstrations(60), &mut quiet).unwrap();
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
fn the_calibration_is_a_report_and_changes_nothing_else() {
    let offline = |calibrate: bool| {
        let mut config = as_printed(Planning::Risk);
        (config.skill.steps, config.risk.steps, config.risk.calibrate) = (20, 20, calibrate);
        let mut method = Sskp::new(Toy::default().spec(), config, Setup::new("sskp", 1, 1)).unwrap();
        let report = method.pretrain(&demonstrations(30), &mut quiet).unwrap();
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 1, 300, &mut memory);
        method.train(&mut run).unwrap();
        (report, run.clock())
    };
    let (with, without) = (offline(true), offline(false));
    assert!(with.0.held_out.calibration.is_some() && without.0.held_out == Judgement::default());
    assert_eq!(OfflineReport { held_out: Judgement::default(), ..with.0 }, without.0);
    assert_eq!(with.1, without.1, "the run is the same");
}

#[test]
fn demonstrations_that_cannot_be_learnt_from_are_refused_before_any_work() {
    let setup = Setup::new("sskp", 1, 1);
    let mut method = Sskp::new(Toy::default().spec(), as_printed(Planning::Risk), setup).unwrap();
    let other = Demonstrations::new("hopper", 11, 3);
    assert!(method.pretrain(&other, &mut quiet).unwrap_err().to_string().contains("hopper"));
    let mut safe = Demonstrations::new("toy", 5, 2);
    for trajectory in demonstrations(6).trajectories().iter().filter(|t| !t.violates()) {
        safe.push(trajectory.clone()).unwrap();
    }
    assert!(method.pretrain(&safe, &mut quiet).unwrap_err().to_string().contains("no violation"));
    // Where relabelling reaches back to the first step of every episode, no pair is left unlabelled.
    let mut config = small(Planning::Risk);
    config.risk.relabel = 100;
    let mut method = Sskp::new(Toy::default().spec(), config, Setup::new("sskp", 1, 1)).unwrap();
    let mut falls = Demonstrations::new("toy", 5, 2);
    for trajectory in demonstrations(20).trajectories().iter().filter(|t| t.violates()) {
        falls.push(trajectory.clone()).unwrap();
    }
    let error = method.pretrain(&falls, &mut quiet).unwrap_err().to_string();
    assert!(error.contains("within the next 1010 steps") && error.contains("risk.relabel"), "{error}");
}
