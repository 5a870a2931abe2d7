//! Policies that are written in Python.
//!
//! The class `OwnPolicy` of `agewise.policy` makes one object for each run, checks what its methods return, and passes on
//! plain arrays. What the cohort may be is checked by the core, as for every policy.

use crate::raised::Raised;
use agewise::selection::{
    Draws, Error, LossNeed, Needs, Pick, Policy, PolicyVariant, Probe, ProbeKind, Report, Result,
    Round, Seed, Setting, Start, Stream, Weighting,
};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The streams of a user's policies begin here in the core.
const FIRST_STREAM: u64 = 1 << 16;
/// How many streams a policy can use.
const STREAMS: u64 = 1 << 16;

/// The random numbers of all clients in a round, from 0 to under 1, in one of the streams of a user's policy.
#[pyfunction]
pub(crate) fn draws(
    py: Python<'_>,
    seed: u64,
    round: u64,
    stream: u64,
    clients: u32,
) -> PyResult<Bound<'_, PyArray1<f64>>> {
    if stream >= STREAMS {
        let expected = format!("a whole number from 0 to {}", STREAMS - 1);
        return Err(crate::errors::bad_input(Error::new("stream", stream, expected)));
    }
    let draws = Draws::new(Seed(seed), Stream::custom(FIRST_STREAM + stream), round);
    let units: Vec<f64> = (0..u64::from(clients)).map(|client| draws.of(client).unit()).collect();
    Ok(units.into_pyarray(py))
}

/// A policy of the user, as the package passes it on.
pub(crate) struct OwnPolicy {
    /// The object `OwnPolicy` of `agewise.policy`.
    made_by: Py<PyAny>,
    name: String,
    start: Option<Start>,
    weighting: Option<Weighting>,
}

impl OwnPolicy {
    pub(crate) fn new(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let text = |name: &str| given.getattr(name)?.extract::<Option<String>>();
        let start = match text("start")?.as_deref() {
            None => None,
            Some("cold") => Some(Start::Cold),
            Some("stationary") => Some(Start::Stationary),
            Some(other) => {
                let expected = "stationary or cold";
                return Err(crate::errors::bad_input(Error::new("start", other, expected)));
            }
        };
        let weighting = text("weighting")?.map(|name| name.parse::<Weighting>()).transpose();
        let weighting = weighting.map_err(crate::errors::bad_input)?;
        let name = given.getattr("name")?.extract()?;
        Ok(Self { made_by: given.clone().unbind(), name, start, weighting })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The policy beside built-in ones. What it does not say about its start and its weighting is as in the arguments; its
    /// weights are uniform if no argument says more.
    pub(crate) fn variant(
        &self,
        py: Python<'_>,
        start: Start,
        weighting: Option<Weighting>,
        raised: &Arc<Raised>,
    ) -> PyResult<PolicyVariant> {
        let weighting = weighting.or(self.weighting).unwrap_or(Weighting::Uniform);
        if weighting == Weighting::Unbiased
            && !self.made_by.bind(py).getattr("has_inclusion")?.extract::<bool>()?
        {
            let expected =
                format!("another one, or a method inclusion of the policy {}", self.name);
            let error = Error::new("weighting", weighting, expected);
            return Err(crate::errors::bad_input(error));
        }
        let (made_by, name) = (self.made_by.clone_ref(py), self.name.clone());
        let raised = Arc::clone(raised);
        let factory = move |setting: &Setting| {
            let made = Python::attach(|py| {
                PythonPolicy::new(py, made_by.bind(py), &name, setting, &raised)
            });
            let boxed = |policy| Box::new(policy) as Box<dyn Policy>;
            made.map(boxed).map_err(|exception| raised.keep(&name, exception))
        };
        let variant = PolicyVariant::new(self.name.clone(), factory);
        Ok(variant.with_start(self.start.unwrap_or(start)).with_weighting(weighting))
    }
}

/// One policy of the user at work in one run.
struct PythonPolicy {
    name: String,
    /// The object `Guarded` of `agewise.policy` around that of the user.
    policy: Py<PyAny>,
    needs: Needs,
    observes: bool,
    raised: Arc<Raised>,
    /// Whether a method has raised an exception that was not raised by the package yet: the number of those that were by
    /// then, and one.
    failed: AtomicU64,
}

impl fmt::Debug for PythonPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonPolicy").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PythonPolicy {
    fn new(
        py: Python<'_>,
        made_by: &Bound<'_, PyAny>,
        name: &str,
        setting: &Setting,
        raised: &Arc<Raised>,
    ) -> PyResult<Self> {
        let policy = made_by.call_method1("make", (setting.clients(), setting.cohort()))?;
        let (training, loss, loss_squares, update_sketches) =
            policy.getattr("needs")?.extract::<(bool, Option<String>, bool, bool)>()?;
        let loss = match loss.as_deref() {
            Some("while-training") => LossNeed::WhileTraining,
            Some("whole-data") => LossNeed::WholeData,
            // The adapter has checked the name.
            _ => LossNeed::None,
        };
        let observes = policy.getattr("observes")?.extract()?;
        let needs = Needs { training, loss, loss_squares, update_sketches };
        let (name, policy) = (name.to_string(), policy.unbind());
        py.check_signals()?;
        let (raised, failed) = (Arc::clone(raised), AtomicU64::new(0));
        Ok(Self { name, policy, needs, observes, raised, failed })
    }

