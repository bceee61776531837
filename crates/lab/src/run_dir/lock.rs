//! One writer of a folder at a time.

use std::fs::{File, TryLockError};
use std::path::Path;

use sskp_blocks::{Error, Result};

/// The right to write a run. The system takes it back when the process ends, however it ends.
pub struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Takes the right to write in a folder; none if another process has it.
    pub fn take(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(".lock");
        let file = File::options().create(true).append(true).open(&path).map_err(|e| Error::io(&path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Some network file systems have no locks; runs worked there before there were any.
            Err(TryLockError::Error(_)) => Ok(Some(Self { _file: None })),
        }
    }

    /// The right to write a run; an error if another process has it.
    pub(crate) fn of_run(folder: &Path) -> Result<Self> {
        Self::take(folder)?.ok_or_else(|| {
            Error::other(format!("{} is being written by another process; wait for it or stop it", folder.display()))
        })
    }
}
