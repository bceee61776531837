//! `cargo xtask bench <subject>`: speed, measured against other software in the same run.
//!
//! A new subject is a variant of [`Subject`], a file in `bench/`, and an arm in [`run`].

mod envs;
mod methods;
pub mod peers;
mod plan;
mod policy;
mod python;
mod record;
mod table;
mod update;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Subcommand)]
pub enum Subject {
    /// Control steps per second of the four robots, against Gymnasium
    Envs(envs::Options),
    /// Environment steps per second of SAC with one update per step, against stable-baselines3 and sbx; then milliseconds of one
    /// update of every learner, against PyTorch
    Update(update::Options),
    /// Microseconds of one decision of the risk planner, against the same computation in PyTorch
    Plan(plan::Options),
    /// Our robots, vectors of them and runs through Python, against Gymnasium and EnvPool
    Python(python::Options),
    /// Microseconds of one decision of a trained policy, the 99.9th percentile, against onnxruntime and PyTorch
    Policy(policy::Options),
}

pub fn run(root: &Path, subject: &Subject) -> Result<()> {
    match subject {
        Subject::Envs(options) => envs::run(root, options),
        Subject::Update(options) => update::run(root, options),
        Subject::Plan(options) => plan::run(root, options),
        Subject::Python(options) => python::run(root, options),
        Subject::Policy(options) => policy::run(root, options),
    }
}
