//! A run, played again from the ledger's rows: the same selector as the driver's, with the clients, sizes and departures that are on record.

use super::Finding;
use crate::config::CoordinatorConfig;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::selection::{
    EnrolledClient, Selection, SelectionState, initial_ages, report,
};
use crate::coordinator::storage::ledger::{
    Ledger, Outcome, PastClient, PastJoin, PastRound, PastSuspension, Rollback,
};
use crate::crypto::seed_chain::{RoundSeed, SeedCheck, narrow};
use agewise_core::{Calibrator, EmptyCohort, Report};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) clients: u64,
    pub(super) joins: u64,
    pub(super) proofs: u64,
    pub(super) invited: u64,
    /// Rounds in which a client was invited because none had come.
    pub(super) fallbacks: u64,
    /// Rounds in which the policy selected by information that is not on record.
    pub(super) unchecked: u64,
    /// Weights that were computed again.
    pub(super) weights: u64,
    /// Models that are as they were written, and of these those that were evaluated again.
    pub(super) models: u64,
    pub(super) evaluations: u64,
}

/// A run up to some round.
pub(super) struct Replay {
    pub(super) run: Vec<u8>,
    /// The settings, by number; at least one.
    pub(super) configs: Vec<CoordinatorConfig>,
    /// The initial ages under each of them.
    pub(super) initial_ages: Vec<Vec<u64>>,
    /// Which of them was calibrated last, and how.
    pub(super) calibrator: Option<(usize, Calibrator)>,
    pub(super) clients: Vec<PastClient>,
    pub(super) suspensions: Vec<PastSuspension>,
    /// How many of each client's failures in a row were followed by a late report.
    pub(super) late: BTreeMap<u32, u32>,
    pub(super) samples: Vec<u64>,
    /// Data sizes by the first round with them, and which of them is next.
    pub(super) sizes: Vec<(u32, u64, u64)>,
    pub(super) next_size: usize,
    /// Revoked clients by the first round without them, and which of them is next.
    pub(super) departures: Vec<(u64, u32)>,
    pub(super) next_departure: usize,
    /// The clients and the policy, from the first round on, and under which settings.
    pub(super) selection: Option<(usize, Selection)>,
    pub(super) reported: Vec<u64>,
    pub(super) intervals: Vec<f64>,
    pub(super) seeds: Option<SeedCheck>,
    /// The first round that cannot have draws of version 1.
    pub(super) draws_of_version_1: u64,
    /// Whether a round is under way.
    has_open_round: bool,
    /// The models that the run can go on with, and those that were found to be damaged.
    pub(super) made: BTreeSet<u64>,
    pub(super) damaged: BTreeSet<u64>,
    /// The rollbacks to come.
    pub(super) rollbacks: VecDeque<Rollback>,
    /// The first rounds with other settings than the round before.
    pub(super) new_settings: BTreeSet<u64>,
    pub(super) counts: Counts,
    pub(super) findings: Vec<Finding>,
}

impl Replay {
    pub(super) fn new(
        ledger: &Ledger,
        run: &[u8],
        configs: Vec<CoordinatorConfig>,
    ) -> Result<Self, CoordinatorError> {
        let clients = ledger.past_clients()?;
        let counts = Counts { clients: clients.len() as u64, ..Counts::default() };
        let initial_ages = configs.iter().map(initial_ages).collect::<agewise_core::Result<_>>()?;
        let revoked = (0..).zip(&clients);
        let revoked = revoked.filter_map(|(client, row)| Some((row.revoked_from?, client)));
        let mut departures: Vec<(u64, u32)> = revoked.collect();
        departures.sort_unstable();
        let mut replay = Self {
            run: run.to_vec(),
            configs,
            initial_ages,
            calibrator: None,
            samples: vec![0; clients.len()],
            clients,
            suspensions: ledger.past_suspensions()?,
            late: BTreeMap::new(),
            sizes: ledger.past_samples()?,
            next_size: 0,
            departures,
            next_departure: 0,
            selection: None,
            reported: Vec::new(),
            intervals: Vec::new(),
            seeds: None,
            draws_of_version_1: ledger.draws_of_version_1()?,
            has_open_round: false,
            made: BTreeSet::from([0]),
            damaged: ledger.damaged_models()?,
            rollbacks: ledger.rollbacks()?.into(),
            new_settings: ledger.new_settings()?,
            counts,
            findings: Vec::new(),
        };
        if !replay.clients.iter().map(|client| client.enrolled).is_sorted() {
            replay.find(None, None, "clients are not numbered in the order of their enrolment");
        }
        Ok(replay)
    }

