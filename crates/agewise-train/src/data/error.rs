//! What can be wrong with data from outside.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are not what they should be; which file they came from is added by [`FormatError::in_file`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    found: String,
    expected: String,
}

impl FormatError {
    /// Says what was found and what would be right.
    pub fn new(found: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self { found: found.to_string(), expected: expected.into() }
    }

    /// The error of reading the bytes: of a damaged gzip stream, or of a disk.
    pub(crate) fn reading(error: &io::Error) -> Self {
        Self::new(
            format!("bytes that cannot be read ({error})"),
            "a complete, undamaged file, plain or gzip",
        )
    }

    /// The same, with the file's name.
    #[must_use]
    pub fn in_file(self, path: &Path) -> DataError {
        DataError::Bad { path: path.to_path_buf(), error: self }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {}; expected {}", self.found, self.expected)
    }
}

impl std::error::Error for FormatError {}

/// Why a data set cannot be used.
#[derive(Debug)]
pub enum DataError {
    /// The name or another value is wrong.
    Input(agewise_core::Error),
    /// A file is there, but its contents are not what they should be.
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: FormatError,
    },
    /// A file cannot be opened.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The data set is in none of the folders.
    Missing {
        /// The data set.
        name: String,
        /// The folders that were looked at, with what they lack if they hold a part of it.
        looked: Vec<(PathBuf, Option<String>)>,
    },
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Bad { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Missing { name, looked } => {
                write!(f, "dataset = {name}: expected its files in one of the folders")?;
                for (folder, lacks) in looked {
                    write!(f, "\n  {}", folder.display())?;
                    if let Some(file) = lacks {
                        write!(f, " (a part of it is there, but not {file})")?;
                    }
                }
                write!(
                    f,
                    "\n`agewise data fetch {name}` downloads it; --data-dir DIR names a folder that has it"
                )
            }
        }
    }
}

impl std::error::Error for DataError {}

impl From<agewise_core::Error> for DataError {
    fn from(error: agewise_core::Error) -> Self {
        Self::Input(error)
    }
}
