//! Who trains next: [`Selector`] for whoever coordinates, [`Client`] for one that decides alone.

use crate::errors::{bad_input, read};
use crate::figures::Figures;
use agewise::selection::metrics::Participation;
use agewise::selection::theory::WINDOW_LENGTHS;
use agewise::selection::{
    self, Availability, Cohort, Draws, EmptyCohort, Error, LossNeed, Policy, PolicySpec, ProbeKind,
    Report, Seed, SelectorState, SettingParams, Sizes, Start, Stream, Weighting, build_policy,
    find_policy,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// What a selector is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    policy: String,
    clients: u64,
    cohort: u64,
    max_age: u64,
    seed: u64,
    start: String,
    weighting: Option<String>,
    sizes: Option<Vec<f64>>,
    empty_cohort: String,
}

/// What goes into a state: all that is needed to go on exactly, and what it belongs to.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    options: Options,
    selector: SelectorState,
    participation: Participation,
    chosen: Option<Chosen>,
}

/// What every state says first, whatever else is in it.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A cohort that was named and has not reported yet.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    clients: Vec<u32>,
    draws: Vec<u32>,
    weights: Vec<f64>,
    forced: bool,
}

const VERSION: u32 = 2;
/// The last round a client is asked for: forty years of rounds of one second.
const LAST_ROUND: u64 = 1_200_000_000;

impl Options {
    fn setting(&self) -> selection::Result<selection::Setting> {
        SettingParams {
            sizes: self.sizes.clone().map(Sizes::new).transpose()?,
            empty_cohort: match self.empty_cohort.as_str() {
                "force-one" => EmptyCohort::ForceOne,
                "skip" => EmptyCohort::Skip,
                other => return Err(Error::new("empty_cohort", other, "force-one or skip")),
            },
            ..SettingParams::new(self.clients, self.cohort, self.max_age)
        }
        .check()
    }

    fn start(&self) -> selection::Result<Start> {
        match self.start.as_str() {
            "stationary" => Ok(Start::Stationary),
            "cold" => Ok(Start::Cold),
            other => Err(Error::new("start", other, "stationary or cold")),
        }
    }

    fn selector(&self) -> selection::Result<selection::Selector> {
        let spec: PolicySpec = self.policy.parse()?;
        let weighting = match &self.weighting {
            Some(name) => name.parse::<Weighting>()?,
            None => find_policy(spec.name())?.weighting,
        };
        let (seed, start) = (Seed(self.seed), self.start()?);
        Ok(selection::Selector::new(&spec, self.setting()?, seed, start)?.with_weighting(weighting))
    }
}

/// Chooses cohorts by a policy of the core, and credits those who reported.
#[pyclass(module = "agewise._agewise")]
pub(crate) struct Selector {
    options: Options,
    inner: selection::Selector,
    watched: Participation,
    /// The cohort of the present round, once it was asked for.
    chosen: Option<Cohort>,
}

