//! Schedulers that users already have: what is handed to them is `sskp sweep GRID --cell K`, once for every cell.

mod kubernetes;
mod slurm;

use std::path::{Path, PathBuf};

use sskp_blocks::{Error, Result};

pub use kubernetes::Kubernetes;
pub use slurm::{Slurm, Submitted, TEMPLATE, ended_badly, queue};

use super::Sweep;
use super::cell::State;

/// A grid, as another machine will name it.
pub struct Job<'a> {
    /// The grid.
    pub sweep: &'a Sweep,
    /// Its file.
    pub grid: PathBuf,
    /// Folder of its runs.
    pub out: PathBuf,
}

impl<'a> Job<'a> {
    /// With paths that mean the same from every folder.
    pub fn new(sweep: &'a Sweep, grid: &Path) -> Result<Self> {
        let whole = |path: &Path| std::path::absolute(path).map_err(|e| Error::io(path, e));
        Ok(Self { sweep, grid: whole(grid)?, out: whole(&sweep.out)? })
    }

    /// A name for it, after its file: lower-case letters, digits and -, as every scheduler takes it.
    pub fn name(&self) -> String {
        let stem = self.grid.file_stem().map_or("grid".into(), |stem| stem.to_string_lossy().to_lowercase());
        let plain: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("sskp-{}", plain.trim_matches('-').chars().take(40).collect::<String>().trim_matches('-'))
    }

    /// Threads that the largest cell uses.
    pub fn threads(&self) -> usize {
        self.sweep.cells.iter().map(|cell| cell.config.run.threads).max().unwrap_or(1)
    }

    /// Numbers of the cells that are not finished.
    pub fn open(&self) -> Vec<usize> {
        let cells = self.sweep.cells.iter().enumerate();
        cells.filter(|(_, cell)| !matches!(cell.state, State::Finished(_))).map(|(i, _)| i).collect()
    }
}

/// A word that a shell reads as it stands.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_read_paths_as_they_stand() {
        assert_eq!(quoted(Path::new("/a/b-1.toml")), "/a/b-1.toml");
        assert_eq!(quoted(Path::new("/it's $HOME")), r"'/it'\''s $HOME'");
    }
}
