//! The constrained MDP of section 3: what a robot offers and how an episode may end.

use crate::rng::Rng;

/// The fixed numbers of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Registry name.
    pub name: &'static str,
    /// Length of an observation.
    pub obs_dim: usize,
    /// Length of an action; every action lies in `[-1, 1]`.
    pub action_dim: usize,
    /// Steps after which an episode is truncated.
    pub time_limit: usize,
    /// Seconds of simulated time in one step.
    pub dt: f64,
}

/// How an episode ended. A violation on the last allowed step is a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The safety constraint was violated: cost 1, and the episode is over (the strict setting of section 3).
    Violation,
    /// The time limit was reached with the constraint intact.
    Truncated,
}

impl End {
    /// Whether a value function may look past this end: time limits are ours, falls are the robot's.
    pub fn bootstraps(self) -> bool {
        self == End::Truncated
    }
    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            End::Violation => "violation",
            End::Truncated => "truncated",
        }
    }
}

/// Why a violation was no ordinary one: the simulation itself broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// An observation was NaN or infinite.
    NotFinite,
    /// A joint moved faster or further than any real motion.
    Runaway,
    /// The simulator raised a warning (its name) and reset itself.
    Warning(&'static str),
}

impl Anomaly {
    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            Anomaly::NotFinite => "not-finite",
            Anomaly::Runaway => "runaway",
            Anomaly::Warning(name) => name,
        }
    }
}

/// What one step gave. The new observation is [`Env::obs`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Reward, without any alive bonus.
    pub reward: f64,
    /// 1 on the violating step, else 0.
    pub cost: f64,
    /// Set on the last step of an episode.
    pub end: Option<End>,
    /// Set when a violation was declared because the simulation broke.
    pub anomaly: Option<Anomaly>,
}

/// A robot. Stepping does not allocate; the observation lives inside.
pub trait Env: Send {
    /// Its fixed numbers.
    fn spec(&self) -> &Spec;
    /// Starts an episode from a random start state.
    fn reset(&mut self, rng: &mut Rng);
    /// Plays one action (clipped to `[-1, 1]`) of [`Spec::action_dim`] numbers.
    fn step(&mut self, action: &[f32]) -> Step;
    /// The current observation.
    fn obs(&self) -> &[f64];
    /// The constraint as a function of an observation: true is a violation. SMBPO asks it of imagined states.
    fn violates(&self, obs: &[f64]) -> bool;
    /// Everything needed to continue bit for bit, as numbers.
    fn save(&self) -> Vec<f64>;
    /// Back to a saved state; afterwards every future step is what it would have been.
    fn restore(&mut self, state: &[f64]) -> crate::Result<()>;
    /// Starts an episode from given positions and velocities (`qpos` then `qvel`).
    fn start_from(&mut self, state: &[f64]) -> crate::Result<()>;
    /// Names of the numbers [`Env::start_from`] takes, in order.
    fn state_names(&self) -> Vec<String>;
    /// What to draw: shapes that move as one with [`Env::poses`].
    fn scene(&self) -> Vec<Geom>;
    /// Where the shapes of [`Env::scene`] are now. Does not disturb the simulation.
    fn poses(&mut self, out: &mut Vec<Pose>);
}

/// A shape to draw. Sizes follow MuJoCo: radius first, half-lengths after; a plane's are its half-extents.
#[derive(Clone, Debug, PartialEq)]
pub struct Geom {
    /// What it is.
    pub shape: Shape,
    /// Its sizes.
    pub size: [f32; 3],
    /// Its colour.
    pub rgba: [f32; 4],
    /// Its name in the model, or empty.
    pub name: String,
}

/// Kinds of shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Shape {
    Plane,
    Sphere,
    Capsule,
    Ellipsoid,
    Cylinder,
    Box,
}

impl Shape {
    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Plane => "plane",
            Shape::Sphere => "sphere",
            Shape::Capsule => "capsule",
            Shape::Ellipsoid => "ellipsoid",
            Shape::Cylinder => "cylinder",
            Shape::Box => "box",
        }
    }
}

/// A position (metres, z up) and an orientation (quaternion w, x, y, z).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Position.
    pub pos: [f32; 3],
    /// Orientation.
    pub quat: [f32; 4],
}
