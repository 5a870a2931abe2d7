//! Policies, laws, theory and the selection simulator: parameters in, JSON and arrays out.

use crate::errors::{bad_input, read, simulation};
use crate::interrupt::interruptible;
use agewise::core::{
    AgeLaw, EmptyCohort, LawFamily, POLICIES, PolicySpec, Result, Seed, SettingParams, SizeLaw,
    Sizes, Weighting, build_policy, find_policy,
};
use agewise::sim::SimulationParams;
use agewise::simulate::{Finished, pretty};
use agewise::theory::{TheoryReport, TheoryRequest, default_policies};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// One policy: name, summary, options with their meanings, whether it needs them, weighting, and whether clients decide.
type PolicyRow = (String, String, Vec<(String, String)>, bool, String, Option<bool>);

/// All registered policies. Whether clients decide is not known where a policy cannot be made without options.
#[pyfunction]
pub(crate) fn policies() -> PyResult<Vec<PolicyRow>> {
    let setting = SettingParams::new(100, 15, 10).check().map_err(bad_input)?;
    let row = |entry: &agewise::core::PolicyEntry| {
        let made = build_policy(&PolicySpec::named(entry.name), &setting).ok();
        let options = entry.options.iter().map(|(name, what)| (name.to_string(), what.to_string()));
        (
            entry.name.to_string(),
            entry.summary.to_string(),
            options.collect(),
            entry.needs_options,
            entry.weighting.to_string(),
            made.map(|policy| policy.local_rule().is_some()),
        )
    };
    Ok(POLICIES.iter().map(row).collect())
}

/// A policy as agewise writes it, whatever the spaces and digits.
#[pyfunction]
pub(crate) fn spelled(policy: &str) -> PyResult<String> {
    Ok(policy.parse::<PolicySpec>().map_err(bad_input)?.to_string())
}

/// A law's probabilities, steady state, rate, E[X], Var[X] and longest X.
type LawRow<'py> =
    (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, f64, f64, Option<u64>);

/// An age law: `optimal` or `linear` for an interval and a largest age, or given probabilities.
#[pyfunction]
#[pyo3(signature = (family, interval, max_age, probabilities=None))]
pub(crate) fn age_law<'py>(
    py: Python<'py>,
    family: &str,
    interval: f64,
    max_age: u32,
    probabilities: Option<Vec<f64>>,
) -> PyResult<LawRow<'py>> {
    let law = match (probabilities, family) {
        (Some(probabilities), _) => AgeLaw::new(&probabilities),
        (None, "optimal") => LawFamily::Optimal.law(interval, max_age),
        (None, "linear") => LawFamily::Linear.law(interval, max_age),
        (None, other) => {
            let expected = "optimal, linear, or a list of probabilities";
            return Err(bad_input(agewise::core::Error::new("law", other, expected)));
        }
    };
    let law = law.map_err(bad_input)?;
    let moments = law.interval();
    Ok((
        law.probabilities().into_pyarray(py),
        law.steady_state().into_pyarray(py),
        law.rate(),
        moments.mean,
        moments.variance,
        law.longest_interval(),
    ))
}

/// What `theory` is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TheoryOptions {
    clients: u64,
    cohort: u64,
    max_age: u64,
    sizes: String,
    size_list: Option<Vec<f64>>,
    policies: Option<Vec<String>>,
    weighting: Option<Weighting>,
    empty_cohort: EmptyCohort,
    seed: u64,
    cold_start: u32,
}

