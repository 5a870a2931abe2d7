//! Errors of the crates as Python exceptions: `ValueError` for bad arguments, `OSError` for failures of the machine.
//!
//! The crates write for users of the command. Here messages name keyword arguments and functions of the package instead
//! of flags, keys of files and types of Rust.

use crate::experiment::TABLES;
use agewise::experiment::{ClockParams, ExperimentError, ExperimentParams, RunDirError};
use agewise::report::ReportError;
use agewise::selection::Error;
use agewise::train::aggregation::AggregationParams;
use agewise::train::data::DataError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Display;

/// Names of fields, each with the argument of Python that it comes from.
pub(crate) type Names = &'static [(&'static str, &'static str)];

/// The fields of experiments and of `theory`.
pub(crate) const EXPERIMENT: Names = &[("dataset", "data"), ("policy", "policies")];
/// The fields of local training.
pub(crate) const TRAINING: Names = &[("images", "data"), ("learning_rate", "lr")];

/// Keys of tables that are written only where they are given.
const UNWRITTEN: [(&str, &str); 10] = [
    ("world", "failing"),
    ("training", "label"),
    ("training", "client"),
    ("training", "test"),
    ("training", "holdout"),
    ("training", "ignore"),
    ("training", "features"),
    ("training", "loss"),
    ("clock", "power"),
    ("clock", "link_power"),
];

/// Words of the command, each with what Python has instead.
const WORDS: [(&str, &str); 15] = [
    ("`agewise compare`", "agewise.compare"),
    ("agewise compare", "agewise.compare"),
    ("use --seeds 5", "use seeds=5"),
    ("lower --target or raise --rounds", "lower targets or raise rounds"),
    ("--extend", "agewise.extend_run"),
    ("--resume", "agewise.resume_run"),
    ("--force", "force=True"),
    ("(--label)", "(label)"),
    ("(--client)", "(client)"),
    ("(--ignore)", "(ignore)"),
    ("--label ", "label="),
    ("--client ", "client="),
    ("--ignore ", "ignore="),
    ("--test ", "test="),
    ("--loss ", "loss="),
];

/// Types as serde names them, each with what it is in Python.
const TYPES: [(&str, &str); 8] = [
    ("u64", "a whole number, 0 or more"),
    ("u32", "a whole number, 0 or more"),
    ("usize", "a whole number, 0 or more"),
    ("f64", "a number"),
    ("f32", "a number"),
    ("a boolean", "True or False"),
    ("a sequence", "a list"),
    ("a map", "a dict"),
];

/// A text of the crates in the words of Python.
pub(crate) fn in_python(text: &str) -> String {
    WORDS.iter().fold(text.to_string(), |text, (command, python)| text.replace(command, python))
}

/// Bad input: `ValueError`.
pub(crate) fn bad_input(error: impl Display) -> PyErr {
    PyValueError::new_err(in_python(&error.to_string()))
}

/// Bad input whose fields have other names in Python.
pub(crate) fn renamed(names: Names) -> impl Fn(Error) -> PyErr {
    move |error| {
        bad_input(Error::new(argument(error.field(), names), error.value(), error.expected()))
    }
}

fn argument(field: &str, names: Names) -> &str {
    names.iter().find(|(name, _)| *name == field).map_or(field, |(_, argument)| argument)
}

/// A failure that the caller did not cause.
pub(crate) fn trouble(error: impl Display) -> PyErr {
    PyOSError::new_err(in_python(&error.to_string()))
}

/// An experiment that cannot be prepared or played.
pub(crate) fn experiment(error: impl Into<ReportError>) -> PyErr {
    match error.into() {
        ReportError::Experiment(ExperimentError::Input(error)) => renamed(EXPERIMENT)(error),
        ReportError::Experiment(ExperimentError::Data(error)) => data(error, "data", "data_folder"),
        ReportError::Experiment(ExperimentError::RunDir(error)) => run_dir(error),
        ReportError::Experiment(ExperimentError::Unreadable(message)) => bad_input(message),
        other => trouble(other),
    }
}

fn run_dir(error: RunDirError) -> PyErr {
    let folder = |field: &str, path: &std::path::Path, expected: &str| {
        bad_input(Error::new(field, path.display(), expected))
    };
    match &error {
        RunDirError::Exists(path) => folder(
            "out",
            path,
            "a folder that does not exist yet or is empty; force=True overwrites the run in it, \
             agewise.resume_run continues it",
        ),
        RunDirError::Foreign(path) => folder(
            "out",
            path,
            "no file of that name in a folder that does not contain a run; force=True overwrites runs only",
        ),
        RunDirError::NoRun(path) => {
            folder("folder", path, "the folder of a run, with its config.toml")
        }
        RunDirError::Busy(path) => {
            folder("folder", path, "a folder that no other process is using")
        }
        RunDirError::Io { .. } if error.is_bad_name() => bad_input(error),
        RunDirError::Io { .. } => trouble(error),
    }
}

