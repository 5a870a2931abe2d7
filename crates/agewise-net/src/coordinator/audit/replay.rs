//! A run, played again from the ledger.

use super::Finding;
use crate::config::{CoordinatorConfig, LotSource};
use crate::coordinator::anchor_fact;
use crate::coordinator::ledger::{Ledger, PastClient, PastJoin, PastRound};
use crate::coordinator::population::{first_ages, later_age, problem, report};
use crate::coordinator::trouble::Trouble;
use crate::hex::unhex;
use crate::honesty::lots::Draw;
use crate::honesty::seeds::{Commitment, LINKS, RoundSeed, SeedCheck, narrow};
use crate::rule::{Rule, seeded_lot};
use agewise_core::{Ages, Availability, Calibrator, EmptyCohort, Report, Reports, Round, Seed};
use std::collections::{BTreeMap, BTreeSet};

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) clients: u64,
    pub(super) joins: u64,
    pub(super) proofs: u64,
    pub(super) called: u64,
    /// Rounds in which one was called because nobody had come.
    pub(super) recalled: u64,
    /// Rounds in which the policy chose by what is not on record.
    pub(super) unchecked: u64,
}

/// A run up to some round.
pub(super) struct Replay {
    run: Vec<u8>,
    /// The settings, by number; at least one.
    configs: Vec<CoordinatorConfig>,
    /// The first ages under each of them.
    first_ages: Vec<Vec<u64>>,
    /// Which of them was calibrated last, and how.
    calibrator: Option<(usize, Calibrator)>,
    clients: Vec<PastClient>,
    /// Data sizes that are still to come, by round.
    sizes: Vec<(u32, u64, u64)>,
    samples: Vec<u64>,
    ages: Ages,
    reports: Reports,
    /// What the policy remembers.
    memory: Vec<f64>,
    reported: Vec<u64>,
    intervals: Vec<f64>,
    seeds: Option<SeedCheck>,
    counts: Counts,
    findings: Vec<Finding>,
}

impl Replay {
    pub(super) fn new(
        ledger: &Ledger,
        run: &[u8],
        configs: Vec<CoordinatorConfig>,
    ) -> Result<Self, Trouble> {
        let clients = ledger.past_clients()?;
        let counts = Counts { clients: clients.len() as u64, ..Counts::default() };
        let first_ages = configs.iter().map(first_ages).collect::<agewise_core::Result<_>>()?;
        let mut replay = Self {
            run: run.to_vec(),
            configs,
            first_ages,
            calibrator: None,
            samples: vec![0; clients.len()],
            clients,
            sizes: ledger.past_samples()?,
            ages: Ages::cold(0),
            reports: Reports::default(),
            memory: Vec::new(),
            reported: Vec::new(),
            intervals: Vec::new(),
            seeds: None,
            counts,
            findings: Vec::new(),
        };
        let enrolled = replay.clients.iter().map(|client| client.enrolled);
        if !enrolled.is_sorted() {
            replay.find(None, None, "clients are not numbered in the order of their enrolment");
        }
        Ok(replay)
    }

    fn find(&mut self, round: Option<u64>, client: Option<u32>, what: impl Into<String>) {
        self.findings.push(Finding { round, client, what: what.into() });
    }

    /// The settings of a number, which the ledger has, or the last ones.
    fn config(&self, settings: usize) -> &CoordinatorConfig {
        &self.configs[settings.min(self.configs.len() - 1)]
    }

