//! Queries for the page and the status, made beside the driver.
//!
//! A run may have a million rounds, so each question is about its last ones only.

use super::{Ledger, RoundOutcome};
use rusqlite::{Error, Params, Result, Row};
use serde::Serialize;

/// A round that is over, in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RoundSummary {
    pub(crate) round: u64,
    pub(crate) outcome: RoundOutcome,
    pub(crate) interval: f64,
    pub(crate) available: u32,
    pub(crate) selected: u32,
    pub(crate) reported: u32,
    pub(crate) late: u32,
    pub(crate) refused: u32,
    pub(crate) forced: bool,
    pub(crate) seconds: f64,
    pub(crate) loss: Option<f64>,
    pub(crate) accuracy: Option<f64>,
    /// What was not as it should be.
    pub(crate) note: Option<String>,
}

/// A client and what it has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingClient {
    pub(crate) client: u32,
    pub(crate) name: String,
    pub(crate) waiting_since: i64,
    pub(crate) reports: u32,
    pub(crate) late: u32,
    pub(crate) missing: u32,
    pub(crate) refused: u32,
}

/// Something that was refused, all in all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RefusedCall {
    /// Whose; `None` if it was not a client.
    pub(crate) name: Option<String>,
    pub(crate) reason: String,
    pub(crate) count: u64,
    /// When it was last refused, and with which words.
    #[serde(rename = "last_round")]
    pub(crate) round: u64,
    pub(crate) detail: String,
}

impl Ledger {
    /// Answers several questions about the same moment, while the driver goes on writing.
    pub(crate) fn at_one_moment<T, E: From<Error>>(
        &self,
        read: impl FnOnce(&Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let moment = self.db.unchecked_transaction()?;
        let answer = read(self)?;
        moment.commit()?;
        Ok(answer)
    }

    /// The rows that a query answers.
    fn list<T>(
        &self,
        query: &str,
        params: impl Params,
        row: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.db.prepare_cached(query)?.query_map(params, row)?.collect()
    }

    /// The last rounds that are over, newest first.
    pub(crate) fn history(&self, limit: u32) -> Result<Vec<RoundSummary>> {
        let query = format!(
            "SELECT round, state, interval, available, selected, reported, late, refused, forced, seconds, loss, accuracy, note
             FROM rounds WHERE {} ORDER BY round DESC LIMIT ?1",
            RoundOutcome::IS_OVER
        );
        let row = |row: &Row<'_>| {
            Ok(RoundSummary {
                round: row.get::<_, i64>(0)? as u64,
                outcome: RoundOutcome::from_name(&row.get::<_, String>(1)?),
                interval: row.get(2)?,
                available: row.get(3)?,
                selected: row.get(4)?,
                reported: row.get(5)?,
                late: row.get(6)?,
                refused: row.get(7)?,
                forced: row.get(8)?,
                seconds: row.get::<_, Option<f64>>(9)?.unwrap_or(0.0),
                loss: row.get(10)?,
                accuracy: row.get(11)?,
                note: row.get(12)?,
            })
        };
        self.list(&query, [limit], row)
    }

    /// What is on record about those of so many rounds before one whose model was refused, oldest first.
    pub(crate) fn refused_rounds(&self, before: u64, rounds: u32) -> Result<Vec<String>> {
        let query = "SELECT round, note FROM rounds WHERE state = 'refused' AND round BETWEEN ?1 - ?2 AND ?1 ORDER BY round";
        let row = |row: &Row<'_>| {
            let (round, note): (i64, Option<String>) = (row.get(0)?, row.get(1)?);
            Ok(format!("round {round} was refused: {}", note.unwrap_or_default()))
        };
        self.list(query, [before as i64, i64::from(rounds)], row)
    }

    /// How many rounds are over since the last one that made a model.
    pub(crate) fn rounds_without_model(&self) -> Result<u64> {
        let is_over = RoundOutcome::IS_OVER;
        let query = format!(
            "SELECT COUNT(*) FROM rounds WHERE {is_over} AND round > COALESCE((SELECT MAX(round) FROM rounds WHERE state = 'committed'), -1)"
        );
        self.db.query_row(&query, [], |row| row.get::<_, i64>(0)).map(|rounds| rounds as u64)
    }

    /// Clients by age at the beginning of the last rounds: (round, age, clients), in order.
    pub(crate) fn age_counts(&self, rounds: u32) -> Result<Vec<(u64, u64, u32)>> {
        let query = "SELECT round, age, clients FROM ages WHERE round > (SELECT MAX(round) FROM ages) - ?1 ORDER BY round, age";
        let row = |row: &Row<'_>| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get(2)?))
        };
        self.list(query, [rounds], row)
    }

    /// How often each age was credited in the last rounds: the interval X is the age plus 1.
    pub(crate) fn credited_ages(&self, rounds: u32) -> Result<Vec<(u64, u64)>> {
        let query = "SELECT age, COUNT(*) FROM joins
             WHERE round > (SELECT MAX(round) FROM rounds) - ?1 AND outcome = 'reported' GROUP BY age ORDER BY age";
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64));
        self.list(query, [rounds], row)
    }

    /// The clients that wait longest.
    pub(crate) fn waiting_longest(&self, limit: u32) -> Result<Vec<WaitingClient>> {
        let query = "SELECT client, name, waiting_since, reports, late, missing, refused FROM clients WHERE NOT revoked
             ORDER BY waiting_since, client LIMIT ?1";
        let row = |row: &Row<'_>| {
            Ok(WaitingClient {
                client: row.get(0)?,
                name: row.get(1)?,
                waiting_since: row.get(2)?,
                reports: row.get(3)?,
                late: row.get(4)?,
                missing: row.get(5)?,
                refused: row.get(6)?,
            })
        };
        self.list(query, [limit], row)
    }

    /// The most frequent refusals.
    pub(crate) fn refused_most(&self, limit: u32) -> Result<Vec<RefusedCall>> {
        // SQLite gives the other columns from the row with the greatest round.
        let query = "SELECT name, reason, SUM(count), MAX(round), detail FROM refusals LEFT JOIN clients USING (client)
             GROUP BY client, reason ORDER BY SUM(count) DESC, client, reason LIMIT ?1";
        let row = |row: &Row<'_>| {
            Ok(RefusedCall {
                name: row.get(0)?,
                reason: row.get(1)?,
                count: row.get::<_, i64>(2)? as u64,
                round: row.get::<_, i64>(3)? as u64,
                detail: row.get(4)?,
            })
        };
        self.list(query, [limit], row)
    }
}
