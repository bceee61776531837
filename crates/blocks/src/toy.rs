//! The toy robot: a cart on a narrow bridge in a crosswind. Violated, learnt and finished in seconds.
//!
//! | action | meaning |
//! |---|---|
//! | 0 | throttle: forward force |
//! | 1 | steering: sideways force |
//!
//! | observation | meaning |
//! |---|---|
//! | 0 | y, distance from the middle of the bridge |
//! | 1 | sideways speed |
//! | 2 | forward speed |
//! | 3, 4 | sine and cosine of the forward position, which decide the wind |
//!
//! Reward: metres forward minus 0.01·|a|². Start: near the middle, at rest, anywhere along the bridge.
//! Violation: |y| > 1, off the bridge. The wind grows with speed, so speed must be paid for with steering: full throttle
//! with no steering falls, full throttle with steering against the wind does not.

use std::sync::LazyLock;

use crate::demos::Demonstrations;
use crate::env::{Constraint, End, Env, Gauge, Geom, Pose, Scene, Shape, Snapshot, Spec, Step};
use crate::rng::Rng;

const DT: f64 = 0.1;

/// Steps after which an episode is truncated.
const TIME_LIMIT: usize = 200;

static SPEC: LazyLock<Spec> =
    LazyLock::new(|| Spec { name: "toy".into(), obs_dim: 5, action_dim: 2, time_limit: Some(TIME_LIMIT), dt: DT });

/// The toy's state.
#[derive(Clone, Debug)]
pub struct Toy {
    x: f64,
    y: f64,
    vx: f64,
    vy: f64,
    t: usize,
    obs: [f64; 5],
}

impl Default for Toy {
    fn default() -> Self {
        let mut toy = Toy { x: 0.0, y: 0.0, vx: 0.0, vy: 0.0, t: 0, obs: [0.0; 5] };
        toy.observe();
        toy
    }
}

impl Toy {
    fn observe(&mut self) {
        self.obs = [self.y, self.vy, self.vx, self.x.sin(), self.x.cos()];
    }
}

impl Env for Toy {
    fn spec(&self) -> &Spec {
        &SPEC
    }

    fn reset(&mut self, rng: &mut Rng) -> crate::Result<()> {
        let state = [
            rng.uniform(0.0, 2.0 * std::f64::consts::PI),
            rng.uniform(-0.2, 0.2),
            rng.uniform(0.0, 0.1),
            rng.uniform(-0.1, 0.1),
        ];
        self.start_from(&state)
    }

    fn step(&mut self, action: &[f32]) -> crate::Result<Step> {
        assert_eq!(action.len(), 2, "the toy takes two numbers per action");
        let [throttle, steer] = [action[0], action[1]].map(|a| f64::from(a.clamp(-1.0, 1.0)));
        self.vx += DT * (3.0 * throttle - self.vx);
        self.vy += DT * (4.0 * steer + self.vx * self.x.sin() - 0.5 * self.vy);
        self.x += DT * self.vx;
        self.y += DT * self.vy;
        self.t += 1;
        self.observe();
        let reward = DT * self.vx - 0.01 * (throttle * throttle + steer * steer);
        let violation = self.violates(&self.obs);
        let end = match violation {
            true => Some(End::Violation),
            false => (self.t >= TIME_LIMIT).then_some(End::Truncated),
        };
        Ok(Step::new(reward, end))
    }

    fn obs(&self) -> &[f64] {
        &self.obs
    }

    fn snapshot(&mut self) -> Option<&mut dyn Snapshot> {
        Some(self)
    }

    fn constraint(&self) -> Option<&dyn Constraint> {
        Some(self)
    }

    fn scene(&mut self) -> Option<&mut dyn Scene> {
        Some(self)
    }
}

impl Constraint for Toy {
    fn violates(&self, obs: &[f64]) -> bool {
        !(obs[0].abs() <= 1.0)
    }
    fn gauges(&self) -> &[Gauge] {
        static GAUGES: LazyLock<[Gauge; 1]> = LazyLock::new(|| {
            let name = "distance from the middle (m)".into();
            [Gauge { name, low: -1.0, high: 1.0, near: 0.3, read: |obs| obs[0] }]
        });
        &*GAUGES
    }
}

impl Snapshot for Toy {
    fn save(&self) -> Vec<f64> {
        vec![self.x, self.y, self.vx, self.vy, self.t as f64]
    }

    fn save_into(&self, out: &mut Vec<f64>) {
        out.clear();
        out.extend([self.x, self.y, self.vx, self.vy, self.t as f64]);
    }

