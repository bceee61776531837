//! Grids of runs: robots × methods × seeds, each run a process of its own, several at a time. A sweep that was stopped, or
//! killed, goes on where it was: finished runs are left alone, the others resume at their checkpoints.
//!
//! The form of a grid file is described in `docs/experiments.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sskp_blocks::{Error, Result};
use toml::{Table, Value};

use crate::config::{Config, Overrides, RunConfig, read_toml};
use crate::registry::Registry;
use crate::train::{Session, prepare};

mod cell;
pub mod engine;
mod one;
mod runner;
mod standing;
mod time_left;

pub use cell::{Cell, State};
pub use one::{CELLS, Ended, run_claimed};
pub use runner::Outcome;
pub use standing::{Place, Standing};

/// A grid file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Folder of the runs.
    pub out: PathBuf,
    /// Environment steps of every run.
    pub steps: u64,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Settings files of methods, relative to the grid file.
    #[serde(default)]
    pub files: BTreeMap<String, PathBuf>,
    /// Settings of all runs: `[set.run]`, and `[set.METHOD]` for runs of that method.
    #[serde(default)]
    pub set: Table,
    /// Settings of a robot's runs, in the same form; they win over `set`.
    #[serde(default)]
    pub robot: BTreeMap<String, Table>,
    /// What is run on what.
    pub cells: Vec<Block>,
}

/// Methods on robots; seeds and steps where they differ from the grid's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Robots.
    pub robots: Vec<String>,
    /// Methods.
    pub methods: Vec<String>,
    /// Seeds, if others than the grid's.
    pub seeds: Option<Vec<u64>>,
    /// Environment steps, if others than the grid's.
    pub steps: Option<u64>,
    /// Name of what is different in these runs, which their folder bears; needed where `file` or `set` are given.
    pub variant: Option<String>,
    /// A settings file of these runs, relative to the grid file, in the place of the method's.
    pub file: Option<PathBuf>,
    /// Settings of these runs, in the form of the grid's; they win over all others.
    #[serde(default)]
    pub set: Table,
}

/// A grid, judged whole before anything starts.
///
/// ```
/// use sskp_lab::registry::Registry;
/// use sskp_lab::sweep::{State, Sweep};
///
/// # let folder = std::env::temp_dir().join(format!("sskp-sweep-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let file = folder.join("grid.toml");
/// let grid = "out = \"runs\"\nsteps = 1000\nseeds = [0, 1]\n[[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\", \"ssac\"]";
/// std::fs::write(&file, grid).unwrap();
/// let sweep = Sweep::read(&Registry::standard(), &file, Some(&folder.join("runs")))?;
/// assert_eq!((sweep.cells.len(), sweep.cells[0].state), (4, State::New));
/// assert_eq!(sweep.cells[0].name(), "sac on toy, seed 0"); // the first seed of everything comes first
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
pub struct Sweep {
    /// Folder of the runs.
    pub out: PathBuf,
    /// Its runs, in the order in which they start.
    pub cells: Vec<Cell>,
    /// Settings that reach no run, which may not be what somebody meant.
    pub warnings: Vec<String>,
}

impl Sweep {
    /// Reads a grid file and looks at what is there already. `out` wins over the file's.
    pub fn read(registry: &Registry, file: &Path, out: Option<&Path>) -> Result<Self> {
        let grid: Grid = read_toml(file)?;
        let fail = |why: String| Error::other(format!("{}: {why}", file.display()));
        let out = out.unwrap_or(&grid.out).to_path_buf();
        let mut cells: Vec<Cell> = Vec::new();
        let mut kinds: BTreeMap<(&str, String), Config> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let session = Session::of(registry);
        check_names(registry, &grid).map_err(|e| fail(e.to_string()))?;
        // Seed by seed, so that a sweep stopped half-way has whole comparisons of fewer seeds.
        let mut order = Vec::new();
        for block in &grid.cells {
            for (rank, seed) in block.seeds.as_ref().unwrap_or(&grid.seeds).iter().enumerate() {
                for robot in &block.robots {
                    for method in &block.methods {
                        order.push((rank, *seed, robot, method, block));
                    }
                }
            }
        }
        order.sort_by_key(|cell| cell.0);
        for (_, seed, robot, method, block) in order {
            let named = block.variant.as_ref().map_or(method.clone(), |variant| format!("{method}-{variant}"));
            if !seen.insert((robot, named.clone(), seed)) {
                return Err(fail(format!("{named} on {robot} with seed {seed} stands there twice")));
            }
            // Cells that differ in seed and length alone read the same demonstrations.
            let mut config = match kinds.get(&(robot.as_str(), named.clone())) {
                Some(config) => config.clone(),
                None => {
                    let config = grid
                        .config(registry, file, robot, method, block)
                        .and_then(|config| Ok(prepare(&config, session.clone())?.config))
                        .map_err(|e| fail(format!("{named} on {robot}: {e}")))?;
                    kinds.insert((robot, named.clone()), config.clone());
                    config
                }
            };
            (config.run.seed, config.run.total_steps) = (seed, block.steps.unwrap_or(grid.steps));
            let folder = out.join(robot).join(&named).join(format!("seed-{seed}"));
            let state = cell::state(&folder, &config)?;
            let fit = cell::shared_fit(registry, &config)?;
            cells.push(Cell { config, named, folder, state, fit });
        }
        if cells.is_empty() {
            return Err(fail("there is nothing to run: robots, methods or seeds are empty".into()));
        }
        let warnings = idle_tables(registry, &grid)?.into_iter().map(|w| format!("{}: {w}", file.display())).collect();
        Ok(Self { out, cells, warnings })
    }
}