    /// Calls a method; an exception is kept, and answered by nothing.
    fn call<T>(
        &self,
        method: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let failed = self.raised.settled() + 1;
        if self.failed.load(Ordering::Relaxed) == failed {
            return None;
        }
        let answer = Python::attach(|py| method(py, self.policy.bind(py)));
        let kept = answer.map_err(|exception| {
            self.failed.store(failed, Ordering::Relaxed);
            // What stands for it where an error can be returned is made there.
            drop(self.raised.keep(&self.name, exception));
        });
        kept.ok()
    }

    /// The arguments of the constructor of `agewise.Round`.
    fn round<'py>(&self, py: Python<'py>, round: &Round<'_>) -> PyResult<Bound<'py, PyTuple>> {
        let setting = round.setting();
        let clients = setting.clients();
        let reports = round.reports();
        let list = |value: &dyn Fn(u32) -> Option<f32>| {
            let values = (0..clients).map(|client| value(client).unwrap_or(f32::NAN));
            values.collect::<Vec<f32>>().into_pyarray(py)
        };
        let width = reports.sketch_width().filter(|_| self.needs.update_sketches);
        let sketches = width.map(|width| {
            let mut rows = vec![f32::NAN; width * clients as usize];
            for (client, sketch) in reports.sketches() {
                rows[width * client as usize..][..width].copy_from_slice(sketch);
            }
            rows.into_pyarray(py).reshape([clients as usize, width])
        });
        let sketches: Option<Bound<'_, PyArray2<f32>>> = sketches.transpose()?;
        let sizes: Vec<f64> = (0..clients).map(|client| round.sizes().of(client)).collect();
        (
            round.number(),
            clients,
            setting.cohort(),
            round.seed().0,
            round.ages().iter().collect::<Vec<u64>>().into_pyarray(py),
            round.available().collect::<Vec<u32>>().into_pyarray(py),
            sizes.into_pyarray(py),
            list(&|client| reports.loss(client)),
            list(&|client| reports.duration(client)),
            list(&|client| reports.root_mean_square(client)),
            sketches,
        )
            .into_pyobject(py)
    }
}

/// A cohort that the core refuses, so that the run ends there.
fn no_cohort() -> Vec<Pick> {
    vec![Pick::once(u32::MAX)]
}

impl Policy for PythonPolicy {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let picks = self.call(|py, policy| {
            let clients = policy.call_method1("select", self.round(py, round)?)?;
            let clients: PyReadonlyArray1<'_, u32> = clients.extract()?;
            Ok(clients.as_array().iter().copied().map(Pick::once).collect())
        });
        picks.unwrap_or_else(no_cohort)
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        let probabilities = self.call(|py, policy| {
            let asked = clients.to_vec().into_pyarray(py);
            let found = policy.call_method1("inclusion", (asked, self.round(py, round)?))?;
            let found: PyReadonlyArray1<'_, f64> = found.extract()?;
            Ok(found.as_array().to_vec())
        });
        // Weights that are no numbers are refused by the core.
        probabilities.unwrap_or_else(|| vec![f64::NAN; clients.len()])
    }

    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        let clients = setting.clients();
        let ages = self.call(|_, policy| {
            let ages = policy.call_method1("initial_ages", (clients, setting.cohort(), seed.0))?;
            let ages: PyReadonlyArray1<'_, u64> = ages.extract()?;
            Ok(ages.as_array().to_vec())
        });
        ages.unwrap_or_else(|| vec![0; clients as usize])
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn probes(&self, round: &Round<'_>) -> Vec<Probe> {
        let probes = self.call(|py, policy| {
            let asked = policy.call_method1("probes", self.round(py, round)?)?;
            let asked: Vec<(String, PyReadonlyArray1<'_, u32>)> = asked.extract()?;
            let mut probes = Vec::new();
            for (kind, clients) in &asked {
                let kind = match kind.as_str() {
                    "loss" => ProbeKind::Loss,
                    "update-step" => ProbeKind::UpdateStep,
                    // The adapter has checked the name.
                    _ => ProbeKind::UpdateRound,
                };
                probes.extend(clients.as_array().iter().map(|&client| Probe { client, kind }));
            }
            probes.sort_by_key(|probe| (probe.client, probe.kind));
            Ok(probes)
        });
        probes.unwrap_or_default()
    }

    fn finished(&mut self, _: &Setting, accepted: &[Report<'_>]) {
        if !self.observes {
            return;
        }
        self.call(|py, policy| {
            let clients: Vec<u32> = accepted.iter().map(|report| report.client).collect();
            let list = |value: fn(&Report<'_>) -> Option<f32>| {
                let values = accepted.iter().map(|report| value(report).unwrap_or(f32::NAN));
                values.collect::<Vec<f32>>().into_pyarray(py)
            };
            policy.call_method1(
                "observe",
                (
                    clients.into_pyarray(py),
                    list(|report| report.loss),
                    list(|report| report.duration),
                    list(|report| report.root_mean_square),
                ),
            )?;
            Ok(())
        });
    }

    fn state(&self) -> Vec<f64> {
        let state = self.call(|_, policy| {
            let state = policy.call_method0("state")?;
            let state: PyReadonlyArray1<'_, f64> = state.extract()?;
            Ok(state.as_array().to_vec())
        });
        state.unwrap_or_default()
    }

    fn load_state(&mut self, state: &[f64]) -> Result<()> {
        let loaded = self.call(|py, policy| {
            policy.call_method1("load_state", (state.to_vec().into_pyarray(py),))?;
            Ok(())
        });
        loaded.ok_or_else(|| Error::new("state", &self.name, "a state that the policy can load"))
    }
}
