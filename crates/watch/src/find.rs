//! Which runs there are.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use sskp_blocks::{Error, Result};
use sskp_lab::config::RunConfig;
use sskp_lab::registry::Registry;
use sskp_lab::sweep::Sweep;

/// Runs that are shown; of more the first ones, and how many there are is said.
pub const MOST_RUNS: usize = 2000;
/// Folders that are looked into for runs; what lies beyond is said to be left out.
pub const MOST_FOLDERS: usize = 20_000;
/// How deep runs may lie below what was named.
const DEEPEST: usize = 8;

/// What to watch.
#[derive(Clone, Debug)]
pub struct Source {
    /// Runs, and folders in which there are or will be some.
    paths: Vec<PathBuf>,
    /// Runs that a grid will make, whether they are there or not.
    planned: Vec<(PathBuf, RunConfig)>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Runs in order of their paths, and the settings of those that are only planned.
    pub runs: Vec<(PathBuf, Option<RunConfig>)>,
    /// What was left out, in a sentence; empty if nothing.
    pub left_out: String,
}

impl Source {
    /// Runs, folders of them, and grid files, in any mixture.
    pub fn new(registry: &Registry, named: &[PathBuf]) -> Result<Self> {
        let (mut paths, mut planned) = (Vec::new(), Vec::new());
        for path in named {
            let there = fs::metadata(path).map_err(|e| Error::io(path, e))?;
            if there.is_dir() {
                paths.push(path.clone());
            } else if path.extension().is_some_and(|e| e == "toml") {
                let sweep = Sweep::read(registry, path, None)?;
                planned.extend(sweep.cells.into_iter().map(|cell| (cell.folder, cell.config.run)));
            } else {
                let why = "is neither a run, nor a folder of runs, nor the TOML file of a grid";
                return Err(Error::other(format!("{} {why}", path.display())));
            }
        }
        Ok(Self { paths, planned })
    }

    /// What is there now. Links are not followed: a folder of runs ends where it ends.
    pub fn look(&self) -> Found {
        let mut found: BTreeSet<PathBuf> = BTreeSet::new();
        let mut waiting: VecDeque<(PathBuf, usize)> = self.paths.iter().map(|path| (path.clone(), 0)).collect();
        let (mut looked, mut left_out) = (0, String::new());
        while let Some((folder, depth)) = waiting.pop_front() {
            looked += 1;
            if looked > MOST_FOLDERS {
                left_out = format!("only the first {MOST_FOLDERS} folders were looked into");
                break;
            }
            if is_run(&folder) {
                found.insert(folder.clone());
            }
            if depth < DEEPEST {
                waiting.extend(inside(&folder).into_iter().map(|inner| (inner, depth + 1)));
            }
        }
        let planned = self.planned.iter().filter(|(path, _)| !found.contains(path));
        let mut runs: Vec<(PathBuf, Option<RunConfig>)> =
            planned.map(|(path, run)| (path.clone(), Some(run.clone()))).collect();
        runs.extend(found.into_iter().map(|path| (path, None)));
        runs.sort_by_cached_key(|run| (as_counted(&run.0), run.0.clone()));
        if runs.len() > MOST_RUNS {
            left_out = format!("the first {MOST_RUNS} of {} runs are shown", runs.len());
            runs.truncate(MOST_RUNS);
        }
        Found { runs, left_out }
    }
}

/// A path in parts by which seed-2 stands before seed-10: texts, and the numbers behind them.
fn as_counted(path: &Path) -> Vec<(String, u128)> {
    let (mut parts, text) = (Vec::new(), path.to_string_lossy());
    let mut rest = &*text;
    while !rest.is_empty() {
        let (words, more) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (digits, more) = more.split_at(more.find(|c: char| !c.is_ascii_digit()).unwrap_or(more.len()));
        // A number too long to be one, like a checksum, stands behind all others.
        parts.push((words.to_string(), if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u128::MAX) }));
        rest = more;
    }
    parts
}

/// Whether a folder holds a run.
pub fn is_run(folder: &Path) -> bool {
    folder.join("config.toml").is_file()
}

/// Folders inside, but for those that runs make for themselves.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let own = ["checkpoints", "policies", "tb"];
    let run = is_run(folder);
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            !(name.to_string_lossy().starts_with('.') || run && own.iter().any(|own| name == *own))
        })
        .map(|entry| entry.path())
        .take(MOST_FOLDERS)
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &Path) -> Source {
        Source::new(&Registry::standard(), &[path.into()]).unwrap()
    }

    #[test]
    fn runs_are_found_below_and_not_behind_links_or_in_what_runs_make() {
        let folder = tempfile::tempdir().unwrap();
        for run in ["a/one", "b/two", "b/two/checkpoints/step-1", "b/two/deeper", ".hidden/run"] {
            fs::create_dir_all(folder.path().join(run)).unwrap();
            fs::write(folder.path().join(run).join("config.toml"), "").unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("config.toml"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/round")).unwrap();
        let found = source(folder.path()).look();
        let names: Vec<_> = found.runs.iter().map(|(path, _)| path.strip_prefix(folder.path()).unwrap()).collect();
        assert_eq!(names, ["a/one", "b/two", "b/two/deeper"].map(Path::new));
        assert_eq!(found.left_out, "");
    }

    #[test]
    fn seeds_are_in_the_order_in_which_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        for run in ["toy/seed-10", "toy/seed-9", "ant/seed-100", "toy/seed-2/more", "toy/seed-2"] {
            fs::create_dir_all(folder.path().join(run)).unwrap();
            fs::write(folder.path().join(run).join("config.toml"), "").unwrap();
        }
        let found = source(folder.path()).look();
        let names: Vec<_> = found.runs.iter().map(|(path, _)| path.strip_prefix(folder.path()).unwrap()).collect();
        let expected = ["ant/seed-100", "toy/seed-2", "toy/seed-2/more", "toy/seed-9", "toy/seed-10"];
        assert_eq!(names, expected.map(Path::new));
    }

    #[test]
    fn huge_folders_end_somewhere_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for i in 0..MOST_RUNS + 5 {
            let run = folder.path().join(format!("{i:05}"));
            fs::create_dir(&run).unwrap();
            fs::write(run.join("config.toml"), "").unwrap();
        }
        let found = source(folder.path()).look();
        assert_eq!(found.runs.len(), MOST_RUNS);
        assert!(found.left_out.contains("2000 of 2005"), "{}", found.left_out);
        let mut deep = folder.path().join("00000");
        (0..30).for_each(|_| deep = deep.join("d"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("config.toml"), "").unwrap();
        assert!(source(&folder.path().join("00000")).look().runs.len() == 1, "too deep");
    }

    #[test]
    fn a_grid_has_its_cells_before_they_begin_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let grid = folder.path().join("grid.toml");
        let text = "steps = 500\nseeds = [0, 1]\n[[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\n";
        fs::write(&grid, format!("out = \"{}\"\n{text}", out.display())).unwrap();
        let registry = Registry::standard();
        let found = Source::new(&registry, std::slice::from_ref(&grid)).unwrap().look();
        assert_eq!(found.runs.len(), 2);
        assert_eq!(found.runs[1].1.as_ref().unwrap().seed, 1);
        fs::write(folder.path().join("x.csv"), "").unwrap();
        for (path, needed) in [("x.csv", "neither a run"), ("none", "none")] {
            let error = Source::new(&registry, &[folder.path().join(path)]).unwrap_err().to_string();
            assert!(error.contains(needed), "{error}");
        }
    }
}
