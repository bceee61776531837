//! Hand-made controllers, so that a robot can be seen doing more than falling before any policy has been learnt.
//!
//! Each joint of a robot is pulled towards a sine by a spring and a damper, and the sine is shifted when the torso leans
//! or turns. The form is deliberately plain; its numbers were found by random search on return and survival, and carry
//! no other meaning.

use std::f64::consts::TAU;

/// What chooses the actions of one robot.
pub enum Gait {
    /// Joints that follow sines.
    Sines(Sines),
    /// The toy has no joints.
    Formula(fn(&[f64], &mut [f32])),
}

impl Gait {
    /// The action for a time in the episode (seconds) and an observation.
    pub fn act(&self, time: f64, obs: &[f64], action: &mut [f32]) {
        match self {
            Gait::Sines(sines) => sines.act(time, obs, action),
            Gait::Formula(formula) => formula(obs, action),
        }
    }
}

/// The gait of the robot called `name`, if there is one.
pub fn find(name: &str) -> Option<&'static Gait> {
    GAITS.iter().find(|(robot, _)| *robot == name).map(|(_, gait)| gait)
}

/// Joints that follow sines.
pub struct Sines {
    /// Strides per second.
    frequency: f64,
    /// Action per radian between a joint and its sine.
    stiffness: f64,
    /// Action per rad/s of a joint.
    damping: f64,
    /// Where a joint's speed stands in an observation, counted from its angle.
    speed: usize,
    /// How the torso leans or turns, two angles and their rates, from an observation.
    lean: fn(&[f64]) -> [f64; 4],
    /// One for each action.
    joints: &'static [Joint],
}

/// One joint: the index of its angle in an observation; the middle, height and phase of its sine; and by how much the
/// sine moves for each number of the torso's lean.
struct Joint(usize, [f64; 3], [f64; 4]);

impl Sines {
    fn act(&self, time: f64, obs: &[f64], action: &mut [f32]) {
        let lean = (self.lean)(obs);
        for (a, Joint(angle, [middle, height, phase], shifts)) in action.iter_mut().zip(self.joints) {
            let sine = middle + height * (TAU * self.frequency * time + phase).sin();
            let target = sine + shifts.iter().zip(lean).map(|(s, l)| s * l).sum::<f64>();
            let force = self.stiffness * (target - obs[*angle]) - self.damping * obs[angle + self.speed];
            *a = force.clamp(-1.0, 1.0) as f32;
        }
    }
}

/// The torso's quaternion, which follows its height in Ant's and Humanoid's observations.
fn torso(obs: &[f64]) -> [f64; 4] {
    [obs[1], obs[2], obs[3], obs[4]]
}

fn heading(obs: &[f64]) -> f64 {
    let [w, x, y, z] = torso(obs);
    (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z))
}

fn pitch(obs: &[f64]) -> f64 {
    let [w, x, y, z] = torso(obs);
    (2.0 * (w * y - z * x)).clamp(-1.0, 1.0).asin()
}

fn roll(obs: &[f64]) -> f64 {
    let [w, x, y, z] = torso(obs);
    (2.0 * (w * x + y * z)).atan2(1.0 - 2.0 * (x * x + y * y))
}