    fn restore(&mut self, state: &[f64]) -> crate::Result<()> {
        let [x, y, vx, vy, t] = state else {
            return Err(crate::Error::other(format!("the toy's state has 5 numbers, not {}", state.len())));
        };
        *self = Toy { x: *x, y: *y, vx: *vx, vy: *vy, t: *t as usize, obs: [0.0; 5] };
        self.observe();
        Ok(())
    }

    fn start_from(&mut self, state: &[f64]) -> crate::Result<()> {
        let [x, y, vx, vy] = state else {
            return Err(crate::Error::other(format!("the toy starts from 4 numbers, not {}", state.len())));
        };
        *self = Toy { x: *x, y: *y, vx: *vx, vy: *vy, t: 0, obs: [0.0; 5] };
        self.observe();
        Ok(())
    }

    fn state_names(&self) -> Vec<String> {
        ["qpos_x", "qpos_y", "qvel_x", "qvel_y"].map(String::from).to_vec()
    }
}

impl Scene for Toy {
    fn geoms(&self) -> Vec<Geom> {
        let geom = |shape, size, rgba, name: &str| Geom { shape, size, rgba, name: name.into() };
        vec![
            geom(Shape::Box, [400.0, 1.0, 0.05], [0.75, 0.72, 0.65, 1.0], "bridge"),
            geom(Shape::Box, [0.25, 0.15, 0.12], [0.85, 0.37, 0.16, 1.0], "cart"),
        ]
    }

    fn poses(&mut self, out: &mut Vec<Pose>) {
        let quat = [1.0, 0.0, 0.0, 0.0];
        out.clear();
        out.push(Pose { pos: [0.0, 0.0, -0.05], quat });
        let fallen = if self.violates(&self.obs) { -0.4 } else { 0.0 };
        out.push(Pose { pos: [self.x as f32, self.y as f32, 0.12 + fallen], quat });
    }
}

/// Demonstrations of middling quality: a careful driver at half throttle whose steering shakes, and so much in every third
/// episode that some end off the bridge.
pub fn demonstrations(episodes: usize) -> Demonstrations {
    let mut rng = Rng::stream(0, "demonstrator");
    let mut toy = Toy::default();
    let mut demos = Demonstrations::of(toy.spec());
    for episode in 0..episodes {
        // Every third episode shakes so much that it falls sooner or later.
        let shake = if episode % 3 == 0 { 1.2 } else { 0.2 };
        let mut wind = 0.0;
        demos
            .play(&mut toy, &mut rng, |o, rng, action| {
                // Shaking that lasts for several steps throws further than noise that cancels itself.
                wind = 0.8 * wind + shake * 0.6 * rng.normal();
                action[1] = (-0.25 * o[2] * o[3] - 1.5 * o[0] - o[1] + wind) as f32;
                action[0] = (0.5 + 0.2 * rng.normal()) as f32;
            })
            .expect("the toy always steps");
    }
    demos
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return and violations over `episodes` of a controller.
    fn play(episodes: usize, mut act: impl FnMut(&[f64], &mut Rng) -> [f32; 2]) -> (f64, usize) {
        let mut rng = Rng::stream(1, "toy test");
        let mut toy = Toy::default();
        let (mut total, mut violations) = (0.0, 0);
        for _ in 0..episodes {
            toy.reset(&mut rng).unwrap();
            loop {
                let a = act(toy.obs(), &mut rng);
                let step = toy.step(&a).unwrap();
                total += step.reward;
                violations += usize::from(step.end == Some(End::Violation));
                if step.end.is_some() {
                    break;
                }
            }
        }
        (total / episodes as f64, violations)
    }

    #[test]
    fn speed_without_steering_falls_and_with_steering_does_not() {
        let (_, falls) = play(50, |_, _| [1.0, 0.0]);
        assert!(falls >= 40, "{falls} of 50");
        let (best, falls) = play(50, |o, _| [1.0, (-0.25 * o[2] * o[3] - 2.0 * o[0] - o[1]) as f32]);
        assert_eq!(falls, 0);
        assert!(best > 50.0, "the safe fast controller earns {best}");
        let (random, falls) = play(50, |_, rng| {
            let mut a = [0.0; 2];
            rng.fill_action(&mut a);
            a
        });
        assert!(falls > 35 && random < 15.0, "random: {falls} falls, return {random}");
    }

    #[test]
    fn a_violation_on_the_last_allowed_step_is_a_violation() {
        let mut toy = Toy::default();
        toy.restore(&[0.0, 0.999, 0.0, 5.0, 199.0]).unwrap();
        let step = toy.step(&[0.0, 0.0]).unwrap();
        assert_eq!((step.end, step.cost()), (Some(End::Violation), 1.0));
        toy.restore(&[0.0, 0.0, 0.0, 0.0, 199.0]).unwrap();
        assert_eq!(toy.step(&[0.0, 0.0]).unwrap().end, Some(End::Truncated));
    }
}