    pub(super) fn find(
        &mut self,
        round: Option<u64>,
        client: Option<u32>,
        what: impl Into<String>,
    ) {
        self.findings.push(Finding { round, client, what: what.into() });
    }

    /// The settings of a number, which the ledger has, or the last ones.
    pub(super) fn config(&self, settings: usize) -> &CoordinatorConfig {
        &self.configs[settings.min(self.configs.len() - 1)]
    }

    /// Plays a round.
    pub(super) fn play(&mut self, ledger: &Ledger, number: u64) -> Result<(), CoordinatorError> {
        let Some(round) = ledger.past_round(number)? else {
            self.find(Some(number), None, "it is missing");
            self.intervals.push(f64::NAN);
            return self.end(None, number, &[]);
        };
        if round.settings >= self.configs.len() {
            self.find(Some(number), None, "its settings are missing");
        }
        self.begin(&round)?;
        self.check_trained(&round);
        self.check_interval(&round)?;
        let seed = self.check_seed(ledger, &round)?;
        self.check_draw_version(&round);
        let joins = ledger.past_joins(number)?;
        let credited = joins.iter().filter(|join| join.report.is_some()).count() as u64;
        if round.is_over && round.reported != credited {
            let what = format!("{} reports are counted, {credited} are there", round.reported);
            self.find(Some(number), None, what);
        }
        // Where they are not as many, findings say why, and nothing of this round can be computed again.
        if let Some((settings, mut selection)) = self.selection.take() {
            if selection.clients() == round.clients {
                self.check_cohort(ledger, &round, seed.as_ref(), &joins, &mut selection)?;
            }
            self.selection = Some((settings, selection));
        }
        if !round.is_over {
            self.has_open_round = true;
            self.compare_failures();
        }
        self.end(Some(&round), number, &joins)
    }

    /// Everyone in a round has to be there for a reason that follows from the ledger.
    fn check_cohort(
        &mut self,
        ledger: &Ledger,
        round: &PastRound,
        seed: Option<&RoundSeed>,
        joins: &[PastJoin],
        selection: &mut Selection,
    ) -> Result<(), CoordinatorError> {
        let number = round.round;
        self.counts.joins += joins.len() as u64;
        for join in joins {
            self.check_age(round, join, selection);
            self.check_suspended(number, join.client);
        }
        let config = self.config(round.settings).clone();
        let begun = selection.begin(seed.map_or(config.seed(), narrow), round.interval);
        let rule = begun.and_then(|()| config.participation(round.clients, round.interval));
        let rule = match rule {
            Ok(rule) => rule,
            Err(error) => {
                self.find(Some(number), None, format!("there is no such law: {error}"));
                return Ok(());
            }
        };
        let mut expected = BTreeMap::new();
        let mut believed = BTreeSet::new();
        match &round.present {
            Some(_) if rule.is_local() => {
                self.find(Some(number), None, "the coordinator chose, where clients decide");
            }
            Some(present) if self.chose_by_sketches(&config) => {
                self.counts.unchecked += 1;
                believed = self.believe(round, &config, joins, present);
            }
            Some(present) => {
                let picks = selection.select(present)?;
                expected.extend(picks.picks().map(|pick| (pick.client, pick.draws)));
            }
            None if rule.is_local() => {}
            None => self.find(Some(number), None, "it is not on record who was connected"),
        }
        let may_force = config.params.round.empty_cohort == EmptyCohort::ForceOne;
        if round.fallback.is_some() && !may_force {
            self.find(
                Some(number),
                None,
                "a client was invited although empty cohorts are allowed",
            );
        }
        if let Some(present) = round.fallback.as_ref().filter(|_| may_force) {
            self.counts.fallbacks += 1;
            expected.extend(selection.forced_client(present)?.map(|client| (client, 1)));
        }
        self.check_invited(round, joins, &expected);
        let is_expected = |client| expected.contains_key(&client) || believed.contains(&client);
        for join in joins.iter().filter(|join| !is_expected(join.client)) {
            self.check_draw(ledger, round, seed, &rule, join, selection)?;
        }
        Ok(())
    }

