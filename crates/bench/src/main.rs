//! `sskp-bench`: what `cargo xtask bench` times, one file per subject, and the show of `cargo xtask demo --robots`.
//!
//! It stands beside the product and uses it as any other crate would: all that it times is public.

mod envs;
mod gaits;
mod methods;
mod plan;
mod policy;
mod robots;
mod update;
mod updates;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sskp_blocks::env::Env;
use sskp_blocks::registry::EnvOptions;
use sskp_lab::registry::Registry;

/// As in `sskp` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What `cargo xtask bench` and `cargo xtask demo --robots` run.
#[derive(Parser)]
#[command(name = "sskp-bench", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    Envs(envs::Args),
    Update(update::Args),
    Methods(methods::Args),
    Plan(plan::Args),
    Policy(policy::Args),
    Robots(robots::Args),
}

/// Which robot, and how it departs from the paper's.
#[derive(clap::Args)]
struct Robot {
    /// Robot to play
    #[arg(long = "env", value_name = "ROBOT")]
    env: String,
    /// Charge contact forces in Ant's and Humanoid's reward (the paper's runs did not)
    #[arg(long)]
    contact_costs: bool,
}

impl Robot {
    fn make(&self, registry: &Registry) -> sskp_blocks::Result<Box<dyn Env>> {
        registry.make_env(&self.env, EnvOptions { contact_costs: self.contact_costs })
    }
}

fn main() -> ExitCode {
    let registry = Registry::standard();
    let result = match Cli::parse().subject {
        Subject::Envs(args) => args.run(&registry),
        Subject::Update(args) => args.run(&registry),
        Subject::Methods(args) => args.run(&registry),
        Subject::Plan(args) => args.run(&registry),
        Subject::Policy(args) => args.run(),
        Subject::Robots(args) => args.run(&registry),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