impl Grid {
    /// Settings of a method on a robot, for the first seed.
    fn config(&self, registry: &Registry, file: &Path, robot: &str, method: &str, block: &Block) -> Result<Config> {
        let mut overrides = Overrides::default();
        if let Some(settings) = block.file.as_ref().or(self.files.get(method)) {
            overrides.file(&file.parent().unwrap_or(Path::new("")).join(settings))?;
        }
        let entry = registry.method(method)?;
        for table in [Some(&self.set), self.robot.get(robot), Some(&block.set)].into_iter().flatten() {
            let own = |(name, _): &(&String, _)| *name == "run" || *name == entry.table;
            let mut table: Table = table.iter().filter(own).map(|(k, v)| (k.clone(), v.clone())).collect();
            // One line may name the demonstrations of all methods of a robot, though some begin with none.
            if let Some(Value::Table(run)) = table.get_mut("run").filter(|_| !entry.demos) {
                run.retain(|key, _| !(key.starts_with("demos") || key.starts_with("skills")));
            }
            overrides.table(table);
        }
        let config = Config::resolve(registry, RunConfig::new(method, robot, 0, self.steps), &overrides)?;
        if (config.run.seed, config.run.total_steps) != (0, self.steps) {
            return Err(Error::other("seeds and steps are named by the grid, not by run.seed and run.total_steps"));
        }
        Ok(config)
    }
}

/// Names that exist, in every place where there are names.
fn check_names(registry: &Registry, grid: &Grid) -> Result<()> {
    for block in &grid.cells {
        block.robots.iter().try_for_each(|name| registry.env(name).map(|_| ()))?;
        block.methods.iter().try_for_each(|name| registry.method(name).map(|_| ()))?;
        match &block.variant {
            None if block.file.is_some() || !block.set.is_empty() => {
                let why = "cells with a file or settings of their own need a variant = \"NAME\", by which their runs are told apart";
                return Err(Error::other(why));
            }
            Some(name) if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) => {
                let why = "a variant is named with letters, digits, - and _: its runs lie in a folder of that name";
                return Err(Error::other(format!("variant = {name:?}: {why}")));
            }
            _ => {}
        }
    }
    grid.files.keys().try_for_each(|name| registry.method(name).map(|_| ()))?;
    grid.robot.keys().try_for_each(|name| registry.env(name).map(|_| ()))?;
    for (place, table) in std::iter::once(("set".into(), &grid.set))
        .chain(grid.robot.iter().map(|(robot, table)| (format!("robot.{robot}"), table)))
        .chain(grid.cells.iter().map(|block| ("cells.set".into(), &block.set)))
    {
        for name in table.keys().filter(|name| *name != "run") {
            if !registry.methods().iter().any(|m| m.table == name) {
                let error = registry.method(name).err().map_or(String::new(), |e| e.to_string());
                return Err(Error::other(format!("[{place}.{name}]: {error}")));
            }
        }
    }
    // A variant that changes nothing would be compared with itself.
    for block in &grid.cells {
        let mut read =
            block.methods.iter().map(|name| registry.method(name).map(|m| m.table)).collect::<Result<BTreeSet<_>>>()?;
        read.insert("run");
        if let Some(name) = block.set.keys().find(|name| !read.contains(name.as_str())) {
            let variant = block.variant.as_deref().unwrap_or_default();
            let read: Vec<&str> = read.into_iter().collect();
            let why = format!("reaches none of the methods of variant {variant}, which read {}", read.join(", "));
            return Err(Error::other(format!("[cells.set.{name}] {why}")));
        }
    }
    Ok(())
}