    /// Applies the changes before a round: enrolments, revocations, sizes and settings.
    fn begin(&mut self, round: &PastRound) -> Result<(), CoordinatorError> {
        let number = round.round;
        let before = self.clients.partition_point(|client| client.enrolled < number) as u32;
        let during = self.enrolled_until(number);
        if !(before..=during).contains(&round.clients) {
            let what = format!(
                "{} clients were announced, but {before} to {during} had enrolled",
                round.clients
            );
            self.find(Some(number), None, what);
        }
        let due = self.sizes.partition_point(|(_, since, _)| *since <= number);
        let sizes = self.sizes[self.next_size.min(due)..due].to_vec();
        self.next_size = due;
        for &(client, _, samples) in &sizes {
            if let Some(place) = self.samples.get_mut(client as usize) {
                *place = samples;
            }
        }
        let due = self.departures.partition_point(|(from, _)| *from <= number);
        let departures = self.departures[self.next_departure..due].to_vec();
        self.next_departure = due;
        let settings = round.settings.min(self.configs.len() - 1);
        let mut selection = match self.selection.take() {
            None => {
                self.begin_first(round, settings);
                return Ok(());
            }
            Some((known, selection)) if known == settings => selection,
            Some((_, selection)) => selection.with_config(self.config(settings))?,
        };
        for (client, _, samples) in sizes {
            if selection.knows(client) {
                selection.set_samples(client, samples, false)?;
            }
        }
        self.admit(&mut selection, settings, round.clients)?;
        for (_, client) in departures {
            if selection.knows(client) {
                selection.leave(client)?;
            }
        }
        self.selection = Some((settings, selection));
        Ok(())
    }

    /// The clients and the policy with which the run begins.
    fn begin_first(&mut self, round: &PastRound, settings: usize) {
        let number = round.round;
        let to = round.clients.min(self.clients.len() as u32);
        (0..to).for_each(|client| self.check_first_age(client));
        let client = |client: u32| EnrolledClient {
            waiting_since: self.clients[client as usize].first_waiting.min(number as i64),
            samples: self.samples[client as usize],
            has_left: is_gone(&self.clients[client as usize], number),
        };
        let clients = (0..to).map(client).collect();
        let state =
            SelectionState { round: number, is_open: true, clients, ..SelectionState::default() };
        match Selection::new(self.config(settings), state) {
            Ok(selection) => self.selection = Some((settings, selection)),
            Err(error) => {
                self.find(Some(number), None, format!("there is no such policy: {error}"));
            }
        }
    }

    /// Takes in clients up to a number.
    fn admit(
        &mut self,
        selection: &mut Selection,
        settings: usize,
        to: u32,
    ) -> Result<(), CoordinatorError> {
        for client in selection.clients()..to.min(self.clients.len() as u32) {
            self.check_first_age(client);
            let since = self.clients[client as usize].first_waiting;
            let age = (selection.round() as i64).saturating_sub(since);
            let age = u64::try_from(age).unwrap_or(0);
            selection.admit(self.config(settings), self.samples[client as usize], age)?;
        }
        Ok(())
    }

    /// Whether the coordinator was started with other settings between this round and the next, or in the middle of it.
    pub(super) fn settings_change_after(&self, round: u64) -> bool {
        self.new_settings.contains(&(round + 1))
    }

    /// Whether a client was revoked between this round and the next, or in the middle of it.
    pub(super) fn someone_leaves_after(&self, round: u64) -> bool {
        self.departures.iter().any(|(from, _)| *from == round + 1)
    }

    /// How many clients had enrolled when a round was over.
    fn enrolled_until(&self, round: u64) -> u32 {
        self.clients.partition_point(|client| client.enrolled <= round) as u32
    }