#[pymethods]
impl Selector {
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let options: Options = read("selector", options)?;
        let inner = options.selector().map_err(bad_input)?;
        let watched = Participation::new(inner.setting().clients(), &WINDOW_LENGTHS);
        Ok(Self { options, inner, watched, chosen: None })
    }

    /// The round that is about to be played, from 0.
    #[getter]
    fn round(&self) -> u64 {
        self.inner.round()
    }

    /// The age of every client.
    #[getter]
    fn ages<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.inner.ages().iter().collect::<Vec<_>>().into_pyarray(py)
    }

    /// The cohort of the present round: clients, weights, round, and whether one was forced. Sizes (of all clients) count
    /// from now on; losses (of all clients) are NaN where one is not known. After an error nothing has changed.
    #[pyo3(signature = (available=None, sizes=None, losses=None))]
    #[allow(clippy::type_complexity, reason = "the four fields of Python's Cohort, in order")]
    fn select<'py>(
        &mut self,
        py: Python<'py>,
        available: Option<PyReadonlyArray1<'py, bool>>,
        sizes: Option<PyReadonlyArray1<'py, f64>>,
        losses: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<(Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f64>>, u64, bool)> {
        let mask = available.map(|mask| mask.as_array().to_vec());
        let losses = losses.map(|losses| losses.as_array().to_vec());
        let clients = self.inner.setting().clients();
        let lengths =
            [("available", mask.as_ref().map(Vec::len)), ("losses", losses.as_ref().map(Vec::len))];
        for (field, length) in lengths {
            if let Some(length) = length.filter(|&length| length != clients as usize) {
                let expected = format!("one entry for each of the {clients} clients");
                return Err(bad_input(Error::new(field, format!("a list of {length}"), expected)));
            }
        }
        let sizes = sizes.map(|sizes| Sizes::new(sizes.as_array().to_vec())).transpose();
        let sizes = sizes.map_err(bad_input)?;
        let known = (0..).zip(losses.iter().flatten()).filter(|(_, loss)| !loss.is_nan());
        let said: Vec<Report> = known
            .map(|(client, &loss)| Report { loss: Some(loss), ..Report::plain(client) })
            .collect();
        let inner = &mut self.inner;
        let before = inner.setting().sizes().clone();
        if let Some(sizes) = sizes {
            inner.set_sizes(sizes).map_err(bad_input)?;
        }
        if let Err(error) = inner.observe(&said) {
            inner.set_sizes(before).map_err(bad_input)?;
            return Err(bad_input(error));
        }
        let availability = availability(mask.as_deref());
        let cohort = py.detach(|| inner.select(availability)).map_err(bad_input)?;
        let clients = cohort.clients.clone().into_pyarray(py);
        let weights = cohort.weights.clone().into_pyarray(py);
        let (round, forced) = (cohort.round, cohort.forced);
        self.chosen = Some(cohort);
        Ok((clients, weights, round, forced))
    }

    /// Whether reports should bring sketches of updates.
    #[getter]
    fn wants_sketches(&self) -> bool {
        self.inner.policy().needs().update_sketches
    }

    /// Whether reports should bring root mean squares of losses.
    #[getter]
    fn wants_root_mean_squares(&self) -> bool {
        self.inner.policy().needs().loss_squares
    }

    /// Whether reported losses should be of all samples under the model that was sent.
    #[getter]
    fn wants_whole_losses(&self) -> bool {
        self.inner.policy().needs().loss == LossNeed::WholeData
    }

    /// Whether sketches that it asks for should be of a whole round's work.
    #[getter]
    fn asks_whole_rounds(&self) -> PyResult<bool> {
        let probes = self.inner.probes(Availability::Everyone).map_err(bad_input)?;
        Ok(probes.iter().any(|probe| probe.kind == ProbeKind::UpdateRound))
    }

    /// The clients whose loss the policy wants to know before it chooses.
    #[pyo3(signature = (available=None))]
    fn asks<'py>(
        &self,
        py: Python<'py>,
        available: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let mask = available.map(|mask| mask.as_array().to_vec());
        let asked = py.detach(|| self.asked(mask.as_deref(), |kind| kind == ProbeKind::Loss));
        Ok(asked.map_err(bad_input)?.into_pyarray(py))
    }

    /// The clients of whom the policy wants a sketch before it chooses.
    #[pyo3(signature = (available=None))]
    fn asks_sketches<'py>(
        &self,
        py: Python<'py>,
        available: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let mask = available.map(|mask| mask.as_array().to_vec());
        let asked = py.detach(|| self.asked(mask.as_deref(), |kind| kind != ProbeKind::Loss));
        Ok(asked.map_err(bad_input)?.into_pyarray(py))
    }

    /// Keeps what these clients say; nobody is credited.
    #[pyo3(signature = (clients, losses=None, durations=None, root_mean_squares=None, sketches=None))]
    fn note(
        &mut self,
        clients: PyReadonlyArray1<'_, u32>,
        losses: Option<PyReadonlyArray1<'_, f32>>,
        durations: Option<PyReadonlyArray1<'_, f32>>,
        root_mean_squares: Option<PyReadonlyArray1<'_, f32>>,
        sketches: Option<PyReadonlyArray2<'_, f32>>,
    ) -> PyResult<()> {
        let figures = Figures::new(losses, durations, root_mean_squares, sketches);
        let said = figures.reports(&clients.as_array().to_vec()).map_err(bad_input)?;
        self.inner.observe(&said).map_err(bad_input)
    }

    /// Ends the round; these clients are credited.
    #[pyo3(signature = (clients, losses=None, durations=None, root_mean_squares=None, sketches=None))]
    fn report(
        &mut self,
        py: Python<'_>,
        clients: PyReadonlyArray1<'_, u32>,
        losses: Option<PyReadonlyArray1<'_, f32>>,
        durations: Option<PyReadonlyArray1<'_, f32>>,
        root_mean_squares: Option<PyReadonlyArray1<'_, f32>>,
        sketches: Option<PyReadonlyArray2<'_, f32>>,
    ) -> PyResult<()> {
        let clients = clients.as_array().to_vec();
        let figures = Figures::new(losses, durations, root_mean_squares, sketches);
        let reports = figures.reports(&clients).map_err(bad_input)?;
        let (inner, watched, chosen) = (&mut self.inner, &mut self.watched, &self.chosen);
        py.detach(|| {
            let ages = inner.ages().clone();
            inner.finish(&reports)?;
            watched.record(&credited(clients, chosen.as_ref(), ages.round()), &ages);
            Ok(())
        })
        .map_err(|error: Error| bad_input(error))?;
        self.chosen = None;
        Ok(())
    }

    /// Participation so far, as JSON.
    fn metrics(&self) -> PyResult<String> {
        let summary = self.watched.summary(self.inner.ages());
        serde_json::to_string(&summary).map_err(bad_input)
    }

    /// What has to be kept to go on later.
    fn state(&self) -> PyResult<Vec<u8>> {
        let chosen = self.chosen.as_ref().map(|chosen| Chosen {
            clients: chosen.clients.clone(),
            draws: chosen.draws.clone(),
            weights: chosen.weights.clone(),
            forced: chosen.forced,
        });
        let stored = Stored {
            version: VERSION,
            // The sizes are part of the selector's state.
            options: Options { policy: self.spelled(), sizes: None, ..self.options.clone() },
            selector: self.inner.state(),
            participation: self.watched.clone(),
            chosen,
        };
        serde_json::to_vec(&stored).map_err(bad_input)
    }

    /// Goes on from a state; after an error everything is as it was.
    fn load_state(&mut self, state: &[u8]) -> PyResult<()> {
        let wrong =
            |error| bad_input(Error::new("state", error, "what state() of a Selector gave"));
        let Versioned { version } = serde_json::from_slice(state).map_err(wrong)?;
        if version != VERSION {
            let expected =
                format!("{VERSION}: another version's state cannot go on (docs/upgrading.md)");
            return Err(bad_input(Error::new("state(version)", version, expected)));
        }
        let stored: Stored = serde_json::from_slice(state).map_err(wrong)?;
        let (mine, stored_options) = (&self.options, stored.options);
        let Options { policy, start, weighting, empty_cohort, .. } = stored_options;
        let Options { clients, cohort, max_age, seed, .. } = stored_options;
        let pairs = [
            ("policy", policy, self.spelled()),
            ("clients", clients.to_string(), mine.clients.to_string()),
            ("cohort", cohort.to_string(), mine.cohort.to_string()),
            ("max_age", max_age.to_string(), mine.max_age.to_string()),
            ("seed", seed.to_string(), mine.seed.to_string()),
            ("start", start, mine.start.clone()),
            ("weighting", named(weighting.as_deref()), named(mine.weighting.as_deref())),
            ("empty_cohort", empty_cohort, mine.empty_cohort.clone()),
        ];
        for (field, theirs, ours) in pairs {
            if theirs != ours {
                let expected = format!("{ours}, as in this Selector");
                return Err(bad_input(Error::new(format!("state({field})"), theirs, expected)));
            }
        }
        let mut inner = self.options.selector().map_err(bad_input)?;
        inner.restore(stored.selector).map_err(bad_input)?;
        let chosen = stored.chosen.map(|chosen| chosen.check(&inner)).transpose();
        let chosen = chosen.map_err(bad_input)?;
        self.watched.resume(stored.participation).map_err(bad_input)?;
        (self.inner, self.chosen) = (inner, chosen);
        Ok(())
    }
}

