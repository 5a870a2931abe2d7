//! The versions of the ledger, and how an older one becomes the newest.
//!
//! A new ledger is made by `schema.sql` as it is now. A ledger of an older version goes through the steps from its version on, all of
//! them in one transaction: a coordinator that is killed in between leaves the ledger as it was.
//!
//! To add a table, a column or an index, or to change what settings or rows mean:
//!
//! 1. change `schema.sql` (new columns at the end of their table, as `ALTER TABLE` puts them there);
//! 2. append one step to [`STEPS`]: a statement or a function, which may use [`edit_settings`];
//! 3. say in docs/upgrading.md what changes for a run that goes on.
//!
//! [`SCHEMA`] counts the steps, so two branches that add a step each only have to put both into the list. The tests take an old
//! ledger through all of them, and compare every table with that of a new ledger.

mod version_3;
mod version_6;
mod version_8;

use super::Ledger;
use crate::coordinator::error::CoordinatorError;
use rusqlite::{Connection, params};

/// The oldest version that can be brought to the newest one: that of 0.1.
pub(crate) const OLDEST: i64 = 2;

/// A step from one version to the next.
enum Step {
    /// Everything that SQL can say.
    Sql(&'static str),
    /// Everything else.
    Code(fn(&Connection) -> Result<(), CoordinatorError>),
}

/// The steps, the first from [`OLDEST`].
const STEPS: &[Step] = &[
    // 3: the words of 0.2.
    Step::Code(version_3::migrate),
    // 4: a key belongs to one client, and draws cover the client's number. Rounds so far were played with the draws of version 1. Joining
    // is closed in the round under way, as what its clients prove from now on is another draw. Where clients share a key it stays with the
    // first of them.
    Step::Sql(
        "ALTER TABLE rounds ADD COLUMN draw_version INTEGER NOT NULL DEFAULT 2;
         UPDATE rounds SET draw_version = 1;
         UPDATE rounds SET state = 'training' WHERE state = 'joining';
         CREATE TABLE key_owners (key BLOB PRIMARY KEY, client INTEGER NOT NULL) WITHOUT ROWID;
         INSERT INTO key_owners SELECT key, MIN(client) FROM keys GROUP BY key;",
    ),
    // 5: going back to the model of an earlier round.
    Step::Sql(
        "CREATE TABLE rollbacks (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, asked INTEGER NOT NULL, round INTEGER, refused TEXT);",
    ),
    // 6: failures in a row, and suspensions.
    Step::Code(version_6::migrate),
    // 7: up to which round draws may be of version 1, so that an audit does not take them in a later one.
    Step::Sql(
        "INSERT INTO run (key, value)
         SELECT 'draws-of-version-1', COALESCE(MAX(round) + 1, 0) FROM rounds WHERE draw_version = 1;",
    ),
    // 8: the failures of a client, for the rule of suspensions. Rounds so far were played with a fixed deadline.
    Step::Code(version_8::migrate),
];

/// The newest version, which this program writes.
pub(crate) const SCHEMA: i64 = OLDEST + STEPS.len() as i64;

impl Ledger {
    /// Brings a ledger of an older version, from [`OLDEST`] on, to the newest one; says from which version.
    pub(crate) fn migrate(&mut self) -> Result<Option<i64>, CoordinatorError> {
        self.migrate_if(|_| Ok(()))
    }

    /// The same, unless the ledger of the newest version does not pass a check: then it stays as it is.
    pub(crate) fn migrate_if(
        &mut self,
        check: impl FnOnce(&Self) -> Result<(), CoordinatorError>,
    ) -> Result<Option<i64>, CoordinatorError> {
        let migrated = self.take_steps().and_then(|from| check(self).map(|()| from));
        match migrated {
            Ok(_) => self.commit()?,
            Err(_) => self.roll_back(),
        }
        migrated
    }

    fn take_steps(&mut self) -> Result<Option<i64>, CoordinatorError> {
        // Inside the transaction, so that nothing comes in between.
        self.write()?;
        let version = self.schema()?.unwrap_or_default();
        let first = usize::try_from(version - OLDEST).unwrap_or(STEPS.len());
        let steps = STEPS.get(first..).unwrap_or_default();
        let db = self.write()?;
        for step in steps {
            match step {
                Step::Sql(text) => db.execute_batch(text)?,
                Step::Code(migrate) => migrate(db)?,
            }
        }
        if steps.is_empty() {
            return Ok(None);
        }
        db.execute("UPDATE run SET value = ?1 WHERE key = 'schema'", params![SCHEMA])?;
        Ok(Some(version))
    }
}

/// Changes the settings of every start. What they do not say is what this program would take for them, so a setting whose default changes
/// has to be written into them with the value that it had.
fn edit_settings(db: &Connection, edit: impl Fn(&mut toml::Table)) -> Result<(), CoordinatorError> {
    let mut query = db.prepare("SELECT number, config FROM settings")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (number, text) in rows.collect::<rusqlite::Result<Vec<(i64, String)>>>()? {
        let mut settings = read(&text)?;
        edit(&mut settings);
        let text = toml::to_string(&settings)?;
        db.execute("UPDATE settings SET config = ?2 WHERE number = ?1", params![number, text])?;
    }
    Ok(())
}

fn read(settings: &str) -> Result<toml::Table, CoordinatorError> {
    toml::from_str(settings).map_err(|error| {
        CoordinatorError::Corrupt(format!("the settings in the ledger cannot be read: {error}"))
    })
}

#[cfg(test)]
mod tests;
