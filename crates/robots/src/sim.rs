//! What the four robots share: load, reset, step, save and restore on MuJoCo.

use std::sync::{Arc, Mutex, OnceLock};

use sskp_blocks::env::{Anomaly, Constraint, End, Env, Geom, Pose, Scene, Shape, Snapshot, Spec, Step};
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};
use sskp_mujoco::{Data, Model, Object, Warning};

use crate::{Contract, Options};

/// One robot, as data. The rest of its file is its contract's tables and its violation.
pub struct Robot {
    /// Registry name.
    pub name: &'static str,
    /// The model, compiled in, so that a copied binary needs nothing but MuJoCo's library.
    pub xml: &'static str,
    /// Physics steps per control step.
    pub frame_skip: usize,
    /// Leading entries of `qpos` that are not observed: the position along the ground.
    pub hidden_qpos: usize,
    /// Bound on observed velocities (Hopper), or infinity.
    pub velocity_clip: f64,
    /// Joint positions and speeds from here on are no motion of this robot: the simulation has run away.
    pub runaway: f64,
    /// What an action of 1 is as a control (Humanoid's actuators have the range ±0.4).
    pub action_scale: f64,
    /// Whose forward motion is rewarded.
    pub forward: Forward,
    /// Weight of the forward speed.
    pub forward_weight: f64,
    /// Weight of the squared controls.
    pub control_cost: f64,
    /// Charged on contact forces when [`Options::contact_costs`] is set.
    pub contact_cost: fn(&[[f64; 6]]) -> f64,
    /// Noise of the start state.
    pub noise: Noise,
    /// The constraint, on an observation: true is a violation.
    pub violates: fn(&[f64]) -> bool,
    /// The tables.
    pub contract: Contract,
}

/// Where a robot's forward position is read.
///
/// The two Cartesian ones are read as the last physics step left them, as Gym does: MuJoCo computes them before it
/// integrates, so they trail `qpos` by up to one physics step.
pub enum Forward {
    /// The first joint.
    RootJoint,
    /// The body frame of the torso.
    Torso,
    /// The centre of mass of all bodies.
    CentreOfMass,
}

/// Noise added to the model's start state, entry by entry.
pub enum Noise {
    /// Uniform positions, normal velocities.
    UniformNormal(f64, f64),
    /// Uniform positions and velocities.
    Uniform(f64),
}

/// Steps after which an episode is truncated (section 5.1).
pub const TIME_LIMIT: usize = 1000;

/// [`Robot::runaway`] where Safe-MBPO names no bound: the fastest joints of these robots stay far below 1000 rad/s.
pub const RUNAWAY: f64 = 1e3;

/// A robot in MuJoCo.
pub struct MujocoEnv {
    robot: &'static Robot,
    options: Options,
    spec: Spec,
    data: Data,
    /// Only for drawing, so that looking does not disturb the simulation.
    scratch: Option<Data>,
    torso: usize,
    total_mass: f64,
    x: f64,
    t: usize,
    obs: Vec<f64>,
    control: Vec<f64>,
}

/// Builds a robot. Models are compiled once per process and shared: an environment costs only its own state.
pub fn make(robot: &'static Robot, options: Options) -> Result<Box<dyn Env>> {
    Ok(Box::new(MujocoEnv::new(robot, options)?))
}

