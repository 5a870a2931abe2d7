//! Errors of the crates, as Python raises them: `ValueError` for what was asked, `OSError` for what the machine refuses.

use agewise::compare::CompareError;
use agewise::learn::data::DataError;
use agewise::simulate::SimulateError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};
use serde::de::DeserializeOwned;

/// Bad input: `ValueError`, with the core's own words.
pub(crate) fn bad_input(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Something that is not in the caller's hand.
pub(crate) fn trouble(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// A simulation that could not be made.
pub(crate) fn simulation(error: &SimulateError) -> PyErr {
    match error {
        SimulateError::Input(error) => bad_input(error),
        other => trouble(other),
    }
}

/// A comparison that could not be made.
pub(crate) fn comparison(error: CompareError) -> PyErr {
    match error {
        CompareError::Input(error) => bad_input(error),
        CompareError::Data(error) => data(&error),
        CompareError::Folder(error) if error.is_bad_name() => bad_input(error),
        CompareError::Unreadable(message) => bad_input(message),
        other => trouble(other),
    }
}

/// Data that cannot be used, or are not there.
pub(crate) fn data(error: &DataError) -> PyErr {
    match error {
        DataError::Input(error) => bad_input(error),
        other => trouble(other),
    }
}

/// Parameters that Python wrote as JSON.
pub(crate) fn read<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, PyErr> {
    let mut json = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { what.to_string() } else { path };
        // The place in a text that nobody has seen helps nobody, and Python has other names for types.
        let message = error.inner().to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let plain = [
            ("u64", "a whole number from 0 on"),
            ("u32", "a whole number from 0 on"),
            ("f64", "a number"),
            ("f32", "a number"),
            ("a boolean", "True or False"),
            ("a sequence", "a list"),
        ];
        let message =
            plain.iter().fold(message.to_string(), |text, (from, to)| text.replace(from, to));
        bad_input(format!("{field}: {message}"))
    })
}
