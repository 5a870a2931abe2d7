//! From version 5 to version 6: failures of clients in a row, and suspensions. Rounds that are over were played without back-off.

use super::edit_settings;
use crate::coordinator::error::CoordinatorError;
use rusqlite::Connection;
use toml::Value;

const TABLES: &str = "
ALTER TABLE clients ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clients ADD COLUMN eligible_from INTEGER NOT NULL DEFAULT 0;
CREATE TABLE suspensions (
  client INTEGER NOT NULL,
  since  INTEGER NOT NULL,
  reason TEXT NOT NULL,
  lifted INTEGER NOT NULL DEFAULT 0,
  until  INTEGER,
  PRIMARY KEY (client, since)
) WITHOUT ROWID;";

pub(super) fn migrate(db: &Connection) -> Result<(), CoordinatorError> {
    db.execute_batch(TABLES)?;
    edit_settings(db, |settings| {
        if let Some(round) = settings.get_mut("round").and_then(Value::as_table_mut) {
            round.insert("backoff".to_string(), Value::Boolean(false));
            round.insert("suspend_after".to_string(), Value::Integer(0));
        }
    })
}
