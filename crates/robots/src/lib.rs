//! The four robots of the paper on MuJoCo, the toy, and robots out of your own model files ([`sim::Robot`]).
//!
//! ```
//! use sskp_blocks::rng::Rng;
//!
//! let robots = sskp_robots::robots();
//! let hopper = robots.iter().find(|robot| robot.name == "hopper").expect("it is one of them");
//! assert_eq!(hopper.contract.observation.len(), 11); // what each of them is, in words
//! let mut env = hopper.make(Default::default())?;
//! env.reset(&mut Rng::stream(0, "env"))?;
//! let mut steps = 1;
//! while env.step(&[1.0, 0.0, -1.0])?.end.is_none() {
//!     steps += 1;
//! }
//! assert!(steps < 100, "it fell after {steps} steps");
//! # Ok::<(), sskp_blocks::Error>(())
//! ```
//!
//! | to | there is |
//! |---|---|
//! | ask for a robot by name | [`robots`], and with methods beside them `sskp_lab::registry::Registry` |
//! | make one out of your own XML file | [`sim::Robot`], [`sim::Robot::into_entry`]; `examples/own_robot.rs` |
//! | reward what it does | [`sim::Motion`], [`sim::Forward`] |
//! | say where it starts | [`sim::Noise`] |
//! | look closer at the simulation | [`sim::MujocoEnv`] |
//!
//! To add a robot here: one file like [`hopper`], its `pub mod` line and one line of [`robots`].

pub mod ant;
pub mod cheetah;
pub mod hopper;
pub mod humanoid;
pub mod sim;
mod toy;

use sskp_blocks::registry::EnvEntry;

/// Every robot there is.
pub fn robots() -> Vec<EnvEntry> {
    let mut toy = EnvEntry::new("toy", |_| Ok(Box::<sskp_blocks::toy::Toy>::default()));
    toy.contract = toy::contract();
    vec![
        ant::robot().into_entry(),
        cheetah::robot().into_entry(),
        hopper::robot().into_entry(),
        humanoid::robot().into_entry(),
        toy,
    ]
}

/// The version of MuJoCo that moves the robots. Loading another one is refused.
pub const MUJOCO_VERSION: &str = sskp_mujoco::VERSION;

pub use sskp_mujoco::look_in as look_for_mujoco_in;
