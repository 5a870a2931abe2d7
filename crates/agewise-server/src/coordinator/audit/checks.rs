//! The checks of one round.

use super::replay::{Replay, is_gone};
use crate::config::{CoordinatorConfig, DrawSource};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::selection::{Selection, later_age};
use crate::coordinator::startup::anchor_fact;
use crate::coordinator::storage::ledger::{
    Ledger, PastClient, PastJoin, PastRound, PastSuspension,
};
use crate::crypto::from_hex;
use crate::crypto::seed_chain::{Commitment, LINKS, RoundSeed, SeedCheck};
use crate::crypto::vrf::{DRAW_VERSION, DrawContext};
use crate::protocol::{ParticipationRule, seeded_draw};
use agewise_core::Calibrator;
use std::collections::{BTreeMap, BTreeSet};

impl Replay {
    /// The age with which a client came: from the steady state at the start of the run, later uniformly within one interval.
    pub(super) fn check_first_age(&mut self, client: u32) {
        let PastClient { enrolled, first_waiting, settings, .. } = self.clients[client as usize];
        let config = self.config(settings);
        let age = (enrolled as i64).saturating_sub(first_waiting);
        let first = &self.initial_ages[settings.min(self.initial_ages.len() - 1)];
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

    pub(super) fn check_interval(&mut self, round: &PastRound) -> Result<(), CoordinatorError> {
        let config = self.config(round.settings);
        let (clients, cohort) = (config.params.round.clients, config.params.round.cohort);
        let expected = if config.calibrates {
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
            let gone = &self.departures[..self.next_departure];
            let gone = gone.iter().filter(|(_, client)| *client < round.clients).count() as u32;
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

    /// The seed of a round, as far as it is one. Where draws are proven it must be the link that was committed to.
    pub(super) fn check_seed(
        &mut self,
        ledger: &Ledger,
        round: &PastRound,
    ) -> Result<Option<RoundSeed>, CoordinatorError> {
        let number = round.round;
        if self.config(round.settings).params.round.draws == DrawSource::Seeded {
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

    /// Draws that do not cover the client's number are those of rounds that were played before the ledger was migrated.
    pub(super) fn check_draw_version(&mut self, round: &PastRound) {
        if round.draw_version < DRAW_VERSION && round.round >= self.draws_of_version_1 {
            let what = format!(
                "its draws are of version {}, which was in use until round {} only",
                round.draw_version, self.draws_of_version_1
            );
            self.find(Some(round.round), None, what);
        }
    }

    pub(super) fn check_age(&mut self, round: &PastRound, join: &PastJoin, selection: &Selection) {
        let (number, client) = (round.round, join.client);
        if client >= round.clients {
            self.find(Some(number), Some(client), "it came after the announcement");
            return;
        }
        let age = selection.ages().of(client);
        if join.age != age {
            let what = format!("its age was {age}, and it took part with {}", join.age);
            self.find(Some(number), Some(client), what);
        }
        if is_gone(&self.clients[client as usize], number) {
            self.find(Some(number), Some(client), "it was revoked before");
        }
    }

    /// Whether the policy had sketches of updates to look at: none of them is on record, and the first one came with the first report.
    pub(super) fn chose_by_sketches(&self, config: &CoordinatorConfig) -> bool {
        config.needs_sketches && self.reported.iter().any(|&reported| reported > 0)
    }

    /// Clients that the policy selected, where the selection cannot be computed again: they were connected, and not more than
    /// the policy may take.
    pub(super) fn believe(
        &mut self,
        round: &PastRound,
        config: &CoordinatorConfig,
        joins: &[PastJoin],
        present: &[bool],
    ) -> BTreeSet<u32> {
        let was_present = |join: &&PastJoin| present.get(join.client as usize) == Some(&true);
        let chosen: Vec<&PastJoin> = joins.iter().filter(was_present).collect();
        let draws: u64 = chosen.iter().map(|join| u64::from(join.draws)).sum();
        // The client that was invited because no client had come may have been connected all the time.
        let most = config.params.round.cohort + u64::from(round.fallback.is_some());
        if draws > most {
            let what = format!("{draws} were chosen, where the policy takes {most}");
            self.find(Some(round.round), None, what);
        }
        chosen.into_iter().map(|join| join.client).collect()
    }

    /// All clients that the coordinator should have invited were invited.
    pub(super) fn check_invited(
        &mut self,
        round: &PastRound,
        joins: &[PastJoin],
        expected: &BTreeMap<u32, u32>,
    ) {
        let counted: BTreeMap<u32, u32> =
            joins.iter().map(|join| (join.client, join.draws)).collect();
        for (&client, &draws) in expected {
            self.counts.invited += 1;
            match counted.get(&client) {
                None => self.find(Some(round.round), Some(client), "it was not invited"),
                Some(&counted) if counted != draws => {
                    let what = format!("it was drawn {draws} times, and counted {counted}");
                    self.find(Some(round.round), Some(client), what);
                }
                Some(_) => {}
            }
        }
    }

    /// A client that has failed again and again is not in a round before it may be.
    fn check_back_off(&mut self, round: &PastRound, client: u32, selection: &Selection) {
        let number = round.round;
        let from = selection.eligible_from(client);
        if from > number {
            let what = format!("it had to wait until round {from} after its failures");
            self.find(Some(number), Some(client), what);
        }
    }

    /// A client that is suspended is in no round, also if the coordinator invites it.
    pub(super) fn check_suspended(&mut self, number: u64, client: u32) {
        let is_out = |suspension: &PastSuspension| {
            let ended = suspension.until.is_some_and(|until| until <= number);
            suspension.client == client && suspension.since <= number && !ended
        };
        if self.suspensions.iter().any(is_out) {
            self.find(Some(number), Some(client), "it was suspended");
        }
    }

    /// Who has failed too often without a late report is suspended, and no other client. When a late report came is not on record, so
    /// where a client has had some, the count of its failures at that time is known up to them.
    pub(super) fn check_suspensions(
        &mut self,
        number: u64,
        settings: usize,
        failed: &[u32],
        selection: &Selection,
    ) {
        let after = self.config(settings).params.round.suspend_after;
        let calls = |count: u64| after > 0 && count > 0 && count.is_multiple_of(after);
        // The fewest and the most failures that counted when the round ended.
        let counted = |client: u32| {
            let in_a_row = selection.failures(client).in_a_row();
            let late = self.late.get(&client).copied().unwrap_or_default();
            (u64::from(in_a_row.saturating_sub(late)), u64::from(in_a_row))
        };
        // Who was revoked in the middle of the round was no member any more when it ended.
        let gone = |client: &u32| {
            self.clients.get(*client as usize).is_some_and(|row| is_gone(row, number + 1))
        };
        let noted = self.suspensions.iter().filter(|suspension| suspension.since == number + 1);
        let noted: BTreeSet<u32> =
            noted.map(|suspension| suspension.client).filter(|client| !gone(client)).collect();
        let failed: BTreeSet<u32> = failed.iter().copied().collect();
        let without_reason = |client: &&u32| {
            let (least, most) = counted(**client);
            !failed.contains(client) || !(least..=most).any(calls)
        };
        let missed = |client: &&u32| {
            let (least, most) = counted(**client);
            least == most && calls(most) && !noted.contains(client) && !gone(client)
        };
        let wrong: Vec<u32> = noted.iter().filter(without_reason).copied().collect();
        let missing: Vec<u32> = failed.iter().filter(missed).copied().collect();
        for client in wrong {
            let what = "it was suspended without having failed so often";
            self.find(Some(number), Some(client), what);
        }
        for client in missing {
            let what = "it has failed too often, and was not suspended";
            self.find(Some(number), Some(client), what);
        }
    }

    /// A client that was not invited must have a winning draw.
    pub(super) fn check_draw(
        &mut self,
        ledger: &Ledger,
        round: &PastRound,
        seed: Option<&RoundSeed>,
        rule: &ParticipationRule,
        join: &PastJoin,
        selection: &Selection,
    ) -> Result<(), CoordinatorError> {
        let number = round.round;
        let &PastJoin { client, age, .. } = join;
        self.check_back_off(round, client, selection);
        if !rule.is_local() {
            self.find(Some(number), Some(client), "the policy did not choose it");
            return Ok(());
        }
        let drawn = match (seed, &join.proof) {
            (Some(seed), Some(proof)) => {
                self.counts.proofs += 1;
                let context = DrawContext { run: &self.run, round: number, seed, client };
                let key = ledger.key_in(client, number)?;
                key.and_then(|key| context.verify_past(round.draw_version, &key, proof))
            }
            (Some(_), None) => None,
            (None, _) => Some(seeded_draw(self.config(round.settings).seed(), number, client)),
        };
        let Some(drawn) = drawn else {
            let what = if join.proof.is_some() {
                "the proof of its draw is wrong"
            } else {
                "it was not invited, and there is no proof of its draw"
            };
            self.find(Some(number), Some(client), what);
            return Ok(());
        };
        if !rule.takes_part(number, client, age, drawn) {
            let what = format!("its draw does not win at age {age}");
            self.find(Some(number), Some(client), what);
        }
        Ok(())
    }
}

fn anchor_or_none(ledger: &Ledger, chain: u64) -> Result<Option<RoundSeed>, CoordinatorError> {
    Ok(ledger.fact(&anchor_fact(chain))?.and_then(from_hex))
}

fn anchor(ledger: &Ledger, chain: u64) -> Result<RoundSeed, CoordinatorError> {
    let missing =
        || CoordinatorError::Corrupt(format!("the ledger has no anchor of chain {chain}"));
    anchor_or_none(ledger, chain)?.ok_or_else(missing)
}
