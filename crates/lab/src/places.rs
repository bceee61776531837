//! Where shipped demonstrations lie, and where fitted models are kept between runs.

use std::env;
use std::path::{Path, PathBuf};

use sskp_blocks::{Error, Result};

use crate::config::nearest;

/// The folder of sets, if it is not one of the usual ones.
pub const DATA: &str = "SSKP_DATA";
/// The folder of fitted models, if it is not the usual one.
pub const CACHE: &str = "SSKP_CACHE";

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Folders that may hold sets, the nearest first: `$SSKP_DATA`, `data` here, beside the binary, two folders above it (as
/// `target/release` lies in the source tree), and in the source tree it was built from.
fn data_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = variable(DATA).into_iter().collect();
    folders.push("data".into());
    if let Some(folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.extend([folder.join("data"), folder.join("../../data")]);
    }
    folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"));
    folders
}

/// The name of the set that is shipped for a robot and used where none is named.
pub fn shipped_set(robot: &str) -> String {
    format!("{robot}/medium-v0")
}

/// The name of the set of a robot's expert, which is shipped to compare with.
pub fn expert_set(robot: &str) -> String {
    format!("{robot}/expert-v0")
}

/// The place of a set: a path, or the name of a set in one of the data folders, like `hopper/expert-v0`. Where there is neither,
/// the name most like it is said.
pub fn find_set(name: &str) -> Result<PathBuf> {
    if Path::new(name).exists() {
        return Ok(name.into());
    }
    let folders = data_folders();
    if let Some(found) = folders.iter().map(|f| f.join(name)).find(|path| is_set(path)) {
        return Ok(found);
    }
    let names = set_names(&folders);
    let robots = shipped_set(name.trim_end_matches('/'));
    let meant = names.iter().find(|known| **known == robots).map(String::as_str);
    let hint = match meant.or_else(|| nearest(name, names.iter().map(String::as_str))) {
        Some(near) => format!(" (did you mean {near}?)"),
        None => String::new(),
    };
    let mut looked: Vec<String> = Vec::new();
    for folder in folders {
        let text = folder.canonicalize().unwrap_or(folder).display().to_string();
        if !looked.contains(&text) {
            looked.push(text);
        }
    }
    Err(Error::other(format!(
        "there are no demonstrations {name}{hint}, neither as a path nor in {}; give the path of a set (to a run with --demos PATH), \
         or name the folder of sets with {DATA}",
        looked.join(", ")
    )))
}

/// Whether it is a set, and not a folder of sets.
fn is_set(path: &Path) -> bool {
    path.is_file() || path.join("data").is_dir() || path.join("main_data.hdf5").is_file()
}

/// The names of all sets in these folders, as they are asked for.
fn set_names(folders: &[PathBuf]) -> Vec<String> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let mut names = Vec::new();
    for folder in folders {
        let spaces = inside(folder);
        let sets = spaces.iter().cloned().chain(spaces.iter().flat_map(|space| inside(space)));
        for set in sets.filter(|path| is_set(path)) {
            let name = set.strip_prefix(folder).map(|name| name.display().to_string());
            names.extend(name.ok().filter(|name| !names.contains(name)));
        }
    }
    names.sort();
    names
}

/// The folder of fitted models: `$SSKP_CACHE`, or `sskp` in the user's cache.
pub fn model_cache() -> Option<PathBuf> {
    let home = || Some(variable("HOME")?.join(".cache"));
    variable(CACHE).or_else(|| Some(variable("XDG_CACHE_HOME").or_else(home)?.join("sskp")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_wins_a_name_is_found_among_the_shipped_sets_and_a_missing_one_says_where_it_was_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        assert_eq!(find_set(&path).unwrap(), dir.path());
        assert!(find_set(&shipped_set("ant")).unwrap().join("data").is_dir());
        let error = find_set("nobody/of-these-v7").unwrap_err().to_string();
        for part in ["nobody/of-these-v7", "--demos", DATA, "data"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
        let answers = [
            ("hoper/medium-v0", "hopper/medium-v0"),
            ("hopper/medium", "hopper/medium-v0"),
            ("humanoid/exprt-v0", "humanoid/expert-v0"),
            ("cheetah", "cheetah/medium-v0"),
        ];
        for (typed, meant) in answers {
            let error = find_set(typed).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean {meant}?")), "{typed}: {error}");
        }
    }
}
