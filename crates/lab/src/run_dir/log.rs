//! Files that grow row by row, and can be cut back to where a checkpoint knew them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use sskp_blocks::{Error, Result};

/// A file that is appended to, row by row.
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    file: Option<File>,
    pub(crate) bytes: u64,
}

impl Log {
    /// A file of which nothing is known yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, bytes: 0 }
    }
    /// Opens the file and cuts it to `bytes`.
    pub(crate) fn cut(&mut self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            self.file = None;
            self.bytes = 0;
            return match fs::remove_file(&self.path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&self.path, e)),
                _ => Ok(()),
            };
        }
        let open = || {
            let file = OpenOptions::new().append(true).open(&self.path)?;
            if file.metadata()?.len() < bytes {
                let text = format!("is shorter than the checkpoint says ({bytes} bytes); rows have been lost");
                return Err(std::io::Error::other(text));
            }
            file.set_len(bytes)?;
            Ok(file)
        };
        self.file = Some(open().map_err(|e| Error::io(&self.path, e))?);
        self.bytes = bytes;
        Ok(())
    }
    /// Makes the file hold these bytes. What is right of it stays in place: somebody may be reading along.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let there = match fs::read(&self.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(&self.path, e)),
            read => read.unwrap_or_default(),
        };
        let right = there.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        self.cut(right as u64)?;
        if right < bytes.len() { self.append(&bytes[right..]) } else { Ok(()) }
    }
    /// Adds a line.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.append(format!("{text}\n").as_bytes())
    }
    /// Adds bytes; the file appears with the first.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut write = || {
            if self.file.is_none() {
                fs::create_dir_all(self.path.parent().expect("a file in a folder"))?;
                self.file = Some(OpenOptions::new().create(true).append(true).open(&self.path)?);
            }
            self.file.as_mut().expect("just opened").write_all(bytes)
        };
        write().map_err(|e| Error::io(&self.path, e))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
    /// Waits until the disk has it.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |f| f.sync_data().map_err(|e| Error::io(&self.path, e)))
    }
}
