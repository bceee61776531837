//! Hopper: a one-legged hopper in the vertical plane. Falls within 25 random steps.

use crate::sim::{Forward, Noise, Robot, TIME_LIMIT};
use crate::{Column, Contract};

/// The robot of Safe-MBPO (Thomas et al. 2021): Gym's Hopper without its bonus of 1 per step.
pub static ROBOT: Robot = Robot {
    name: "hopper",
    xml: include_str!(concat!(env!("SSKP_ASSETS"), "/hopper.xml")),
    frame_skip: 4,
    hidden_qpos: 1,
    velocity_clip: 10.0,
    runaway: 100.0,
    action_scale: 1.0,
    forward: Forward::RootJoint,
    forward_weight: 1.0,
    control_cost: 1e-3,
    contact_cost: |_| 0.0,
    noise: Noise::Uniform(0.005),
    violates,
    contract: Contract {
        about: "one-legged hopper in the vertical plane; violated when it topples",
        action: &[
            c("thigh_joint", "torque on the thigh, 200 N m"),
            c("leg_joint", "torque on the leg, 200 N m"),
            c("foot_joint", "torque on the foot, 200 N m"),
        ],
        observation: &[
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
        reward: "(x' - x)/dt - 0.001 |a|^2",
        start: "upright at z = 1.25, positions and velocities + U(-0.005, 0.005)",
        violation: "z <= 0.7 or |pitch| >= 0.2 or any angle or speed >= 100",
        time_limit: TIME_LIMIT,
    },
};

const fn c(name: &'static str, what: &'static str) -> Column {
    Column { name, what }
}

fn violates(obs: &[f64]) -> bool {
    // The bound of 100 on speeds is `runaway`: observed speeds are clipped, the simulator's are not.
    let healthy = obs[0] > 0.7 && obs[0].is_finite() && obs[1].abs() < 0.2 && obs[1..].iter().all(|x| x.abs() < 100.0);
    !healthy
}
