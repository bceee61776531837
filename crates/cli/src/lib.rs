//! `sskp`: the command line, as a function of a registry. One file per verb.
//!
//! A program of your own that knows one more environment or method is five lines; it has every verb, and grids and reports work
//! with it as they do with `sskp` itself:
//!
//! ```no_run
//! use sskp::blocks::{registry::EnvEntry, toy::Toy};
//! use sskp::lab::registry::Registry;
//!
//! fn main() -> std::process::ExitCode {
//!     let mut registry = Registry::standard();
//!     registry.add_env(EnvEntry::new("bridge", |_| Ok(Box::new(Toy::default())))).expect("a new name");
//!     sskp::main(&registry)
//! }
//! ```
//!
//! The other crates are at hand as [`blocks`], [`robots`], [`methods`] and [`lab`]: a program of your own depends on this one alone.
//! Whole programs, each about one idea, are in `examples/`: an environment, a robot, a method, a control loop.
//!
//! To add a verb: one file with a `clap` struct called `Args` and its `run`, the file's `mod` line, and one line of
//! `verbs!`.

mod collect;
mod completions;
mod curves;
mod data;
mod demo;
mod error;
mod eval;
mod export;
mod fall_study;
mod numbers;
mod options;
mod plan_study;
mod report;
mod resume;
#[path = "robots.rs"]
mod robots_verb;
mod rollout;
mod skills;
mod sweep;
mod table;
mod train;
mod verify;
mod violations;
mod watch;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use sskp_lab::registry::Registry;

pub use {sskp_blocks as blocks, sskp_lab as lab, sskp_methods as methods, sskp_robots as robots};

/// Safe reinforcement learning with skills and risk planning, on MuJoCo robots.
///
/// Exit codes: 0 success, 1 the run failed, 2 bad usage (arguments, input files, names); of `sweep --cell` also 75, to be continued.
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
            fn run(self, registry: &Registry) -> anyhow::Result<()> {
                match self {
                    $(Verb::$name(args) => args.run(registry),)*
                }
            }
        }
    };
}

verbs! {
    Robots(robots_verb),
    Rollout(rollout),
    Demo(demo),
    Train(train),
    Resume(resume),
    Sweep(sweep),
    #[command(visible_alias = "plot")]
    Report(report),
    Watch(watch),
    Curves(curves),
    Violations(violations),
    Verify(verify),
    #[command(visible_alias = "enjoy")]
    Eval(eval),
    Export(export),
    PlanStudy(plan_study),
    FallStudy(fall_study),
    Skills(skills),
    Collect(collect),
    Data(data),
    Completions(completions),
}

/// Runs the command line of this process with the environments and methods of `registry`.
pub fn main(registry: &Registry) -> ExitCode {
    let matches = command(registry).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.verb.run(registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::report(&error),
    }
}

/// The whole command line.
fn command(registry: &Registry) -> Command {
    with_names(Cli::command(), registry)
}

/// Arguments that take a name of the registry know which there are: wrong ones are refused with the nearest, and helps list them.
fn with_names(command: Command, registry: &Registry) -> Command {
    let envs: Vec<String> = registry.envs().iter().map(|env| env.name.clone()).collect();
    let methods: Vec<&str> = registry.methods().iter().map(|method| method.name).collect();
    let named = |arg: Arg| match arg.get_id().as_str() {
        "env" => arg.value_parser(PossibleValuesParser::new(&envs)),
        "algo" => arg.value_parser(PossibleValuesParser::new(&methods)),
        // So that --seed -1 is a wrong seed, and not an argument nobody knows.
        _ => arg.allow_negative_numbers(true),
    };
    fn each(command: Command, named: &dyn Fn(Arg) -> Arg) -> Command {
        command.mut_args(named).mut_subcommands(|verb| each(verb, named))
    }
    each(command, &named)
}
