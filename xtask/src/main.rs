//! The project's own commands, run as `cargo xtask <command>`.
//!
//! This crate only orchestrates: it must build before MuJoCo is there, because `setup` fetches MuJoCo.
//! That is why it depends on no other crate than the one that fetches.

mod bench;
mod build;
mod check;
mod demo;
mod json;
mod stress;
#[cfg(test)]
#[path = "../../crates/fetch/src/testing.rs"]
mod testing;
mod venv;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use sskp_fetch::Sources;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Set up, check, show and measure this project")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fetch MuJoCo and the robots' files into vendor/ (does nothing when they are there already)
    Setup {
        /// Fill this folder instead of vendor/
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Run every check: format, lints, documentation, tests, and the pages in a browser where there is one
    Test {
        /// Instead, run all tests N times beside four busy threads, to find those that depend on the machine's speed (`taskset -c
        /// 0,1` before it keeps everything on two cores)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        stress: Option<u32>,
    },
    /// Build `sskp`, train SSkP+ on Cheetah for a few minutes, and write pages about it to runs/demo
    Demo {
        /// Further arguments for `sskp demo`; with `--robots` nothing is trained, and every robot is shown with a scripted controller
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<String>,
    },
    /// Build the Python package `sskp` as a wheel, target/wheels/sskp-*.whl
    Wheel {
        /// Install it into virtual environments of its own, and run its tests there
        #[arg(long)]
        test: bool,
        /// Install it beside Ray and Optuna, and run the tests of sskp.ray and sskp.optuna there, with a Ray of three nodes
        #[arg(long, conflicts_with = "test")]
        cluster: bool,
    },
    /// Measure speed against other software, and keep the raw numbers under benches/runs/
    Bench {
        #[command(subcommand)]
        subject: bench::Subject,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let root = repository_root();
    match command {
        Command::Setup { into } => {
            let vendor = into.unwrap_or_else(|| vendor_of(&root));
            sskp_fetch::set_up(&vendor, &Sources::from_environment())?;
        }
        Command::Test { stress } => {
            set_up(&root)?;
            match stress {
                None => check::run(&root)?,
                Some(times) => stress::run(&root, times)?,
            }
        }
        Command::Demo { arguments } => {
            set_up(&root)?;
            return demo::run(&root, &arguments);
        }
        Command::Wheel { test, cluster } => {
            set_up(&root)?;
            match (test, cluster) {
                (true, _) => wheel::test(&root)?,
                (_, true) => wheel::test_cluster(&root)?,
                _ => wheel::build(&root).map(|_| ())?,
            }
        }
        Command::Bench { subject } => {
            set_up(&root)?;
            bench::run(&root, &subject)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every command that builds the other crates calls this first: their build scripts would fetch the same files, but
/// Cargo shows nothing of that while it runs.
fn set_up(root: &Path) -> Result<()> {
    sskp_fetch::set_up(&vendor_of(root), &Sources::from_environment())
}

fn vendor_of(root: &Path) -> PathBuf {
    root.join("vendor")
}

/// The folder above this crate's own. Cargo names that at run time too, which stays right when a built tree is moved.
fn repository_root() -> PathBuf {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&crate_folder).parent().expect("this crate lies inside the repository").to_path_buf()
}
