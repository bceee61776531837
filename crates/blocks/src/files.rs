//! Files and folders that appear whole or not at all. Everything that is kept is written through here.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// A file that appears whole or not at all: written under a hidden name in its folder and renamed by
/// [`PendingFile::commit`]. Dropped without that, it leaves nothing behind.
pub struct PendingFile {
    target: PathBuf,
    /// Where the bytes go meanwhile. None for what cannot be replaced by renaming: a device or a pipe.
    partial: Option<PathBuf>,
    file: BufWriter<File>,
}

impl PendingFile {
    /// Opens it. An unwritable folder shows here, before any work is done.
    pub fn create(path: &Path) -> Result<Self> {
        // A link stays a link: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let fail = |why: String| Error::other(format!("{} cannot be written: {why}", path.display()));
        match fs::metadata(&target) {
            Ok(there) if there.is_dir() => return Err(fail("it is a folder".into())),
            Ok(there) if !there.is_file() => {
                let file = File::options().write(true).open(&target).map_err(|e| fail(e.to_string()))?;
                return Ok(Self { target, partial: None, file: BufWriter::new(file) });
            }
            _ => {}
        }
        let name = target.file_name().ok_or_else(|| fail("the path names no file".into()))?;
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(fail(format!("there is no folder {}", folder.display())));
        }
        // Two processes, or two threads of one, may write the same file at once.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}.partial", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        let partial = folder.join(hidden);
        let file = File::create(&partial)
            .map_err(|e| fail(format!("no file can be created in the folder {} ({e})", folder.display())))?;
        Ok(Self { target, partial: Some(partial), file: BufWriter::new(file) })
    }

    /// Makes it appear under its name.
    pub fn commit(mut self) -> Result<()> {
        let fail = |e| Error::io(&self.target, e);
        self.file.flush().map_err(fail)?;
        if let Some(partial) = &self.partial {
            // Else a machine that loses its power may keep the name and not the bytes.
            self.file.get_ref().sync_all().map_err(fail)?;
            fs::rename(partial, &self.target).map_err(fail)?;
        }
        self.partial = None;
        Ok(())
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial);
        }
    }
}

/// Writes `bytes` to `path` so that a reader sees the old file or the new one, never a part.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = PendingFile::create(path)?;
    file.write_all(bytes).map_err(|e| Error::io(path, e))?;
    file.commit()
}

/// A folder that appears whole or not at all: filled under another name and renamed by [`PendingFolder::commit`]. Dropped
/// without that, it leaves nothing behind.
pub struct PendingFolder {
    target: PathBuf,
    partial: PathBuf,
    done: bool,
}

impl PendingFolder {
    /// Makes an empty folder called `partial` beside `target`. One that a killed process left there is emptied.
    pub fn create(target: &Path, partial: &str) -> Result<Self> {
        let partial = target.with_file_name(partial);
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial).map_err(|e| Error::io(&partial, e))?;
        Ok(Self { target: target.into(), partial, done: false })
    }

    /// Writes a file in it and waits until it is on the disk.
    pub fn write(&self, name: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = self.partial.join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.partial))?;
            let mut file = File::create(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|e| Error::io(&path, e))
    }

    /// Makes it appear under its name, where nothing may be.
    pub fn commit(mut self) -> Result<()> {
        fs::rename(&self.partial, &self.target).map_err(|e| Error::io(&self.target, e))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_folder_appears_on_commit_and_leaves_nothing_when_dropped() {
        let root = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        let target = root.path().join("set");
        let fill = || {
            let folder = PendingFolder::create(&target, ".partial-set").unwrap();
            folder.write("data/a.txt", b"a").unwrap();
            folder
        };
        drop(fill());
        assert!(names().is_empty());
        fill().commit().unwrap();
        assert_eq!(fs::read(target.join("data/a.txt")).unwrap(), b"a");
        assert!(fill().commit().is_err(), "what is there is not replaced");
        assert_eq!(names(), ["set"]);
    }

    #[test]
    fn a_pending_file_appears_on_commit_and_leaves_nothing_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        let path = folder.path().join("a.txt");
        let mut file = PendingFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert!(names().is_empty());
        let mut file = PendingFile::create(&path).unwrap();
        file.write_all(b"whole").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(), ["a.txt"]);
    }

    #[test]
    fn a_folder_that_is_missing_or_in_the_way_is_named_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| PendingFile::create(path).err().unwrap().to_string();
        let missing = folder.path().join("no").join("a.txt");
        assert!(error(&missing).contains("there is no folder"), "{}", error(&missing));
        assert!(error(folder.path()).contains("it is a folder"));
    }

    #[test]
    fn a_device_is_written_to_and_stays_a_device() {
        let mut file = PendingFile::create(Path::new("/dev/null")).unwrap();
        file.write_all(b"gone").unwrap();
        file.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