    /// Plays a round.
    pub(super) fn play(&mut self, ledger: &Ledger, number: u64) -> Result<(), Trouble> {
        let Some(round) = ledger.past_round(number)? else {
            self.find(Some(number), None, "it is missing");
            self.intervals.push(f64::NAN);
            return self.advance(0, &[]);
        };
        if round.settings >= self.configs.len() {
            self.find(Some(number), None, "its settings are missing");
        }
        self.admit(&round);
        self.check_interval(&round)?;
        let seed = self.check_seed(ledger, &round)?;
        let joins = ledger.past_joins(number)?;
        let credited = joins.iter().filter(|join| join.report.is_some()).count() as u64;
        if round.is_over && round.reported != credited {
            let what = format!("{} reports are counted, {credited} are there", round.reported);
            self.find(Some(number), None, what);
        }
        if self.ages.clients() != round.clients {
            // Findings say why; nothing of this round can be computed again.
            return self.advance(credited, &joins);
        }
        self.counts.joins += joins.len() as u64;
        for join in &joins {
            self.check_age(&round, join);
        }
        let config = self.config(round.settings).clone();
        let rule = match config.rule_params(round.clients, round.interval).build() {
            Ok(rule) => rule,
            Err(error) => {
                self.find(Some(number), None, format!("there is no such law: {error}"));
                return self.advance(credited, &joins);
            }
        };
        let core_seed = seed.as_ref().map_or(config.seed(), narrow);
        let mut expected = BTreeMap::new();
        let mut believed = BTreeSet::new();
        match &round.present {
            Some(_) if rule.is_local() => {
                self.find(Some(number), None, "the coordinator chose, where clients decide");
            }
            Some(present) if self.chose_by_sketches(&config) => {
                self.counts.unchecked += 1;
                believed = self.believe(&round, &config, &joins, present);
            }
            Some(present) => expected.extend(self.chosen(&config, core_seed, present)?),
            None if rule.is_local() => {}
            None => self.find(Some(number), None, "it is not on record who was connected"),
        }
        let may_recall = config.params.round.empty_cohort == EmptyCohort::ForceOne;
        if round.recalled.is_some() && !may_recall {
            self.find(Some(number), None, "a client was called although nobody is to be");
        }
        if let Some(recalled) = round.recalled.as_ref().filter(|_| may_recall) {
            self.counts.recalled += 1;
            let forced = self.forced(&config, core_seed, recalled)?;
            expected.extend(forced.map(|client| (client, 1)));
        }
        self.check_called(&round, &joins, &expected);
        let is_expected = |client| expected.contains_key(&client) || believed.contains(&client);
        for join in joins.iter().filter(|join| !is_expected(join.client)) {
            self.check_lot(ledger, &round, seed.as_ref(), &rule, join)?;
        }
        self.remember(&round, &joins)?;
        self.advance(credited, &joins)
    }

    /// Takes in who has enrolled before the round.
    fn admit(&mut self, round: &PastRound) {
        let number = round.round;
        let before = self.clients.partition_point(|client| client.enrolled < number) as u32;
        let during = self.clients.partition_point(|client| client.enrolled <= number) as u32;
        if !(before..=during).contains(&round.clients) {
            let what = format!(
                "{} clients were announced, but {before} to {during} had enrolled",
                round.clients
            );
            self.find(Some(number), None, what);
        }
        let to = round.clients.min(self.clients.len() as u32);
        for client in self.ages.clients()..to {
            self.check_first_age(client);
            let since = self.clients[client as usize].first_waiting;
            let age = (number as i64).saturating_sub(since);
            self.ages.admit(u64::try_from(age).unwrap_or(0));
        }
        let due = self.sizes.partition_point(|(_, since, _)| *since <= number);
        for (client, _, samples) in self.sizes.drain(..due) {
            if let Some(place) = self.samples.get_mut(client as usize) {
                *place = samples;
            }
        }
    }

    /// The age with which a client came: from the steady state at the beginning, later somewhere in an interval.
    fn check_first_age(&mut self, client: u32) {
        let PastClient { enrolled, first_waiting, settings, .. } = self.clients[client as usize];
        let config = self.config(settings);
        let age = (enrolled as i64).saturating_sub(first_waiting);
        let first = &self.first_ages[settings.min(self.first_ages.len() - 1)];
        let ratio = config.params.round.clients as f64 / config.params.round.cohort as f64;
        let right = match first.get(client as usize) {
            _ if first.is_empty() => age == 0,
            Some(&first) if enrolled == 0 => age == first as i64,
            _ => {
                // It came while a round was under way, or in the pause before.
                let known = [Some(enrolled), enrolled.checked_sub(1)].into_iter().flatten();
                let intervals = known.filter_map(|round| self.intervals.get(round as usize));
                let mut intervals = intervals.copied().chain([ratio]);
                intervals.any(|interval| age == later_age(config, client, interval) as i64)
            }
        };
        if !right {
            let what = format!("its first age is {age}, which does not follow from the seed");
            self.find(Some(enrolled), Some(client), what);
        }
    }

    fn check_interval(&mut self, round: &PastRound) -> Result<(), Trouble> {
        let params = &self.config(round.settings).params.round;
        let (clients, cohort) = (params.clients, params.cohort);
        let expected = if params.calibrate {
            let index = round.settings;
            let calibrator = match self.calibrator.take() {
                Some((known, calibrator)) if known == index => calibrator,
                _ => {
                    let first = clients as f64 / cohort as f64;
                    let mut calibrator = Calibrator::new(cohort as u32, first)?;
                    self.reported.iter().for_each(|&reported| calibrator.observe(reported));
                    calibrator
                }
            };
            let interval = calibrator.interval();
            self.calibrator = Some((index, calibrator));
            interval
        } else {
            let known = self.clients.iter().take(round.clients as usize);
            let gone = known.filter(|client| is_gone(client, round.round)).count() as u32;
            let known = round.clients.max(clients as u32).saturating_sub(gone);
            f64::from(known).max(1.0) / cohort as f64
        };
        let is_right = (round.interval - expected).abs() <= 1e-9 * expected;
        if !is_right {
            let what = format!("the interval was {}, expected {expected}", round.interval);
            self.find(Some(round.round), None, what);
        }
        self.intervals.push(round.interval);
        Ok(())
    }

