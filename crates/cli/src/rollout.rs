//! `sskp rollout`: plays actions on one robot for one episode.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sskp_blocks::env::End;
use sskp_blocks::files::PendingFile;
use sskp_blocks::record::Memory;
use sskp_blocks::registry::EnvEntry;
use sskp_blocks::rng::Rng;
use sskp_blocks::run::Run;
use sskp_lab::registry::Registry;
use sskp_lab::replay_page;
use sskp_lab::rollout::{Stage, end_word, snapshot};
use sskp_lab::wording::{plural, verb};

use crate::error::{OrUsage, usage};
use crate::numbers::{self, Form};
use crate::options;

/// Steps of an episode that nothing else would end.
const ENDLESS: u64 = 1000;

/// Play one episode of given or random actions, and keep it as a table or as a page to look at
///
/// Actions are random until the end of the episode unless --actions or --random says otherwise.
///
/// Files are CSV with a header row. --out has one row a step: step (from 1), the action (action_0, action_1, ...), the observation
/// after the step (obs_0, obs_1, ...), reward, cost, and how the episode ended there (empty, violation, violation:REASON, terminated,
/// truncated). `sskp robots ROBOT` says what the columns mean. With the same seed or state --actions plays such a file again.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    robot: options::Robot,
    /// Seed of the start state and of random actions
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Start from the state in this file: one row, qpos then qvel
    #[arg(long, value_name = "STATE.CSV")]
    from: Option<PathBuf>,
    /// Play the actions in this file: one row per step, one column per action, in [-1, 1]; of a wider table those columns
    #[arg(long, value_name = "ACTIONS.CSV", conflicts_with = "random")]
    actions: Option<PathBuf>,
    /// Play at most N random actions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
    /// Write one row per step to this file
    #[arg(long, value_name = "ROLLOUT.CSV")]
    out: Option<PathBuf>,
    /// Write a page that shows the moving robot to this file
    #[arg(long, value_name = "REPLAY.HTML")]
    html: Option<PathBuf>,
}

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let files: Vec<&PathBuf> = [&self.from, &self.actions, &self.out, &self.html].into_iter().flatten().collect();
        for (i, file) in files.iter().enumerate() {
            if files[..i].iter().any(|other| same_file(other, file)) {
                return Err(usage(format!("{} is named twice; each file needs a name of its own", file.display())));
            }
        }
        let robot = registry.env(&self.robot.env).or_usage()?;
        let env = self.robot.make(registry)?;
        let spec = env.spec().clone();
        let mut stage = Stage::new(env);
        if let Some(file) = &self.from {
            let names = snapshot(&mut stage).or_usage()?.state_names();
            let state = read_state(file, names)?;
            stage = stage.starting_from(state).context(file.display().to_string()).or_usage()?;
        }
        let given = self.actions.as_ref().map(|file| read_actions(file, robot, spec.action_dim)).transpose()?;
        let mut out = self.out.as_deref().map(PendingFile::create).transpose().or_usage()?;
        let mut html = self.html.as_deref().map(PendingFile::create).transpose().or_usage()?;

        let mut tape = None;
        if html.is_some() {
            let (recorded, its_tape) = stage.recorded();
            (stage, tape) = (recorded, Some(its_tape));
        }
        let budget = match (&given, self.random) {
            (Some(actions), _) => actions.len() as u64,
            (None, Some(n)) => n,
            (None, None) => spec.time_limit.map_or(ENDLESS, |limit| limit as u64),
        };
        let mut memory = Memory::default();
        let mut run = Run::new(Box::new(stage), self.seed, budget, &mut memory);
        let mut random = Rng::stream(self.seed, "actions");
        let mut action = vec![0.0; spec.action_dim];
        let mut csv = header(spec.action_dim, spec.obs_dim);
        let mut ended = None;
        run.next_episode()?;
        while !run.over() {
            match &given {
                Some(actions) => action.copy_from_slice(&actions[run.clock().steps as usize]),
                None => random.fill_action(&mut action),
            }
            let step = run.step(&action)?;
            write!(csv, "{}", run.clock().steps)?;
            for a in &action {
                write!(csv, ",{a:?}")?;
            }
            for x in run.env().obs() {
                write!(csv, ",{x:?}")?;
            }
            writeln!(csv, ",{:?},{},{}", step.reward, step.cost(), end_word(step.end, step.anomaly))?;
            ended = step.end.map(|end| (end, step.anomaly));
        }
        let clock = run.clock();

        if let Some(file) = &mut out {
            file.write_all(csv.as_bytes()).context("the table could not be written")?;
        }
        if let (Some(file), Some(tape)) = (&mut html, tape) {
            let episode = tape.take().pop().context("nothing was recorded")?;
            let page = replay_page::html(&episode.into_page(robot, self.what_was_played()))?;
            file.write_all(page.as_bytes()).context("the page could not be written")?;
        }
        for file in [out, html].into_iter().flatten() {
            file.commit()?;
        }

        let how = match ended {
            Some((End::Violation, None)) => "ended in a violation".to_string(),
            Some((End::Violation, Some(anomaly))) => format!("ended in a violation ({})", anomaly.name()),
            Some((End::Terminated, _)) => "ended by itself".to_string(),
            Some((End::Truncated, _)) => "reached the time limit".to_string(),
            None => "still running".to_string(),
        };
        let mut stdout = stdout().lock();
        writeln!(stdout, "{}: {}, return {:.3}, {how}", robot.name, plural(clock.steps, "step"), clock.reward)?;
        if clock.steps < budget && given.is_some() {
            let left = budget - clock.steps;
            let were = verb(left, "was", "were");
            writeln!(stdout, "{left} of the {budget} actions {were} not played: the episode was over")?;
        }
        for file in [self.out, self.html].iter().flatten() {
            writeln!(stdout, "wrote {}", file.display())?;
        }
        Ok(())
    }

    fn what_was_played(&self) -> String {
        let actions = match &self.actions {
            Some(file) => format!("actions of {}", file_name(file)),
            None => "random actions".into(),
        };
        match &self.from {
            Some(file) if self.actions.is_some() => format!("{actions}, from {}", file_name(file)),
            Some(file) => format!("{actions}, from {}, seed {}", file_name(file), self.seed),
            None => format!("{actions}, seed {}", self.seed),
        }
    }
}

