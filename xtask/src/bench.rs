//! `cargo xtask bench <subject>`: speed, measured against other software in the same run.
//!
//! A new subject is a variant of [`Subject`], a file in `bench/`, and an arm in [`run`].

mod envs;
mod record;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Subcommand)]
pub enum Subject {
    /// Control steps per second of the four robots, against Gymnasium
    Envs(envs::Options),
}

pub fn run(root: &Path, subject: &Subject) -> Result<()> {
    match subject {
        Subject::Envs(options) => envs::run(root, options),
    }
}
