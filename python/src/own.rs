//! What an experiment has of the user's own: policies, a task, an aggregation rule, and arrays.

use crate::errors::{bad_input, experiment as failed};
use crate::own_aggregation::aggregation;
use crate::own_data::OwnData;
use crate::own_policy::OwnPolicy;
use crate::own_task::PythonTask;
use crate::raised::Raised;
use agewise::experiment::{Experiment, ExperimentParams, Schedule, Variant, load_data};
use agewise::selection::Seed;
use agewise::train::aggregation::Aggregation;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Policies, the engine of a task, an aggregation rule, and arrays, as Python passes them.
pub(crate) type Given<'py> = (
    Vec<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Py<OwnData>>,
);

/// What an experiment has of the user's own.
#[derive(Default)]
pub(crate) struct Own {
    policies: Vec<OwnPolicy>,
    task: Option<Arc<PythonTask>>,
    aggregation: Option<Aggregation>,
    data: Option<Py<OwnData>>,
    /// The exceptions of all of them.
    pub(crate) raised: Arc<Raised>,
}

impl Own {
    pub(crate) fn new(given: Option<Given<'_>>) -> PyResult<Self> {
        let Some((policies, task, rule, data)) = given else {
            return Ok(Self::default());
        };
        let raised = Arc::new(Raised::default());
        let task = task.map(|engine| PythonTask::new(&engine, &raised)).transpose()?;
        Ok(Self {
            policies: policies.iter().map(OwnPolicy::new).collect::<PyResult<_>>()?,
            task: task.map(Arc::new),
            aggregation: rule.map(|rule| aggregation(&rule, &raised)).transpose()?,
            data,
            raised,
        })
    }

    /// The experiment of parameters, whose policies may be among the user's. Data sets are looked for in these folders.
    pub(crate) fn experiment(
        &self,
        params: ExperimentParams,
        folders: &[PathBuf],
    ) -> PyResult<Experiment> {
        let built = self.build(params, folders);
        built.map_err(|error| self.raised.or(error)).and_then(|experiment| {
            // Policies may have raised exceptions where the core knows no errors.
            self.raised.check()?;
            Ok(experiment)
        })
    }

    fn build(&self, mut params: ExperimentParams, folders: &[PathBuf]) -> PyResult<Experiment> {
        let mut builder = Experiment::builder();
        if !self.policies.is_empty() || self.aggregation.is_some() {
            let usual = match &self.aggregation {
                Some(own) => own.clone(),
                None => Aggregation::from_params(params.aggregation).map_err(bad_input)?,
            };
            for text in &params.policies {
                builder = builder.variant(self.variant(text, &params, &usual)?);
            }
            builder = builder.aggregation(usual);
        }
        let seed = params.seed;
        match (&self.task, &mut params.training) {
            (Some(task), _) => builder = builder.shared_task(Arc::clone(task) as _),
            (None, Some(training)) => {
                let data = match &self.data {
                    Some(own) => own.get().prepared(training, seed)?,
                    None => load_data(training, Seed(seed), folders).map_err(failed)?,
                };
                builder = builder.data(data);
            }
            (None, None) => {}
        }
        builder
            .params(params)
            .build()
            .map_err(|error| failed(agewise::experiment::ExperimentError::from(error)))
    }

    /// A policy of the user's, or a built-in one with its rule of aggregation.
    fn variant(
        &self,
        text: &str,
        params: &ExperimentParams,
        usual: &Aggregation,
    ) -> PyResult<Variant> {
        let Some(own) = self.policies.iter().find(|own| own.name() == text) else {
            let built_in = Variant::parse(text, params, usual);
            return built_in.map_err(|e| failed(agewise::experiment::ExperimentError::from(e)));
        };
        let policy =
            Python::attach(|py| own.variant(py, params.start, params.weighting, &self.raised))?;
        let schedule =
            params.clock.as_ref().map_or(Ok(Schedule::Sync), |clock| clock.schedule.parse());
        Ok(Variant::new(policy, usual.clone()).with_schedule(schedule.map_err(bad_input)?))
    }
}
