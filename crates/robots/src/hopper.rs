//! Hopper: a one-legged hopper in the vertical plane. Falls within 25 random steps.

use sskp_blocks::env::Gauge;
use sskp_blocks::registry::{Column, Contract};

use crate::sim::{Forward, Motion, Noise, Robot, TIME_LIMIT};

/// The robot of Safe-MBPO (Thomas et al. 2021): Gym's Hopper without its bonus of 1 per step.
pub fn robot() -> Robot {
    Robot {
        name: "hopper".into(),
        xml: include_str!(concat!(env!("SSKP_ASSETS"), "/hopper.xml")).into(),
        frame_skip: 4,
        hidden_qpos: 1,
        velocity_clip: 10.0,
        runaway: 100.0,
        action_scale: 1.0,
        forward: Forward::RootJoint,
        reward: Box::new(reward),
        time_limit: Some(TIME_LIMIT),
        noise: Noise::Uniform(0.005),
        violates: Box::new(violates),
        gauges: vec![
            Gauge {
                name: "height of the torso (m)".into(),
                low: 0.7,
                high: f64::INFINITY,
                near: 0.2,
                read: |obs| obs[0],
            },
            Gauge { name: "pitch of the torso (rad)".into(), low: -0.2, high: 0.2, near: 0.06, read: |obs| obs[1] },
        ],
        contract: Contract {
            about: "one-legged hopper in the vertical plane; violated when it topples".into(),
            action: vec![
                c("thigh_joint", "torque on the thigh, 200 N m"),
                c("leg_joint", "torque on the leg, 200 N m"),
                c("foot_joint", "torque on the foot, 200 N m"),
            ],
            observation: vec![
                c("rootz", "height of the torso (m)"),
                c("rooty", "pitch of the torso (rad)"),
                c("thigh_joint", "angle (rad)"),
                c("leg_joint", "angle (rad)"),
                c("foot_joint", "angle (rad)"),
                c("rootx velocity", "m/s, clipped to +-10"),
                c("rootz velocity", "m/s, clipped to +-10"),
                c("rooty velocity", "rad/s, clipped to +-10"),
                c("thigh_joint velocity", "rad/s, clipped to +-10"),
                c("leg_joint velocity", "rad/s, clipped to +-10"),
                c("foot_joint velocity", "rad/s, clipped to +-10"),
            ],
            reward: "(x' - x)/dt - 0.001 |a|^2".into(),
            start: "upright at z = 1.25, positions and velocities + U(-0.005, 0.005)".into(),
            violation: "z <= 0.7 or |pitch| >= 0.2 or any angle or speed >= 100".into(),
        },
    }
}

fn c(name: &str, what: &str) -> Column {
    Column::new(name, what)
}

fn reward(motion: &Motion) -> f64 {
    motion.speed - 1e-3 * motion.squared_controls
}

fn violates(obs: &[f64]) -> bool {
    // The bound of 100 on speeds is `runaway`: observed speeds are clipped, the simulator's are not.
    let healthy = obs[0] > 0.7 && obs[0].is_finite() && obs[1].abs() < 0.2 && obs[1..].iter().all(|x| x.abs() < 100.0);
    !healthy
}
