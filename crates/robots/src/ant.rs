//! Ant: a four-legged robot in three dimensions. Its torso is a ball of radius 0.25 m, so nearly every violation is a
//! torso thrown above 1 m; lying on its back is none by itself.

use sskp_blocks::env::Gauge;
use sskp_blocks::registry::{Column, Contract};

use crate::sim::{Forward, Motion, Noise, RUNAWAY, Robot, TIME_LIMIT};

/// The robot of Safe-MBPO (Thomas et al. 2021): Gym's Ant without contact forces in the observation and without bonus.
pub fn robot() -> Robot {
    Robot {
        name: "ant".into(),
        xml: include_str!(concat!(env!("SSKP_ASSETS"), "/ant.xml")).into(),
        frame_skip: 5,
        hidden_qpos: 2,
        velocity_clip: f64::INFINITY,
        runaway: RUNAWAY,
        action_scale: 1.0,
        forward: Forward::Torso,
        reward: Box::new(reward),
        time_limit: Some(TIME_LIMIT),
        noise: Noise::UniformNormal(0.1, 0.1),
        violates: Box::new(violates),
        gauges: vec![Gauge {
            name: "height of the torso (m)".into(),
            low: 0.2,
            high: 1.0,
            near: 0.1,
            read: |obs| obs[0],
        }],
        contract: Contract {
            about: "four-legged robot; violated when its torso is below 0.2 m or above 1 m".into(),
            action: vec![
                c("hip_4", "torque on the back right hip, 150 N m"),
                c("ankle_4", "torque on the back right ankle, 150 N m"),
                c("hip_1", "torque on the front left hip, 150 N m"),
                c("ankle_1", "torque on the front left ankle, 150 N m"),
                c("hip_2", "torque on the front right hip, 150 N m"),
                c("ankle_2", "torque on the front right ankle, 150 N m"),
                c("hip_3", "torque on the back left hip, 150 N m"),
                c("ankle_3", "torque on the back left ankle, 150 N m"),
            ],
            observation: vec![
                c("root z", "height of the torso (m)"),
                c("root quaternion w", ""),
                c("root quaternion x", ""),
                c("root quaternion y", ""),
                c("root quaternion z", ""),
                c("hip_1", "angle (rad)"),
                c("ankle_1", "angle (rad)"),
                c("hip_2", "angle (rad)"),
                c("ankle_2", "angle (rad)"),
                c("hip_3", "angle (rad)"),
                c("ankle_3", "angle (rad)"),
                c("hip_4", "angle (rad)"),
                c("ankle_4", "angle (rad)"),
                c("root x velocity", "m/s"),
                c("root y velocity", "m/s"),
                c("root z velocity", "m/s"),
                c("root x angular velocity", "rad/s"),
                c("root y angular velocity", "rad/s"),
                c("root z angular velocity", "rad/s"),
                c("hip_1 velocity", "rad/s"),
                c("ankle_1 velocity", "rad/s"),
                c("hip_2 velocity", "rad/s"),
                c("ankle_2 velocity", "rad/s"),
                c("hip_3 velocity", "rad/s"),
                c("ankle_3 velocity", "rad/s"),
                c("hip_4 velocity", "rad/s"),
                c("ankle_4 velocity", "rad/s"),
            ],
            reward: "(x_torso' - x_torso)/dt - 0.5 |a|^2".into(),
            start: "z = 0.75, legs straight, positions + U(-0.1, 0.1), velocities 0.1 N(0, 1)".into(),
            violation: "z < 0.2 or z > 1.0".into(),
        },
    }
}

fn c(name: &str, what: &str) -> Column {
    Column::new(name, what)
}

fn reward(motion: &Motion) -> f64 {
    motion.speed - 0.5 * motion.squared_controls - contact_cost(motion.contact_forces)
}

fn violates(obs: &[f64]) -> bool {
    !(0.2..=1.0).contains(&obs[0]) || obs.iter().any(|x| !x.is_finite())
}

fn contact_cost(forces: &[[f64; 6]]) -> f64 {
    5e-4 * forces.iter().flatten().map(|f| f.clamp(-1.0, 1.0).powi(2)).sum::<f64>()
}
