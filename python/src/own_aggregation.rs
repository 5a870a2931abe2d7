//! Aggregation rules that are written in Python: objects of the class `OwnRule` of `agewise.aggregation`.

use crate::raised::Raised;
use agewise::selection::{Error, Result};
use agewise::train::aggregation::{
    Aggregation, Aggregator, AggregatorState, Contribution, Rejected, UpdateSource, Verdict,
};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use std::fmt;
use std::sync::Arc;

/// What the memory of a rule is called in a checkpoint.
const STATE: &str = "state";

/// A rule of the user beside built-in ones.
pub(crate) fn aggregation(
    made_by: &Bound<'_, PyAny>,
    raised: &Arc<Raised>,
) -> PyResult<Aggregation> {
    let name: String = made_by.getattr("name")?.extract()?;
    let (made_by, raised, own) = (made_by.clone().unbind(), Arc::clone(raised), name.clone());
    Ok(Aggregation::new(name, move |parameters| {
        let made = Python::attach(|py| made_by.call_method1(py, "make", (parameters,)));
        let rule = made.map_err(|exception| raised.keep(&own, exception))?;
        let (name, raised) = (own.clone(), Arc::clone(&raised));
        Ok(Box::new(PythonAggregator { name, rule, state: Vec::new(), raised }))
    }))
}

/// A rule of the user at work in one run.
struct PythonAggregator {
    name: String,
    rule: Py<PyAny>,
    state: Vec<f32>,
    raised: Arc<Raised>,
}

impl fmt::Debug for PythonAggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonAggregator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Aggregator for PythonAggregator {
    // A rule of the user sees all updates at once, whatever the memory: it is one array.
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        _memory: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        let (mut verdicts, mut values): (Vec<Verdict>, Vec<f32>) = (Vec::new(), Vec::new());
        let (mut clients, mut weights) = (Vec::new(), Vec::new());
        let mut update = vec![0.0; global.len()];
        for (member, contribution) in cohort.iter().enumerate() {
            let &Contribution { client, weight, ref missing } = contribution;
            let read = match missing {
                Some(why) => Err(why.clone()),
                None => updates.read(member, 0, &mut update).map_err(|error| error.to_string()),
            };
            updates.release(member);
            let finite = update.iter().all(|value| value.is_finite());
            let verdict = match read {
                Ok(()) if !finite => Err("a parameter is infinite or not a number".to_string()),
                other => other,
            };
            if verdict.is_ok() {
                values.extend_from_slice(&update);
                clients.push(client);
                weights.push(weight);
            }
            verdicts.push(verdict.map_err(|why| Rejected { client, why }));
        }
        if clients.is_empty() {
            return Ok(verdicts);
        }
        let moved = Python::attach(|py| {
            let rows = values.into_pyarray(py).reshape([clients.len(), global.len()])?;
            let arguments = (
                PyArray1::from_slice(py, global),
                rows,
                weights.into_pyarray(py),
                clients.into_pyarray(py),
            );
            let rule = self.rule.bind(py);
            let next: PyReadonlyArray1<'_, f32> =
                rule.call_method1("aggregate", arguments)?.extract()?;
            let state: PyReadonlyArray1<'_, f32> = rule.call_method0("state")?.extract()?;
            PyResult::Ok((next.to_vec()?, state.to_vec()?))
        });
        let (next, state) = moved.map_err(|exception| self.raised.keep(&self.name, exception))?;
        if next.len() != global.len() {
            let expected = format!("{} numbers", global.len());
            return Err(Error::new(format!("model of {}", self.name), next.len(), expected));
        }
        global.copy_from_slice(&next);
        self.state = state;
        Ok(verdicts)
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        if self.state.is_empty() { Vec::new() } else { vec![(STATE, &self.state)] }
    }

    fn load_state(&mut self, state: AggregatorState) -> Result<()> {
        let Some((_, values)) = state.into_iter().find(|(name, _)| name == STATE) else {
            return Ok(());
        };
        let loaded = Python::attach(|py| {
            let values = PyArray1::from_slice(py, &values);
            self.rule.call_method1(py, "load_state", (values,))
        });
        loaded.map_err(|exception| self.raised.keep(&self.name, exception))?;
        self.state = values;
        Ok(())
    }
}
