//! What the four robots share: load, reset, step, save and restore on MuJoCo.

use std::sync::{Arc, Mutex, OnceLock};

use sskp_blocks::env::{Anomaly, Constraint, End, Env, Gauge, Geom, Pose, Scene, Shape, Snapshot, Spec, Step};
use sskp_blocks::registry::{Contract, EnvEntry, EnvOptions};
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};
use sskp_mujoco::{Data, Model, Object, Warning};

/// A reward as a function of what moved.
pub type Reward = dyn Fn(&Motion) -> f64 + Send + Sync;
/// A constraint as a function of an observation: true is a violation.
pub type Violates = dyn Fn(&[f64]) -> bool + Send + Sync;

/// One robot, as data: its model, how it is driven and observed, its reward and its violation. The rest of a robot's file here is
/// its contract's tables.
///
/// A robot of your own is its XML and what differs from the defaults:
///
/// ```
/// use sskp_blocks::{env::Env, rng::Rng};
/// use sskp_robots::sim::{Forward, MujocoEnv, Noise, Robot};
///
/// // Yours comes from a file: `std::fs::read_to_string("pole.xml")`.
/// let xml = r#"<mujoco><worldbody>
///     <body name="torso"><joint name="along" type="slide" axis="1 0 0"/><geom size="0.1"/>
///         <body><joint name="lean" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 1" size="0.05"/></body>
///     </body>
/// </worldbody><actuator><motor joint="along" gear="100"/></actuator></mujoco>"#;
/// let robot = Robot {
///     forward: Forward::Torso,
///     reward: Box::new(|motion| motion.speed - 0.1 * motion.squared_controls),
///     noise: Noise::UniformNormal(0.05, 0.1),
///     violates: Box::new(|obs| !(obs[0].abs() <= 0.4)), // it leans by more than 0.4 rad
///     ..Robot::new("pole", xml)
/// };
/// let mut env = MujocoEnv::new(robot, Default::default())?; // or `robot.into_entry()`, for a registry
/// env.reset(&mut Rng::stream(0, "env"))?;
/// while env.step(&[1.0])?.end.is_none() {}
/// assert!(env.obs()[0].abs() > 0.4 && env.data().qvel()[0] > 0.0);
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
pub struct Robot {
    /// Registry name.
    pub name: String,
    /// The model as MuJoCo's XML. Those of the robots here are compiled in, so that a copied binary needs nothing but MuJoCo's
    /// library.
    pub xml: Arc<str>,
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
    /// Whose forward motion is measured.
    pub forward: Forward,
    /// The reward of a step.
    pub reward: Box<Reward>,
    /// Noise of the start state.
    pub noise: Noise,
    /// The constraint, on an observation: true is a violation.
    pub violates: Box<Violates>,
    /// The quantities the constraint is about, for whoever looks; may be left empty.
    pub gauges: Vec<Gauge>,
    /// Steps after which an episode is truncated.
    pub time_limit: Option<usize>,
    /// The tables.
    pub contract: Contract,
}

/// What a control step moved: what a reward is made of.
pub struct Motion<'a> {
    /// Forward speed, m/s, of what [`Robot::forward`] names.
    pub speed: f64,
    /// Sum of the squared controls.
    pub squared_controls: f64,
    /// The observation after the step.
    pub obs: &'a [f64],
    /// Forces and torques on every body; empty unless [`EnvOptions::contact_costs`] asks for them.
    pub contact_forces: &'a [[f64; 6]],
}

impl Robot {
    /// A robot out of its model, with the first joint as the way forward, rewarded by its speed, and never violated.
    pub fn new(name: impl Into<String>, xml: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            xml: xml.into(),
            frame_skip: 5,
            hidden_qpos: 1,
            velocity_clip: f64::INFINITY,
            runaway: RUNAWAY,
            action_scale: 1.0,
            forward: Forward::RootJoint,
            reward: Box::new(|motion| motion.speed),
            noise: Noise::Uniform(0.005),
            violates: Box::new(|_| false),
            gauges: Vec::new(),
            time_limit: Some(TIME_LIMIT),
            contract: Contract::default(),
        }
    }

    /// A line of a registry.
    pub fn into_entry(self) -> EnvEntry {
        let (name, contract, xml) = (self.name.clone(), self.contract.clone(), Arc::clone(&self.xml));
        let robot = Arc::new(self);
        let mut entry = EnvEntry::new(name, move |options| Ok(Box::new(MujocoEnv::new(Arc::clone(&robot), options)?)));
        (entry.contract, entry.model) = (contract, Some(xml));
        entry
    }
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

