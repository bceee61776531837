//! Run directories, settings, training and evaluation, demonstrations, recordings: what lies between the methods and the
//! command line.

pub mod chart;
pub mod config;
pub mod curves;
pub mod data;
pub mod events;
pub mod falls;
pub mod files;
pub mod find;
pub mod manifest;
pub mod replay;
pub mod report;
pub mod rollout;
pub mod rows;
pub mod run_dir;
pub mod skills;
pub mod stats;
pub mod study;
mod svg;
pub mod sweep;
pub mod train;
pub mod verify;