impl Selector {
    /// The policy as it is written everywhere else.
    fn spelled(&self) -> String {
        let spec = self.options.policy.parse::<PolicySpec>();
        // It was parsed when the selector was made.
        spec.map_or_else(|_| self.options.policy.clone(), |spec| spec.to_string())
    }

    /// The clients of whom the policy wants to know something of some kinds before it chooses.
    fn asked(
        &self,
        mask: Option<&[bool]>,
        wanted: impl Fn(ProbeKind) -> bool,
    ) -> selection::Result<Vec<u32>> {
        let probes = self.inner.probes(availability(mask))?;
        Ok(probes.iter().filter(|probe| wanted(probe.kind)).map(|probe| probe.client).collect())
    }
}

impl Chosen {
    /// The cohort of the present round of a selector, if it can be one.
    fn check(self, selector: &selection::Selector) -> selection::Result<Cohort> {
        let Self { clients, draws, weights, forced } = self;
        let increasing = clients.windows(2).all(|pair| pair[0] < pair[1]);
        let known = clients.last().is_none_or(|&last| last < selector.setting().clients());
        let weighed = weights.len() == clients.len() && weights.iter().all(|w| w.is_finite());
        if !(increasing && known && weighed && draws.len() == clients.len()) {
            let value = format!("{} clients, {} weights", clients.len(), weights.len());
            let expected = "clients in increasing order, each with a finite weight";
            return Err(Error::new("state(chosen)", value, expected));
        }
        Ok(Cohort { round: selector.round(), clients, draws, weights, forced })
    }
}

