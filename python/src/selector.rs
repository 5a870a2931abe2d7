//! Client selection: [`Selector`] for the server, [`DecentralisedClient`] for a client that decides on its own.

use crate::errors::{bad_input, read, renamed};
use crate::figures::{Figures, Lists};
use crate::own_policy::OwnPolicy;
use crate::raised::Raised;
use agewise::selection::metrics::Participation;
use agewise::selection::theory::WINDOW_LENGTHS;
use agewise::selection::{
    self, Availability, Cohort, Draws, EmptyCohort, Error, LossNeed, MaxAge, Needs, Policy,
    PolicySpec, PolicyVariant, ProbeKind, Report, Seed, SelectorState, SettingParams, Sizes, Start,
    Stream, Weighting, build_policy,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The arguments of a selector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    policy: String,
    clients: u64,
    cohort: u64,
    max_age: MaxAge,
    seed: u64,
    start: String,
    weighting: Option<String>,
    sizes: Option<Vec<f64>>,
    empty_cohort: String,
    #[serde(default = "on", skip_serializing_if = "is_on")]
    backoff: bool,
}

fn on() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_on(switch: &bool) -> bool {
    *switch
}

/// Kinds of probes, each with the clients that are asked.
type ProbedClients<'py> = Vec<(&'static str, Bound<'py, PyArray1<u32>>)>;

/// The state of a selector: everything needed to continue exactly, and the options it belongs to.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    options: Options,
    selector: SelectorState,
    participation: Participation,
    /// The cohort of the current round.
    #[serde(rename = "chosen")]
    cohort: Option<StoredCohort>,
}

/// The part of a state that all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A cohort that was selected and has not reported yet.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCohort {
    clients: Vec<u32>,
    draws: Vec<u32>,
    weights: Vec<f64>,
    forced: bool,
}

const VERSION: u32 = 2;
/// The last round of a client: forty years of rounds of one second.
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
            backoff: self.backoff,
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

    /// The policy with its start and its weighting.
    fn variant(
        &self,
        py: Python<'_>,
        own: Option<&OwnPolicy>,
        raised: &Arc<Raised>,
    ) -> PyResult<PolicyVariant> {
        let weighting = self.weighting.as_deref().map(str::parse::<Weighting>).transpose();
        let (weighting, start) = (weighting.map_err(bad_input)?, self.start().map_err(bad_input)?);
        if let Some(own) = own {
            return own.variant(py, start, weighting, raised);
        }
        let spec: PolicySpec = self.policy.parse().map_err(bad_input)?;
        let variant = PolicyVariant::from_spec(&spec).map_err(bad_input)?.with_start(start);
        Ok(match weighting {
            Some(weighting) => variant.with_weighting(weighting),
            None => variant,
        })
    }

    fn selector(&self, variant: &PolicyVariant) -> selection::Result<selection::Selector> {
        selection::Selector::from_variant(variant, self.setting()?, Seed(self.seed))
    }
}

/// Selects cohorts by a policy of the core, and credits clients that reported.
#[pyclass(module = "agewise._agewise")]
pub(crate) struct Selector {
    options: Options,
    variant: PolicyVariant,
    inner: selection::Selector,
    participation: Participation,
    /// The cohort of the current round, once it was selected.
    selected: Option<Cohort>,
    /// Exceptions of a policy that is written in Python.
    raised: Arc<Raised>,
}

#[pymethods]
impl Selector {
    #[new]
    #[pyo3(signature = (options, own=None))]
    fn new(py: Python<'_>, options: &str, own: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let options: Options = read(options, &[])?;
        let own = own.map(OwnPolicy::new).transpose()?;
        let raised = Arc::new(Raised::default());
        let variant = options.variant(py, own.as_ref(), &raised)?;
        let inner = options.selector(&variant);
        let inner = inner.map_err(|error| raised.or(bad_input(error)))?;
        raised.check()?;
        let participation = new_participation(&inner);
        Ok(Self { options, variant, inner, participation, selected: None, raised })
    }

    /// The current round, counted from 0.
    #[getter]
    fn round(&self) -> u64 {
        self.inner.round()
    }

    /// The number of clients, with those who have left.
    #[getter]
    fn clients(&self) -> u32 {
        self.inner.population().clients()
    }

    /// The clients that have left, in increasing order.
    #[getter]
    fn left(&self) -> Vec<u32> {
        self.inner.population().left().collect()
    }

