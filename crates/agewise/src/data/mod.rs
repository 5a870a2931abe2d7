//! Data sets on this machine: where they are, how they get here, and how they look when clients share them.

mod fetch;
mod pictures;
mod show;

pub use fetch::{FetchError, FetchStep, Fetched, fetch};
pub use show::{ShowError, Shown, ShownSummary, show};

use std::env;
use std::path::{Path, PathBuf};

/// The environment variable that names a folder with data sets.
pub const DATA_VARIABLE: &str = "AGEWISE_DATA";

/// The folder in which data sets are kept if nothing else is said; nothing if the system has no such place.
pub fn default_folder() -> Option<PathBuf> {
    dirs::data_dir().map(|folder| folder.join("agewise"))
}

/// The folders in which data sets are looked for: the one that is given, the one that `AGEWISE_DATA` names, and the
/// default one.
pub fn folders(given: Option<&Path>) -> Vec<PathBuf> {
    let variable = env::var_os(DATA_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    given.map(Path::to_path_buf).into_iter().chain(variable).chain(default_folder()).collect()
}
