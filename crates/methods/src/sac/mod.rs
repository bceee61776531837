//! SAC, and safe SAC: the same loop, with a violation worth −C/(1−γ) (Thomas et al. 2021, section 4).
//!
//! The update itself is [`sskp_blocks::soft_actor_critic`]; `docs/methods/sac.md` has the equations.

mod config;
mod learner;
mod online;

pub use config::{SacConfig, ViolationConfig};
pub use learner::Sac;
