//! `sskp robots`: the registry, or one robot's contract, as tables.

use std::io::{Write, stdout};

use anyhow::Result;
use sskp_blocks::registry::{Column, EnvEntry, EnvOptions};
use sskp_lab::registry::Registry;

use crate::table::Table;

/// List the robots, or print everything about one
#[derive(clap::Args)]
pub struct Args {
    /// Print this robot's whole contract: actions, observations, reward, start, violation
    #[arg(value_name = "ROBOT")]
    env: Option<String>,
}

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let text = match self.env {
            None => list(registry)?,
            Some(name) => contract(registry.env(&name)?)?,
        };
        Ok(write!(stdout().lock(), "{text}")?)
    }
}

fn list(registry: &Registry) -> Result<String> {
    let mut table =
        Table::new(&["robot", "obs", "action", "dt (s)", "limit", "about", "violation"]).right(&[1, 2, 3, 4]);
    for robot in registry.envs() {
        let env = robot.make(EnvOptions::default())?;
        let spec = env.spec();
        table.row([
            robot.name.to_string(),
            spec.obs_dim.to_string(),
            spec.action_dim.to_string(),
            spec.dt.to_string(),
            spec.time_limit.map_or("none".into(), |limit| limit.to_string()),
            robot.contract.about.to_string(),
            robot.contract.violation.to_string(),
        ]);
    }
    Ok(table.to_string())
}

fn contract(robot: &EnvEntry) -> Result<String> {
    let mut env = robot.make(EnvOptions::default())?;
    let contract = &robot.contract;
    let state = env.snapshot().map_or(Vec::new(), |snapshot| snapshot.state_names());
    let spec = env.spec();
    let (first, last) = (state.first().map_or("", |s| s), state.last().map_or("", |s| s));
    let steps = spec.time_limit.map_or("no limit of steps,".into(), |limit| format!("{limit} steps"));
    let limits = format!("{steps} of {} s; actions are clipped to [-1, 1]", spec.dt);
    let mut facts = Table::bare();
    for (name, what) in [
        ("reward", &contract.reward),
        ("start", &contract.start),
        ("violation", &contract.violation),
        ("limits", &limits),
        ("state", &format!("{} numbers for --from: {first} ... {last}", state.len())),
    ] {
        facts.row([name, what]);
    }
    Ok(format!(
        "{}: {}\n\n{facts}\nactions, each in [-1, 1]\n{}\nobservations\n{}",
        robot.name,
        contract.about,
        columns(&contract.action),
        columns(&contract.observation)
    ))
}

fn columns(columns: &[Column]) -> Table {
    let mut table = Table::new(&["index", "name", "what"]).right(&[0]);
    for (i, column) in columns.iter().enumerate() {
        table.row([i.to_string(), column.name.to_string(), column.what.to_string()]);
    }
    table
}
