//! Cheetah: a two-legged runner in the vertical plane. Violated when its head touches the ground.

use sskp_blocks::env::Gauge;
use sskp_blocks::registry::{Column, Contract};

use crate::sim::{Forward, Motion, Noise, RUNAWAY, Robot, TIME_LIMIT};

/// The robot of Safe-MBPO (Thomas et al. 2021): Gym's HalfCheetah, ended by a touch of the head (strict setting).
pub fn robot() -> Robot {
    Robot {
        name: "cheetah".into(),
        xml: include_str!(concat!(env!("SSKP_ASSETS"), "/half_cheetah.xml")).into(),
        frame_skip: 5,
        hidden_qpos: 1,
        velocity_clip: f64::INFINITY,
        runaway: RUNAWAY,
        action_scale: 1.0,
        forward: Forward::RootJoint,
        reward: Box::new(reward),
        time_limit: Some(TIME_LIMIT),
        noise: Noise::UniformNormal(0.1, 0.1),
        violates: Box::new(violates),
        gauges: vec![Gauge {
            name: "height of the head's lowest point (m)".into(),
            low: 0.0,
            high: f64::INFINITY,
            near: 0.15,
            read: head,
        }],
        contract: Contract {
            about: "two-legged runner in the vertical plane; violated when its head touches the ground".into(),
            action: vec![
                c("bthigh", "torque on the back thigh, 120 N m"),
                c("bshin", "torque on the back shin, 90 N m"),
                c("bfoot", "torque on the back foot, 60 N m"),
                c("fthigh", "torque on the front thigh, 120 N m"),
                c("fshin", "torque on the front shin, 60 N m"),
                c("ffoot", "torque on the front foot, 30 N m"),
            ],
            observation: vec![
                c("rootz", "height of the torso above 0.7 m (m)"),
                c("rooty", "pitch of the torso (rad)"),
                c("bthigh", "angle (rad)"),
                c("bshin", "angle (rad)"),
                c("bfoot", "angle (rad)"),
                c("fthigh", "angle (rad)"),
                c("fshin", "angle (rad)"),
                c("ffoot", "angle (rad)"),
                c("rootx velocity", "m/s"),
                c("rootz velocity", "m/s"),
                c("rooty velocity", "rad/s"),
                c("bthigh velocity", "rad/s"),
                c("bshin velocity", "rad/s"),
                c("bfoot velocity", "rad/s"),
                c("fthigh velocity", "rad/s"),
                c("fshin velocity", "rad/s"),
                c("ffoot velocity", "rad/s"),
            ],
            reward: "(x' - x)/dt - 0.1 |a|^2".into(),
            start: "standing, positions + U(-0.1, 0.1), velocities + 0.1 N(0, 1)".into(),
            violation: "the head touches the floor".into(),
        },
    }
}

fn c(name: &str, what: &str) -> Column {
    Column::new(name, what)
}

fn reward(motion: &Motion) -> f64 {
    motion.speed - 0.1 * motion.squared_controls
}

/// The height of the lowest point of the head.
///
/// Its capsule (radius 0.046, half-length 0.15, tilted by 0.87 rad) sits at (0.6, 0.1) in the torso's frame, whose
/// height is 0.7 + z and whose pitch is θ. Compared with MuJoCo's own contacts in a test.
fn head(obs: &[f64]) -> f64 {
    let (z, pitch) = (obs[0], obs[1]);
    let centre = 0.7 + z - 0.6 * pitch.sin() + 0.1 * pitch.cos();
    centre - 0.15 * (0.87 + pitch).cos().abs() - 0.046
}

fn violates(obs: &[f64]) -> bool {
    // Not `lowest < 0.0`: a NaN must be a violation.
    !(head(obs) >= 0.0) || obs.iter().any(|x| !x.is_finite())
}
