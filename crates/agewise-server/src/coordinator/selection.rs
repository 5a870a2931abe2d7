//! The clients of a run and the policy at work on them: core's [`Selector`], kept in step with the ledger.
//!
//! The driver and the audit both have one. It is made once, from what the ledger says, and lives as long as they do: clients that enrol are
//! admitted, clients that are revoked leave, and no round costs a look at all clients beyond what the policy itself needs.

use crate::config::CoordinatorConfig;
use agewise_core::{
    Ages, Availability, Cohort, Draws, Error, FailedClient, Failures, Pick, PopulationState,
    Report, Reports, Result, Seed, Selector, SelectorState, Start, Stream,
};
use std::collections::BTreeMap;

/// A client as the ledger has it at the beginning of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnrolledClient {
    /// Its age in round t is t minus this.
    pub(crate) waiting_since: i64,
    pub(crate) samples: u64,
    /// Whether it was revoked.
    pub(crate) has_left: bool,
}

/// Where a run stands between two rounds, or at the beginning of one.
#[derive(Debug, Default)]
pub(crate) struct SelectionState {
    pub(crate) round: u64,
    /// Whether that round has been announced: then it is one of the clients that are here.
    pub(crate) is_open: bool,
    /// By number.
    pub(crate) clients: Vec<EnrolledClient>,
    pub(crate) reports: Reports,
    /// The clients that have failed since they were last credited.
    pub(crate) failed: Vec<FailedClient>,
    /// What the policy keeps beyond ages and reports.
    pub(crate) policy: Vec<f64>,
}

/// The selector of a run.
#[derive(Debug)]
pub(crate) struct Selection {
    selector: Selector,
    /// Clients that have enrolled. Before the first round the selector has places for expected clients, with their first ages.
    enrolled: u32,
    /// Sizes that clients told during a round: they count from the next one on.
    new_sizes: BTreeMap<u32, f64>,
    /// How many clients wait since which round.
    waiting: BTreeMap<i64, u32>,
    /// The interval with which the round was announced; clients that enrol meanwhile change n/m.
    announced: Option<f64>,
}

impl Selection {
    /// The selector of a run that stands here.
    pub(crate) fn new(config: &CoordinatorConfig, state: SelectionState) -> Result<Self> {
        let SelectionState { round, is_open, clients, reports, failed, policy } = state;
        let enrolled = clients.len() as u32;
        let is_before_the_run = round == 0 && !is_open;
        let expected = if is_before_the_run { config.params.round.clients as u32 } else { 0 };
        let places = enrolled.max(expected);
        let growth = |error| policy_for(config, places, &error);
        let setting = config.params.setting_params(u64::from(places)).check()?;
        let mut selector =
            Selector::from_variant(&config.variant, setting, config.seed()).map_err(growth)?;
        let waiting = clients.iter().map(|client| client.waiting_since);
        let still_to_come = (enrolled..places).map(|place| selector.ages().waiting_since(place));
        let ages = Ages::resumed(round, waiting.chain(still_to_come))?;
        let mut sizes: Vec<f64> = clients.iter().map(|client| client.samples as f64).collect();
        sizes.resize(places as usize, 1.0);
        // As if each of them had been set: sizes that are all 1 are not kept one by one.
        let sizes = Some(sizes).filter(|sizes| sizes.iter().any(|&size| size != 1.0));
        let left = (0..).zip(&clients).filter(|(_, client)| client.has_left);
        let population = PopulationState {
            ages,
            reports,
            admitted: 0,
            left: left.map(|(client, _)| client).collect(),
            sizes,
            interval: None,
            failed,
        };
        selector.restore(SelectorState { population, policy })?;
        let mut waiting = BTreeMap::new();
        for client in &clients {
            *waiting.entry(client.waiting_since).or_insert(0) += 1;
        }
        Ok(Self { selector, enrolled, new_sizes: BTreeMap::new(), waiting, announced: None })
    }

    /// The same run under other settings, from the present round on, which is about to be played.
    pub(crate) fn with_config(self, config: &CoordinatorConfig) -> Result<Self> {
        let client = |client| EnrolledClient {
            waiting_since: self.ages().waiting_since(client),
            samples: self.samples(client),
            has_left: self.selector.population().has_left(client),
        };
        let clients = (0..self.enrolled).map(client).collect();
        let (round, reports) = (self.round(), self.selector.reports().clone());
        let policy = self.selector.policy().state();
        let stored = |(client, failures): (u32, Failures)| FailedClient {
            client,
            in_a_row: failures.in_a_row(),
            eligible_from: u32::try_from(failures.eligible_from()).unwrap_or(u32::MAX),
        };
        let failed = self.selector.population().failed().map(stored).collect();
        let is_open = true;
        Self::new(config, SelectionState { round, is_open, clients, reports, failed, policy })
    }

