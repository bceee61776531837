//! SMBPO: *Safe Reinforcement Learning by Imagining the Near Future* (Thomas, Luo and Ma 2021), and their public
//! implementation Safe-MBPO, from which every number here comes unless another source is named.
//!
//! A model of the robot is learnt from real transitions ([`dynamics`]); the policy is learnt by SAC, mostly from short
//! rollouts imagined with the model ([`imagination`]). The robot's own constraint is asked of every imagined state, and a
//! violating transition, real or imagined, is worth −C/(1−γ), with C so large that a state from which a violation within H steps
//! cannot be avoided is worth less than any safe one:
//!
//! ```math
//! C = \frac{r_{max} - r_{min}}{\gamma^H} - r_{max}.
//! ```
//!
//! `docs/methods/smbpo.md` has the other equations and the departures.

mod config;
pub mod dynamics;
pub mod imagination;
mod learner;
mod online;

pub use config::{ImaginationConfig, ModelConfig, SmbpoConfig};
pub use learner::Smbpo;
