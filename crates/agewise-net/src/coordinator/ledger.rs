//! The ledger: everything that was promised, in SQLite (WAL).
//!
//! What the coordinator keeps in memory follows from the ledger, so a crash loses nothing that was answered. Writes are gathered in one
//! transaction until [`Ledger::commit`], which is on disk when it returns; answers are sent after that.

mod access;
mod history;
mod memory;
mod reading;

pub(crate) use access::TokenRow;
pub(crate) use history::{PastClient, PastJoin, PastRound};
pub(crate) use reading::{RefusedCall, RoundSummary, WaitingClient};

use crate::honesty::PublicKey;
use crate::honesty::seeds::RoundSeed;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use std::path::Path;

/// What became of a client in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The coordinator wants it, and it has not come yet.
    Called,
    /// In the cohort; its report is awaited.
    Selected,
    /// Its report was accepted: it is credited.
    Reported,
    /// It was in the cohort, and nothing came.
    Missing,
    /// Its report came after the round was over.
    Late,
    /// It wanted to join when the cohort was full.
    Full,
}

impl Outcome {
    pub(crate) const ALL: [Self; 6] =
        [Self::Called, Self::Selected, Self::Reported, Self::Missing, Self::Late, Self::Full];

    /// As it stands in the ledger.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Called => "called",
            Self::Selected => "selected",
            Self::Reported => "reported",
            Self::Missing => "missing",
            Self::Late => "late",
            Self::Full => "full",
        }
    }
}

/// A client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientRow {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    /// The first round in which the key is good for lots.
    pub(crate) key_since: u64,
    pub(crate) samples: u64,
    pub(crate) waiting_since: i64,
    pub(crate) revoked: bool,
    pub(crate) revoked_from: Option<u64>,
}

/// A round that was announced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundRow {
    pub(crate) round: u64,
    pub(crate) settings: u32,
    pub(crate) is_joining: bool,
    pub(crate) interval: f64,
    pub(crate) clients: u32,
    pub(crate) seed: Option<RoundSeed>,
    /// Who was connected, where the coordinator has chosen.
    pub(crate) present: Option<Vec<bool>>,
    pub(crate) model: u64,
    pub(crate) began: i64,
    pub(crate) available: u32,
    pub(crate) forced: bool,
}

/// A client in a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JoinRow {
    pub(crate) client: u32,
    pub(crate) age: u64,
    pub(crate) outcome: Outcome,
    pub(crate) draws: u32,
    pub(crate) report: Option<ReportRow>,
}

/// A client that comes into a round, or asks to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NewJoin<'a> {
    pub(crate) age: u64,
    pub(crate) outcome: Outcome,
    pub(crate) draws: u32,
    /// Of its lot; a client that was called has none.
    pub(crate) proof: Option<&'a [u8]>,
}

impl NewJoin<'_> {
    /// The coordinator wants a client.
    pub(crate) fn called(age: u64, draws: u32) -> Self {
        Self { age, outcome: Outcome::Called, draws, proof: None }
    }
}

/// An accepted report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportRow {
    pub(crate) samples: u64,
    pub(crate) loss: f64,
    pub(crate) seconds: f64,
    pub(crate) norm: f64,
    pub(crate) sha256: Vec<u8>,
}

/// A stored model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelRow {
    pub(crate) version: u64,
    pub(crate) file: String,
    pub(crate) sha256: Vec<u8>,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundEnd {
    pub(crate) round: u64,
    pub(crate) committed: bool,
    pub(crate) seconds: f64,
    pub(crate) evaluation: Option<(f64, f64)>,
    pub(crate) weights: Vec<(u32, f64)>,
    pub(crate) model: Option<ModelRow>,
    pub(crate) note: Option<String>,
}

/// The version of the schema; another one is not read.
const SCHEMA: i64 = 2;

/// The ledger of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    db: Connection,
    writing: bool,
}

