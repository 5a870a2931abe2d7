//! Back-off and suspension of clients that fail, and how clients and operators are notified.

use super::Driver;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::refusal::{Reason, Refusal};
use crate::coordinator::storage::ledger::RoundEnd;
use crate::protocol::BackOff;

/// The most suspended clients that are named one by one.
const MOST_NAMED: usize = 10;

impl Driver {
    /// What a client is told of its failures.
    pub(super) fn back_off(&self, client: u32) -> BackOff {
        BackOff {
            failures: self.selection.failures(client).in_a_row(),
            eligible_from: self.selection.eligible_from(client),
            suspended: self.suspended.get(&client).cloned().unwrap_or_default(),
        }
    }

    /// Whether a client that was not invited has to wait.
    pub(super) fn check_back_off(&self, client: u32, round: u64) -> Result<(), Refusal> {
        let BackOff { failures, eligible_from, suspended } = self.back_off(client);
        if !suspended.is_empty() {
            return Err(Refusal::new(Reason::Suspended, suspended));
        }
        if eligible_from > round {
            let detail = format!(
                "failed {failures} times in a row, and may join from round {eligible_from} on"
            );
            return Err(Refusal::new(Reason::BackOff, detail));
        }
        Ok(())
    }

    /// Suspends the clients that have failed so often in a row, in a round that is about to end. A failure after which the report came, late,
    /// does not count: a slow client is none that an operator has to look after.
    pub(super) fn suspend_failing(
        &mut self,
        end: &RoundEnd,
        after: u64,
    ) -> Result<(), CoordinatorError> {
        for (client, failures) in &end.failures {
            let in_a_row = failures.in_a_row();
            if after == 0 || u64::from(in_a_row) < after {
                continue;
            }
            let silent = self.deps.ledger.silent_failures(*client, in_a_row)?;
            if silent == 0 || !silent.is_multiple_of(after) {
                continue;
            }
            let outcome = end.unreported.iter().find(|(other, _)| other == client);
            let how = outcome.map_or("failed", |(_, outcome)| outcome.name());
            let round = end.round;
            let late = match u64::from(in_a_row) - silent {
                0 => String::new(),
                late => format!(", and {late} late reports"),
            };
            let reason =
                format!("{silent} failures in a row{late}, the last one in round {round} ({how})");
            self.deps.ledger.suspend(*client, round + 1, &reason)?;
            let name = self.deps.ledger.client_name(*client)?;
            tracing::warn!(
                client,
                name,
                reason,
                "suspended: agewise coordinator reinstate lifts it"
            );
            self.suspended.insert(*client, reason);
        }
        Ok(())
    }

    /// Reads the suspended clients again, after an operator has written to the ledger.
    pub(super) fn read_suspended(&mut self) -> Result<(), CoordinatorError> {
        let suspended = self.deps.ledger.suspended()?.into_iter().collect();
        let before = std::mem::replace(&mut self.suspended, suspended);
        if before.keys().any(|client| !self.suspended.contains_key(client)) {
            self.deps.ledger.reinstated_from(self.round_number())?;
        }
        for client in before.into_keys().filter(|client| !self.suspended.contains_key(client)) {
            tracing::info!(client, "reinstated");
            self.notifications.clients.push(client);
        }
        Ok(())
    }

    /// The connected clients that may take part, as a mask of all.
    pub(super) fn available(&mut self) -> Vec<bool> {
        let mut mask = self.watchers.present(self.selection.clients()).to_vec();
        for &client in self.suspended.keys() {
            if let Some(place) = mask.get_mut(client as usize) {
                *place = false;
            }
        }
        mask
    }

    /// How many clients are connected and may take part.
    pub(super) fn connected(&self) -> usize {
        let suspended = self.suspended.keys().filter(|&&client| self.watchers.has(client));
        self.watchers.len() - suspended.count()
    }

    /// The suspended clients, in sentences for an operator.
    pub(super) fn suspensions(&self) -> Vec<String> {
        let named = self.suspended.iter().take(MOST_NAMED).map(|(&client, reason)| {
            let name = self.deps.ledger.client_name(client);
            let name = name.unwrap_or_else(|_| format!("number {client}"));
            format!("client {name} is suspended: {reason}; agewise coordinator reinstate {name} lifts it")
        });
        let mut all: Vec<String> = named.collect();
        if self.suspended.len() > MOST_NAMED {
            all.push(format!("{} clients are suspended", self.suspended.len()));
        }
        all
    }
}
