//! Humanoid: a human-like robot in three dimensions. Falls within 25 random steps.

use sskp_blocks::env::Gauge;
use sskp_blocks::registry::{Column, Contract};

use crate::sim::{Forward, Motion, Noise, RUNAWAY, Robot, TIME_LIMIT};

/// The robot of Safe-MBPO (Thomas et al. 2021): Gym's Humanoid with 45 observations, no bonus, actions rescaled.
pub fn robot() -> Robot {
    Robot {
        name: "humanoid".into(),
        xml: include_str!(concat!(env!("SSKP_ASSETS"), "/humanoid.xml")).into(),
        frame_skip: 5,
        hidden_qpos: 2,
        velocity_clip: f64::INFINITY,
        runaway: RUNAWAY,
        action_scale: 0.4,
        forward: Forward::CentreOfMass,
        reward: Box::new(reward),
        time_limit: Some(TIME_LIMIT),
        noise: Noise::Uniform(0.01),
        violates: Box::new(violates),
        gauges: vec![Gauge {
            name: "height of the torso (m)".into(),
            low: 1.0,
            high: 2.0,
            near: 0.15,
            read: |obs| obs[0],
        }],
        contract: Contract {
            about: "human-like robot; violated when it falls (torso below 1 m or above 2 m)".into(),
            action: vec![
                c("abdomen_y", "torque, 40 N m"),
                c("abdomen_z", "torque, 40 N m"),
                c("abdomen_x", "torque, 40 N m"),
                c("right_hip_x", "torque, 40 N m"),
                c("right_hip_z", "torque, 40 N m"),
                c("right_hip_y", "torque, 120 N m"),
                c("right_knee", "torque, 80 N m"),
                c("left_hip_x", "torque, 40 N m"),
                c("left_hip_z", "torque, 40 N m"),
                c("left_hip_y", "torque, 120 N m"),
                c("left_knee", "torque, 80 N m"),
                c("right_shoulder1", "torque, 10 N m"),
                c("right_shoulder2", "torque, 10 N m"),
                c("right_elbow", "torque, 10 N m"),
                c("left_shoulder1", "torque, 10 N m"),
                c("left_shoulder2", "torque, 10 N m"),
                c("left_elbow", "torque, 10 N m"),
            ],
            observation: vec![
                c("root z", "height of the torso (m)"),
                c("root quaternion w", ""),
                c("root quaternion x", ""),
                c("root quaternion y", ""),
                c("root quaternion z", ""),
                c("abdomen_z", "angle (rad)"),
                c("abdomen_y", "angle (rad)"),
                c("abdomen_x", "angle (rad)"),
                c("right_hip_x", "angle (rad)"),
                c("right_hip_z", "angle (rad)"),
                c("right_hip_y", "angle (rad)"),
                c("right_knee", "angle (rad)"),
                c("left_hip_x", "angle (rad)"),
                c("left_hip_z", "angle (rad)"),
                c("left_hip_y", "angle (rad)"),
                c("left_knee", "angle (rad)"),
                c("right_shoulder1", "angle (rad)"),
                c("right_shoulder2", "angle (rad)"),
                c("right_elbow", "angle (rad)"),
                c("left_shoulder1", "angle (rad)"),
                c("left_shoulder2", "angle (rad)"),
                c("left_elbow", "angle (rad)"),
                c("root x velocity", "m/s"),
                c("root y velocity", "m/s"),
                c("root z velocity", "m/s"),
                c("root x angular velocity", "rad/s"),
                c("root y angular velocity", "rad/s"),
                c("root z angular velocity", "rad/s"),
                c("abdomen_z velocity", "rad/s"),
                c("abdomen_y velocity", "rad/s"),
                c("abdomen_x velocity", "rad/s"),
                c("right_hip_x velocity", "rad/s"),
                c("right_hip_z velocity", "rad/s"),
                c("right_hip_y velocity", "rad/s"),
                c("right_knee velocity", "rad/s"),
                c("left_hip_x velocity", "rad/s"),
                c("left_hip_z velocity", "rad/s"),
                c("left_hip_y velocity", "rad/s"),
                c("left_knee velocity", "rad/s"),
                c("right_shoulder1 velocity", "rad/s"),
                c("right_shoulder2 velocity", "rad/s"),
                c("right_elbow velocity", "rad/s"),
                c("left_shoulder1 velocity", "rad/s"),
                c("left_shoulder2 velocity", "rad/s"),
                c("left_elbow velocity", "rad/s"),
            ],
            reward: "1.25 (X' - X)/dt - 0.1 |0.4 a|^2, X the centre of mass".into(),
            start: "upright at z = 1.4, positions and velocities + U(-0.01, 0.01)".into(),
            violation: "z < 1.0 or z > 2.0".into(),
        },
    }
}

fn c(name: &str, what: &str) -> Column {
    Column::new(name, what)
}

fn reward(motion: &Motion) -> f64 {
    1.25 * motion.speed - 0.1 * motion.squared_controls - contact_cost(motion.contact_forces)
}

fn violates(obs: &[f64]) -> bool {
    !(1.0..=2.0).contains(&obs[0]) || obs.iter().any(|x| !x.is_finite())
}

fn contact_cost(forces: &[[f64; 6]]) -> f64 {
    (0.5e-6 * forces.iter().flatten().map(|f| f * f).sum::<f64>()).min(10.0)
}
