//! A simulation that breaks ends the episode as a violation, by name, and leaves nothing behind for the next episode.

use sskp_blocks::env::{Anomaly, End, Env};
use sskp_blocks::registry::EnvOptions;
use sskp_blocks::rng::Rng;
use sskp_robots::robots;

fn mujoco_robots() -> impl Iterator<Item = Box<dyn Env>> {
    robots().into_iter().filter(|r| r.name != "toy").map(|r| r.make(EnvOptions::default()).unwrap())
}

/// Sets one velocity and steps once.
fn step_with_velocity(env: &mut dyn Env, velocity: f64) -> sskp_blocks::env::Step {
    env.reset(&mut Rng::stream(0, "anomaly")).unwrap();
    let mut state = env.snapshot().unwrap().save();
    // t, x, then the simulator's own numbers: time, qpos, qvel. The last joint's speed is the last of qvel.
    let names = env.snapshot().unwrap().state_names();
    let last_velocity = 2 + 1 + names.len() - 1;
    state[last_velocity] = velocity;
    env.snapshot().unwrap().restore(&state).unwrap();
    let action = vec![0.0; env.spec().action_dim];
    env.step(&action).unwrap()
}

#[test]
fn a_simulator_warning_is_a_violation_by_name_with_no_reward() {
    for mut env in mujoco_robots() {
        let step = step_with_velocity(&mut *env, 1e12);
        let name = env.spec().name.clone();
        assert!(matches!(step.anomaly, Some(Anomaly::Warning(_))), "{name}: {step:?}");
        assert_eq!((step.end, step.cost(), step.reward), (Some(End::Violation), 1.0, 0.0), "{name}");
    }
}

#[test]
fn a_runaway_joint_is_a_violation_by_name() {
    for mut env in mujoco_robots() {
        let step = step_with_velocity(&mut *env, 5e4);
        let name = env.spec().name.clone();
        assert_eq!(step.end, Some(End::Violation), "{name}: {step:?}");
        assert!(step.anomaly.is_some(), "{name}: {step:?}");
    }
}

#[test]
fn an_action_that_is_no_number_never_becomes_a_plausible_one() {
    for mut env in mujoco_robots() {
        env.reset(&mut Rng::stream(0, "anomaly")).unwrap();
        let action = vec![f32::NAN; env.spec().action_dim];
        let step = env.step(&action).unwrap();
        let name = env.spec().name.clone();
        assert_eq!((step.end, step.cost()), (Some(End::Violation), 1.0), "{name}: {step:?}");
        assert!(step.anomaly.is_some(), "{name}");
        assert!(step.reward.is_finite(), "{name}");
    }
}

#[test]
fn the_episode_after_an_anomaly_is_as_good_as_any() {
    for mut env in mujoco_robots() {
        let action = vec![0.1; env.spec().action_dim];
        let play = |env: &mut dyn Env| {
            env.reset(&mut Rng::stream(1, "after")).unwrap();
            let step = env.step(&action).unwrap();
            (step.reward.to_bits(), step.end, env.obs().to_vec())
        };
        let before = play(&mut *env);
        step_with_velocity(&mut *env, 1e12);
        assert_eq!(before, play(&mut *env), "{}", env.spec().name);
    }
}

#[test]
fn the_action_tables_name_the_models_actuators_and_the_observations_its_joints() {
    use sskp_mujoco::{Model, Object};
    for (robot, xml) in [
        ("ant", sskp_robots::ant::robot().xml),
        ("cheetah", sskp_robots::cheetah::robot().xml),
        ("hopper", sskp_robots::hopper::robot().xml),
        ("humanoid", sskp_robots::humanoid::robot().xml),
    ] {
        let model = Model::from_xml(&xml).unwrap();
        let contract = robots().into_iter().find(|r| r.name == robot).unwrap().contract;
        let joint = |id: usize| model.name(Object::Joint, id).unwrap_or_default().to_string();
        for (i, column) in contract.action.iter().enumerate() {
            // An actuator's transmission names the joint it drives.
            let driven = model.actuator_target()[i][0] as usize;
            assert_eq!(joint(driven), column.name, "{robot}: action {i}");
        }
        // The last observations are the velocities of the hinges, in the model's order.
        let hinges: Vec<String> = (0..model.joints()).map(joint).collect();
        let columns = contract.observation;
        for (name, column) in hinges.iter().rev().zip(columns.iter().rev()).take(contract.action.len()) {
            assert_eq!(format!("{name} velocity"), column.name, "{robot}");
        }
    }
}
