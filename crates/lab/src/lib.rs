//! Run directories, settings, training and evaluation, demonstrations, recordings: what lies between the methods and the
//! command line.

pub mod chart;
pub mod config;
pub mod data;
pub mod display;
pub mod episodes;
pub mod events;
pub mod fall_study;
pub mod manifest;
mod markup;
pub mod places;
pub mod plan_study;
pub mod registry;
pub mod replay_page;
pub mod report;
pub mod rollout;
pub mod run_dir;
pub mod run_page;
pub mod run_rows;
pub mod skills;
pub mod stats;
pub mod sweep;
pub mod train;
pub mod verify;
pub mod wording;
