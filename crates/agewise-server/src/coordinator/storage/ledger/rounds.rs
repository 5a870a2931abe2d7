//! Rounds, from the announcement to the end, with everyone in them.

use super::{
    JoinRow, Ledger, NewJoin, Outcome, ReportRow, RoundEnd, RoundOutcome, RoundRow, insert_model,
};
use crate::crypto::vrf::DRAW_VERSION;
use rusqlite::{OptionalExtension, Result, Row, params};

/// The greatest age of which clients are counted by themselves at the beginning of a round; older ones are counted together.
const OLDEST: u64 = 255;

impl Ledger {
    /// Announces a round, with the connected clients where the coordinator selects, and the ages that it begins with, youngest first.
    pub(crate) fn begin_round(
        &mut self,
        row: &RoundRow,
        present: Option<&[bool]>,
        ages: impl Iterator<Item = (u64, u32)>,
    ) -> Result<()> {
        let db = self.write()?;
        db.prepare_cached(
            "INSERT INTO rounds (round, state, interval, clients, model, began, available, forced, seed, present, settings,
               draw_version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
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
            present.map(to_bits),
            row.settings,
            DRAW_VERSION
        ])?;
        let mut query = db.prepare_cached("INSERT INTO ages VALUES (?1, ?2, ?3)")?;
        let mut ages = ages.peekable();
        while let Some((age, _)) = ages.peek() {
            let age = (*age).min(OLDEST);
            let same = |(other, _): &(u64, u32)| (*other).min(OLDEST) == age;
            let clients: u32 =
                std::iter::from_fn(|| ages.next_if(same)).map(|(_, count)| count).sum();
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
                outcome: Outcome::from_name(&row.get::<_, String>(2)?),
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
        let is_over = RoundOutcome::IS_OVER;
        let query = format!("SELECT COALESCE(MAX(round) + 1, 0) FROM rounds WHERE {is_over}");
        self.db.query_row(&query, [], |row| row.get::<_, i64>(0)).map(|rounds| rounds as u64)
    }

    /// Adds a client to a round, or changes its outcome.
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

