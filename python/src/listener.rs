//! What Python hears of a running experiment: `agewise.callbacks.Listener` has the other end.

use agewise::experiment::{Callbacks, Experiment, RoundLog, RunId};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls the methods `begin`, `rounds` and `end` of an object of Python, and stops when one raises an exception.
pub(crate) struct Listener<'a> {
    experiment: &'a Experiment,
    object: Option<Py<PyAny>>,
    rounds: Mutex<BTreeMap<RunId, u64>>,
    stop: &'a AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(
        experiment: &'a Experiment,
        object: Option<Py<PyAny>>,
        stop: &'a AtomicBool,
    ) -> Self {
        Self { experiment, object, rounds: Mutex::default(), stop, raised: Mutex::default() }
    }

    /// The first exception.
    pub(crate) fn raised(self) -> Option<PyErr> {
        self.raised.into_inner().ok().flatten()
    }

    /// How many rounds of a run are finished, with so many more.
    fn played(&self, id: RunId, more: u64) -> u64 {
        let Ok(mut rounds) = self.rounds.lock() else {
            return more;
        };
        let played = rounds.entry(id).or_default();
        *played += more;
        *played
    }

    fn call(
        &self,
        method: &str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyTuple>>,
    ) {
        Python::attach(|py| {
            // Ctrl-C is handled between rounds.
            let heard = py.check_signals().and_then(|()| match &self.object {
                Some(object) => object.bind(py).call_method1(method, arguments(py)?).map(|_| ()),
                None => Ok(()),
            });
            if let Err(error) = heard {
                self.stop.store(true, Ordering::Relaxed);
                if let Ok(mut raised) = self.raised.lock() {
                    raised.get_or_insert(error);
                }
            }
        });
    }

    /// What a round was like.
    fn metrics<'py>(&self, py: Python<'py>, log: &RoundLog) -> PyResult<Bound<'py, PyDict>> {
        let metrics = PyDict::new(py);
        metrics.set_item("round", log.round + 1)?;
        metrics.set_item("available", log.available)?;
        metrics.set_item("selected", log.selected())?;
        metrics.set_item("reported", log.clients.len())?;
        metrics.set_item("rejected", log.rejected())?;
        if let Some(loss) = log.training_loss() {
            metrics.set_item("training_loss", loss)?;
        }
        if let Some(test) = &log.test {
            if let Some(loss) = test.loss {
                metrics.set_item("loss", loss)?;
            }
            if let Some(accuracy) = test.accuracy() {
                metrics.set_item("accuracy", accuracy)?;
            }
        }
        if let Some(score) = self.experiment.score(log) {
            metrics.set_item("score", score)?;
        }
        Ok(metrics)
    }
}

impl Callbacks for Listener<'_> {
    fn on_begin(&self, id: RunId, rounds: u64, logs: &[RoundLog]) {
        let played = self.played(id, rounds);
        self.call("begin", |py| {
            let logs: PyResult<Vec<_>> = logs.iter().map(|log| self.metrics(py, log)).collect();
            (id.variant, id.seed, played, logs?).into_pyobject(py)
        });
    }

    fn on_rounds(&self, id: RunId, rounds: u64, logs: &[RoundLog]) {
        let played = self.played(id, rounds);
        self.call("rounds", |py| {
            let metrics = logs.last().map(|log| self.metrics(py, log)).transpose()?;
            (id.variant, id.seed, played, metrics).into_pyobject(py)
        });
    }

    fn on_end(&self, id: RunId) {
        self.call("end", |py| (id.variant, id.seed).into_pyobject(py));
    }
}
