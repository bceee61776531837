//! `sskp export`: a trained policy as files that need nothing of this program.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::evaluate::{load_policy, newest_run};
use sskp_lab::registry::Registry;

use crate::error::OrUsage;

/// Write a trained policy as ONNX networks
///
/// One file per network and policy.json, which says how they are put together; `examples/run_policy.py` plays them with NumPy and
/// onnxruntime alone.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory (its newest checkpoint), folder of runs (the newest), or checkpoint folder
    run: PathBuf,
    /// Folder to write, made new
    #[arg(long, value_name = "FOLDER")]
    onnx: PathBuf,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let (run, _) = newest_run(&self.run).or_usage()?;
        let trained = load_policy(registry, &run, |refused| eprintln!("warning: {refused}")).or_usage()?;
        sskp_lab::export::onnx(&trained, &self.onnx).or_usage()?;
        let (algo, env) = (&trained.config.run.algo, &trained.config.run.env);
        let mut out = std::io::stdout().lock();
        writeln!(out, "wrote {algo} on {env} after {} steps to {}", trained.steps, self.onnx.display())?;
        Ok(())
    }
}
