//! Models on their way to Python: clients that train from the same model share one array.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The models that were sent last. Each has a number, by which engines know what their workers have already: models with
/// one number are the same bits, and a number is never given again.
pub(crate) struct SentModels {
    most: usize,
    sent: Mutex<(u64, VecDeque<Sent>)>,
}

struct Sent {
    number: u64,
    array: Py<PyArray1<f32>>,
}

impl SentModels {
    /// Remembers so many models: one for each call that can be under way.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), sent: Mutex::default() }
    }

    /// The number and the read-only array of a model.
    pub(crate) fn of<'py>(
        &self,
        py: Python<'py>,
        model: &[f32],
    ) -> PyResult<(u64, Bound<'py, PyArray1<f32>>)> {
        let mut sent = self.sent.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let (next, recent) = &mut *sent;
        let mut place = None;
        for (index, known) in recent.iter().enumerate() {
            if same_bits(known.array.bind(py).try_readonly()?.as_slice()?, model) {
                place = Some(index);
            }
        }
        let known = if let Some(known) = place.and_then(|index| recent.remove(index)) {
            known
        } else {
            let array = PyArray1::from_slice(py, model);
            drop(array.try_readwrite()?.make_nonwriteable());
            *next += 1;
            Sent { number: *next, array: array.unbind() }
        };
        let found = (known.number, known.array.bind(py).clone());
        recent.push_back(known);
        while recent.len() > self.most {
            recent.pop_front();
        }
        Ok(found)
    }
}

/// Bits and not numbers: -0 is another model than 0.
fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits())
}