fn header(action_dim: usize, obs_dim: usize) -> String {
    let obs = (0..obs_dim).map(|i| format!("obs_{i}"));
    let columns: Vec<String> = action_columns(action_dim).into_iter().chain(obs).collect();
    format!("step,{},reward,cost,end\n", columns.join(","))
}

/// The columns of the actions in a table of ours.
fn action_columns(action_dim: usize) -> Vec<String> {
    (0..action_dim).map(|i| format!("action_{i}")).collect()
}

fn read_state(file: &Path, columns: Vec<String>) -> Result<Vec<f64>> {
    let form = Form { columns, in_tables: Vec::new(), rows: "one row with qpos and qvel", range: None, single: true };
    Ok(numbers::read(file, &form)?.remove(0))
}

fn read_actions(file: &Path, robot: &EnvEntry, action_dim: usize) -> Result<Vec<Vec<f32>>> {
    let in_tables = action_columns(action_dim);
    let named: Vec<String> = robot.contract.action.iter().map(|c| c.name.clone()).collect();
    // An environment of somebody's own need not have names for its actions.
    let columns = if named.len() == action_dim { named } else { in_tables.clone() };
    let form = Form { columns, in_tables, rows: "one row per step", range: Some((-1.0, 1.0)), single: false };
    let rows = numbers::read(file, &form)?;
    Ok(rows.into_iter().map(|row| row.into_iter().map(|x| x as f32).collect()).collect())
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b && a.is_file())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