fn model(robot: &'static Robot) -> Result<Arc<Model>> {
    type Models = Vec<(&'static str, Arc<Model>)>;
    static MODELS: OnceLock<Mutex<Models>> = OnceLock::new();
    let mut models = MODELS.get_or_init(Mutex::default).lock().expect("no panic while loading");
    if let Some((_, model)) = models.iter().find(|(name, _)| *name == robot.name) {
        return Ok(Arc::clone(model));
    }
    let model = Model::from_xml(robot.xml)
        .map_err(|e| Error::other(format!("MuJoCo cannot load the model of {}: {e}", robot.name)))?;
    let model = Arc::new(model);
    models.push((robot.name, Arc::clone(&model)));
    Ok(model)
}

impl MujocoEnv {
    /// One robot.
    pub fn new(robot: &'static Robot, options: Options) -> Result<Self> {
        let model = model(robot)?;
        let (nq, nv, nu) = (model.nq(), model.nv(), model.nu());
        let torso = model
            .id(Object::Body, "torso")
            .ok_or_else(|| Error::other(format!("the model of {} has no body called torso", robot.name)))?;
        let spec = Spec {
            name: robot.name.into(),
            obs_dim: nq - robot.hidden_qpos + nv,
            action_dim: nu,
            time_limit: Some(TIME_LIMIT),
            dt: model.timestep() * robot.frame_skip as f64,
        };
        let obs = vec![0.0; spec.obs_dim];
        let total_mass = model.body_mass().iter().sum();
        let data = Data::new(model).map_err(|e| Error::other(format!("{}: {e}", robot.name)))?;
        let control = vec![0.0; nu];
        let mut env =
            MujocoEnv { robot, options, spec, data, scratch: None, torso, total_mass, x: 0.0, t: 0, obs, control };
        env.begin();
        Ok(env)
    }

    /// Computes what follows from positions and velocities, and starts counting.
    fn begin(&mut self) {
        self.data.forward();
        self.t = 0;
        self.x = self.forward_position();
        self.observe();
    }

    fn forward_position(&self) -> f64 {
        match self.robot.forward {
            Forward::RootJoint => self.data.qpos()[0],
            Forward::Torso => self.data.xpos()[self.torso][0],
            Forward::CentreOfMass => {
                let masses = self.data.model().body_mass();
                self.data.xipos().iter().zip(masses).map(|(x, m)| x[0] * m).sum::<f64>() / self.total_mass
            }
        }
    }

    fn observe(&mut self) {
        let (qpos, qvel) = (&self.data.qpos()[self.robot.hidden_qpos..], self.data.qvel());
        let (positions, velocities) = self.obs.split_at_mut(qpos.len());
        positions.copy_from_slice(qpos);
        let clip = self.robot.velocity_clip;
        for (o, v) in velocities.iter_mut().zip(qvel) {
            *o = v.clamp(-clip, clip);
        }
    }

    /// What broke in the simulation since the last step, if anything.
    fn anomaly(&self) -> Option<Anomaly> {
        if let Some(warning) = self.data.warning() {
            return Some(Anomaly::Warning(warning_name(warning)));
        }
        let (qpos, qvel) = (self.data.qpos(), self.data.qvel());
        if qpos.iter().chain(qvel).any(|x| !x.is_finite()) {
            return Some(Anomaly::NotFinite);
        }
        let mut moving = qpos[self.robot.hidden_qpos..].iter().chain(qvel);
        moving.any(|x| x.abs() >= self.robot.runaway).then_some(Anomaly::Runaway)
    }

    /// The simulation itself, for tests that look closer.
    pub fn data(&self) -> &Data {
        &self.data
    }
}

/// What runs and their records call a warning.
fn warning_name(warning: Warning) -> &'static str {
    match warning {
        Warning::BadInertia => "bad-inertia",
        Warning::ContactsFull => "contacts-full",
        Warning::ConstraintsFull => "constraints-full",
        Warning::BadPosition => "bad-position",
        Warning::BadVelocity => "bad-velocity",
        Warning::BadAcceleration => "bad-acceleration",
        Warning::BadControl => "bad-control",
    }
}