    /// How many clients have enrolled; they are numbered from 0.
    pub(crate) fn clients(&self) -> u32 {
        self.enrolled
    }

    pub(crate) fn knows(&self, client: u32) -> bool {
        client < self.enrolled
    }

    /// The round that is played, or the next one.
    pub(crate) fn round(&self) -> u64 {
        self.selector.round()
    }

    /// The ages at the beginning of the round.
    pub(crate) fn ages(&self) -> &Ages {
        self.selector.ages()
    }

    /// The samples of a client, as it told last.
    pub(crate) fn samples(&self, client: u32) -> u64 {
        let size = self.new_sizes.get(&client).copied();
        size.unwrap_or_else(|| self.selector.setting().sizes().of(client)) as u64
    }

    /// Another number of samples, from now on or, during a round, from the next one on.
    pub(crate) fn set_samples(
        &mut self,
        client: u32,
        samples: u64,
        is_playing: bool,
    ) -> Result<()> {
        if is_playing {
            self.new_sizes.insert(client, samples as f64);
            return Ok(());
        }
        self.selector.set_size(client, samples as f64)
    }

    /// A new client. The clients at the start of the run have ages from the policy's steady state; a client that comes later starts somewhere in
    /// an interval, so that clients that enrol together do not act in step. Returns its number.
    pub(crate) fn enrol(
        &mut self,
        config: &CoordinatorConfig,
        samples: u64,
        interval: f64,
    ) -> Result<u32> {
        let client = self.enrolled;
        let age = match config.variant.start() {
            Start::Cold => 0,
            Start::Stationary => match self.first_age(config)? {
                Some(age) => age,
                None => later_age(config, client, interval),
            },
        };
        self.admit(config, samples, age)
    }

    /// The age of the next client if the run begins with it, and yet there is no place for it: the first round was announced for fewer
    /// clients than are expected since.
    fn first_age(&self, config: &CoordinatorConfig) -> Result<Option<u64>> {
        let client = self.enrolled;
        let is_late = self.round() == 0 && client >= self.selector.population().clients();
        if !is_late || u64::from(client) >= config.params.round.clients {
            return Ok(None);
        }
        Ok(initial_ages(config)?.get(client as usize).copied())
    }

    /// A new client of this age, unless there is a place for it, which has an age. Returns its number.
    pub(crate) fn admit(
        &mut self,
        config: &CoordinatorConfig,
        samples: u64,
        age: u64,
    ) -> Result<u32> {
        let client = self.enrolled;
        if client < self.selector.population().clients() {
            self.selector.set_size(client, samples as f64)?;
        } else {
            let admitted = self.selector.admit(samples as f64, age);
            admitted.map_err(|error| policy_for(config, client + 1, &error))?;
        }
        self.enrolled += 1;
        *self.waiting.entry(self.ages().waiting_since(client)).or_insert(0) += 1;
        Ok(client)
    }

    /// A client that was revoked.
    pub(crate) fn leave(&mut self, client: u32) -> Result<()> {
        self.selector.leave(client)
    }

    /// Begins a round with this seed and this interval.
    pub(crate) fn begin(&mut self, seed: Seed, interval: f64) -> Result<()> {
        self.selector.set_seed(seed);
        self.announced = Some(interval);
        if self.selector.setting().interval() == interval {
            return Ok(());
        }
        self.selector.set_interval(interval)
    }

    /// The cohort that the policy selects from the connected clients.
    pub(crate) fn select(&mut self, present: &[bool]) -> Result<Cohort> {
        self.selector.select(Availability::Only(present))
    }

    /// One of the connected clients, if no client has joined.
    pub(crate) fn forced_client(&self, present: &[bool]) -> Result<Option<u32>> {
        Ok(self.selector.view(Availability::Only(present))?.forced_client())
    }

    /// The weights of a cohort that was selected from these clients, or, where clients decide, from everyone.
    pub(crate) fn weigh(&self, picks: &[Pick], present: Option<&[bool]>) -> Result<Vec<f64>> {
        self.selector.weigh(picks, present.map_or(Availability::Everyone, Availability::Only))
    }

    /// The failures of a client since it was last credited.
    pub(crate) fn failures(&self, client: u32) -> Failures {
        self.selector.population().failures(client)
    }

    /// The first round in which a client may take part again, as far as its failures are concerned.
    pub(crate) fn eligible_from(&self, client: u32) -> u64 {
        let counts =
            self.selector.setting().backoff() && !self.selector.policy().rounds_are_independent();
        if counts { self.failures(client).eligible_from() } else { 0 }
    }

