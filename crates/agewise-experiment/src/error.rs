//! Why an experiment could not be finished.

use crate::run_dir::RunDirError;
use agewise_core::Error;
use agewise_train::data::DataError;

/// Why an experiment could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Its parameters.
    #[error(transparent)]
    Input(#[from] Error),
    /// Its data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A file of the run directory that cannot be used.
    #[error("{0}")]
    Unreadable(String),
}
