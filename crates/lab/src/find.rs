//! Where shipped demonstrations lie, and where fitted models are kept between runs.

use std::env;
use std::path::{Path, PathBuf};

use sskp_blocks::{Error, Result};

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
pub fn shipped(robot: &str) -> String {
    format!("{robot}/medium-v0")
}

/// The place of a set: a path, or the name of a set in one of the data folders, like `hopper/expert-v0`.
pub fn demonstrations(name: &str) -> Result<PathBuf> {
    if Path::new(name).exists() {
        return Ok(name.into());
    }
    let folders = data_folders();
    if let Some(found) = folders.iter().map(|f| f.join(name)).find(|path| path.exists()) {
        return Ok(found);
    }
    let mut looked: Vec<String> = Vec::new();
    for folder in folders {
        let text = folder.canonicalize().unwrap_or(folder).display().to_string();
        if !looked.contains(&text) {
            looked.push(text);
        }
    }
    Err(Error::other(format!(
        "there are no demonstrations {name}, neither as a path nor in {}; name a set with --demos PATH, or the folder of sets \
         with {DATA}",
        looked.join(", ")
    )))
}

/// The folder of fitted models: `$SSKP_CACHE`, or `sskp` in the user's cache.
pub fn cache() -> Option<PathBuf> {
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
        assert_eq!(demonstrations(&path).unwrap(), dir.path());
        assert!(demonstrations(&shipped("ant")).unwrap().join("data").is_dir());
        let error = demonstrations("nobody/medium-v0").unwrap_err().to_string();
        for part in ["nobody/medium-v0", "--demos", DATA, "data"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
