//! The configuration file of a deployment.

use super::Failure;
use agewise_core::Error;
use agewise_experiment::toml_file;
use agewise_server::{CoordinatorParams, refuse_renamed_keys};
use std::fs;
use std::path::Path;

/// Reads the configuration of a coordinator. A key of an older version is refused with its new name.
pub(crate) fn read(path: &Path) -> Result<CoordinatorParams, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::BadInput(format!("config = {}: {error}", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    parse(&text).map_err(|error| wrong(&error))
}

/// The configuration of a coordinator from its text.
pub(crate) fn parse(text: &str) -> agewise_core::Result<CoordinatorParams> {
    let table = toml_file::parse(text)?;
    refuse_renamed_keys(&table)?;
    if table.contains_key("policies") {
        let expected = "the configuration of a deployment: this one is of an experiment, which \
                        `agewise compare` or `agewise simulate` takes";
        return Err(Error::new("policies", "a key of the file", expected));
    }
    toml_file::read(text, &CoordinatorParams::default())
}