    /// Ends a round in which these reports were credited and these clients failed, if failures are counted. How long they wait follows from
    /// the interval of the announcement, so it is the same after a restart in the middle of the round, and for an audit. Returns what the
    /// policy keeps beyond them.
    pub(crate) fn finish(
        &mut self,
        accepted: &[Report<'_>],
        failed: &[u32],
        counts_failures: bool,
    ) -> Result<Vec<f64>> {
        let failed = if counts_failures { failed } else { &[] };
        let before = |report: &Report<'_>| self.ages().waiting_since(report.client);
        let before: Vec<i64> = accepted.iter().map(before).collect();
        let other = |interval: &f64| self.selector.setting().interval() != *interval;
        match self.announced.filter(other) {
            None => self.selector.finish_with_failures(accepted, failed)?,
            Some(announced) => {
                self.selector.set_interval(announced)?;
                self.selector.finish_with_failures(accepted, failed)?;
                self.selector.unset_interval()?;
            }
        }
        for since in before {
            if let Some(clients) = self.waiting.get_mut(&since) {
                *clients -= 1;
                if *clients == 0 {
                    self.waiting.remove(&since);
                }
            }
            *self.waiting.entry(self.round() as i64).or_insert(0) += 1;
        }
        let policy = self.selector.policy().state();
        for (client, size) in std::mem::take(&mut self.new_sizes) {
            self.selector.set_size(client, size)?;
        }
        Ok(policy)
    }

    /// How many clients have each age, youngest first.
    pub(crate) fn age_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let round = self.round() as i64;
        self.waiting.iter().rev().map(move |(since, &clients)| ((round - since) as u64, clients))
    }
}

/// The policy cannot be made for so many clients: an option that was right for fewer may be wrong for more.
fn policy_for(config: &CoordinatorConfig, clients: u32, error: &Error) -> Error {
    let expected = format!("a policy for {clients} clients ({error})");
    Error::new("round.policy", config.variant.name(), expected)
}

/// The ages of the clients with which a run begins; none if all of them are 0.
pub(crate) fn initial_ages(config: &CoordinatorConfig) -> Result<Vec<u64>> {
    if config.variant.start() == Start::Cold {
        return Ok(Vec::new());
    }
    let setting = config.params.setting_params(config.params.round.clients).check()?;
    Ok(config.variant.build(&setting)?.initial_ages(&setting, config.seed()))
}

/// The age of a client that comes later.
pub(crate) fn later_age(config: &CoordinatorConfig, client: u32, interval: f64) -> u64 {
    let draw = Draws::new(config.seed(), Stream::FIRST_AGE, 0).of(u64::from(client));
    (draw.unit() * interval) as u64
}

/// A report as policies see it: in 32 bits, where everything finite stays finite.
pub(crate) fn report(client: u32, loss: f64, seconds: f64) -> Report<'static> {
    let narrow = |value: f64| value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    let (loss, duration) = (Some(narrow(loss)), Some(narrow(seconds)));
    Report { loss, duration, ..Report::plain(client) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

    use super::*;
    use crate::config::{CoordinatorParams, RoundParams};

    /// One more client enrols in the middle of the round: who fails in it waits as it was announced, with a restart and without one, also
    /// with another cohort; in the next round all clients count.
    #[test]
    fn a_wait_follows_from_the_announcement() {
        let config = |cohort| {
            let policy = "oldest-first".to_string();
            let round = RoundParams { policy, clients: 20, cohort, ..RoundParams::default() };
            CoordinatorParams { round, ..CoordinatorParams::default() }.check().unwrap()
        };
        let at = |clients| SelectionState {
            round: 5,
            is_open: true,
            clients: vec![
                EnrolledClient { waiting_since: 0, samples: 1, has_left: false };
                clients
            ],
            // The fourth failure in a row is followed by a whole interval.
            failed: vec![FailedClient { client: 3, in_a_row: 3, eligible_from: 0 }],
            ..SelectionState::default()
        };
        let mut unbroken = Selection::new(&config(1), at(20)).unwrap();
        unbroken.begin(Seed(0), 20.0).unwrap();
        unbroken.admit(&config(1), 1, 0).unwrap();
        let resumed = |cohort| {
            let mut selection = Selection::new(&config(cohort), at(21)).unwrap();
            selection.begin(Seed(0), 20.0).unwrap();
            selection
        };
        for mut selection in [unbroken, resumed(1), resumed(4)] {
            selection.finish(&[], &[3], true).unwrap();
            assert_eq!(selection.eligible_from(3), 5 + 20);
            selection.begin(Seed(0), 21.0).unwrap();
            assert_eq!(selection.selector.setting().interval(), 21.0);
        }
    }
}
