//! `sskp`: the command line. One file per verb.
//!
//! To add a verb: one file with a `clap` struct called `Args` and its `run`, the file's `mod` line, and one line of
//! `verbs!`.

mod bench_envs;
mod bench_methods;
mod bench_plan;
mod bench_update;
mod collect;
mod data;
mod demo;
mod error;
mod eval;
mod fall_study;
mod gaits;
mod numbers;
mod options;
mod parade;
mod plan_study;
mod report;
mod resume;
mod robots;
mod rollout;
mod skills;
mod sweep;
mod table;
mod train;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Steps allocate nothing, but learners do, from several threads at once; there mimalloc is faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Safe reinforcement learning with skills and risk planning, on MuJoCo robots.
///
/// Exit codes: 0 success, 1 the run failed, 2 bad usage (arguments, input files, names).
#[derive(Parser)]
#[command(name = "sskp", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

macro_rules! verbs {
    ($($(#[$attribute:meta])* $name:ident($module:ident),)*) => {
        #[derive(Subcommand)]
        enum Verb {
            $($(#[$attribute])* $name($module::Args),)*
        }

        impl Verb {
            fn run(self) -> anyhow::Result<()> {
                match self {
                    $(Verb::$name(args) => args.run(),)*
                }
            }
        }
    };
}

verbs! {
    Robots(robots),
    Rollout(rollout),
    Demo(demo),
    Train(train),
    Resume(resume),
    Sweep(sweep),
    #[command(visible_alias = "plot")]
    Report(report),
    Verify(verify),
    #[command(visible_alias = "enjoy")]
    Eval(eval),
    PlanStudy(plan_study),
    FallStudy(fall_study),
    Skills(skills),
    Collect(collect),
    Data(data),
    #[command(hide = true)]
    BenchEnvs(bench_envs),
    #[command(hide = true)]
    BenchUpdate(bench_update),
    #[command(hide = true)]
    BenchMethods(bench_methods),
    #[command(hide = true)]
    BenchPlan(bench_plan),
}

fn main() -> ExitCode {
    match Cli::parse().verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::report(&error),
    }
}
