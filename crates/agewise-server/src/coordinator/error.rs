//! What can go wrong with a coordinator.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a coordinator cannot go on.
#[derive(Debug, Error)]
pub enum CoordinatorError {
    /// A setting or the content of a file is wrong, and a person can correct it.
    #[error(transparent)]
    Input(#[from] agewise_core::Error),
    /// What is stored cannot be used.
    #[error("{0}")]
    Corrupt(String),
    /// A file or a folder cannot be used: a disk, a permission.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The ledger cannot be read or written.
    #[error("ledger: {0}")]
    Ledger(#[from] rusqlite::Error),
    /// Settings cannot be written as TOML.
    #[error("the settings cannot be written: {0}")]
    Settings(#[from] toml::ser::Error),
    /// The system has no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(#[from] getrandom::Error),
    /// The listener or the server failed.
    #[error("network: {0}")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A thread cannot be started.
    #[error("the driver's thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// A thread ended with a panic, which is a bug.
    #[error("{0} ended with a panic")]
    Panicked(&'static str),
}

impl CoordinatorError {
    /// An error about this file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }

    /// Whether a file is not there, which a disk that fails does not say.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether another value, or another file, would do.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Corrupt(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_about_a_file_names_it_and_keeps_its_cause() {
        let error = CoordinatorError::file(Path::new("some/file"))(io::Error::other("no disk"));
        assert_eq!(error.to_string(), "some/file: no disk");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no disk"));
        assert!(!error.is_missing_file() && !error.is_bad_input());
    }
}