    /// More clients, each with its size and its age; returns the number of the first. After an error nothing has changed.
    fn admit_all(&mut self, clients: Vec<(f64, u64)>) -> PyResult<u32> {
        let first = self.inner.admit_all(clients).map_err(bad_input)?;
        self.participation.admit(self.clients() - first);
        Ok(first)
    }

    /// A client that is never available again.
    fn leave(&mut self, client: u64) -> PyResult<()> {
        let client = self.number(client)?;
        self.inner.leave(client).map_err(bad_input)
    }

    /// Another amount of data of one client.
    fn set_size(&mut self, client: u64, size: f64) -> PyResult<()> {
        let client = self.number(client)?;
        self.inner.set_size(client, size).map_err(bad_input)
    }

    /// Another target number of rounds between two selections.
    fn set_interval(&mut self, interval: f64) -> PyResult<()> {
        self.inner.set_interval(interval).map_err(bad_input)
    }

    /// The age of every client.
    #[getter]
    fn ages<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.inner.ages().iter().collect::<Vec<_>>().into_pyarray(py)
    }

    /// The cohort of the current round: clients, weights, round, and whether one was forced. Sizes are those of all clients
    /// from now on; losses are those of all clients, with NaN for unknown ones. After an error nothing has changed.
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
        let cohort = py.detach(|| inner.select(availability));
        let cohort = cohort.map_err(|error| self.raised.or(bad_input(error)))?;
        let clients = cohort.clients.clone().into_pyarray(py);
        let weights = cohort.weights.clone().into_pyarray(py);
        let (round, forced) = (cohort.round, cohort.forced);
        self.selected = Some(cohort);
        Ok((clients, weights, round, forced))
    }

    /// What reports should bring: whether the policy needs training, which loss it looks at, and whether it looks at root
    /// mean squares of losses and at sketches of updates.
    #[getter]
    fn needs(&self) -> (bool, Option<&'static str>, bool, bool) {
        let Needs { training, loss, loss_squares, update_sketches } = self.inner.policy().needs();
        let loss = match loss {
            LossNeed::None => None,
            LossNeed::WhileTraining => Some("while-training"),
            LossNeed::WholeData => Some("whole-data"),
        };
        (training, loss, loss_squares, update_sketches)
    }

    /// What the policy wants to know before it chooses: kinds of probes, each with the clients that are asked.
    #[pyo3(signature = (available=None))]
    fn probes<'py>(
        &self,
        py: Python<'py>,
        available: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<ProbedClients<'py>> {
        let mask = available.map(|mask| mask.as_array().to_vec());
        let probes = py.detach(|| self.inner.probes(availability(mask.as_deref())));
        self.raised.check()?;
        let mut clients: BTreeMap<ProbeKind, Vec<u32>> = BTreeMap::new();
        for probe in probes.map_err(bad_input)? {
            clients.entry(probe.kind).or_default().push(probe.client);
        }
        let named = |(kind, clients): (ProbeKind, Vec<u32>)| {
            let name = match kind {
                ProbeKind::Loss => "loss",
                ProbeKind::UpdateStep => "update-step",
                ProbeKind::UpdateRound => "update-round",
            };
            (name, clients.into_pyarray(py))
        };
        Ok(clients.into_iter().map(named).collect())
    }

    /// Keeps what clients say about themselves, without crediting them.
    fn observe(&mut self, clients: PyReadonlyArray1<'_, u32>, lists: Lists<'_>) -> PyResult<()> {
        let figures = Figures::new(lists);
        let said = figures.reports(&clients.as_array().to_vec()).map_err(bad_input)?;
        self.inner.observe(&said).map_err(renamed(&[("client", "clients")]))
    }

    /// The clients that have failed since they were last credited: how often, and the first round in which each may be
    /// asked again.
    #[getter]
    fn failed(&self) -> Vec<(u32, u32, u64)> {
        let failed = self.inner.population().failed();
        failed.map(|(client, f)| (client, f.in_a_row(), f.eligible_from())).collect()
    }

    /// Ends the round; these clients are credited, and the failed were asked and did not deliver.
    #[pyo3(signature = (clients, lists, failed=None))]
    fn report(
        &mut self,
        py: Python<'_>,
        clients: PyReadonlyArray1<'_, u32>,
        lists: Lists<'_>,
        failed: Option<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<()> {
        let clients = clients.as_array().to_vec();
        let failed = failed.map_or_else(Vec::new, |failed| failed.as_array().to_vec());
        let figures = Figures::new(lists);
        let reports = figures.reports(&clients).map_err(bad_input)?;
        // A policy of the user may raise an exception behind the round; nothing has changed then.
        let before = self.variant.spec().is_none().then(|| self.inner.state());
        let (inner, selected) = (&mut self.inner, &self.selected);
        let (participation, raised) = (&mut self.participation, &self.raised);
        py.detach(|| {
            let ages = inner.ages().clone();
            let finished = inner.finish_with_failures(&reports, &failed);
            finished.map_err(renamed(&[("credited", "clients")]))?;
            if let Err(exception) = raised.check() {
                let restored = before.map_or(Ok(()), |before| inner.restore(before));
                return Err(
                    restored.map_or_else(|error| raised.or(bad_input(error)), |()| exception)
                );
            }
            participation.record(&credited(clients, selected.as_ref(), ages.round()), &ages);
            Ok(())
        })?;
        self.selected = None;
        Ok(())
    }

    /// Metrics of participation, as JSON.
    fn metrics(&self) -> PyResult<String> {
        let summary = self.participation.summary(self.inner.ages());
        serde_json::to_string(&summary).map_err(bad_input)
    }

    /// The state from which a selector can continue.
    fn state(&self) -> PyResult<Vec<u8>> {
        let selector = self.inner.state();
        self.raised.check()?;
        let cohort = self.selected.as_ref().map(|cohort| StoredCohort {
            clients: cohort.clients.clone(),
            draws: cohort.draws.clone(),
            weights: cohort.weights.clone(),
            forced: cohort.forced,
        });
        let stored = Stored {
            version: VERSION,
            // The sizes are part of the selector's state.
            options: Options { policy: self.spelled(), sizes: None, ..self.options.clone() },
            selector,
            participation: self.participation.clone(),
            cohort,
        };
        serde_json::to_vec(&stored).map_err(bad_input)
    }

    /// Continues from a state. After an error nothing has changed.
    fn load_state(&mut self, state: &[u8]) -> PyResult<()> {
        let wrong = |error| bad_input(Error::new("state", error, "a state of Selector.state"));
        let Versioned { version } = serde_json::from_slice(state).map_err(wrong)?;
        if version != VERSION {
            let expected =
                format!("{VERSION}: states of other versions cannot be loaded (docs/upgrading.md)");
            return Err(bad_input(Error::new("state(version)", version, expected)));
        }
        let stored: Stored = serde_json::from_slice(state).map_err(wrong)?;
        let (mine, stored_options) = (&self.options, stored.options);
        let Options { policy, start, weighting, empty_cohort, .. } = stored_options;
        let Options { clients, cohort, max_age, seed, backoff, .. } = stored_options;
        let pairs = [
            ("policy", policy, self.spelled()),
            ("clients", clients.to_string(), mine.clients.to_string()),
            ("cohort", cohort.to_string(), mine.cohort.to_string()),
            ("max_age", max_age.to_string(), mine.max_age.to_string()),
            ("seed", seed.to_string(), mine.seed.to_string()),
            ("start", start, mine.start.clone()),
            ("weighting", named(weighting.as_deref()), named(mine.weighting.as_deref())),
            ("empty_cohort", empty_cohort, mine.empty_cohort.clone()),
            ("backoff", switch(backoff).to_string(), switch(mine.backoff).to_string()),
        ];
        for (field, theirs, ours) in pairs {
            if theirs != ours {
                let expected = format!("{ours}, as in this Selector");
                return Err(bad_input(Error::new(format!("state({field})"), theirs, expected)));
            }
        }
        let raised = |error| self.raised.or(bad_input(error));
        let mut inner = self.options.selector(&self.variant).map_err(raised)?;
        inner.restore(stored.selector).map_err(raised)?;
        let selected = stored.cohort.map(|cohort| cohort.check(&inner)).transpose();
        let selected = selected.map_err(bad_input)?;
        let mut participation = new_participation(&inner);
        participation.resume(stored.participation).map_err(bad_input)?;
        (self.inner, self.participation, self.selected) = (inner, participation, selected);
        Ok(())
    }
}

