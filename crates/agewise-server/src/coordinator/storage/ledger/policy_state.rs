//! The state of policies beyond ages: last reports, sketches of updates, and the state of the policy itself.
//!
//! All of it is as it was between two rounds: what a round brings is written when the round ends, in the same step.

use super::Ledger;
use crate::protocol::parameters::{from_bytes, to_bytes};
use rusqlite::{Result, params};
use std::collections::BTreeMap;

/// Under which key the policy's state stands.
const POLICY_STATE: &str = "policy-state";

impl Ledger {
    /// The last loss and training time of each client that has reported before a round.
    pub(crate) fn last_reports(&self, round: u64) -> Result<Vec<(u32, f64, f64)>> {
        // SQLite gives the other columns from the row with the greatest round.
        let mut query = self.db.prepare(
            "SELECT client, loss, seconds, MAX(round) FROM joins WHERE outcome = 'reported' AND round < ?1 GROUP BY client",
        )?;
        query
            .query_map([round as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect()
    }

    /// The data sizes with which a round began, of its first so many clients.
    pub(crate) fn sizes_in(&self, round: u64, clients: u32) -> Result<Vec<u64>> {
        let mut query = self.db.prepare_cached(
            "SELECT samples, MAX(since) FROM samples WHERE since <= ?1 AND client < ?2 GROUP BY client ORDER BY client",
        )?;
        let row = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(|samples| samples as u64);
        query.query_map(params![round as i64, clients], row)?.collect()
    }

    /// Puts sketches of updates in the place of older ones.
    pub(crate) fn keep_sketches(
        &mut self,
        round: u64,
        sketches: &BTreeMap<u32, Vec<f32>>,
    ) -> Result<()> {
        let mut query =
            self.write()?.prepare_cached("INSERT OR REPLACE INTO sketches VALUES (?1, ?2, ?3)")?;
        for (client, sketch) in sketches {
            query.execute(params![client, round as i64, to_bytes(sketch)])?;
        }
        Ok(())
    }

    /// The sketch of each client's last update.
    pub(crate) fn sketches(&self) -> Result<Vec<(u32, Vec<f32>)>> {
        let mut query = self.db.prepare("SELECT client, numbers FROM sketches ORDER BY client")?;
        let row =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, from_bytes(&row.get::<_, Vec<u8>>(1)?)));
        query.query_map([], row)?.collect()
    }

    /// Replaces the state of the policy.
    pub(crate) fn keep_policy_state(&mut self, state: &[f64]) -> Result<()> {
        let bytes: Vec<u8> = state.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.set_fact(POLICY_STATE, &bytes)
    }

    /// The state of the policy.
    pub(crate) fn policy_state(&self) -> Result<Vec<f64>> {
        let bytes = self.fact(POLICY_STATE)?.unwrap_or_default();
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|&word| f64::from_le_bytes(word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_kept_comes_back_and_only_the_last_of_it() {
        let mut ledger = Ledger::open(Path::new(":memory:")).unwrap();
        assert_eq!((ledger.sketches().unwrap(), ledger.policy_state().unwrap()), (vec![], vec![]));
        ledger.keep_sketches(3, &BTreeMap::from([(7, vec![1.0, -0.5]), (2, vec![0.0])])).unwrap();
        ledger.keep_sketches(4, &BTreeMap::from([(7, vec![2.5])])).unwrap();
        ledger.keep_policy_state(&[1.0, 2.0]).unwrap();
        ledger.keep_policy_state(&[0.1, f64::MIN_POSITIVE, -3.0]).unwrap();
        ledger.commit().unwrap();
        assert_eq!(ledger.sketches().unwrap(), [(2, vec![0.0]), (7, vec![2.5])]);
        assert_eq!(ledger.policy_state().unwrap(), [0.1, f64::MIN_POSITIVE, -3.0]);
    }

    #[test]
    fn sizes_are_those_with_which_a_round_began() {
        let mut ledger = Ledger::open(Path::new(":memory:")).unwrap();
        for (client, since, samples) in [(0, 0, 10), (1, 0, 20), (2, 0, 30), (1, 4, 25), (1, 6, 5)]
        {
            ledger.set_samples(client, since, samples).unwrap();
        }
        assert_eq!(ledger.sizes_in(3, 3).unwrap(), [10, 20, 30]);
        assert_eq!(ledger.sizes_in(5, 2).unwrap(), [10, 25]);
        assert_eq!(ledger.sizes_in(6, 2).unwrap(), [10, 5]);
    }
}