    /// The seed of a round, as far as it is one. Where lots are proven it must be the link that was committed to.
    fn check_seed(
        &mut self,
        ledger: &Ledger,
        round: &PastRound,
    ) -> Result<Option<RoundSeed>, Trouble> {
        let number = round.round;
        if self.config(round.settings).params.round.lots == LotSource::Seeded {
            return Ok(None);
        }
        let Some(seed) = round.seed else {
            self.find(Some(number), None, "there is no seed");
            return Ok(None);
        };
        let chain = number / LINKS;
        if self.seeds.as_ref().is_none_or(|seeds| seeds.commitment().chain != chain) {
            let anchor = anchor(ledger, chain)?;
            let next_anchor = anchor_or_none(ledger, chain + 1)?.unwrap_or_default();
            self.seeds = Some(SeedCheck::new(Commitment { chain, anchor, next_anchor }));
        }
        if let Some(seeds) = &mut self.seeds
            && seeds.seed(number, &seed).is_err()
        {
            self.find(Some(number), None, "the seed is not the one that was committed to");
        }
        Ok(Some(seed))
    }

    fn check_age(&mut self, round: &PastRound, join: &PastJoin) {
        let (number, client) = (round.round, join.client);
        if client >= round.clients {
            self.find(Some(number), Some(client), "it came after the announcement");
            return;
        }
        let age = self.ages.of(client);
        if join.age != age {
            let what = format!("its age was {age}, and it took part with {}", join.age);
            self.find(Some(number), Some(client), what);
        }
        if is_gone(&self.clients[client as usize], number) {
            self.find(Some(number), Some(client), "it was revoked before");
        }
    }

    /// Who the policy of the coordinator chooses, and how often each of them was drawn.
    fn chosen(
        &self,
        config: &CoordinatorConfig,
        seed: Seed,
        present: &[bool],
    ) -> Result<Vec<(u32, u32)>, Trouble> {
        let samples = &self.samples[..present.len()];
        let (setting, mut policy) = problem(config, samples, &self.memory)?;
        let available = Availability::Only(present);
        let round = Round::new(&setting, seed, &self.ages, available, &self.reports)?;
        let (picks, _) = round.choose(&mut *policy);
        Ok(picks.into_iter().map(|pick| (pick.client, pick.draws)).collect())
    }

    /// Whether the policy had sketches of updates to look at: none of them is on record, and the first one came with the first report.
    fn chose_by_sketches(&self, config: &CoordinatorConfig) -> bool {
        config.wants_sketches && self.reported.iter().any(|&reported| reported > 0)
    }

    /// Those whom the coordinator says that the policy chose, where that cannot be computed again: they were connected, and not more than
    /// the policy may take.
    fn believe(
        &mut self,
        round: &PastRound,
        config: &CoordinatorConfig,
        joins: &[PastJoin],
        present: &[bool],
    ) -> BTreeSet<u32> {
        let was_present = |join: &&PastJoin| present.get(join.client as usize) == Some(&true);
        let chosen: Vec<&PastJoin> = joins.iter().filter(was_present).collect();
        let draws: u64 = chosen.iter().map(|join| u64::from(join.draws)).sum();
        // Who was called because nobody had come may have been connected all the time.
        let most = config.params.round.cohort + u64::from(round.recalled.is_some());
        if draws > most {
            let what = format!("{draws} were chosen, where the policy takes {most}");
            self.find(Some(round.round), None, what);
        }
        chosen.into_iter().map(|join| join.client).collect()
    }

    /// Who is called when nobody has come.
    fn forced(
        &self,
        config: &CoordinatorConfig,
        seed: Seed,
        recalled: &[bool],
    ) -> Result<Option<u32>, Trouble> {
        let (setting, _) = problem(config, &self.samples[..recalled.len()], &[])?;
        let available = Availability::Only(recalled);
        let round = Round::new(&setting, seed, &self.ages, available, &self.reports)?;
        Ok(round.forced_client())
    }

    /// Everyone whom the coordinator should have called was called.
    fn check_called(
        &mut self,
        round: &PastRound,
        joins: &[PastJoin],
        expected: &BTreeMap<u32, u32>,
    ) {
        for (&client, &draws) in expected {
            self.counts.called += 1;
            match joins.iter().find(|join| join.client == client) {
                None => self.find(Some(round.round), Some(client), "it was not called"),
                Some(join) if join.draws != draws => {
                    let what = format!("it was drawn {draws} times, and counted {}", join.draws);
                    self.find(Some(round.round), Some(client), what);
                }
                Some(_) => {}
            }
        }
    }