impl Selector {
    /// The number of a client, if there is one of that number.
    fn number(&self, client: u64) -> PyResult<u32> {
        numbered(client, self.clients()).map_err(bad_input)
    }

    /// The policy in its standard spelling.
    fn spelled(&self) -> String {
        let spec = self.options.policy.parse::<PolicySpec>();
        // It was parsed when the selector was created.
        spec.map_or_else(|_| self.options.policy.clone(), |spec| spec.to_string())
    }
}

impl StoredCohort {
    /// The cohort of the current round of a selector, if it is valid.
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

/// The number of one of so many clients.
fn numbered(client: u64, clients: u32) -> selection::Result<u32> {
    let number = u32::try_from(client).ok().filter(|&client| client < clients);
    number.ok_or_else(|| Error::new("client", client, format!("clients from 0 to {}", clients - 1)))
}

/// Metrics of no round yet, for the clients that a selector has now.
fn new_participation(selector: &selection::Selector) -> Participation {
    let population = selector.population();
    let admitted = population.admitted();
    let mut participation = Participation::new(population.clients() - admitted, &WINDOW_LENGTHS);
    participation.admit(admitted);
    participation
}

/// A switch as Python writes it.
fn switch(on: bool) -> &'static str {
    if on { "True" } else { "False" }
}