impl Ledger {
    /// Opens the ledger, or begins one.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(std::time::Duration::from_secs(10))?;
        db.pragma_update(None, "journal_mode", "wal")?;
        // In WAL mode this is what makes a commit survive a power cut, not only a crash.
        db.pragma_update(None, "synchronous", "full")?;
        db.execute_batch(include_str!("schema.sql"))?;
        let ledger = Self { db, writing: false };
        ledger.db.execute(
            "INSERT OR IGNORE INTO run (key, value) VALUES ('schema', ?1)",
            params![SCHEMA],
        )?;
        Ok(ledger)
    }

    /// Opens the ledger to read only, beside a coordinator that writes.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self> {
        use rusqlite::OpenFlags;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(Self { db, writing: false })
    }

    /// Whether this program can read what is in it.
    pub(crate) fn has_known_schema(&self) -> Result<bool> {
        let found: Option<i64> = self
            .db
            .query_row("SELECT value FROM run WHERE key = 'schema'", [], |row| row.get(0))
            .optional()?;
        Ok(found == Some(SCHEMA))
    }

    /// The connection, inside a transaction.
    fn write(&mut self) -> Result<&Connection> {
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

    /// Announces a round, with the ages that it begins with.
    pub(crate) fn begin_round(&mut self, row: &RoundRow, ages: &[(u64, u32)]) -> Result<()> {
        let db = self.write()?;
        db.prepare_cached(
            "INSERT INTO rounds (round, state, interval, clients, model, began, available, forced, seed, present, settings)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            row.round as i64,
            if row.is_joining { "joining" } else { "training" },
            row.interval,
            row.clients,
            row.model as i64,
            row.began,
            row.available,
            row.forced,
            row.seed,
            row.present.as_deref().map(to_bits),
            row.settings
        ])?;
        let mut query = db.prepare_cached("INSERT INTO ages VALUES (?1, ?2, ?3)")?;
        for &(age, clients) in ages {
            query.execute(params![row.round as i64, age as i64, clients])?;
        }
        Ok(())
    }

    /// The round that is under way, if any, with everyone in it.
    pub(crate) fn open_round(&self) -> Result<Option<(RoundRow, Vec<JoinRow>)>> {
        let mut query = self.db.prepare(
            "SELECT round, state, interval, clients, model, began, available, forced, seed, settings FROM rounds
             WHERE state IN ('joining', 'training') ORDER BY round DESC LIMIT 1",
        )?;
        let round = query.query_row([], |row| {
            Ok(RoundRow {
                round: row.get::<_, i64>(0)? as u64,
                is_joining: row.get::<_, String>(1)? == "joining",
                interval: row.get(2)?,
                clients: row.get(3)?,
                model: row.get::<_, i64>(4)? as u64,
                began: row.get(5)?,
                available: row.get(6)?,
                forced: row.get(7)?,
                seed: row.get(8)?,
                settings: row.get(9)?,
                present: None,
            })
        });
        let Some(round) = round.optional()? else {
            return Ok(None);
        };
        let mut query = self.db.prepare(
            "SELECT client, age, outcome, draws, samples, loss, seconds, norm, sha256 FROM joins WHERE round = ?1
             ORDER BY client",
        )?;
        let joins = query.query_map([round.round as i64], |row| {
            let name: String = row.get(2)?;
            let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.name() == name);
            let report = match row.get::<_, Option<Vec<u8>>>(8)? {
                None => None,
                Some(sha256) => Some(ReportRow {
                    samples: row.get::<_, i64>(4)? as u64,
                    loss: row.get(5)?,
                    seconds: row.get(6)?,
                    norm: row.get(7)?,
                    sha256,
                }),
            };
            Ok(JoinRow {
                client: row.get(0)?,
                age: row.get::<_, i64>(1)? as u64,
                // Someone has written another word by hand: then nothing was promised by us.
                outcome: outcome.unwrap_or(Outcome::Missing),
                draws: row.get(3)?,
                report,
            })
        })?;
        let joins = joins.collect::<Result<_>>()?;
        Ok(Some((round, joins)))
    }

    /// The interval of the last round that was announced.
    pub(crate) fn last_interval(&self) -> Result<Option<f64>> {
        let query = "SELECT interval FROM rounds ORDER BY round DESC LIMIT 1";
        self.db.query_row(query, [], |row| row.get(0)).optional()
    }

    /// How many rounds are over.
    pub(crate) fn rounds_over(&self) -> Result<u64> {
        let query = "SELECT COALESCE(MAX(round) + 1, 0) FROM rounds WHERE state IN ('committed', 'abandoned')";
        self.db.query_row(query, [], |row| row.get::<_, i64>(0)).map(|rounds| rounds as u64)
    }

    /// Puts a client into a round, or changes what became of it.
    pub(crate) fn join(&mut self, round: u64, client: u32, join: &NewJoin<'_>) -> Result<()> {
        let mut query = self.write()?.prepare_cached(
            "INSERT INTO joins (round, client, age, outcome, draws, proof) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (round, client) DO UPDATE SET outcome = excluded.outcome, draws = excluded.draws",
        )?;
        let &NewJoin { age, outcome, draws, proof } = join;
        query.execute(params![round as i64, client, age as i64, outcome.name(), draws, proof])?;
        Ok(())
    }

    /// Ends joining.
    pub(crate) fn close_joining(&mut self, round: u64) -> Result<()> {
        self.write()?
            .prepare_cached("UPDATE rounds SET state = 'training' WHERE round = ?1")?
            .execute([round as i64])?;
        Ok(())
    }

    /// Notes that nobody has come, and one of those who were connected was called.
    pub(crate) fn force(&mut self, round: u64, present: &[bool]) -> Result<()> {
        self.write()?
            .prepare_cached("UPDATE rounds SET forced = 1, recalled = ?2 WHERE round = ?1")?
            .execute(params![round as i64, to_bits(present)])?;
        Ok(())
    }

    /// Credits a client: its report is on disk.
    pub(crate) fn accept(&mut self, round: u64, client: u32, report: &ReportRow) -> Result<()> {
        let db = self.write()?;
        let ReportRow { samples, loss, seconds, norm, sha256 } = report;
        db.prepare_cached(
            "UPDATE joins SET outcome = 'reported', samples = ?3, loss = ?4, seconds = ?5, norm = ?6, sha256 = ?7
             WHERE round = ?1 AND client = ?2",
        )?
        .execute(params![round as i64, client, *samples as i64, loss, seconds, norm, sha256])?;
        db.prepare_cached(
            "UPDATE clients SET waiting_since = ?2, reports = reports + 1 WHERE client = ?1",
        )?
        .execute(params![client, round as i64 + 1])?;
        Ok(())
    }

    /// Notes that a report came after its round was over; whether it was awaited at all.
    pub(crate) fn late(&mut self, round: u64, client: u32) -> Result<bool> {
        let db = self.write()?;
        let changed = db
            .prepare_cached(
                "UPDATE joins SET outcome = 'late' WHERE round = ?1 AND client = ?2 AND outcome = 'missing'",
            )?
            .execute(params![round as i64, client])?;
        if changed > 0 {
            db.prepare_cached(
                "UPDATE clients SET late = late + 1, missing = missing - 1 WHERE client = ?1",
            )?
            .execute([client])?;
            db.prepare_cached("UPDATE rounds SET late = late + 1 WHERE round = ?1")?
                .execute([round as i64])?;
        }
        Ok(changed > 0)
    }

    /// What became of a client in a round, and its report.
    pub(crate) fn outcome(&self, round: u64, client: u32) -> Result<Option<(String, Vec<u8>)>> {
        let mut query = self.db.prepare_cached(
            "SELECT outcome, COALESCE(sha256, x'') FROM joins WHERE round = ?1 AND client = ?2",
        )?;
        query
            .query_row(params![round as i64, client], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    /// Ends a round: who was awaited in vain, the weights, the model, all at once.
    pub(crate) fn end_round(&mut self, end: &RoundEnd) -> Result<()> {
        let db = self.write()?;
        let round = end.round as i64;
        db.execute(
            "UPDATE clients SET missing = missing + 1 WHERE client IN
               (SELECT client FROM joins WHERE round = ?1 AND outcome IN ('called', 'selected'))",
            [round],
        )?;
        db.execute(
            "UPDATE joins SET outcome = 'missing' WHERE round = ?1 AND outcome IN ('called', 'selected')",
            [round],
        )?;
        let mut query =
            db.prepare_cached("UPDATE joins SET weight = ?3 WHERE round = ?1 AND client = ?2")?;
        for (client, weight) in &end.weights {
            query.execute(params![round, client, weight])?;
        }
        if let Some(model) = &end.model {
            insert_model(db, model)?;
        }
        db.execute(
            "UPDATE rounds SET state = ?2, seconds = ?3, loss = ?4, accuracy = ?5, note = ?6,
               selected = (SELECT COUNT(*) FROM joins WHERE round = ?1 AND outcome IN ('reported', 'missing')),
               reported = (SELECT COUNT(*) FROM joins WHERE round = ?1 AND outcome = 'reported')
             WHERE round = ?1",
            params![
                round,
                if end.committed { "committed" } else { "abandoned" },
                end.seconds,
                end.evaluation.map(|(loss, _)| loss),
                end.evaluation.map(|(_, accuracy)| accuracy),
                end.note
            ],
        )?;
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

    /// The round under way trains this version from now on.
    pub(crate) fn train_version(&mut self, round: u64, version: u64, note: &str) -> Result<()> {
        self.write()?.execute(
            "UPDATE rounds SET model = ?2, note = ?3 WHERE round = ?1",
            params![round as i64, version as i64, note],
        )?;
        Ok(())
    }

    /// The number of reports of each round that is over, in order.
    pub(crate) fn report_counts(&self) -> Result<Vec<u64>> {
        let mut query = self.db.prepare(
            "SELECT reported FROM rounds WHERE state IN ('committed', 'abandoned') ORDER BY round",
        )?;
        query.query_map([], |row| row.get::<_, i64>(0).map(|count| count as u64))?.collect()
    }
}

fn insert_model(db: &Connection, model: &ModelRow) -> Result<()> {
    let ModelRow { version, file, sha256 } = model;
    db.execute(
        "INSERT OR REPLACE INTO models (version, file, sha256) VALUES (?1, ?2, ?3)",
        params![*version as i64, file, sha256],
    )?;
    Ok(())
}

/// Eight clients in a byte.
fn to_bits(mask: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| {
        eight.iter().enumerate().fold(0, |byte, (place, &set)| byte | (u8::from(set) << place))
    };
    mask.chunks(8).map(byte).collect()
}