fn named(weighting: Option<&str>) -> String {
    weighting.unwrap_or("the policy's own").to_string()
}

fn availability(mask: Option<&[bool]>) -> Availability<'_> {
    mask.map_or(Availability::Everyone, Availability::Only)
}

/// Who was credited, as a cohort: those that were chosen share the whole weight, anyone else's counts alike.
fn credited(mut clients: Vec<u32>, chosen: Option<&Cohort>, round: u64) -> Cohort {
    clients.sort_unstable();
    let weight = |client: &u32| {
        let chosen = chosen?;
        let place = chosen.clients.binary_search(client).ok()?;
        Some(chosen.weights[place])
    };
    let known: Option<Vec<f64>> = clients.iter().map(weight).collect();
    let total: f64 = chosen.map_or(1.0, |chosen| chosen.weights.iter().sum());
    let mut weights = known.unwrap_or_else(|| vec![1.0; clients.len()]);
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 {
        for weight in &mut weights {
            *weight *= total / sum;
        }
    }
    let (draws, forced) = (vec![1; clients.len()], chosen.is_some_and(|chosen| chosen.forced));
    Cohort { round, clients, draws, weights, forced }
}

/// One client's own side of a decentralised policy.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct Client {
    policy: Box<dyn Policy>,
    seed: Seed,
    number: u32,
    first_age: u64,
}

#[pymethods]
impl Client {
    #[new]
    fn new(options: &str, client: u64) -> PyResult<Self> {
        let options: Options = read("client", options)?;
        let setting = options.setting().map_err(bad_input)?;
        let spec: PolicySpec = options.policy.parse().map_err(bad_input)?;
        let policy = build_policy(&spec, &setting).map_err(bad_input)?;
        if policy.local_rule().is_none() {
            let expected = "a policy in which clients decide on their own";
            return Err(bad_input(Error::new("policy", spec, expected)));
        }
        let number = u32::try_from(client).ok().filter(|&client| client < setting.clients());
        let Some(client) = number else {
            let expected = format!("clients from 0 to {}", setting.clients() - 1);
            return Err(bad_input(Error::new("client", client, expected)));
        };
        let seed = Seed(options.seed);
        let first_age = match options.start().map_err(bad_input)? {
            Start::Stationary => policy.initial_ages(&setting, seed)[client as usize],
            Start::Cold => 0,
        };
        Ok(Self { policy, seed, number: client, first_age })
    }

    /// Its age before round 0.
    #[getter]
    fn first_age(&self) -> u64 {
        self.first_age
    }

    /// Whether it takes part in a round, given its age.
    fn takes_part(&self, py: Python<'_>, round: u64, age: u64) -> PyResult<bool> {
        if round > LAST_ROUND {
            let expected = format!("a whole number from 0 to {LAST_ROUND}");
            return Err(bad_input(Error::new("round", round, expected)));
        }
        let draw = Draws::new(self.seed, Stream::DRAW, round).of(u64::from(self.number));
        // Made with such a rule only. Some rules look at all rounds before.
        Ok(py.detach(|| {
            let rule = self.policy.local_rule();
            rule.is_some_and(|rule| rule.takes_part(round, self.number, age, draw))
        }))
    }
}