fn named(weighting: Option<&str>) -> String {
    weighting.unwrap_or("the policy's own").to_string()
}

fn availability(mask: Option<&[bool]>) -> Availability<'_> {
    mask.map_or(Availability::Everyone, Availability::Only)
}

/// The credited clients as a cohort. Clients of the selected cohort share its whole weight; if others were credited too,
/// all weights are equal.
fn credited(mut clients: Vec<u32>, selected: Option<&Cohort>, round: u64) -> Cohort {
    clients.sort_unstable();
    let weight = |client: &u32| {
        let selected = selected?;
        let index = selected.clients.binary_search(client).ok()?;
        Some(selected.weights[index])
    };
    let known: Option<Vec<f64>> = clients.iter().map(weight).collect();
    let total: f64 = selected.map_or(1.0, |selected| selected.weights.iter().sum());
    let mut weights = known.unwrap_or_else(|| vec![1.0; clients.len()]);
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 {
        for weight in &mut weights {
            *weight *= total / sum;
        }
    }
    let (draws, forced) =
        (vec![1; clients.len()], selected.is_some_and(|selected| selected.forced));
    Cohort { round, clients, draws, weights, forced }
}

/// The client side of a decentralised policy.
#[pyclass(name = "Client", module = "agewise._agewise", frozen)]
pub(crate) struct DecentralisedClient {
    policy: Box<dyn Policy>,
    seed: Seed,
    number: u32,
    initial_age: u64,
}

#[pymethods]
impl DecentralisedClient {
    #[new]
    fn new(options: &str, client: u64) -> PyResult<Self> {
        let options: Options = read(options, &[])?;
        let setting = options.setting().map_err(bad_input)?;
        let spec: PolicySpec = options.policy.parse().map_err(bad_input)?;
        let policy = build_policy(&spec, &setting).map_err(bad_input)?;
        if policy.local_rule().is_none() {
            let expected = "a policy in which clients decide on their own";
            return Err(bad_input(Error::new("policy", spec, expected)));
        }
        let client = numbered(client, setting.clients()).map_err(bad_input)?;
        let seed = Seed(options.seed);
        let initial_age = match options.start().map_err(bad_input)? {
            Start::Stationary => policy.initial_ages(&setting, seed)[client as usize],
            Start::Cold => 0,
        };
        Ok(Self { policy, seed, number: client, initial_age })
    }

    /// The age before round 0.
    #[getter]
    fn initial_age(&self) -> u64 {
        self.initial_age
    }

    /// Whether the client takes part in a round, given its age.
    fn takes_part(&self, py: Python<'_>, round: u64, age: u64) -> PyResult<bool> {
        if round > LAST_ROUND {
            let expected = format!("a whole number from 0 to {LAST_ROUND}");
            return Err(bad_input(Error::new("round", round, expected)));
        }
        let draw = Draws::new(self.seed, Stream::DRAW, round).of(u64::from(self.number));
        // The constructor has checked that there is a rule. Some rules look at all earlier rounds.
        Ok(py.detach(|| {
            let rule = self.policy.local_rule();
            rule.is_some_and(|rule| rule.takes_part(round, self.number, age, draw))
        }))
    }
}
