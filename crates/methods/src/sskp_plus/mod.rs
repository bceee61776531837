//! SSkP+: skills that keep learning. The decoder of the skills, frozen in the paper, goes on learning from critics of single steps,
//! held to a reference that follows it only as far as the robot has stayed safe. Equations: `docs/methods/sskp-plus.md`.

mod caution;
pub mod config;
mod critics;
mod decoder;
mod learner;
mod nearness;
mod online;
mod steps;

pub use config::{AdaptConfig, SskpPlusConfig};
pub use learner::SskpPlus;
