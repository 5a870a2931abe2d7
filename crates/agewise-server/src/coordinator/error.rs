//! What can go wrong with a coordinator.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a coordinator cannot go on.
#[derive(Debug)]
pub enum CoordinatorError {
    /// A setting, or a file's contents: a person can fix it.
    Input(agewise_core::Error),
    /// What is stored cannot be used.
    Corrupt(String),
    /// A file or folder: a disk, a permission.
    File(PathBuf, io::Error),
    /// The ledger.
    Ledger(rusqlite::Error),
    /// The network.
    Network(String),
}

impl CoordinatorError {
    /// An error about this file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |error| Self::File(path, error)
    }

    /// Whether another value, or another file, would do.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Corrupt(_))
    }
}

impl fmt::Display for CoordinatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Corrupt(what) | Self::Network(what) => f.write_str(what),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Ledger(error) => write!(f, "ledger: {error}"),
        }
    }
}

impl std::error::Error for CoordinatorError {}

impl From<agewise_core::Error> for CoordinatorError {
    fn from(error: agewise_core::Error) -> Self {
        Self::Input(error)
    }
}

impl From<rusqlite::Error> for CoordinatorError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(error)
    }
}
