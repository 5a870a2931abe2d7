//! The command line of agewise, and what it shares with functions of the package.

use crate::errors::{bad_input, renamed, trouble};
use agewise::selection::Error;
use agewise::train::data::{CatalogueEntry, DATA_VARIABLE, FetchError, fetch, folders};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the command with these arguments, of which the first is its name; returns its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| agewise_cli::run_with(arguments))
}

/// Downloads a data set into a subfolder of a folder; returns that subfolder.
#[pyfunction]
#[pyo3(signature = (name, folder=None, mirror=None))]
pub(crate) fn fetch_data(
    py: Python<'_>,
    name: &str,
    folder: Option<PathBuf>,
    mirror: Option<&str>,
) -> PyResult<PathBuf> {
    let entry = CatalogueEntry::named(name).map_err(renamed(&[("dataset", "name")]))?;
    let Some(folder) = folders(folder.as_deref()).first().map(|folder| folder.join(entry.name))
    else {
        let expected = format!("a folder (or {DATA_VARIABLE}), as this system has none for data");
        return Err(bad_input(Error::new("folder", "None", expected)));
    };
    let mirrors = mirror.map_or_else(|| entry.mirrors.to_vec(), |mirror| vec![mirror]);
    match py.detach(|| fetch(entry, &folder, &mirrors, &|_| {})) {
        Ok(_) => Ok(folder),
        Err(error @ (FetchError::Embedded(_) | FetchError::NotPublished(_))) => {
            Err(bad_input(error.to_string().replace("dataset = ", "name = ")))
        }
        Err(error) => Err(trouble(error.to_string().replace("--mirror URL", "mirror=URL"))),
    }
}
