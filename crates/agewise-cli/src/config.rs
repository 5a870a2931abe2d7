//! Configuration files of a deployment.

use super::Failure;
use agewise_experiment::toml_file;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// Reads parameters from a TOML file. `unwritten` are the keys that the default parameters do not write.
pub(crate) fn read<T>(path: &Path, unwritten: &[&str]) -> Result<T, Failure>
where
    T: Default + Serialize + DeserializeOwned,
{
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::BadInput(format!("config = {}: {error}", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let base = T::default();
    let read = toml_file::parse(&text).and_then(|table| {
        if table.contains_key("policies") {
            let expected = "the configuration of a deployment: this one is of an experiment, which \
                            `agewise compare` or `agewise simulate` takes";
            return Err(agewise_core::Error::new("policies", "a key of the file", expected));
        }
        toml_file::read(&text, &base, &toml_file::keys_of(&base, unwritten)?)
    });
    read.map_err(|error| wrong(&error))
}
