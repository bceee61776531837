//! The four robots of the paper on MuJoCo, the toy, and robots out of your own model files ([`sim::Robot`]).
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