/// Steps after which an episode of the paper's robots is truncated (section 5.1).
pub const TIME_LIMIT: usize = 1000;

/// [`Robot::runaway`] where Safe-MBPO names no bound: the fastest joints of these robots stay far below 1000 rad/s.
pub const RUNAWAY: f64 = 1e3;

/// A robot in MuJoCo.
pub struct MujocoEnv {
    robot: Arc<Robot>,
    options: EnvOptions,
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

/// The compiled model. Models are compiled once per process and shared: an environment costs only its own state.
fn model(robot: &Robot) -> Result<Arc<Model>> {
    type Models = Vec<(Arc<str>, Arc<Model>)>;
    static MODELS: OnceLock<Mutex<Models>> = OnceLock::new();
    let mut models = MODELS.get_or_init(Mutex::default).lock().expect("no panic while loading");
    if let Some((_, model)) = models.iter().find(|(xml, _)| *xml == robot.xml) {
        return Ok(Arc::clone(model));
    }
    let model = Model::from_xml(&robot.xml)
        .map_err(|e| Error::other(format!("MuJoCo cannot load the model of {}: {e}", robot.name)))?;
    let model = Arc::new(model);
    models.push((Arc::clone(&robot.xml), Arc::clone(&model)));
    Ok(model)
}

impl MujocoEnv {
    /// One robot.
    pub fn new(robot: impl Into<Arc<Robot>>, options: EnvOptions) -> Result<Self> {
        let robot = robot.into();
        let model = model(&robot)?;
        let (nq, nv, nu) = (model.nq(), model.nv(), model.nu());
        let fail = |why: String| Error::other(format!("the model of {}: {why}", robot.name));
        if nu == 0 || robot.hidden_qpos >= nq {
            return Err(fail(format!(
                "it has {nu} actuators and {nq} positions, {} of them hidden",
                robot.hidden_qpos
            )));
        }
        let torso = match robot.forward {
            Forward::Torso => {
                model.id(Object::Body, "torso").ok_or_else(|| fail("it has no body called torso".into()))?
            }
            _ => 0,
        };
        let spec = Spec {
            name: robot.name.clone(),
            obs_dim: nq - robot.hidden_qpos + nv,
            action_dim: nu,
            time_limit: robot.time_limit,
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
        let mut contact_forces: &[[f64; 6]] = &[];
        if self.options.contact_costs {
            self.data.rne_post_constraint();
            contact_forces = self.data.cfrc_ext();
        }
        let motion = Motion { speed, squared_controls: squares, obs: &self.obs, contact_forces };
        let mut reward = (self.robot.reward)(&motion);
        let anomaly = self.anomaly();
        if matches!(anomaly, Some(Anomaly::Warning(_) | Anomaly::NotFinite)) {
            // MuJoCo has put the robot back to its default state: the speed just computed is the jump, not a motion.
            reward = 0.0;
        }
        let violation = anomaly.is_some() || (self.robot.violates)(&self.obs);
        let end = match violation {
            true => Some(End::Violation),
            false => self.robot.time_limit.is_some_and(|limit| self.t >= limit).then_some(End::Truncated),
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
    fn gauges(&self) -> &[Gauge] {
        &self.robot.gauges
    }
}

impl Snapshot for MujocoEnv {
    fn save(&self) -> Vec<f64> {
        let mut state = Vec::new();
        self.save_into(&mut state);
        state
    }

    fn save_into(&self, out: &mut Vec<f64>) {
        out.resize(2 + self.data.model().state_size(), 0.0);
        (out[0], out[1]) = (self.t as f64, self.x);
        self.data.state_into(&mut out[2..]);
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
