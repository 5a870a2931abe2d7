//! Exceptions of Python code that the crates call: policies, tasks and aggregation rules of the user.
//!
//! The crates know their own errors only. An exception waits here while the error that stands for it goes up through the
//! crates, and is raised, with its traceback, where their call was made.

use agewise::selection::Error;
use pyo3::PyErr;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The first exception of the Python code of one call, and whether all of it is to end.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    first: Mutex<Option<PyErr>>,
    /// How often it was asked for the exception, so that code that has failed can tell whether that is settled.
    settled: AtomicU64,
    /// The stop flag of the crates.
    pub(crate) stop: AtomicBool,
}

impl Raised {
    /// Keeps an exception unless there is one already, and returns an error for the crates.
    pub(crate) fn keep(&self, what: &str, exception: PyErr) -> Error {
        self.stop.store(true, Ordering::Relaxed);
        let message = exception.to_string();
        if let Ok(mut first) = self.first.lock() {
            first.get_or_insert(exception);
        }
        Error::new(what, message, "code that raises no exception")
    }

    /// How often an exception was asked for and raised, if there was one.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Whether other Python code has to end because of an exception, or because of Ctrl-C.
    pub(crate) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Raises the exception that was kept, if there is one.
    pub(crate) fn check(&self) -> PyResult<()> {
        let kept = self.first.lock().ok().and_then(|mut first| first.take());
        self.stop.store(false, Ordering::Relaxed);
        self.settled.fetch_add(1, Ordering::Relaxed);
        kept.map_or(Ok(()), Err)
    }

    /// The exception that was kept, or else this one.
    pub(crate) fn or(&self, other: PyErr) -> PyErr {
        self.check().err().unwrap_or(other)
    }
}