    /// A client that nobody called must have a lot that wins.
    fn check_lot(
        &mut self,
        ledger: &Ledger,
        round: &PastRound,
        seed: Option<&RoundSeed>,
        rule: &Rule,
        join: &PastJoin,
    ) -> Result<(), Trouble> {
        let number = round.round;
        let &PastJoin { client, age, .. } = join;
        if !rule.is_local() {
            self.find(Some(number), Some(client), "the policy did not choose it");
            return Ok(());
        }
        let lot = match (seed, &join.proof) {
            (Some(seed), Some(proof)) => {
                self.counts.proofs += 1;
                let draw = Draw { run: &self.run, round: number, seed };
                ledger.key_in(client, number)?.and_then(|key| draw.verify(&key, proof))
            }
            (Some(_), None) => None,
            (None, _) => Some(seeded_lot(self.config(round.settings).seed(), number, client)),
        };
        let Some(lot) = lot else {
            let what = if join.proof.is_some() {
                "the proof of its lot is wrong"
            } else {
                "it was not called, and there is no proof of its lot"
            };
            self.find(Some(number), Some(client), what);
            return Ok(());
        };
        if !rule.takes_part(number, client, age, lot) {
            let what = format!("its lot does not win at age {age}");
            self.find(Some(number), Some(client), what);
        }
        Ok(())
    }

    /// Credits who has reported, and goes on to the next round.
    fn advance(&mut self, reported: u64, joins: &[PastJoin]) -> Result<(), Trouble> {
        let accepted = accepted(joins, self.ages.clients());
        for report in &accepted {
            self.reports.record(report);
        }
        let credited: Vec<u32> = accepted.iter().map(|report| report.client).collect();
        self.reported.push(reported);
        if let Some((_, calibrator)) = &mut self.calibrator {
            calibrator.observe(reported);
        }
        self.ages.advance(&credited)?;
        Ok(())
    }

    /// The policy hears who was credited in a round in which the coordinator chose: where clients decide it remembers nothing.
    fn remember(&mut self, round: &PastRound, joins: &[PastJoin]) -> Result<(), Trouble> {
        if round.present.is_none() || !round.is_over {
            return Ok(());
        }
        let config = self.config(round.settings);
        let samples = &self.samples[..round.clients as usize];
        let (setting, mut policy) = problem(config, samples, &self.memory)?;
        policy.finished(&setting, &accepted(joins, round.clients));
        self.memory = policy.memory();
        Ok(())
    }

    /// What this audit could not do is found by the audit, and not by somebody who believes it.
    pub(super) fn admit_limits(&mut self) {
        let rounds = self.counts.unchecked;
        if rounds > 0 {
            let policy = &self.config(0).policy;
            let what = format!(
                "the cohorts of {rounds} rounds cannot be checked: {policy} chooses by sketches of updates, which are not on record \
                 (seeds, ages, and that those who were chosen were connected were checked)"
            );
            self.find(None, None, what);
        }
    }

    /// In the end everyone has the age that the ledger says.
    pub(super) fn compare_ages(&mut self) {
        for client in 0..self.ages.clients() {
            let (replayed, written) =
                (self.ages.waiting_since(client), self.clients[client as usize].waiting_since);
            if replayed != written {
                let what = format!(
                    "it waits since round {replayed} by its reports, and since {written} on record"
                );
                self.find(None, Some(client), what);
            }
        }
    }

    pub(super) fn finish(self) -> (Counts, Vec<Finding>) {
        (self.counts, self.findings)
    }
}

/// The reports of those who were in a round of so many clients, as policies see them.
fn accepted(joins: &[PastJoin], clients: u32) -> Vec<Report<'static>> {
    let known = joins.iter().filter(|join| join.client < clients);
    let seen = known.filter_map(|join| {
        let (loss, seconds) = join.report?;
        Some(report(join.client, loss, seconds))
    });
    seen.collect()
}

fn is_gone(client: &PastClient, round: u64) -> bool {
    client.revoked_from.is_some_and(|from| from <= round)
}

fn anchor_or_none(ledger: &Ledger, chain: u64) -> Result<Option<RoundSeed>, Trouble> {
    let digits = ledger.fact(&anchor_fact(chain))?;
    let digits = digits.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(digits.and_then(|digits| unhex(&digits)?.try_into().ok()))
}

fn anchor(ledger: &Ledger, chain: u64) -> Result<RoundSeed, Trouble> {
    let missing = || Trouble::Broken(format!("the ledger has no anchor of chain {chain}"));
    anchor_or_none(ledger, chain)?.ok_or_else(missing)
}
