//! The four robots of the paper on MuJoCo, and the toy.
//!
//! To add a robot: one file like [`hopper`], its `pub mod` line and one line of [`ROBOTS`].

pub mod ant;
pub mod cheetah;
pub mod contract;
pub mod hopper;
pub mod humanoid;
pub mod sim;
mod toy;

pub use contract::{Column, Contract, Options};
use sskp_blocks::Result;
use sskp_blocks::env::Env;

/// One line of the registry.
pub struct Entry {
    /// What `--env` takes.
    pub name: &'static str,
    /// Its contract, as tables.
    pub contract: &'static Contract,
    /// Its model, MuJoCo's XML as compiled in; none for the toy.
    pub model: Option<&'static str>,
    /// Builds one.
    pub make: fn(Options) -> Result<Box<dyn Env>>,
}

/// Every robot there is.
pub const ROBOTS: &[Entry] = &[
    on_mujoco(&ant::ROBOT, |o| sim::make(&ant::ROBOT, o)),
    on_mujoco(&cheetah::ROBOT, |o| sim::make(&cheetah::ROBOT, o)),
    on_mujoco(&hopper::ROBOT, |o| sim::make(&hopper::ROBOT, o)),
    on_mujoco(&humanoid::ROBOT, |o| sim::make(&humanoid::ROBOT, o)),
    Entry { name: "toy", contract: &toy::CONTRACT, model: None, make: |_| Ok(Box::<sskp_blocks::toy::Toy>::default()) },
];

const fn on_mujoco(robot: &'static sim::Robot, make: fn(Options) -> Result<Box<dyn Env>>) -> Entry {
    Entry { name: robot.name, contract: &robot.contract, model: Some(robot.xml), make }
}

/// The version of MuJoCo that moves the robots. Loading another one is refused.
pub const MUJOCO_VERSION: &str = sskp_mujoco::VERSION;

/// The registry's names, for messages.
pub fn names() -> Vec<&'static str> {
    ROBOTS.iter().map(|r| r.name).collect()
}

/// The robot called `name`.
pub fn find(name: &str) -> Result<&'static Entry> {
    ROBOTS.iter().find(|r| r.name == name).ok_or_else(|| {
        sskp_blocks::Error::other(format!("there is no robot called \"{name}\"; the robots are {}", names().join(", ")))
    })
}

/// Builds the robot called `name`.
pub fn make(name: &str, options: Options) -> Result<Box<dyn Env>> {
    (find(name)?.make)(options)
}