impl TheoryOptions {
    fn request(self) -> Result<TheoryRequest> {
        let policies = match self.policies {
            None => default_policies(),
            Some(names) => names.iter().map(|name| name.parse()).collect::<Result<_>>()?,
        };
        for policy in &policies {
            find_policy(policy.name())?;
        }
        let params = SettingParams {
            empty_cohort: self.empty_cohort,
            ..SettingParams::new(self.clients, self.cohort, self.max_age)
        };
        // The numbers before sizes are drawn for them.
        let clients = params.clone().check()?.clients();
        let (sizes, described) = if let Some(list) = self.size_list {
            (Sizes::new(list)?, "given".to_string())
        } else {
            let law: SizeLaw = self.sizes.parse()?;
            (law.draw(clients, Seed(self.seed))?, self.sizes)
        };
        let setting = SettingParams { sizes: Some(sizes), ..params }.check()?;
        Ok(TheoryRequest {
            setting,
            sizes: described,
            policies,
            weighting: self.weighting,
            cold_start_rounds: self.cold_start,
        })
    }
}

/// P(X = x) of one policy: the values x, and their probabilities.
type Distribution<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<f64>>);

/// The document of `agewise theory --json`, the distribution of X of each policy, and the figure.
#[pyfunction]
pub(crate) fn theory<'py>(
    py: Python<'py>,
    options: &str,
) -> PyResult<(String, Vec<Distribution<'py>>, String)> {
    let options: TheoryOptions = read("theory", options)?;
    let made = py.detach(|| {
        let report = TheoryReport::new(&options.request()?)?;
        let figure = report.figure().to_svg();
        Ok((report, figure))
    });
    let (report, figure) = made.map_err(|error: agewise::core::Error| bad_input(error))?;
    let document = serde_json::to_string_pretty(&report).map_err(bad_input)? + "\n";
    let distribution = |policy: &agewise::theory::PolicyReport| {
        let (x, p): (Vec<u64>, Vec<f64>) =
            policy.theory.interval_distribution.iter().copied().unzip();
        (x.into_pyarray(py), p.into_pyarray(py))
    };
    Ok((document, report.policies.iter().map(distribution).collect(), figure))
}

/// What is drawn of one policy: cohorts and reports by seed and round, and X with how often it was seen.
type Played<'py> = (
    Bound<'py, PyArray2<u64>>,
    Bound<'py, PyArray2<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
);

/// The document of `agewise simulate --json`, and the rounds and intervals of each policy. `progress`, if it is given, hears of
/// rounds as they are played, and ends the simulation by an exception.
#[pyfunction]
#[pyo3(signature = (params, progress=None))]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    params: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<Played<'py>>)> {
    let params: SimulationParams = read("simulate", params)?;
    let wanted = params.clone().check().map_err(bad_input)?;
    let stop = AtomicBool::new(false);
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let on_rounds = |rounds: u64| {
        if let Some(progress) = &progress {
            Python::attach(|py| {
                if let Err(error) = progress.call1(py, (rounds,)) {
                    stop.store(true, Ordering::Relaxed);
                    if let Ok(mut raised) = raised.lock() {
                        raised.get_or_insert(error);
                    }
                }
            });
        }
        !stop.load(Ordering::Relaxed)
    };
    let finished = interruptible(py, &stop, || Finished::play(wanted, None, &on_rounds))?;
    if let Ok(Some(error)) = raised.into_inner() {
        return Err(error);
    }
    let finished = finished.map_err(|error| simulation(&error))?;
    let document = pretty(&finished.summary).map_err(|error| simulation(&error))?;
    let shape = [params.seeds as usize, params.rounds as usize];
    let played = finished.runs.iter().map(|runs| {
        let rounds = || runs.iter().flat_map(|run| &run.rounds);
        let table = |column: Vec<u64>| column.into_pyarray(py).reshape(shape);
        let mut counts = std::collections::BTreeMap::new();
        for &(interval, count) in runs.iter().flat_map(|run| &run.intervals) {
            *counts.entry(interval).or_insert(0u64) += count;
        }
        let (x, seen): (Vec<u64>, Vec<u64>) = counts.into_iter().unzip();
        Ok((
            table(rounds().map(|round| round.selected).collect())?,
            table(rounds().map(|round| round.reported).collect())?,
            x.into_pyarray(py),
            seen.into_pyarray(py),
        ))
    });
    Ok((document, played.collect::<PyResult<_>>()?))
}
