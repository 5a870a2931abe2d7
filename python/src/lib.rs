//! The compiled module of the Python package. It converts arguments into parameters of the crates, which check them, and
//! results into arrays and JSON. It computes nothing itself.

#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments are made from Python's objects for the call"
)]

mod command;
mod data;
mod errors;
mod experiment;
mod figures;
mod interrupt;
mod listener;
mod own;
mod own_aggregation;
mod own_data;
mod own_policy;
mod own_task;
mod raised;
mod selector;
mod sent_models;
mod sketch;
mod trainer;
mod work;

use numpy::PyArray1;
use pyo3::prelude::*;

/// The module behind the package `agewise`.
#[pymodule]
fn _agewise(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The first array loads the functions of NumPy: here, where no signal is expected.
    drop(PyArray1::<u8>::zeros(module.py(), 1, false));
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<selector::Selector>()?;
    module.add_class::<selector::DecentralisedClient>()?;
    module.add_class::<sketch::Sketcher>()?;
    module.add_class::<data::Images>()?;
    module.add_class::<data::Partition>()?;
    module.add_class::<own_data::OwnData>()?;
    module.add_class::<trainer::Trainer>()?;
    module.add_class::<experiment::Job>()?;
    module.add_class::<experiment::JobResults>()?;
    module.add_function(wrap_pyfunction!(own_policy::draws, module)?)?;
    module.add_function(wrap_pyfunction!(work::policies, module)?)?;
    module.add_function(wrap_pyfunction!(work::spelled, module)?)?;
    module.add_function(wrap_pyfunction!(work::age_law, module)?)?;
    module.add_function(wrap_pyfunction!(work::max_age_cost, module)?)?;
    module.add_function(wrap_pyfunction!(work::theory, module)?)?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(command::fetch_data, module)?)?;
    module.add_function(wrap_pyfunction!(data::load_data, module)?)?;
    module.add_function(wrap_pyfunction!(data::partition, module)?)?;
    module.add_function(wrap_pyfunction!(trainer::average, module)?)?;
    module.add_function(wrap_pyfunction!(experiment::presets, module)?)?;
    Ok(())
}
