//! What `sskp sweep --engine` hands to schedulers.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use sskp_lab::sweep::Sweep;
use sskp_lab::sweep::engine::{Job, Kubernetes, Slurm, Submitted};
use sskp_lab::wording::plural;

use crate::error::{OrUsage, usage};

/// A scheduler.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Engine {
    /// An array job, requeued until every cell is done
    Slurm,
    /// The manifest of an Indexed Job (with --dry-run, which prints it)
    Kubernetes,
}

/// What to ask of it.
#[derive(clap::Args)]
#[command(next_help_heading = "Engines")]
pub struct Options {
    /// Hand the cells to a scheduler instead of running them here; with --dry-run, print what it would be given
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["list", "cell", "status", "jobs"])]
    engine: Option<Engine>,
    /// Slurm: partition [default: the site's]
    #[arg(long, value_name = "NAME", requires = "engine")]
    partition: Option<String>,
    /// Slurm: time limit of a cell's task, for example 4:00:00; a cell that needs longer is requeued [default: the partition's]
    #[arg(long, value_name = "TIME", requires = "engine")]
    time: Option<String>,
    /// Slurm: seconds before the time limit at which a cell is asked for its checkpoint [default: 120]
    #[arg(long, value_name = "SECONDS", requires = "engine")]
    warning: Option<u64>,
    /// Slurm: a template of your own, an edited copy of configs/slurm.sh
    #[arg(long, value_name = "FILE", requires = "engine")]
    template: Option<PathBuf>,
    /// Cells at the same time [default: as many as the scheduler lets]
    #[arg(long, value_name = "N", requires = "engine", value_parser = clap::value_parser!(u32).range(1..))]
    array_limit: Option<u32>,
    /// Kubernetes: the image, built from Dockerfile
    #[arg(long, value_name = "IMAGE", requires = "engine", default_value = "sskp:latest")]
    image: String,
    /// Kubernetes: name of the persistent volume claim, shared by all pods (ReadWriteMany), where the runs lie
    #[arg(long, value_name = "NAME", requires = "engine", default_value = "sskp-runs")]
    volume: String,
    /// Kubernetes: memory of a pod; a replay of a million steps alone may take 400 MB
    #[arg(long, value_name = "SIZE", requires = "engine", default_value = "4Gi")]
    memory: String,
}

impl Options {
    /// The scheduler, if one was named.
    pub fn engine(&self) -> Option<Engine> {
        self.engine
    }

    /// Hands the grid over, or prints what would be handed over.
    pub fn run(&self, engine: Engine, sweep: &Sweep, grid: &std::path::Path, dry_run: bool) -> Result<()> {
        let job = Job::new(sweep, grid).or_usage()?;
        let mut out = std::io::stdout().lock();
        if engine == Engine::Kubernetes {
            if !dry_run {
                return Err(usage(
                    "sskp starts no Job by itself: add --dry-run, and pipe what it prints to kubectl apply -f -",
                ));
            }
            let (image, volume, memory) = (self.image.clone(), self.volume.clone(), self.memory.clone());
            let kubernetes = Kubernetes { image, volume, memory, limit: self.array_limit };
            write!(out, "{}", kubernetes.manifest(&job).or_usage()?)?;
            return Ok(());
        }
        let slurm = Slurm {
            partition: self.partition.clone(),
            time: self.time.clone(),
            array_limit: self.array_limit,
            warning: self.warning,
            template: self.template.clone(),
        };
        // Found again by the nodes, so not the name by which only this process finds itself.
        let program = std::env::current_exe()?;
        if dry_run {
            write!(out, "{}", slurm.script(&job, &program, &job.open()).or_usage()?)?;
            return Ok(());
        }
        match slurm.submit(&job, &program).or_usage()? {
            Submitted::Nothing(0) => writeln!(out, "all {} cells are finished", sweep.cells.len())?,
            Submitted::Nothing(queued) => {
                writeln!(
                    out,
                    "nothing was submitted: Slurm has {} already, and the others are finished",
                    plural(queued as u64, "cell")
                )?;
            }
            Submitted::Array(number, cells) => {
                let (shown, cells) = (sweep.out.display(), plural(cells as u64, "cell"));
                writeln!(out, "Slurm has {cells} as array {number}; their output goes to {shown}/slurm")?;
            }
        }
        Ok(())
    }
}