const GAITS: &[(&str, Gait)] = &[
    (
        // A trot: diagonal legs step together, and all hips turn against a wrong heading.
        "ant",
        Gait::Sines(Sines {
            frequency: 1.315,
            stiffness: 1.200,
            damping: 0.081,
            speed: 14,
            lean: |obs| [heading(obs), obs[18], 0.0, 0.0],
            joints: &[
                Joint(11, [0.13, 0.62, 0.00], [0.62, 0.02, 0.0, 0.0]),
                Joint(12, [0.65, -0.16, 0.18], [0.0, 0.0, 0.0, 0.0]),
                Joint(5, [-0.13, 0.62, 0.00], [0.62, 0.02, 0.0, 0.0]),
                Joint(6, [0.65, 0.16, 0.18], [0.0, 0.0, 0.0, 0.0]),
                Joint(7, [-0.13, -0.62, 0.00], [0.62, 0.02, 0.0, 0.0]),
                Joint(8, [-0.65, 0.16, 0.18], [0.0, 0.0, 0.0, 0.0]),
                Joint(9, [0.13, -0.62, 0.00], [0.62, 0.02, 0.0, 0.0]),
                Joint(10, [-0.65, -0.16, 0.18], [0.0, 0.0, 0.0, 0.0]),
            ],
        }),
    ),
    (
        "cheetah",
        Gait::Sines(Sines {
            frequency: 2.664,
            stiffness: 1.498,
            damping: 0.036,
            speed: 9,
            lean: |obs| [obs[1], obs[10], 0.0, 0.0],
            joints: &[
                Joint(2, [-0.265, 0.679, 2.876], [-0.168, -0.068, 0.0, 0.0]),
                Joint(3, [-0.273, 0.270, -1.045], [-1.501, 0.004, 0.0, 0.0]),
                Joint(4, [-0.066, 0.291, 0.502], [0.263, -0.022, 0.0, 0.0]),
                Joint(5, [-0.230, 0.481, 0.529], [-0.228, 0.053, 0.0, 0.0]),
                Joint(6, [0.191, 0.369, -0.002], [0.166, 0.057, 0.0, 0.0]),
                Joint(7, [-0.147, 0.300, 0.180], [-0.041, 0.073, 0.0, 0.0]),
            ],
        }),
    ),
    (
        "hopper",
        Gait::Sines(Sines {
            frequency: 2.146,
            stiffness: 2.385,
            damping: 0.040,
            speed: 6,
            lean: |obs| [obs[1], obs[7], 0.0, 0.0],
            joints: &[
                Joint(2, [-0.053, 0.113, 3.029], [-2.110, -0.081, 0.0, 0.0]),
                Joint(3, [0.355, 0.128, 2.823], [-0.171, -0.081, 0.0, 0.0]),
                Joint(4, [0.193, 0.255, 0.050], [-0.637, -0.221, 0.0, 0.0]),
            ],
        }),
    ),
    (
        "humanoid",
        Gait::Sines(Sines {
            frequency: 1.472,
            stiffness: 0.977,
            damping: 0.064,
            speed: 23,
            lean: |obs| [pitch(obs), obs[26], roll(obs), obs[25]],
            joints: &[
                Joint(6, [0.07, 0.54, -2.45], [0.56, 0.01, -0.10, 0.08]),
                Joint(5, [0.17, 0.07, -1.11], [-0.44, -0.04, -0.15, -0.07]),
                Joint(7, [-0.03, 0.36, 0.72], [0.14, 0.02, 0.94, -0.12]),
                Joint(8, [0.30, 0.39, -1.51], [0.55, 0.04, 0.61, 0.10]),
                Joint(9, [0.39, 0.16, -1.89], [0.27, 0.03, 0.01, 0.01]),
                Joint(10, [-0.08, 0.44, 0.61], [0.66, 0.16, 0.84, -0.11]),
                Joint(11, [0.00, 0.33, -0.26], [-0.58, 0.03, 0.02, -0.02]),
                Joint(12, [0.30, 0.39, 1.63], [0.55, 0.04, -0.61, -0.10]),
                Joint(13, [0.39, 0.16, 1.25], [0.27, 0.03, -0.01, -0.01]),
                Joint(14, [-0.08, 0.44, -2.53], [0.66, 0.16, -0.84, 0.11]),
                Joint(15, [0.00, 0.33, 2.88], [-0.58, 0.03, -0.02, 0.02]),
                Joint(16, [0.17, 0.13, -0.37], [-0.20, 0.07, 0.08, 0.01]),
                Joint(17, [-0.05, 0.50, -0.98], [0.80, 0.05, -0.10, 0.12]),
                Joint(18, [0.19, 0.48, -0.28], [-0.12, 0.07, 0.30, -0.09]),
                Joint(19, [0.17, 0.13, 2.78], [-0.20, 0.07, -0.08, -0.01]),
                Joint(20, [-0.05, 0.50, 2.17], [0.80, 0.05, 0.10, -0.12]),
                Joint(21, [0.19, 0.48, 2.86], [-0.12, 0.07, -0.30, 0.09]),
            ],
        }),
    ),
    (
        // Full speed, steering against the wind and back to the middle of the bridge.
        "toy",
        Gait::Formula(|obs, action| {
            action[0] = 1.0;
            action[1] = (-0.25 * obs[2] * obs[3] - 2.0 * obs[0] - obs[1]) as f32;
        }),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::registry::EnvOptions;
    use sskp_blocks::rng::Rng;
    use sskp_lab::registry::Registry;

    #[test]
    fn every_robot_has_a_gait_that_lasts_longer_and_earns_more_than_random_actions() {
        for robot in Registry::standard().envs() {
            let gait = find(&robot.name).unwrap_or_else(|| panic!("{} has no gait", robot.name));
            let mut env = robot.make(EnvOptions::default()).unwrap();
            let (dt, mut action) = (env.spec().dt, vec![0.0; env.spec().action_dim]);
            let mut play = |scripted: bool| {
                let (mut starts, mut random) = (Rng::stream(1, "env"), Rng::stream(1, "actions"));
                let (mut steps, mut total) = (0, 0.0);
                for _ in 0..3 {
                    env.reset(&mut starts).unwrap();
                    for t in 0..300 {
                        match scripted {
                            true => gait.act(t as f64 * dt, env.obs(), &mut action),
                            false => random.fill_action(&mut action),
                        }
                        let step = env.step(&action).unwrap();
                        steps += 1;
                        total += step.reward;
                        if step.end.is_some() {
                            break;
                        }
                    }
                }
                (steps, total)
            };
            let ((steps, total), (random_steps, random_total)) = (play(true), play(false));
            assert!(
                steps > random_steps && total > random_total + 10.0,
                "{}: {steps} steps, return {total}",
                robot.name
            );
        }
    }
}
