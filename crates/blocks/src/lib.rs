//! What every method is built from: the environment contract, the run that counts every step, named random streams,
//! replay, checkpoints and networks. Pure Rust; knows neither MuJoCo nor any method.

pub mod checkpoint;
pub mod demos;
pub mod env;
pub mod error;
pub mod files;
pub mod judge;
pub mod nets;
pub mod offline;
pub mod record;
pub mod registry;
pub mod replay;
pub mod rng;
pub mod run;
pub mod soft_actor_critic;
pub mod team;
pub mod toy;
pub mod twin;

pub use error::{Error, Result};
