//! From version 7 to version 8: the failures of each client can be found. Rounds that are over were played with a fixed deadline.

use super::edit_settings;
use crate::coordinator::error::CoordinatorError;
use rusqlite::Connection;
use toml::Value;

const INDEX: &str = "
CREATE INDEX failed_joins ON joins (client, round) WHERE outcome IN ('missing', 'gone', 'refused', 'late');";

pub(super) fn migrate(db: &Connection) -> Result<(), CoordinatorError> {
    db.execute_batch(INDEX)?;
    edit_settings(db, |settings| {
        if let Some(round) = settings.get_mut("round").and_then(Value::as_table_mut) {
            round.insert("report_deadline".to_string(), Value::String("fixed".to_string()));
        }
    })
}
