//! Files appear in a folder whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};

use crate::pins::Pinned;
use crate::sha256;

/// Whether a file is in `vendor` with the content that is pinned.
pub fn in_place(vendor: &Path, file: &Pinned) -> bool {
    fs::read(vendor.join(file.place)).is_ok_and(|bytes| sha256(&bytes) == file.sha256)
}

/// Whether anything can be staged below `vendor`.
pub fn can_write(vendor: &Path) -> bool {
    Staged::new(vendor).folder().is_ok()
}

/// Files that are complete but not yet in place. Dropping it removes what was not moved.
pub struct Staged {
    vendor: PathBuf,
    partial: PathBuf,
    places: Vec<String>,
}

impl Staged {
    pub fn new(vendor: &Path) -> Staged {
        remove_stale_partials(vendor);
        let partial = vendor.join(format!("{PARTIAL}{}", std::process::id()));
        Staged { vendor: vendor.to_path_buf(), partial, places: Vec::new() }
    }

    /// The folder to work in, made when it is first needed.
    pub fn folder(&self) -> Result<&Path> {
        fs::create_dir_all(&self.partial).map_err(|error| explain_io(&self.vendor, error))?;
        Ok(&self.partial)
    }

    pub fn file(&mut self, bytes: &[u8], place: &str) -> Result<()> {
        let path = self.staging_path(place)?;
        let write = || -> io::Result<()> {
            let mut file = fs::File::create(&path)?;
            file.write_all(bytes)?;
            // The rename must not reach the disk before the content does.
            file.sync_all()
        };
        write().map_err(|error| explain_io(&self.vendor, error))?;
        self.places.push(place.to_owned());
        Ok(())
    }

    fn staging_path(&self, place: &str) -> Result<PathBuf> {
        let path = self.folder()?.join("done").join(place);
        let parent = path.parent().expect("a place is below the folder");
        fs::create_dir_all(parent).map_err(|error| explain_io(&self.vendor, error))?;
        Ok(path)
    }

    /// Renames everything into place.
    pub fn move_into_place(self) -> Result<()> {
        for place in &self.places {
            let target = self.vendor.join(place);
            let parent = target.parent().expect("a place is below the folder");
            fs::create_dir_all(parent)
                .and_then(|()| fs::rename(self.partial.join("done").join(place), &target))
                .map_err(|error| explain_io(&target, error))?;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Best effort: what cannot be removed now is removed by the next set-up.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

pub const PARTIAL: &str = ".partial-";

/// Removes what interrupted set-ups left behind. A folder whose process still runs belongs to a set-up in progress.
fn remove_stale_partials(vendor: &Path) {
    for entry in fs::read_dir(vendor).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PARTIAL)) else { continue };
        let running = process != std::process::id().to_string() && Path::new("/proc").join(process).exists();
        if !running {
            // Best effort, as in `Staged::drop`: a left-over folder does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// What to do about an error while writing at `path`.
pub fn explain_io(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            anyhow!("the disk that holds {path} is full: free about 50 MB and run the command again")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            anyhow!("{path} cannot be written ({error}): make it writable for this user and run the command again")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            anyhow!(
                "{path} cannot be written ({error}): something else is in the way there; move it and run the command again"
            )
        }
        _ => anyhow!("{path} cannot be written: {error}"),
    }
}