/// Tables of settings that no run of the grid reads: methods with tables of their own do not see those of their relatives.
fn idle_tables(registry: &Registry, grid: &Grid) -> Result<Vec<String>> {
    let mut idle = Vec::new();
    let places = std::iter::once((None, &grid.set)).chain(grid.robot.iter().map(|(robot, table)| (Some(robot), table)));
    for (robot, tables) in places {
        let blocks = || grid.cells.iter().filter(|block| robot.is_none_or(|robot| block.robots.contains(robot)));
        let methods: BTreeSet<&String> = blocks().flat_map(|block| &block.methods).collect();
        let mut read = BTreeSet::from(["run"]);
        for method in &methods {
            read.insert(registry.method(method)?.table);
        }
        let place = robot.map_or("set".into(), |robot| format!("robot.{robot}"));
        for name in tables.keys().filter(|_| !methods.is_empty() || robot.is_none()) {
            if !read.contains(name.as_str()) {
                let read: Vec<&str> = read.iter().copied().collect();
                idle.push(format!("[{place}.{name}] reaches no run: those here read {}", read.join(", ")));
            }
        }
    }
    Ok(idle)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn grid(text: &str) -> Result<Sweep> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grid.toml");
        fs::write(&file, text.replace("OUT", &folder.path().join("out").display().to_string())).unwrap();
        fs::write(folder.path().join("wide.toml"), "[sac.learner]\nwidth = 99\n").unwrap();
        Sweep::read(&Registry::standard(), &file, None)
    }

    const SMALL: &str = "out = \"OUT\"\nsteps = 500\nseeds = [3, 4]\n";

    #[test]
    fn settings_come_from_the_file_then_from_set_then_from_the_robot() {
        let text = format!(
            "{SMALL}[files]\nsac = \"wide.toml\"\n[set.run]\ncheckpoint_every = 7\n[set.sac]\nbatch = 31\n[set.ssac]\nbatch = 30\n\
             [robot.toy.sac]\nbatch = 32\n[[cells]]\nrobots = [\"toy\", \"hopper\"]\nmethods = [\"sac\", \"ssac\"]\n\
             [[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\nseeds = [9]\nsteps = 20\n"
        );
        let sweep = grid(&text).unwrap();
        let of = |robot: &str, method: &str, seed: u64| {
            let is = |c: &&Cell| {
                (c.config.run.env.as_str(), c.config.run.algo.as_str(), c.config.run.seed) == (robot, method, seed)
            };
            sweep.cells.iter().find(is).unwrap_or_else(|| panic!("{robot} {method} {seed}"))
        };
        let batch = |c: &Cell| c.config.method["batch"].as_integer().unwrap();
        let width = |c: &Cell| c.config.method["learner"]["width"].as_integer().unwrap();
        assert_eq!(sweep.cells.len(), 9);
        assert_eq!((batch(of("toy", "sac", 3)), width(of("toy", "sac", 3))), (32, 99));
        assert_eq!((batch(of("hopper", "sac", 4)), width(of("hopper", "sac", 4))), (31, 99));
        assert_eq!((batch(of("toy", "ssac", 4)), width(of("toy", "ssac", 4))), (30, 256));
        assert!(sweep.cells.iter().all(|c| c.config.run.checkpoint_every == 7));
        assert_eq!(of("toy", "sac", 9).config.run.total_steps, 20);
        assert!(of("hopper", "sac", 4).folder.ends_with("out/hopper/sac/seed-4"));
        assert_eq!(sweep.cells[0].config.run.seed, 3, "seed by seed");
        assert!(sweep.cells[5..].iter().all(|c| c.config.run.seed == 4));
    }

    #[test]
    fn variants_of_one_method_have_folders_and_settings_of_their_own() {
        let block = "[[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\n";
        let text = format!(
            "{SMALL}[set.sac]\nbatch = 31\n{block}{block}variant = \"small\"\n[cells.set.sac]\nbatch = 5\n\
             {block}variant = \"wide\"\nfile = \"wide.toml\"\nseeds = [3]\n"
        );
        let sweep = grid(&text).unwrap();
        let seen: Vec<(String, i64, i64)> = sweep
            .cells
            .iter()
            .filter(|cell| cell.config.run.seed == 3)
            .map(|cell| {
                let of = |table: &toml::Table, key: &str| table[key].as_integer().unwrap();
                let learner = cell.config.method["learner"].as_table().unwrap();
                (cell.name(), of(&cell.config.method, "batch"), of(learner, "width"))
            })
            .collect();
        let expected = [("sac", 31, 256), ("sac-small", 5, 256), ("sac-wide", 31, 99)];
        assert_eq!(seen, expected.map(|(name, batch, width)| (format!("{name} on toy, seed 3"), batch, width)));
        assert!(sweep.cells[1].folder.ends_with("out/toy/sac-small/seed-3"));
        assert_eq!(sweep.cells.len(), 5);
    }

    #[test]
    fn a_broken_grid_is_one_clear_sentence() {
        let cells = "[[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\n";
        for (text, needed) in [
            (format!("{SMALL}sedes = [1]\n{cells}"), "grid.toml, line 4: unknown field `sedes`"),
            (format!("out = \"OUT\"\nsteps = \"many\"\nseeds = []\n{cells}"), "line 2: invalid type"),
            (format!("out = \"OUT\"\nsteps = 5\nseeds = []\n{cells}"), "nothing to run"),
            (format!("{SMALL}[[cells]]\nrobots = [\"tyo\"]\nmethods = []\n"), "no robot called \"tyo\""),
            (format!("{SMALL}[[cells]]\nrobots = [\"toy\"]\nmethods = [\"scs\"]\n"), "no method called \"scs\""),
            (format!("{SMALL}[set.sca]\nbatch = 1\n{cells}"), "[set.sca]: there is no method"),
            (format!("{SMALL}[set.sac]\nbtach = 1\n{cells}"), "did you mean sac.batch?"),
            (format!("{SMALL}[set.sac]\nbatch = 1.5\n{cells}"), "sac.batch must be an integer"),
            (format!("{SMALL}[set.sac]\nbatch = 0\n{cells}"), "sac on toy: sac.batch must be"),
            (format!("{SMALL}[robot.tyo.run]\nthreads = 1\n{cells}"), "no robot called"),
            (format!("{SMALL}[set.run]\nseed = 5\n{cells}"), "named by the grid"),
            (format!("{SMALL}[files]\nsac = \"none.toml\"\n{cells}"), "none.toml"),
            (format!("{SMALL}{cells}{cells}"), "sac on toy with seed 3 stands there twice"),
            (format!("{SMALL}{cells}[cells.set.sac]\nbatch = 5\n"), "need a variant"),
            (format!("{SMALL}{cells}variant = \"../up\"\n"), "named with letters"),
            (format!("{SMALL}{cells}variant = \"x\"\n[cells.set.sca]\nbatch = 5\n"), "[cells.set.sca]: there is no"),
            (
                format!("{SMALL}{cells}variant = \"x\"\n[cells.set.ssac]\nbatch = 5\n"),
                "[cells.set.ssac] reaches none of the methods of variant x, which read run, sac",
            ),
            (
                format!(
                    "{SMALL}[set.run]\ndemos = \"no/such-v0\"\n[[cells]]\nrobots = [\"toy\"]\nmethods = [\"cpq\"]\n"
                ),
                "no/such-v0",
            ),
        ] {
            let error = grid(&text).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(needed) && !error.contains('\n'), "{text}\ngave: {error}");
        }
    }

    #[test]
    fn a_table_that_reaches_no_run_is_said() {
        let cells = "[[cells]]\nrobots = [\"toy\"]\nmethods = [\"ssac\"]\n";
        let said = |tables: &str| grid(&format!("{SMALL}{tables}{cells}")).unwrap().warnings.join("; ");
        assert_eq!(said("[set.ssac]\nbatch = 9\n"), "");
        assert!(said("[set.sac]\nbatch = 9\n").ends_with("[set.sac] reaches no run: those here read run, ssac"));
        assert!(said("[robot.toy.sac]\nbatch = 9\n").contains("[robot.toy.sac]"));
        assert_eq!(said("[robot.hopper.sac]\nbatch = 9\n"), "", "a robot that is left out may have its settings");
    }
}