    /// Credits the clients that reported, and goes on to the next round. Clients that enrolled during the round are there when it ends.
    fn end(
        &mut self,
        round: Option<&PastRound>,
        number: u64,
        joins: &[PastJoin],
    ) -> Result<(), CoordinatorError> {
        // Those that were not waited for would have reported.
        let counts =
            |join: &&PastJoin| join.report.is_some() || join.outcome == Outcome::Surplus.name();
        let reported = joins.iter().filter(counts).count() as u64;
        if let Some((settings, mut selection)) = self.selection.take() {
            self.admit(&mut selection, settings, self.enrolled_until(number))?;
            if let Some(round) = round {
                self.check_weights(round, joins, &selection)?;
            }
            let clients = selection.clients();
            let is_over = round.is_some_and(|round| round.is_over);
            let failed: Vec<u32> =
                failed(joins).into_iter().filter(|&client| is_over && client < clients).collect();
            let counts = self.config(settings).params.round.counts_failures();
            selection.finish(&accepted(joins, clients), &failed, counts)?;
            self.check_suspensions(number, settings, &failed, &selection);
            self.count_late(joins, &selection);
            self.selection = Some((settings, selection));
        }
        self.reported.push(reported);
        if let Some((_, calibrator)) = &mut self.calibrator {
            calibrator.observe(reported);
        }
        Ok(())
    }

    /// Counts the failures of a round after which the report came, and forgets those of clients that were credited.
    fn count_late(&mut self, joins: &[PastJoin], selection: &Selection) {
        for join in joins.iter().filter(|join| join.outcome == Outcome::Late.name()) {
            *self.late.entry(join.client).or_default() += 1;
        }
        self.late.retain(|&client, _| selection.failures(client).in_a_row() > 0);
    }

    /// A check that could not be made is a finding, too.
    pub(super) fn state_limits(&mut self) {
        let rounds = self.counts.unchecked;
        if rounds > 0 {
            let policy = self.config(0).variant.name();
            let what = format!(
                "the cohorts of {rounds} rounds cannot be checked: {policy} chooses by sketches of updates, which are not on record \
                 (seeds, ages, and that those who were chosen were connected were checked)"
            );
            self.find(None, None, what);
        }
    }

    /// In the end everyone has the age and the failures that the ledger says.
    pub(super) fn compare_clients(&mut self) {
        if !self.has_open_round {
            self.compare_failures();
        }
        let Some((_, selection)) = self.selection.take() else { return };
        for client in 0..selection.clients() {
            let replayed = selection.ages().waiting_since(client);
            let written = self.clients[client as usize].waiting_since;
            if replayed != written {
                let what = format!(
                    "it waits since round {replayed} by its reports, and since {written} on record"
                );
                self.find(None, Some(client), what);
            }
        }
    }

    /// Between two rounds everyone has the failures that the ledger says, which are written at the end of a round. Who was revoked in the
    /// middle of one counts no more.
    fn compare_failures(&mut self) {
        let Some((settings, selection)) = self.selection.take() else { return };
        for client in 0..selection.clients() {
            let row = &self.clients[client as usize];
            let replayed = selection.failures(client);
            let replayed = (replayed.in_a_row(), replayed.eligible_from());
            let written = (row.failures, row.eligible_from);
            if replayed != written && row.revoked_from.is_none() {
                let what = format!(
                    "it has failed {} times in a row and waits until round {} by its reports, on record {} times and until round {}",
                    replayed.0, replayed.1, written.0, written.1
                );
                self.find(None, Some(client), what);
            }
        }
        self.selection = Some((settings, selection));
    }

    pub(super) fn finish(self) -> (Counts, Vec<Finding>) {
        (self.counts, self.findings)
    }
}

/// The reports of a round of so many clients, as policies see them.
fn accepted(joins: &[PastJoin], clients: u32) -> Vec<Report<'static>> {
    let known = joins.iter().filter(|join| join.client < clients);
    let seen = known.filter_map(|join| {
        let (loss, seconds) = join.report?;
        Some(report(join.client, loss, seconds))
    });
    seen.collect()
}

/// The clients of a round that were asked and did not deliver.
fn failed(joins: &[PastJoin]) -> Vec<u32> {
    let failed = joins.iter().filter(|join| Outcome::from_name(&join.outcome).is_failure());
    failed.map(|join| join.client).collect()
}

pub(super) fn is_gone(client: &PastClient, round: u64) -> bool {
    client.revoked_from.is_some_and(|from| from <= round)
}
