//! Going back to a model of an earlier round: the operator asks for it, the driver does it.

use super::{Ledger, ModelRow};
use rusqlite::{OptionalExtension, Result, params};

/// A rollback that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rollback {
    /// The model that the run went back to.
    pub(crate) version: u64,
    /// The first round that was announced after it.
    pub(crate) round: u64,
}

impl Ledger {
    /// The rounds that began with a model that is kept, with that model, in order.
    pub(crate) fn rounds_with_kept_models(&self) -> Result<Vec<(u64, ModelRow)>> {
        let mut query = self.db.prepare(
            "SELECT round, version, file, sha256 FROM rounds JOIN models ON version = model WHERE damaged != 1 ORDER BY round",
        )?;
        let row = |row: &rusqlite::Row<'_>| {
            let (round, version): (i64, i64) = (row.get(0)?, row.get(1)?);
            let model =
                ModelRow { version: version as u64, file: row.get(2)?, sha256: row.get(3)? };
            Ok((round as u64, model))
        };
        query.query_map([], row)?.collect()
    }

    /// Asks the driver to go back to a model. One that was asked before and was not done yet is not done any more.
    pub(crate) fn ask_rollback(&mut self, version: u64, asked: i64) -> Result<()> {
        let db = self.write()?;
        db.execute("UPDATE rollbacks SET refused = 'another one was asked for' WHERE round IS NULL AND refused IS NULL", [])?;
        db.execute(
            "INSERT INTO rollbacks (version, asked) VALUES (?1, ?2)",
            params![version as i64, asked],
        )?;
        Ok(())
    }

    /// The model that the driver is to go back to, if it was asked to, and its row if it can be used.
    pub(crate) fn asked_rollback(&self) -> Result<Option<(u64, Option<ModelRow>)>> {
        let mut query = self.db.prepare_cached(
            "SELECT rollbacks.version, file, sha256 FROM rollbacks
             LEFT JOIN models ON models.version = rollbacks.version AND damaged != 1
             WHERE round IS NULL AND refused IS NULL",
        )?;
        let found = query.query_row([], |row| {
            let version = row.get::<_, i64>(0)? as u64;
            let file: Option<String> = row.get(1)?;
            let sha256: Option<Vec<u8>> = row.get(2)?;
            let model = file.zip(sha256).map(|(file, sha256)| ModelRow { version, file, sha256 });
            Ok((version, model))
        });
        found.optional()
    }

    /// Goes back to a model before a round: it is the newest one again, and those after it are set aside.
    pub(crate) fn roll_back_to(&mut self, version: u64, round: u64) -> Result<()> {
        let db = self.write()?;
        let version = version as i64;
        db.execute("UPDATE models SET damaged = 2 WHERE version > ?1 AND damaged = 0", [version])?;
        db.execute("UPDATE models SET damaged = 0 WHERE version = ?1 AND damaged = 2", [version])?;
        db.execute(
            "UPDATE rollbacks SET round = ?1 WHERE round IS NULL AND refused IS NULL",
            [round as i64],
        )?;
        Ok(())
    }

    /// Notes why the rollback that was asked for is not done.
    pub(crate) fn refuse_rollback(&mut self, why: &str) -> Result<()> {
        let query = "UPDATE rollbacks SET refused = ?1 WHERE round IS NULL AND refused IS NULL";
        self.write()?.execute(query, [why])?;
        Ok(())
    }

    /// The rollback that was asked for last: the round before which it was done, or why it was not; neither as long as it waits.
    pub(crate) fn last_rollback(&self) -> Result<Option<(Option<u64>, Option<String>)>> {
        let query = "SELECT round, refused FROM rollbacks ORDER BY number DESC LIMIT 1";
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, Option<i64>>(0)?.map(|round| round as u64), row.get(1)?))
        };
        self.db.query_row(query, [], row).optional()
    }

    /// The rollbacks that were done, in order.
    pub(crate) fn rollbacks(&self) -> Result<Vec<Rollback>> {
        let mut query = self.db.prepare(
            "SELECT version, round FROM rollbacks WHERE round IS NOT NULL ORDER BY number",
        )?;
        let row = |row: &rusqlite::Row<'_>| {
            let (version, round): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Rollback { version: version as u64, round: round as u64 })
        };
        query.query_map([], row)?.collect()
    }

    /// The versions of models that a rollback has set aside, and that are older than every other one.
    pub(crate) fn forgotten_by_rollbacks(&self, oldest: u64) -> Result<Vec<ModelRow>> {
        let mut query = self.db.prepare(
            "SELECT version, file, sha256 FROM models WHERE damaged = 2 AND version < ?1",
        )?;
        let row = |row: &rusqlite::Row<'_>| {
            let version: i64 = row.get(0)?;
            Ok(ModelRow { version: version as u64, file: row.get(1)?, sha256: row.get(2)? })
        };
        query.query_map([oldest as i64], row)?.collect()
    }

    /// The greatest version of a model that the ledger has heard of.
    pub(crate) fn greatest_version(&self) -> Result<Option<u64>> {
        let query = "SELECT MAX(version) FROM models";
        let found = self.db.query_row(query, [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(found.map(|version| version as u64))
    }
}
