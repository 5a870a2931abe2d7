//! Past rounds in full, for the audit.

use super::Ledger;
use crate::crypto::PublicKey;
use crate::crypto::seed_chain::RoundSeed;
use rusqlite::{OptionalExtension, Result, Row, params};
use std::collections::BTreeSet;

/// A client, as an audit sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastClient {
    pub(crate) settings: usize,
    pub(crate) enrolled: u64,
    pub(crate) first_waiting: i64,
    pub(crate) waiting_since: i64,
    /// The first round that began without it.
    pub(crate) revoked_from: Option<u64>,
    /// Failures in a row at the end of the last round that is over, and the first round in which it may take part again after them.
    pub(crate) failures: u32,
    pub(crate) eligible_from: u64,
}

/// A round, as an audit sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastRound {
    pub(crate) round: u64,
    pub(crate) settings: usize,
    pub(crate) is_over: bool,
    pub(crate) interval: f64,
    pub(crate) clients: u32,
    pub(crate) seed: Option<RoundSeed>,
    pub(crate) present: Option<Vec<bool>>,
    pub(crate) fallback: Option<Vec<bool>>,
    pub(crate) reported: u64,
    /// The model that it trained.
    pub(crate) model: u64,
    /// Whether it made a model.
    pub(crate) committed: bool,
    /// Of that model, if it was evaluated.
    pub(crate) loss: Option<f64>,
    pub(crate) accuracy: Option<f64>,
    /// How its draws are proven.
    pub(crate) draw_version: u32,
}

impl PastRound {
    /// Whether the model that it made was evaluated.
    pub(crate) fn is_evaluated(&self) -> bool {
        self.committed && (self.loss.is_some() || self.accuracy.is_some())
    }

    /// The clients from which the coordinator selected the cohort, at its beginning or when no client had come; none where clients decide.
    /// Clients that enrolled during the round were not available.
    pub(crate) fn selected_from(&self, clients: u32) -> Option<Vec<bool>> {
        let mut mask = self.present.clone()?;
        for (place, &invited) in mask.iter_mut().zip(self.fallback.iter().flatten()) {
            *place |= invited;
        }
        mask.resize(clients as usize, false);
        Some(mask)
    }
}

/// A client in a round, as an audit sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastJoin {
    pub(crate) client: u32,
    pub(crate) age: u64,
    pub(crate) outcome: String,
    pub(crate) draws: u32,
    pub(crate) proof: Option<Vec<u8>>,
    /// How much it counted, if the round made a model.
    pub(crate) weight: Option<f64>,
    /// Loss and training time of a report that was accepted.
    pub(crate) report: Option<(f64, f64)>,
}

impl Ledger {
    /// The settings of every start that changed them, by number.
    pub(crate) fn settings(&self) -> Result<Vec<String>> {
        let mut query = self.db.prepare("SELECT config FROM settings ORDER BY number")?;
        query.query_map([], |row| row.get(0))?.collect()
    }

    /// Notes settings under a number.
    pub(crate) fn note_settings(&mut self, number: u32, config: &str) -> Result<()> {
        self.write()?.execute(
            "INSERT INTO settings (number, config) VALUES (?1, ?2)",
            params![number, config],
        )?;
        Ok(())
    }