    /// Notes that no client has joined, and that one of the connected clients was invited.
    pub(crate) fn force(&mut self, round: u64, present: &[bool]) -> Result<()> {
        self.write()?
            .prepare_cached("UPDATE rounds SET forced = 1, fallback = ?2 WHERE round = ?1")?
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

    /// Notes that an update of a member of the round under way was refused.
    pub(crate) fn refused(&mut self, round: u64, client: u32) -> Result<()> {
        let mut query = self.write()?.prepare_cached(
            "UPDATE joins SET outcome = 'refused' WHERE round = ?1 AND client = ?2 AND outcome = 'selected'",
        )?;
        query.execute(params![round as i64, client])?;
        Ok(())
    }

    /// Notes that a report came after its round was over; whether it was awaited at all.
    pub(crate) fn late(&mut self, round: u64, client: u32) -> Result<bool> {
        let db = self.write()?;
        let changed = db
            .prepare_cached(
                "UPDATE joins SET outcome = 'late' WHERE round = ?1 AND client = ?2 AND outcome IN ('missing', 'gone')",
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

    /// The outcome of a client in a round, and the checksum of its report.
    pub(crate) fn outcome(&self, round: u64, client: u32) -> Result<Option<(Outcome, Vec<u8>)>> {
        let mut query = self.db.prepare_cached(
            "SELECT outcome, COALESCE(sha256, x'') FROM joins WHERE round = ?1 AND client = ?2",
        )?;
        let row = |row: &Row<'_>| Ok((Outcome::from_name(&row.get::<_, String>(0)?), row.get(1)?));
        query.query_row(params![round as i64, client], row).optional()
    }

    /// Ends a round: missing clients, weights and model in one transaction.
    pub(crate) fn end_round(&mut self, end: &RoundEnd) -> Result<()> {
        let db = self.write()?;
        let round = end.round as i64;
        let mut query = db.prepare_cached(
            "UPDATE joins SET outcome = ?3 WHERE round = ?1 AND client = ?2 AND outcome IN ('invited', 'selected')",
        )?;
        for (client, outcome) in &end.unreported {
            query.execute(params![round, client, outcome.name()])?;
        }
        // Those that were revoked in the meantime are members no longer.
        db.execute(
            "UPDATE joins SET outcome = 'missing' WHERE round = ?1 AND outcome IN ('invited', 'selected')",
            [round],
        )?;
        db.execute(
            "UPDATE clients SET missing = missing + 1 WHERE client IN
               (SELECT client FROM joins WHERE round = ?1 AND outcome IN ('missing', 'gone', 'refused'))",
            [round],
        )?;
        let mut query =
            db.prepare_cached("UPDATE joins SET weight = ?3 WHERE round = ?1 AND client = ?2")?;
        for (client, weight) in &end.weights {
            query.execute(params![round, client, weight])?;
        }
        db.execute(
            "UPDATE clients SET failures = 0, eligible_from = 0 WHERE failures > 0 AND client IN
               (SELECT client FROM joins WHERE round = ?1 AND outcome = 'reported')",
            [round],
        )?;
        let mut query = db.prepare_cached(
            "UPDATE clients SET failures = ?2, eligible_from = ?3 WHERE client = ?1",
        )?;
        for (client, failures) in &end.failures {
            query.execute(params![client, failures.in_a_row(), failures.eligible_from() as i64])?;
        }
        if let Some(model) = &end.model {
            insert_model(db, model)?;
        }
        db.execute(
            "UPDATE rounds SET state = ?2, seconds = ?3, loss = ?4, accuracy = ?5, note = ?6,
               selected = (SELECT COUNT(*) FROM joins WHERE round = ?1 AND outcome IN ('reported', 'missing', 'gone', 'refused', 'surplus')),
               reported = (SELECT COUNT(*) FROM joins WHERE round = ?1 AND outcome = 'reported')
             WHERE round = ?1",
            params![
                round,
                end.outcome.name(),
                end.seconds,
                end.loss,
                end.accuracy,
                end.note
            ],
        )?;
        Ok(())
    }

    /// The norms of the last so many updates that were accepted before a round, since the last rollback and under these settings or later
    /// ones, in the order of rounds and clients.
    pub(crate) fn last_norms(&self, round: u64, settings: u32, limit: usize) -> Result<Vec<f64>> {
        let mut query = self.db.prepare_cached(
            "SELECT norm FROM joins WHERE round < ?1 AND outcome = 'reported'
               AND round >= (SELECT COALESCE(MAX(round), 0) FROM rollbacks)
               AND round >= (SELECT COALESCE(MAX(round) + 1, 0) FROM rounds WHERE settings < ?2)
             ORDER BY round DESC, client DESC LIMIT ?3",
        )?;
        let norms =
            query.query_map(params![round as i64, settings, limit as i64], |row| row.get(0))?;
        let mut norms = norms.collect::<Result<Vec<f64>>>()?;
        norms.reverse();
        Ok(norms)
    }

    /// Loss and accuracy of the last model before a version that was evaluated, but for those that a rollback has set aside.
    pub(crate) fn last_evaluation(&self, version: u64) -> Result<Option<(f64, Option<f64>)>> {
        let mut query = self.db.prepare_cached(
            "SELECT loss, accuracy FROM rounds WHERE round < ?1 AND state = 'committed' AND loss IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM rollbacks WHERE version <= rounds.round AND rounds.round < rollbacks.round)
             ORDER BY round DESC LIMIT 1",
        )?;
        query.query_row([version as i64], |row| Ok((row.get(0)?, row.get(1)?))).optional()
    }

    /// The round under way trains this version from now on.
    pub(crate) fn train_version(&mut self, round: u64, version: u64, note: &str) -> Result<()> {
        self.write()?.execute(
            "UPDATE rounds SET model = ?2, note = ?3 WHERE round = ?1",
            params![round as i64, version as i64, note],
        )?;
        Ok(())
    }

    /// The number of reports of each round that is over, in order, with those that were not waited for.
    pub(crate) fn report_counts(&self) -> Result<Vec<u64>> {
        let is_over = RoundOutcome::IS_OVER;
        let query = format!(
            "SELECT reported + (SELECT COUNT(*) FROM joins WHERE joins.round = rounds.round AND outcome = 'surplus')
             FROM rounds WHERE {is_over} ORDER BY round"
        );
        let mut query = self.db.prepare(&query)?;
        query.query_map([], |row| row.get::<_, i64>(0).map(|count| count as u64))?.collect()
    }
}

/// Eight clients in a byte.
fn to_bits(mask: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| {
        eight.iter().enumerate().fold(0, |byte, (place, &set)| byte | (u8::from(set) << place))
    };
    mask.chunks(8).map(byte).collect()
}
