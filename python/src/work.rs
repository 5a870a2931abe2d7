//! Policies, age laws and closed forms.

use crate::errors::{EXPERIMENT, bad_input, read, renamed};
use agewise::report::theory::{TheoryReport, TheoryRequest, default_policies};
use agewise::selection::{
    AgeLaw, EmptyCohort, LawFamily, MaxAge, POLICIES, PolicySpec, Result, Seed, SettingParams,
    SizeDistribution, Sizes, Weighting, build_policy, find_policy,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use serde::Deserialize;

/// One policy: name, summary, options with their meanings, whether it requires them, weighting, and whether clients decide.
type PolicyRow = (String, String, Vec<(String, String)>, bool, String, Option<bool>);

/// All registered policies. Whether clients decide is unknown for a policy that requires options.
#[pyfunction]
pub(crate) fn policies() -> PyResult<Vec<PolicyRow>> {
    let setting = SettingParams::new(100, 15, 10).check().map_err(bad_input)?;
    let row = |entry: &agewise::selection::PolicyEntry| {
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

/// The standard spelling of a policy.
#[pyfunction]
pub(crate) fn spelled(policy: &str) -> PyResult<String> {
    Ok(policy.parse::<PolicySpec>().map_err(bad_input)?.to_string())
}

/// A law's probabilities, steady state, rate, E[X], Var[X] and longest X.
type LawRow<'py> =
    (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, f64, f64, Option<u64>);

/// An age law: `optimal` or `linear` for an interval and a largest age (or as large as needed), or given probabilities.
#[pyfunction]
#[pyo3(signature = (family, interval, max_age, probabilities=None))]
pub(crate) fn age_law<'py>(
    py: Python<'py>,
    family: &str,
    interval: f64,
    max_age: Option<u64>,
    probabilities: Option<Vec<f64>>,
) -> PyResult<LawRow<'py>> {
    let max_age = max_age.map_or(MaxAge::Auto, MaxAge::Fixed);
    let law = match (probabilities, family) {
        (Some(probabilities), _) => AgeLaw::new(&probabilities),
        (None, "optimal") => LawFamily::Optimal.law(interval, max_age),
        (None, "linear") => LawFamily::Linear.law(interval, max_age),
        (None, other) => {
            let expected = "optimal, linear, or a list of probabilities";
            return Err(bad_input(agewise::selection::Error::new("law", other, expected)));
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

/// What a largest age costs a policy, in a sentence, if it costs anything.
#[pyfunction]
pub(crate) fn max_age_cost(
    policy: &str,
    clients: u64,
    cohort: u64,
    max_age: u64,
) -> PyResult<Option<String>> {
    let cost = || {
        let setting = SettingParams::new(clients, cohort, max_age).check()?;
        let policy = build_policy(&policy.parse()?, &setting)?;
        let family = policy.law_family();
        family.map_or(Ok(None), |family| setting.max_age_cost(family))
    };
    let found = cost().map_err(bad_input)?;
    Ok(found.map(|cost| format!("{policy}: {cost}")))
}

/// The arguments of `theory`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TheoryOptions {
    clients: u64,
    cohort: u64,
    max_age: MaxAge,
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
        // The number of clients is checked before sizes are drawn.
        let clients = params.clone().check()?.clients();
        let (sizes, described) = if let Some(list) = self.size_list {
            (Sizes::new(list)?, "given".to_string())
        } else {
            let distribution: SizeDistribution = self.sizes.parse()?;
            (distribution.draw(clients, Seed(self.seed))?, self.sizes)
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
    let options: TheoryOptions = read(options, EXPERIMENT)?;
    let made = py.detach(|| {
        let report = TheoryReport::new(&options.request()?)?;
        let figure = report.figure().to_svg();
        Ok((report, figure))
    });
    let (report, figure) = made.map_err(renamed(EXPERIMENT))?;
    let document = serde_json::to_string_pretty(&report).map_err(bad_input)? + "\n";
    let distribution = |policy: &agewise::report::theory::PolicyReport| {
        let (x, p): (Vec<u64>, Vec<f64>) =
            policy.theory.interval_distribution.iter().copied().unzip();
        (x.into_pyarray(py), p.into_pyarray(py))
    };
    Ok((document, report.policies.iter().map(distribution).collect(), figure))
}
