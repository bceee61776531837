//! Run directories, settings, training and evaluation, recordings of rollouts: what lies between the methods and the
//! command line.

pub mod config;
pub mod data;
pub mod run_dir;
pub mod train;

pub mod replay;
pub mod rollout;
