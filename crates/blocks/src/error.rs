//! The one error type of `blocks`, `robots` and `methods`.

use std::path::PathBuf;

/// What can go wrong below the command line. Each text says what, where, and what was needed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A checkpoint that is damaged, or belongs to another run.
    #[error("checkpoint {path}: {why}", path = path.display())]
    Checkpoint {
        /// The checkpoint's folder or file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A number that must be finite is not: learning stops here rather than going on with garbage.
    #[error("{what} is not finite at environment step {step}; the run stopped before it could spoil anything else")]
    NotFinite {
        /// The tensor or quantity.
        what: String,
        /// The environment step it was seen at.
        step: u64,
    },
    /// Anything else, in one sentence.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// An [`Error::Io`] for `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }
    /// An [`Error::Other`].
    pub fn other(text: impl Into<String>) -> Self {
        Error::Other(text.into())
    }
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
