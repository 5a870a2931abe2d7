//! What can be wrong with data from outside.

use super::catalogue::how_to_get;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are not what they should be; which file they came from is added by [`FormatError::in_file`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found}; expected {expected}")]
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

    /// The same, with the part of the file that it is about.
    pub(crate) fn at(self, part: &str) -> Self {
        Self { found: format!("{part}: {}", self.found), ..self }
    }

    /// The same, with the file's name.
    #[must_use]
    pub fn in_file(self, path: &Path) -> DataError {
        DataError::Bad { path: path.to_path_buf(), source: self }
    }
}

/// Why a data set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The name or another value is wrong.
    #[error(transparent)]
    Input(#[from] agewise_core::Error),
    /// A file is there, but its contents are not what they should be.
    #[error("{}: {source}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A file cannot be opened.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The data set is in none of the folders.
    #[error("{}", missing(name, looked))]
    Missing {
        /// The data set.
        name: String,
        /// The folders that were looked at, with what they lack if they hold a part of it.
        looked: Vec<(PathBuf, Option<String>)>,
    },
}

/// Where a data set was looked for, and what can be done.
fn missing(name: &str, looked: &[(PathBuf, Option<String>)]) -> String {
    let place = |(folder, lacks): &(PathBuf, Option<String>)| match lacks {
        None => folder.display().to_string(),
        Some(file) => {
            format!("{} (a part of it is there, but not {file})", folder.display())
        }
    };
    let places: Vec<String> = looked.iter().map(place).collect();
    format!(
        "dataset = {name}: expected its files in one of the folders\n  {}\n{}; --data-dir DIR names a folder \
         that has it",
        places.join("\n  "),
        how_to_get(name)
    )
}