    /// All clients, by number.
    pub(crate) fn past_clients(&self) -> Result<Vec<PastClient>> {
        let mut query = self.db.prepare(
            "SELECT enrolled, first_waiting, waiting_since, revoked_from, settings, failures, eligible_from FROM clients
             ORDER BY client",
        )?;
        let row = |row: &Row<'_>| {
            Ok(PastClient {
                enrolled: row.get::<_, i64>(0)? as u64,
                first_waiting: row.get(1)?,
                waiting_since: row.get(2)?,
                revoked_from: row.get::<_, Option<i64>>(3)?.map(|round| round as u64),
                settings: row.get::<_, u32>(4)? as usize,
                failures: row.get(5)?,
                eligible_from: row.get::<_, i64>(6)? as u64,
            })
        };
        query.query_map([], row)?.collect()
    }

    /// The first round that cannot have draws of version 1: the ledger was migrated before it. 0 for a run that began with the draws of now.
    pub(crate) fn draws_of_version_1(&self) -> Result<u64> {
        let query = "SELECT CAST(value AS INTEGER) FROM run WHERE key = 'draws-of-version-1'";
        let found = self.db.query_row(query, [], |row| row.get::<_, i64>(0)).optional()?;
        Ok(found.unwrap_or(0).max(0) as u64)
    }

    /// The key with which a client had to prove its draw in a round.
    pub(crate) fn key_in(&self, client: u32, round: u64) -> Result<Option<PublicKey>> {
        let mut query = self.db.prepare_cached(
            "SELECT key FROM keys WHERE client = ?1 AND since <= ?2 ORDER BY since DESC LIMIT 1",
        )?;
        let found = query
            .query_row(params![client, round as i64], |row| row.get::<_, Vec<u8>>(0))
            .optional()?;
        Ok(found.and_then(|bytes| PublicKey::from_bytes(&bytes)))
    }

    /// Data sizes as they were told: client, the first round with it, samples.
    pub(crate) fn past_samples(&self) -> Result<Vec<(u32, u64, u64)>> {
        let mut query =
            self.db.prepare("SELECT client, since, samples FROM samples ORDER BY since, client")?;
        let row = |row: &Row<'_>| {
            Ok((row.get(0)?, row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64))
        };
        query.query_map([], row)?.collect()
    }

    /// How many rounds were announced.
    pub(crate) fn announced(&self) -> Result<u64> {
        let query = "SELECT COALESCE(MAX(round) + 1, 0) FROM rounds";
        self.db.query_row(query, [], |row| row.get::<_, i64>(0)).map(|count| count.max(0) as u64)
    }

    /// The rounds that were announced under other settings than the round before.
    pub(crate) fn new_settings(&self) -> Result<BTreeSet<u64>> {
        let mut query = self.db.prepare(
            "SELECT next.round FROM rounds next JOIN rounds before ON before.round = next.round - 1
             WHERE next.settings != before.settings",
        )?;
        query.query_map([], |row| row.get::<_, i64>(0).map(|round| round as u64))?.collect()
    }

    /// The round of a number, if there is one.
    pub(crate) fn past_round(&self, round: u64) -> Result<Option<PastRound>> {
        let mut query = self.db.prepare_cached(
            "SELECT round, interval, clients, seed, present, fallback, reported, settings, state, draw_version, model, loss, accuracy
             FROM rounds WHERE round = ?1",
        )?;
        let found = query.query_row([round as i64], |row| {
            let clients: u32 = row.get(2)?;
            let bits = |bytes: Option<Vec<u8>>| bytes.map(|bytes| from_bits(&bytes, clients));
            Ok(PastRound {
                round: row.get::<_, i64>(0)? as u64,
                interval: row.get(1)?,
                clients,
                seed: row.get(3)?,
                present: bits(row.get(4)?),
                fallback: bits(row.get(5)?),
                reported: row.get::<_, i64>(6)? as u64,
                settings: row.get::<_, u32>(7)? as usize,
                draw_version: row.get(9)?,
                model: row.get::<_, i64>(10)? as u64,
                committed: row.get::<_, String>(8)? == "committed",
                loss: row.get(11)?,
                accuracy: row.get(12)?,
                is_over: !["joining", "training"].contains(&row.get::<_, String>(8)?.as_str()),
            })
        });
        found.optional()
    }

    /// All clients that joined a round or asked to, by number.
    pub(crate) fn past_joins(&self, round: u64) -> Result<Vec<PastJoin>> {
        let mut query = self.db.prepare_cached(
            "SELECT client, age, outcome, draws, proof, loss, seconds, weight FROM joins WHERE round = ?1 ORDER BY client",
        )?;
        let row = |row: &Row<'_>| {
            let outcome: String = row.get(2)?;
            let is_reported = outcome == super::Outcome::Reported.name();
            let report = if is_reported { Some((row.get(5)?, row.get(6)?)) } else { None };
            Ok(PastJoin {
                client: row.get(0)?,
                age: row.get::<_, i64>(1)? as u64,
                outcome,
                draws: row.get(3)?,
                proof: row.get(4)?,
                weight: row.get(7)?,
                report,
            })
        };
        query.query_map([round as i64], row)?.collect()
    }

    /// How often something was refused, by reason.
    pub(crate) fn refusal_counts(&self) -> Result<Vec<(String, u64)>> {
        let mut query = self
            .db
            .prepare("SELECT reason, SUM(count) FROM refusals GROUP BY reason ORDER BY reason")?;
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64));
        query.query_map([], row)?.collect()
    }
}

/// A mask for so many clients, of which eight are in a byte.
fn from_bits(bytes: &[u8], clients: u32) -> Vec<bool> {
    let bit =
        |client: usize| bytes.get(client / 8).is_some_and(|byte| byte >> (client % 8) & 1 == 1);
    (0..clients as usize).map(bit).collect()
}