/// Data that cannot be used or found. `name` and `folder` are the arguments of the data set and of its folder.
pub(crate) fn data(error: DataError, name: &str, folder: &str) -> PyErr {
    match error {
        DataError::Bad { ref path, .. } if path.exists() => bad_input(error),
        DataError::Input(error) if error.field() == "dataset" => {
            bad_input(Error::new(name, error.value(), error.expected()))
        }
        DataError::Input(error) => bad_input(error),
        DataError::Missing { name: set, looked } => {
            let folders: Vec<String> =
                looked.iter().map(|(path, _)| path.display().to_string()).collect();
            let expected = format!(
                "its files in one of the folders {}; {folder} names a folder that has them, and the command \
                 `agewise data fetch {set}` downloads them",
                folders.join(", ")
            );
            trouble(Error::new(name, set, expected))
        }
        other => trouble(other),
    }
}

/// Parameters of an experiment as JSON without tables, over those of `base`. `aggregate` is an aggregation rule as text.
pub(crate) fn read_params(json: &str, base: &ExperimentParams) -> Result<ExperimentParams, PyErr> {
    let given: Map<String, Value> = read(json, &[])?;
    let mut params = serde_json::to_value(base).map_err(bad_input)?;
    // A clock runs where it was asked for, and any of its arguments starts it. There is none without training.
    let starts = base.training.is_some() && base.clock.is_none();
    if starts {
        params["clock"] = serde_json::to_value(ClockParams::default()).map_err(bad_input)?;
    }
    // Written only where they are given.
    for (table, key) in UNWRITTEN {
        if let Some(table) = params[table].as_object_mut() {
            table.entry(key).or_insert(if key == "ignore" {
                Value::Array(Vec::new())
            } else {
                Value::Null
            });
        }
    }
    let optional = ["aggregate", "backoff", "baseline", "calibrate", "size_list", "weighting"];
    let mut known: Vec<String> = optional.map(str::to_string).to_vec();
    let keys = |value: &Value| {
        value.as_object().into_iter().flat_map(Map::keys).cloned().collect::<Vec<_>>()
    };
    known.extend(keys(&params).into_iter().filter(|key| !TABLES.contains(&key.as_str())));
    known.extend(TABLES.iter().flat_map(|table| keys(&params[*table])));
    if starts && !keys(&params["clock"]).iter().any(|key| given.contains_key(key)) {
        params["clock"] = Value::Null;
    }
    for (key, value) in given {
        let table = TABLES.iter().find(|table| params[**table].get(&key).is_some());
        match table {
            // A list of layers instead of the name of a model.
            Some(_) if key == "model" && value.is_array() => {
                params["model"] = serde_json::json!({ "layer": value });
            }
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
    read(&params.to_string(), EXPERIMENT)
}

/// Reads the arguments of a call as JSON.
pub(crate) fn read<T: DeserializeOwned>(json: &str, names: Names) -> Result<T, PyErr> {
    let mut json = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        // Arguments are not in tables.
        let in_table = |table: &&str| path.strip_prefix(*table)?.strip_prefix('.');
        let field = TABLES.iter().find_map(in_table).unwrap_or(&path);
        // The position in the JSON means nothing to the caller, who has not written it.
        let message = error.inner().to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        match message.split_once(", expected ") {
            Some((found, expected)) => {
                let expected = python_type(&expected.replace('`', ""));
                bad_input(Error::new(argument(field, names), python_value(found), expected))
            }
            // An error of the crates, which names its field.
            None if message.contains(" = ") => bad_input(message),
            None => bad_input(format!("{}: {message}", argument(field, names))),
        }
    })
}

/// What serde expected, as a type of Python.
fn python_type(expected: &str) -> String {
    if expected.starts_with("struct ") || expected.contains("enum ") {
        return "a dict".to_string();
    }
    let known = TYPES.iter().find(|(name, _)| *name == expected);
    known.map_or(expected, |(_, python)| python).to_string()
}

/// What serde found, as Python writes it: "invalid type: string "x"" is "x".
fn python_value(found: &str) -> &str {
    let quoted = found.find('"').map(|begin| &found[begin..]);
    match found.split('`').nth(1).or(quoted).or(found.split(": ").nth(1)) {
        Some("true") => "True",
        Some("false") => "False",
        Some("null") => "None",
        Some("sequence") => "a list",
        Some("map") => "a dict",
        Some(value) => value,
        None => found,
    }
}
