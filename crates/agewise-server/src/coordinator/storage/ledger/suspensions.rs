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

    /// How many of the last so many failures of a client were not followed by a late report.
    pub(crate) fn silent_failures(&self, client: u32, last: u32) -> Result<u64> {
        // The condition of the index `failed_joins`, word for word.
        let mut query = self.db.prepare_cached(
            "SELECT COALESCE(SUM(outcome != 'late'), 0) FROM (
               SELECT outcome FROM joins WHERE client = ?1 AND outcome IN ('missing', 'gone', 'refused', 'late')
               ORDER BY round DESC LIMIT ?2)",
        )?;
        query.query_row(params![client, last], |row| row.get::<_, i64>(0).map(|count| count as u64))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn late_reports_are_told_from_silence_without_reading_all_rounds() {
        let mut ledger = Ledger::open(Path::new(":memory:")).unwrap();
        let outcomes =
            ["missing", "reported", "missing", "late", "surplus", "gone", "full", "refused"];
        for (round, outcome) in (0_i64..).zip(outcomes) {
            let insert = "INSERT INTO joins (round, client, age, outcome) VALUES (?1, 3, 0, ?2), (?1, 4, 0, 'late')";
            ledger.write().unwrap().execute(insert, params![round, outcome]).unwrap();
        }
        for (last, silent) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (99, 4)] {
            assert_eq!(ledger.silent_failures(3, last).unwrap(), silent, "of {last}");
        }
        assert_eq!(ledger.silent_failures(4, 8).unwrap(), 0);
        assert_eq!(ledger.silent_failures(9, 8).unwrap(), 0);
        let plan = "EXPLAIN QUERY PLAN SELECT outcome FROM joins WHERE client = 3
                    AND outcome IN ('missing', 'gone', 'refused', 'late') ORDER BY round DESC LIMIT 9";
        let plan: String = ledger.db.query_row(plan, [], |row| row.get(3)).unwrap();
        assert!(plan.contains("failed_joins"), "{plan}");
    }
}
