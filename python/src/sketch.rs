//! Sketches of updates in NumPy arrays.

use crate::errors::bad_input;
use agewise::selection::Seed;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

/// Makes sketches of arrays of one length.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct Sketcher {
    inner: agewise::train::sketch::Sketcher,
}

#[pymethods]
impl Sketcher {
    #[new]
    fn new(py: Python<'_>, length: usize, width: u32, seed: u64) -> PyResult<Self> {
        let make = || agewise::train::sketch::Sketcher::of_range(0..length, width, Seed(seed));
        Ok(Self { inner: py.detach(make).map_err(bad_input)? })
    }

    /// The sketch of an update; none if a number is not finite or the length differs.
    fn sketch<'py>(
        &self,
        py: Python<'py>,
        before: PyReadonlyArray1<'py, f32>,
        after: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<Option<Bound<'py, PyArray1<f32>>>> {
        let (before, after) =
            (before.as_slice().map_err(bad_input)?, after.as_slice().map_err(bad_input)?);
        let sketch = py.detach(|| self.inner.sketch(before, after));
        Ok(sketch.map(|sketch| sketch.into_pyarray(py)))
    }
}
