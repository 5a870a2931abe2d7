//! Idle: between two rounds. The next one begins when enough clients are connected.

use super::round::{ActiveRound, Member, RoundState, RoundWindows};
use super::{Driver, Phase};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::startup::anchor_fact;
use crate::coordinator::storage::ledger::{NewJoin, RoundRow};
use crate::protocol::{Commitment, ParticipationRule};
use agewise_core::Pick;
use data_encoding::HEXLOWER;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

impl Driver {
    /// Whether enough clients are here for a round.
    pub(super) fn may_begin(&self) -> bool {
        let round = &self.deps.config.params.round;
        let known = self.deps.config.min_reports;
        let needed = if self.round_number() == 0 { round.clients as usize } else { known };
        self.draining.is_none() && self.connected() >= needed
    }

    /// The earliest instant for the next round. Right after a start clients are on their way back, and those that are missing are waited for.
    pub(super) fn earliest_begin(&self, until: Instant) -> Instant {
        let are_back = self.watchers.len() as u32 >= self.known_clients();
        self.reconnect_deadline.filter(|_| !are_back).map_or(until, |back| until.max(back))
    }

    pub(super) fn is_due(&self, until: Instant, now: Instant) -> bool {
        self.may_begin() && now >= self.earliest_begin(until)
    }

    /// Announces the next round.
    pub(super) fn begin_round(&mut self, now: Instant) -> Result<(), CoordinatorError> {
        let number = self.round_number();
        let seed = self.seeds.as_mut().map(|seeds| seeds.seed(number));
        self.commit_to_seeds();
        let (clients, interval) = (self.selection.clients(), self.interval());
        let rule = self.participation(clients, interval)?;
        self.selection.begin(self.core_seed(seed.as_ref()), interval)?;
        self.deps.updates.begin(number)?;
        let mut row = RoundRow {
            round: number,
            settings: self.deps.settings,
            is_joining: true,
            interval,
            clients,
            seed,
            model: self.global.version,
            began: (self.deps.wall_clock)(),
            available: self.watchers.len() as u32,
            forced: false,
        };
        let mut invited = Vec::new();
        let mut present = None;
        if !rule.is_local() {
            let mask = self.available();
            let cohort = self.selection.select(&mask)?;
            row.forced = cohort.forced;
            invited.extend(cohort.picks());
            present = Some(mask);
        }
        let ages = self.selection.age_counts();
        self.deps.ledger.begin_round(&row, present.as_deref(), ages)?;
        if let Some(Commitment { chain, next_anchor, .. }) = &self.commitment {
            self.deps
                .ledger
                .set_fact(&anchor_fact(chain + 1), HEXLOWER.encode(next_anchor).as_bytes())?;
        }
        let mut members = BTreeMap::new();
        for Pick { client, draws } in invited {
            let age = self.selection.ages().of(client);
            self.deps.ledger.join(number, client, &NewJoin::invited(age, draws))?;
            members.insert(client, Member::invited(age, draws));
        }
        let available = row.available;
        self.outbox.push(Box::new(move || tracing::info!(round = number, available, "announced")));
        let windows = RoundWindows::of(&self.deps.config);
        self.announced_interval = interval;
        self.deps.auth.draw(number, seed);
        let params = &self.deps.config.params.round;
        let round = RoundState::begin(row, rule, members, now, windows, params);
        self.phase = Phase::Joining(ActiveRound::open(round));
        self.notifications.everyone = true;
        self.reconnect_deadline = None;
        self.resume_deadline = None;
        Ok(())
    }

    /// How clients decide in a population of so many. It is made anew only when something has changed.
    fn participation(
        &mut self,
        clients: u32,
        interval: f64,
    ) -> Result<Arc<ParticipationRule>, CoordinatorError> {
        if let Some((known, rule)) = &self.rule
            && *known == (clients, interval)
        {
            return Ok(rule.clone());
        }
        let rule = Arc::new(self.deps.config.participation(clients, interval)?);
        self.rule = Some(((clients, interval), rule.clone()));
        Ok(rule)
    }
}