impl Env for MujocoEnv {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng) -> Result<()> {
        self.data.reset();
        let scale_position = match self.robot.noise {
            Noise::UniformNormal(position, _) | Noise::Uniform(position) => position,
        };
        for q in self.data.qpos_mut() {
            *q += rng.uniform(-scale_position, scale_position);
        }
        for v in self.data.qvel_mut() {
            *v = match self.robot.noise {
                Noise::UniformNormal(_, scale) => scale * rng.normal(),
                Noise::Uniform(scale) => rng.uniform(-scale, scale),
            };
        }
        self.begin();
        Ok(())
    }

    fn step(&mut self, action: &[f32]) -> Result<Step> {
        assert_eq!(action.len(), self.spec.action_dim, "{} takes {} actions", self.spec.name, self.spec.action_dim);
        let mut squares = 0.0;
        for (u, a) in self.control.iter_mut().zip(action) {
            // A NaN action must not become a plausible control: it stays NaN and MuJoCo's warning ends the episode.
            *u = self.robot.action_scale * f64::from(*a).clamp(-1.0, 1.0);
            squares += *u * *u;
        }
        self.data.ctrl_mut().copy_from_slice(&self.control);
        for _ in 0..self.robot.frame_skip {
            self.data.step();
        }
        let x = self.forward_position();
        let speed = (x - self.x) / self.spec.dt;
        self.x = x;
        self.t += 1;
        self.observe();
        let mut reward = self.robot.forward_weight * speed - self.robot.control_cost * squares;
        if self.options.contact_costs {
            self.data.rne_post_constraint();
            reward -= (self.robot.contact_cost)(self.data.cfrc_ext());
        }
        let anomaly = self.anomaly();
        if matches!(anomaly, Some(Anomaly::Warning(_) | Anomaly::NotFinite)) {
            // MuJoCo has put the robot back to its default state: the speed just computed is the jump, not a motion.
            reward = 0.0;
        }
        let violation = anomaly.is_some() || (self.robot.violates)(&self.obs);
        let end = match violation {
            true => Some(End::Violation),
            false => (self.t >= TIME_LIMIT).then_some(End::Truncated),
        };
        Ok(Step { reward, end, anomaly })
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

impl Constraint for MujocoEnv {
    fn violates(&self, obs: &[f64]) -> bool {
        (self.robot.violates)(obs)
    }
}

impl Snapshot for MujocoEnv {
    fn save(&self) -> Vec<f64> {
        let mut state = vec![self.t as f64, self.x];
        state.extend_from_slice(&self.data.state());
        state
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        let needed = 2 + self.data.model().state_size();
        if state.len() != needed {
            let text = format!("a saved state of {} has {needed} numbers, not {}", self.spec.name, state.len());
            return Err(Error::other(text));
        }
        self.data.reset(); // clears warnings
        self.data.set_state(&state[2..]);
        self.t = state[0] as usize;
        self.x = state[1];
        self.observe();
        Ok(())
    }

    fn start_from(&mut self, state: &[f64]) -> Result<()> {
        let nq = self.data.qpos().len();
        let needed = nq + self.data.qvel().len();
        if state.len() != needed {
            let text = format!("{} starts from {needed} numbers (qpos, qvel), not {}", self.spec.name, state.len());
            return Err(Error::other(text));
        }
        self.data.reset();
        self.data.qpos_mut().copy_from_slice(&state[..nq]);
        self.data.qvel_mut().copy_from_slice(&state[nq..]);
        self.begin();
        match self.anomaly() {
            None => Ok(()),
            Some(a) => Err(Error::other(format!("{} cannot start from that state: {}", self.spec.name, a.name()))),
        }
    }

    fn state_names(&self) -> Vec<String> {
        let (nq, nv) = (self.data.qpos().len(), self.data.qvel().len());
        (0..nq).map(|i| format!("qpos_{i}")).chain((0..nv).map(|i| format!("qvel_{i}"))).collect()
    }
}

impl Scene for MujocoEnv {
    fn geoms(&self) -> Vec<Geom> {
        let model = self.data.model();
        let shapes = model.geom_shapes().zip(model.geom_size()).zip(model.geom_rgba()).enumerate();
        shapes
            .map(|(i, ((kind, size), rgba))| Geom {
                shape: match kind {
                    sskp_mujoco::Shape::Plane => Shape::Plane,
                    sskp_mujoco::Shape::Capsule => Shape::Capsule,
                    sskp_mujoco::Shape::Ellipsoid => Shape::Ellipsoid,
                    sskp_mujoco::Shape::Cylinder => Shape::Cylinder,
                    sskp_mujoco::Shape::Box => Shape::Box,
                    _ => Shape::Sphere,
                },
                size: size.map(|s| s as f32),
                rgba: *rgba,
                name: model.name(Object::Geom, i).unwrap_or_default().into(),
            })
            .collect()
    }

    fn poses(&mut self, out: &mut Vec<Pose>) {
        let model = self.data.model();
        let scratch = self.scratch.get_or_insert_with(|| Data::new(Arc::clone(model)).expect("memory for one more"));
        scratch.qpos_mut().copy_from_slice(self.data.qpos());
        scratch.kinematics();
        out.clear();
        for (pos, mat) in scratch.geom_xpos().iter().zip(scratch.geom_xmat()) {
            out.push(Pose { pos: pos.map(|x| x as f32), quat: quaternion(mat) });
        }
    }
}

/// The quaternion (w, x, y, z) of a row-major rotation matrix, by its largest component so that nothing cancels.
fn quaternion(m: &[f64; 9]) -> [f32; 4] {
    let [xx, xy, xz, yx, yy, yz, zx, zy, zz] = *m;
    let squares = [1.0 + xx + yy + zz, 1.0 + xx - yy - zz, 1.0 - xx + yy - zz, 1.0 - xx - yy + zz];
    let largest = (0..4).max_by(|&a, &b| squares[a].total_cmp(&squares[b])).expect("four");
    let q = match largest {
        0 => [squares[0], zy - yz, xz - zx, yx - xy],
        1 => [zy - yz, squares[1], xy + yx, xz + zx],
        2 => [xz - zx, xy + yx, squares[2], yz + zy],
        _ => [yx - xy, xz + zx, yz + zy, squares[3]],
    };
    let scale = 0.5 / squares[largest].sqrt();
    q.map(|c| (c * scale) as f32)
}
