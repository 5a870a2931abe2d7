//! Clients that have failed too often, until an operator reinstates them.

use super::Ledger;
use rusqlite::{OptionalExtension, Result, Row, params};

/// A suspension, as an audit sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PastSuspension {
    pub(crate) client: u32,
    /// The first round without the client.
    pub(crate) since: u64,
    /// The first round with it again.
    pub(crate) until: Option<u64>,
}

impl Ledger {
    /// Suspends a client from a round on.
    pub(crate) fn suspend(&mut self, client: u32, since: u64, reason: &str) -> Result<()> {
        self.write()?
            .prepare_cached(
                "INSERT OR IGNORE INTO suspensions (client, since, reason) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![client, since as i64, reason])?;
        Ok(())
    }

    /// The clients that are suspended, with the reasons.
    pub(crate) fn suspended(&self) -> Result<Vec<(u32, String)>> {
        let mut query = self
            .db
            .prepare("SELECT client, reason FROM suspensions WHERE NOT lifted ORDER BY client")?;
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Lifts the suspension of the client of this name; says its number, if it was suspended.
    pub(crate) fn reinstate(&mut self, name: &str) -> Result<Option<u32>> {
        let db = self.write()?;
        let query = "SELECT client FROM suspensions JOIN clients USING (client) WHERE name = ?1 AND NOT lifted";
        let client = db.query_row(query, [name], |row| row.get(0)).optional()?;
        if let Some(client) = client {
            db.execute("UPDATE suspensions SET lifted = 1 WHERE client = ?1", [client])?;
        }
        Ok(client)
    }

    /// Notes the first round in which the clients that were reinstated may be.
    pub(crate) fn reinstated_from(&mut self, round: u64) -> Result<()> {
        // A ledger that is locked can still be read, and there is seldom anything to note.
        let query = "SELECT EXISTS (SELECT 1 FROM suspensions WHERE lifted AND until IS NULL)";
        if self.db.query_row(query, [], |row| row.get(0))? {
            self.write()?
                .prepare_cached("UPDATE suspensions SET until = ?1 WHERE lifted AND until IS NULL")?
                .execute([round as i64])?;
        }
        Ok(())
    }

    /// All suspensions, by client and round.
    pub(crate) fn past_suspensions(&self) -> Result<Vec<PastSuspension>> {
        let mut query = self
            .db
            .prepare("SELECT client, since, until FROM suspensions ORDER BY client, since")?;
        let row = |row: &Row<'_>| {
            Ok(PastSuspension {
                client: row.get(0)?,
                since: row.get::<_, i64>(1)? as u64,
                until: row.get::<_, Option<i64>>(2)?.map(|round| round as u64),
            })
        };
        query.query_map([], row)?.collect()
    }
}
