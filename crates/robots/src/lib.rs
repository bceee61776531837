//! The four robots of the paper on MuJoCo, and the toy. The only crate that links MuJoCo.
//!
//! To add a robot: one file like [`hopper`], its `pub mod` line and one line of [`ROBOTS`].

pub mod ant;
pub mod cheetah;
pub mod contract;
pub mod hopper;
pub mod humanoid;
pub mod sim;
mod toy;

use blocks::Result;
use blocks::env::Env;
pub use contract::{Column, Contract, Options};

/// One line of the registry.
pub struct Entry {
    /// What `--env` takes.
    pub name: &'static str,
    /// Its contract, as tables.
    pub contract: &'static Contract,
    /// Builds one.
    pub make: fn(Options) -> Result<Box<dyn Env>>,
}

/// Every robot there is.
pub const ROBOTS: &[Entry] = &[
    Entry { name: "ant", contract: &ant::ROBOT.contract, make: |o| sim::make(&ant::ROBOT, o) },
    Entry { name: "cheetah", contract: &cheetah::ROBOT.contract, make: |o| sim::make(&cheetah::ROBOT, o) },
    Entry { name: "hopper", contract: &hopper::ROBOT.contract, make: |o| sim::make(&hopper::ROBOT, o) },
    Entry { name: "humanoid", contract: &humanoid::ROBOT.contract, make: |o| sim::make(&humanoid::ROBOT, o) },
    Entry { name: "toy", contract: &toy::CONTRACT, make: |_| Ok(Box::<blocks::toy::Toy>::default()) },
];

/// The registry's names, for messages.
pub fn names() -> Vec<&'static str> {
    ROBOTS.iter().map(|r| r.name).collect()
}

/// The robot called `name`.
pub fn find(name: &str) -> Result<&'static Entry> {
    ROBOTS.iter().find(|r| r.name == name).ok_or_else(|| {
        blocks::Error::other(format!("there is no robot called \"{name}\"; the robots are {}", names().join(", ")))
    })
}

/// Builds the robot called `name`.
pub fn make(name: &str, options: Options) -> Result<Box<dyn Env>> {
    (find(name)?.make)(options)
}
