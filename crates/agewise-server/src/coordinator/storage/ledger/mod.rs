//! The ledger: everything that was promised, in SQLite (WAL).
//!
//! What the coordinator keeps in memory follows from the ledger, so a crash loses nothing that was answered. Writes are gathered in one
//! transaction until [`Ledger::commit`], which is on disk when it returns; answers are sent after that.
//!
//! `migrations` says how to change the tables: an older ledger becomes one of the newest version.

mod access;
mod history;
mod migrations;
mod policy_state;
mod queries;
mod rollbacks;
mod rounds;
mod rows;
mod suspensions;

pub(crate) use access::{AccessRows, TokenRow};
pub(crate) use history::{PastClient, PastJoin, PastRound};
pub(crate) use migrations::{OLDEST, SCHEMA};
pub(crate) use queries::{RefusedCall, RoundSummary, WaitingClient};
pub(crate) use rollbacks::Rollback;
pub(crate) use rows::{
    ClientRow, JoinRow, ModelRow, NewJoin, Outcome, ReportRow, RoundEnd, RoundOutcome, RoundRow,
};

pub(crate) use suspensions::PastSuspension;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The ledger of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    db: Connection,
    writing: bool,
}

impl Ledger {
    /// Opens the ledger, of whatever version, or begins one.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(10))?;
        db.pragma_update(None, "journal_mode", "wal")?;
        // In WAL mode this is what makes a commit survive a power cut, not only a crash.
        db.pragma_update(None, "synchronous", "full")?;
        let mut ledger = Self { db, writing: false };
        if ledger.is_empty()? {
            ledger.begin()?;
        }
        Ok(ledger)
    }

    /// Whether nothing was written yet.
    fn is_empty(&self) -> Result<bool> {
        let tables = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'run'";
        if self.db.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(true);
        }
        self.db.query_row("SELECT COUNT(*) = 0 FROM run", [], |row| row.get(0))
    }

    /// Makes the tables, unless another process was faster.
    fn begin(&mut self) -> Result<()> {
        self.write()?;
        if self.is_empty()? {
            let db = self.write()?;
            db.execute_batch(include_str!("schema.sql"))?;
            db.execute("INSERT INTO run (key, value) VALUES ('schema', ?1)", params![SCHEMA])?;
        }
        self.commit()
    }

    /// Opens the ledger to read only, beside a coordinator that writes.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self> {
        use rusqlite::OpenFlags;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(Duration::from_secs(10))?;
        Ok(Self { db, writing: false })
    }

    /// A copy in memory: what is done to it is not done to the file.
    pub(crate) fn copy(&self) -> Result<Self> {
        let mut db = Connection::open_in_memory()?;
        // All pages in one step: one state of the ledger, also while a coordinator writes.
        Backup::new(&self.db, &mut db)?.run_to_completion(
            i32::MAX,
            Duration::from_millis(10),
            None,
        )?;
        Ok(Self { db, writing: false })
    }

    /// The version of its schema, where it says so.
    pub(crate) fn schema(&self) -> Result<Option<i64>> {
        let query = "SELECT value FROM run WHERE key = 'schema'";
        self.db.query_row(query, [], |row| row.get(0)).optional()
    }

    /// The connection, inside a transaction.
    pub(super) fn write(&mut self) -> Result<&Connection> {
        if !self.writing {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            self.writing = true;
        }
        Ok(&self.db)
    }

    /// Makes everything since the last commit permanent.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if self.writing {
            self.db.execute_batch("COMMIT")?;
            self.writing = false;
        }
        Ok(())
    }

    /// Forgets everything since the last commit.
    pub(crate) fn roll_back(&mut self) {
        if self.writing {
            // After some errors SQLite has rolled back by itself, and says so here.
            self.db.execute_batch("ROLLBACK").ok();
            self.writing = false;
        }
    }

    /// A fact about the run.
    pub(crate) fn fact(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let mut query =
            self.db.prepare_cached("SELECT CAST(value AS BLOB) FROM run WHERE key = ?1")?;
        query.query_row([key], |row| row.get(0)).optional()
    }

    /// Writes a fact about the run.
    pub(crate) fn set_fact(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let db = self.write()?;
        db.execute("INSERT OR REPLACE INTO run (key, value) VALUES (?1, ?2)", params![key, value])?;
        Ok(())
    }

    /// Adds a model that no round has made: the first.
    pub(crate) fn add_model(&mut self, model: &ModelRow) -> Result<()> {
        insert_model(self.write()?, model)
    }

    /// The models that are there, newest first.
    pub(crate) fn models(&self) -> Result<Vec<ModelRow>> {
        let mut query = self.db.prepare(
            "SELECT version, file, sha256 FROM models WHERE damaged = 0 ORDER BY version DESC",
        )?;
        let row = |row: &Row<'_>| {
            let version: i64 = row.get(0)?;
            Ok(ModelRow { version: version as u64, file: row.get(1)?, sha256: row.get(2)? })
        };
        query.query_map([], row)?.collect()
    }

    /// The models that were found to be damaged.
    pub(crate) fn damaged_models(&self) -> Result<BTreeSet<u64>> {
        let mut query = self.db.prepare("SELECT version FROM models WHERE damaged = 1")?;
        query.query_map([], |row| row.get::<_, i64>(0).map(|version| version as u64))?.collect()
    }

    /// Notes that a model cannot be used any more.
    pub(crate) fn set_aside(&mut self, version: u64) -> Result<()> {
        let db = self.write()?;
        db.execute("UPDATE models SET damaged = 1 WHERE version = ?1", [version as i64])?;
        Ok(())
    }

    /// Forgets a model whose file is no longer kept.
    pub(crate) fn forget_model(&mut self, version: u64) -> Result<()> {
        self.write()?.execute("DELETE FROM models WHERE version = ?1", [version as i64])?;
        Ok(())
    }
}

pub(super) fn insert_model(db: &Connection, model: &ModelRow) -> Result<()> {
    let ModelRow { version, file, sha256 } = model;
    db.execute(
        "INSERT OR REPLACE INTO models (version, file, sha256) VALUES (?1, ?2, ?3)",
        params![*version as i64, file, sha256],
    )?;
    Ok(())
}
