//! `sskp data`: looks at, checks, converts and documents sets of demonstrations.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Subcommand, ValueEnum};
use sskp_blocks::env::Env;
use sskp_blocks::registry::EnvOptions;
use sskp_lab::data::check::check;
use sskp_lab::data::{CostFrom, Set, Stats, card, check_target, convert, write_dsrl, write_minari};
use sskp_lab::places::find_set;
use sskp_lab::registry::Registry;
use sskp_lab::wording::set_contents;

use crate::collect::command_line;
use crate::error::OrUsage;

/// Look at, check, convert or document a set of demonstrations
///
/// A set is a Minari folder, its data folder, an HDF5 file in Minari's, DSRL's or D4RL's layout (which one it is, is seen from its
/// content), or the name of a shipped set, like hopper/medium-v0.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print what a set holds and how it was made
    Info {
        /// The set: a path, or the name of a shipped one
        #[arg(value_name = "SET")]
        set: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Look for mistakes; exit code 1 when there are any
    ///
    /// Wrong lengths, costs that are off by one, terminations mixed up with time limits, numbers that are not finite,
    /// actions out of range, and whatever the robot itself would say otherwise.
    Check {
        /// The set: a path, or the name of a shipped one
        #[arg(value_name = "SET")]
        set: String,
        /// Robot it is of [default: the one that the set or its path names]
        #[arg(long = "env", visible_aliases = ["env-id", "task"], value_name = "ROBOT")]
        env: Option<String>,
    },
    /// Write a set in another format
    Convert {
        /// The set to read: a path, or the name of a shipped one
        #[arg(value_name = "IN")]
        input: String,
        /// For minari the folder of sets to write into, for dsrl the file to write
        #[arg(value_name = "OUT")]
        output: PathBuf,
        /// Robot it is of
        #[arg(long = "env", visible_aliases = ["env-id", "task"], value_name = "ROBOT")]
        env: String,
        /// Format to write
        #[arg(long, default_value = "minari")]
        format: OutFormat,
        /// Name of a Minari set, like hopper/medium-v0 [default: ROBOT/converted-v0]
        #[arg(long, value_name = "ID")]
        name: Option<String>,
        /// Where costs come from
        #[arg(long, default_value = "file")]
        cost_from: Costs,
    },
    /// Write a card in Markdown about a set, with a picture beside it
    Card {
        /// The set: a path, or the name of a shipped one
        #[arg(value_name = "SET")]
        set: String,
        /// File to write
        #[arg(long, value_name = "FILE.MD")]
        out: PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum OutFormat {
    /// One folder, one group per episode
    Minari,
    /// One flat file
    Dsrl,
}

#[derive(Clone, Copy, ValueEnum)]
enum Costs {
    /// The file's own
    File,
    /// The robot's constraint, asked of the state after each step; episodes end at the first violation
    Robot,
    /// Every termination is a violation
    Terminal,
}

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        match self.what {
            What::Info { set, json } => info(&set, json),
            What::Check { set, env } => examine(registry, &set, env.as_deref()),
            What::Card { set, out } => document(registry, &set, &out),
            What::Convert { input, output, env, format, name, cost_from } => {
                let name = name.unwrap_or_else(|| format!("{env}/converted-v0"));
                let costs = match cost_from {
                    Costs::File => CostFrom::File,
                    Costs::Robot => CostFrom::Robot,
                    Costs::Terminal => CostFrom::Terminal,
                };
                rewrite(&input, &output, &*registry.make_env(&env, EnvOptions::default())?, format, &name, costs)
            }
        }
    }
}

fn open(set: &str) -> Result<Set> {
    Set::open(&find_set(set).or_usage()?).or_usage()
}

fn info(set: &str, json: bool) -> Result<()> {
    let set = open(set)?;
    let mut stdout = stdout().lock();
    if json {
        writeln!(stdout, "{}", set.to_json())?;
        return Ok(());
    }
    writeln!(stdout, "{}", Stats::of(&set).table())?;
    let rows = set.provenance_rows();
    if rows.is_empty() {
        writeln!(stdout, "\nthe set does not say how it was made")?;
        return Ok(());
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    writeln!(stdout, "\nhow it was made")?;
    for (name, value) in rows {
        writeln!(stdout, "  {name:<width$}  {value}")?;
    }
    Ok(())
}

fn examine(registry: &Registry, set: &str, env: Option<&str>) -> Result<()> {
    let path = find_set(set).or_usage()?;
    // A set that cannot be read is what this verb is for: it failed the check, and was no bad usage.
    let report = check(registry, &Set::open(&path)?, env)?;
    writeln!(stdout().lock(), "{report}")?;
    match report.fine() {
        true => Ok(()),
        false => Err(anyhow!("{set} is not as it should be")),
    }
}

fn document(registry: &Registry, set: &str, out: &Path) -> Result<()> {
    let set = open(set)?;
    let report = check(registry, &set, None).or_usage()?;
    let picture = card::write(&set, &report, out)?;
    writeln!(stdout().lock(), "wrote {}\nwrote {}", out.display(), picture.display())?;
    Ok(())
}

fn rewrite(input: &str, output: &Path, env: &dyn Env, format: OutFormat, name: &str, costs: CostFrom) -> Result<()> {
    if matches!(format, OutFormat::Minari) {
        check_target(output, name).or_usage()?;
    }
    let (demos, about) = convert(open(input)?, env, costs, &command_line()).or_usage()?;
    let written = match format {
        OutFormat::Minari => write_minari(output, name, &demos, &[], &about)?,
        OutFormat::Dsrl => {
            write_dsrl(output, &demos, &about)?;
            output.to_path_buf()
        }
    };
    let mut stdout = stdout().lock();
    writeln!(stdout, "{}", set_contents(&demos))?;
    writeln!(stdout, "wrote {}", written.display())?;
    Ok(())
}
