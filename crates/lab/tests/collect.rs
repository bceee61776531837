//! Demonstrations collected from a policy.

use std::path::Path;

use sskp_blocks::demos::{Ending, Trajectory};
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::rng::Rng;
use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::data::check::check;
use sskp_lab::data::collect::{Plan, collect};
use sskp_lab::data::{self, Set};
use sskp_lab::registry::Registry;
use sskp_lab::{evaluate, train};

/// A small agent, trained for a moment: it only has to act.
fn agent(path: &Path) {
    let mut overrides = Overrides::default();
    for setting in ["sac.learner.width=16", "sac.random_steps=500", "sac.batch=32", "sac.replay=4000"] {
        overrides.set(setting).unwrap();
    }
    let config = Config::resolve(&Registry::standard(), RunConfig::new("sac", "toy", 1, 3000), &overrides).unwrap();
    train::train(&config, path, Default::default()).unwrap();
}

#[test]
fn a_policy_is_played_and_everything_about_it_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    agent(&run);
    let load = || evaluate::load_policy(&Registry::standard(), &run, |e| panic!("{e}")).unwrap();
    let plan = Plan {
        env: "toy".into(),
        steps: Some(3000),
        noise: 0.1,
        falls: 4,
        push: 1.0,
        seed: 5,
        bits: Some(12),
        agent_episodes: 2,
        ..Plan::default()
    };
    let made = collect(&mut load(), &plan, "sskp collect --seed 5", true).unwrap();
    let steps = made.demos.steps();
    let longest = made.demos.trajectories().iter().map(Trajectory::steps).max().unwrap();
    assert!(steps >= 3000 && steps < 3000 + longest, "the last episode is not cut: {steps}");
    assert!(made.demos.trajectories().iter().all(|t| t.end != Ending::Cut));
    let disturbed = made.played.iter().filter(|p| p.pushed_from.is_some()).count();
    assert!(made.falls == 4 && disturbed >= 4 && disturbed < made.played.len(), "{} of {disturbed}", made.falls);
    let numbers = |f: fn(&Trajectory) -> &Vec<f32>| made.demos.trajectories().iter().flat_map(f).copied();
    let exact = numbers(|t| &t.observations).filter(|x| (x * 4096.0).fract() != 0.0).count();
    assert!(exact <= 5, "only a state at the bound is not rounded: {exact}");
    assert!(numbers(|t| &t.actions).all(|x| (x * 256.0).fract() == 0.0 && x.abs() <= 1.0));

    let again = collect(&mut load(), &plan, "sskp collect --seed 5", true).unwrap();
    assert!(again.demos == made.demos && again.played == made.played, "the same seed gives the same set");
    let other = collect(&mut load(), &Plan { seed: 6, ..plan.clone() }, "", true).unwrap();
    assert!(other.demos != made.demos);

    let folder = data::write_minari(root.path(), "toy/agent-v0", &made.demos, &made.played, &made.about).unwrap();
    let set = Set::open(&folder).unwrap();
    let report = check(&Registry::standard(), &set, None).unwrap();
    assert!(report.fine(), "{report}");
    let said = set.provenance().unwrap();
    assert_eq!(said["command"], "sskp collect --seed 5");
    assert_eq!((&said["agent"]["steps"], &said["agent"]["episodes"]), (&3000.into(), &2.into()));
    assert_eq!(said["disturbed"]["violations"], 4);
    let calm = said["calm"]["violations"].as_u64().unwrap();
    assert_eq!(calm + 4, made.demos.violations() as u64);
    assert_eq!(said["calm"]["episodes"].as_u64().unwrap() as usize + disturbed, made.played.len());
    assert_eq!(set.into_demonstrations().unwrap(), made.demos);

    let wrong = Plan { env: "hopper".into(), ..plan };
    let error = collect(&mut load(), &wrong, "", true).err().unwrap().to_string();
    assert_eq!(error, "the policy was trained on toy; it cannot play hopper");
}

/// The actions in the set are the ones that were played: from the same start they lead to the same states.
#[test]
fn a_collected_episode_can_be_played_again() {
    let root = tempfile::tempdir().unwrap();
    agent(root.path());
    let mut trained = evaluate::load_policy(&Registry::standard(), root.path(), |e| panic!("{e}")).unwrap();
    let plan = Plan { env: "toy".into(), episodes: Some(1), noise: 0.2, seed: 9, agent_episodes: 0, ..Plan::default() };
    let made = collect(&mut trained, &plan, "", true).unwrap();
    let mut env = Registry::standard().make_env("toy", EnvOptions::default()).unwrap();
    env.reset(&mut Rng::stream(9, "env")).unwrap();
    let trajectory = &made.demos.trajectories()[0];
    for t in 0..trajectory.steps() {
        let state: Vec<f32> = env.obs().iter().map(|x| *x as f32).collect();
        assert_eq!(made.demos.state(0, t), state, "step {t}");
        let step = env.step(made.demos.actions(0, t, 1)).unwrap();
        assert_eq!((trajectory.rewards[t], trajectory.costs[t]), (step.reward as f32, step.cost() as f32));
    }
}
