//! What every method is built from: the environment contract, the run that counts every step, named random streams,
//! replay, checkpoints and networks. Pure Rust; knows neither MuJoCo nor any method.
//!
//! | to | there is |
//! |---|---|
//! | write an environment | [`env::Env`]; [`toy::Toy`] is one, learnt in seconds |
//! | count steps, episodes and violations | [`run::Run`], and what hears of them, [`record::Recorder`] |
//! | draw so that a run can be repeated | [`rng::Rng`] |
//! | remember transitions | [`replay::Replay`], [`demos::Demonstrations`] |
//! | save and go on exactly | [`checkpoint::Saver`], [`checkpoint::Loader`] |
//! | learn functions | [`nets`]: [`nets::Mlp`], [`nets::Model`], [`nets::lstm::Lstm`], [`nets::ensemble::Ensemble`] |
//! | learn values and policies | [`twin::Twin`], [`soft_actor_critic::SoftActorCritic`] |
//! | learn from demonstrations first, and say how well | [`offline`], [`judge`] |
//! | use several threads | [`team::Team`] |
//!
//! Each has an example at its own place. `cargo xtask test` builds these pages with the formulas shown as formulas.

pub mod checkpoint;
pub mod demos;
pub mod env;
pub mod error;
pub mod files;
pub mod judge;
pub mod keep;
pub mod nets;
pub mod offline;
pub mod policy;
pub mod record;
pub mod registry;
pub mod replay;
pub mod ring;
pub mod rng;
pub mod run;
pub mod soft_actor_critic;
pub mod team;
pub mod toy;
pub mod twin;

pub use error::{Error, Result};
