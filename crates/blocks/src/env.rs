//! The constrained MDP of section 3: what an environment offers and how an episode may end.

use crate::rng::Rng;

/// The fixed numbers of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Its name: what `--env` takes.
    pub name: String,
    /// Length of an observation.
    pub obs_dim: usize,
    /// Length of an action; every action lies in `[-1, 1]`.
    pub action_dim: usize,
    /// Steps after which it truncates an episode, where it has such a limit.
    pub time_limit: Option<usize>,
    /// Seconds in one step, for whoever looks at it.
    pub dt: f64,
}

/// How an episode ended. A violation on the last allowed step is a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The safety constraint was violated: cost 1, and the episode is over (the strict setting of section 3).
    Violation,
    /// It is over for a reason of its own, with the constraint intact: a goal was reached, or nothing can follow.
    Terminated,
    /// A time limit was reached with the constraint intact: the episode could have gone on.
    Truncated,
}

impl End {
    /// Whether a value function may look past this end: time limits are ours, the other ends are the robot's.
    pub fn bootstraps(self) -> bool {
        self == End::Truncated
    }
    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            End::Violation => "violation",
            End::Terminated => "terminated",
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
    /// Set on the last step of an episode.
    pub end: Option<End>,
    /// Set when a violation was declared because the simulation broke.
    pub anomaly: Option<Anomaly>,
}

impl Step {
    /// A step after which the episode goes on, or ends as `end` says.
    pub fn new(reward: f64, end: Option<End>) -> Self {
        Self { reward, end, anomaly: None }
    }
    /// Whether the constraint was violated.
    pub fn violated(&self) -> bool {
        self.end == Some(End::Violation)
    }
    /// c of section 3: 1 on the violating step, else 0.
    pub fn cost(&self) -> f64 {
        f64::from(u8::from(self.violated()))
    }
}

/// An environment: a constrained MDP whose episode ends at a violation (section 3). Four methods must be written; what the
/// others give is extra, and what is lost without it is said there.
///
/// ```
/// use sskp_blocks::env::{End, Env, Spec, Step};
/// use sskp_blocks::{Result, rng::Rng};
///
/// /// A bead on a wire, pushed left and right; beyond 1 it falls off.
/// struct Bead {
///     spec: Spec,
///     x: [f64; 1],
///     steps: usize,
/// }
///
/// impl Env for Bead {
///     fn spec(&self) -> &Spec {
///         &self.spec
///     }
///     fn reset(&mut self, rng: &mut Rng) -> Result<()> {
///         (self.x, self.steps) = ([rng.uniform(-0.1, 0.1)], 0);
///         Ok(())
///     }
///     fn step(&mut self, action: &[f32]) -> Result<Step> {
///         self.x[0] += 0.1 * f64::from(action[0].clamp(-1.0, 1.0));
///         self.steps += 1;
///         let end = match self.x[0].abs() {
///             x if x > 1.0 => Some(End::Violation),
///             _ => (self.steps >= 50).then_some(End::Truncated),
///         };
///         Ok(Step::new(self.x[0], end))
///     }
///     fn obs(&self) -> &[f64] {
///         &self.x
///     }
/// }
///
/// let spec = Spec { name: "bead".into(), obs_dim: 1, action_dim: 1, time_limit: Some(50), dt: 0.1 };
/// let mut bead = Bead { spec, x: [0.0], steps: 0 };
/// bead.reset(&mut Rng::stream(0, "env"))?;
/// while bead.step(&[1.0])?.end.is_none() {}
/// assert!(bead.obs()[0] > 1.0);
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
pub trait Env: Send {
    /// Its fixed numbers.
    fn spec(&self) -> &Spec;
    /// Starts an episode. Everything random about its start, and about what follows, is drawn from `rng`, now: then the same
    /// seed gives the same episodes.
    fn reset(&mut self, rng: &mut Rng) -> crate::Result<()>;
    /// Plays one action of [`Spec::action_dim`] numbers; what lies outside `[-1, 1]` is clipped. An error stops the run, which
    /// can be resumed.
    fn step(&mut self, action: &[f32]) -> crate::Result<Step>;
    /// The current observation.
    fn obs(&self) -> &[f64];

    /// Its state, to be kept and gone back to. Without it a run resumes at an episode's boundary instead of at any step, and
    /// studies that play a moment again are not possible.
    fn snapshot(&mut self) -> Option<&mut dyn Snapshot> {
        None
    }
    /// Its constraint as a function of an observation. Without it SMBPO, which asks it of imagined states, cannot be used.
    fn constraint(&self) -> Option<&dyn Constraint> {
        None
    }
    /// What to draw. Without it there are no replay pages.
    fn scene(&mut self) -> Option<&mut dyn Scene> {
        None
    }
}

/// A state that can be kept and gone back to.
pub trait Snapshot {
    /// Everything needed to continue bit for bit, as numbers.
    fn save(&self) -> Vec<f64>;
    /// The same, over what `out` holds: for those who keep many, without memory of their own each time.
    fn save_into(&self, out: &mut Vec<f64>) {
        *out = self.save();
    }
    /// Back to a saved state; afterwards every future step is what it would have been.
    fn restore(&mut self, state: &[f64]) -> crate::Result<()>;
    /// Names of the numbers [`Snapshot::start_from`] takes, in order.
    fn state_names(&self) -> Vec<String>;
    /// Starts an episode from given positions and velocities.
    fn start_from(&mut self, state: &[f64]) -> crate::Result<()>;
}

/// The constraint in closed form.
pub trait Constraint {
    /// Whether an observation is one of a violation.
    fn violates(&self, obs: &[f64]) -> bool;
    /// The quantities it is about, for whoever looks. Without any, moments that came near are not told from others.
    fn gauges(&self) -> &[Gauge] {
        &[]
    }
    /// How far an observation is from a violation, by the nearest [`Gauge`]: 0 at a bound, 1 where it begins to be near.
    fn margin(&self, obs: &[f64]) -> f64 {
        self.gauges().iter().map(|gauge| gauge.margin((gauge.read)(obs))).fold(f64::INFINITY, f64::min)
    }
}

/// A quantity that a constraint is about, and where it must stay.
#[derive(Clone, Debug)]
pub struct Gauge {
    /// What it is, with its unit: "height of the torso (m)".
    pub name: String,
    /// It must not be below this; minus infinity if it may be.
    pub low: f64,
    /// It must not be above this; infinity if it may be.
    pub high: f64,
    /// Closer to a bound than this is near.
    pub near: f64,
    /// Reads it off an observation.
    pub read: fn(&[f64]) -> f64,
}

impl Gauge {
    /// How far a value is from the nearer bound, with [`Gauge::near`] as the unit; below 0 beyond it. What is no number is at the bound.
    pub fn margin(&self, value: f64) -> f64 {
        let margin = (value - self.low).min(self.high - value) / self.near;
        if margin.is_nan() { 0.0 } else { margin }
    }
}

/// Shapes that move.
pub trait Scene {
    /// What to draw: shapes that move as one with [`Scene::poses`].
    fn geoms(&self) -> Vec<Geom>;
    /// Where the shapes are now. Does not disturb the simulation.
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
