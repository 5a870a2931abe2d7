//! Errors of the crates, as Python raises them: `ValueError` for what was asked, `OSError` for what the machine refuses.

use agewise::experiment::{ExperimentError, ExperimentParams};
use agewise::report::ReportError;
use agewise::selection::Error;
use agewise::train::aggregation::AggregationParams;
use agewise::train::data::DataError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Bad input: `ValueError`, with the core's own words.
pub(crate) fn bad_input(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Something that is not in the caller's hand.
pub(crate) fn trouble(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// An experiment that could not be made.
pub(crate) fn experiment(error: impl Into<ReportError>) -> PyErr {
    match error.into() {
        ReportError::Experiment(ExperimentError::Input(error)) => bad_input(error),
        ReportError::Experiment(ExperimentError::Data(error)) => data(&error),
        ReportError::Experiment(ExperimentError::RunDir(error)) if error.is_bad_name() => {
            bad_input(error)
        }
        ReportError::Experiment(ExperimentError::Unreadable(message)) => bad_input(message),
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

/// Parameters of an experiment that Python wrote as JSON without tables, over those that they do not say. `aggregate`
/// is a rule of aggregation as text.
pub(crate) fn read_params(
    json: &str,
    base: &ExperimentParams,
    tables: &[&str],
) -> Result<ExperimentParams, PyErr> {
    let given: Map<String, Value> = read("parameters", json)?;
    let mut params = serde_json::to_value(base).map_err(bad_input)?;
    let mut known: Vec<String> =
        ["aggregate", "baseline", "size_list", "weighting"].map(str::to_string).to_vec();
    let keys = |value: &Value| {
        value.as_object().into_iter().flat_map(Map::keys).cloned().collect::<Vec<_>>()
    };
    known.extend(keys(&params).into_iter().filter(|key| !tables.contains(&key.as_str())));
    known.extend(tables.iter().flat_map(|table| keys(&params[*table])));
    for (key, value) in given {
        let table = tables.iter().find(|table| params[**table].get(&key).is_some());
        match table {
            Some(table) => params[*table][&key] = value,
            None if key == "aggregate" => {
                let text = value.as_str().unwrap_or_default();
                let rule: AggregationParams = text.parse().map_err(bad_input)?;
                params["aggregation"] = serde_json::to_value(rule).map_err(bad_input)?;
            }
            None if known.contains(&key) => params[&key] = value,
            None => {
                let known = known.iter().map(String::as_str);
                return Err(bad_input(Error::unknown("parameter", &key, known)));
            }
        }
    }
    from_json(&params.to_string(), |path| {
        tables.iter().fold(path, |path, table| path.replace(&format!("{table}."), ""))
    })
}

/// Parameters that Python wrote as JSON.
pub(crate) fn read<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, PyErr> {
    from_json(json, |path| if path == "." { what.to_string() } else { path })
}

/// Reads JSON; errors name fields as `named` calls them.
fn from_json<T: DeserializeOwned>(
    json: &str,
    named: impl Fn(String) -> String,
) -> Result<T, PyErr> {
    let mut json = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = named(error.path().to_string());
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
