//! From version 2, that of 0.1, to version 3: the words of 0.2.

use super::{edit_settings, read};
use crate::coordinator::error::CoordinatorError;
use agewise_train::aggregation::AggregationParams;
use rusqlite::{Connection, OptionalExtension};
use toml::{Table, Value};

pub(super) fn migrate(db: &Connection) -> Result<(), CoordinatorError> {
    db.execute_batch(
        "ALTER TABLE rounds RENAME COLUMN recalled TO fallback;
         UPDATE joins SET outcome = 'invited' WHERE outcome = 'called';
         UPDATE refusals SET reason = 'draw' WHERE reason = 'lot';
         UPDATE refusals SET reason = 'signature' WHERE reason = 'seal';
         UPDATE refusals SET reason = 'not-invited' WHERE reason = 'not-called';
         UPDATE run SET key = 'policy-state' WHERE key = 'memory';
         UPDATE run SET key = 'round.draws' WHERE key = 'round.lots';
         INSERT INTO ages SELECT round, 255, SUM(clients) FROM ages WHERE age > 255 GROUP BY round
           ON CONFLICT DO UPDATE SET clients = clients + excluded.clients;
         DELETE FROM ages WHERE age > 255;",
    )?;
    edit_settings(db, rename)?;
    // Which server rule a run has cannot change, so the last settings say it.
    let query = "SELECT config FROM settings ORDER BY number DESC LIMIT 1";
    let last: Option<String> = db.query_row(query, [], |row| row.get(0)).optional()?;
    if let Some(text) = last {
        let fact = server_rule(&read(&text)?)?;
        db.execute(
            "INSERT INTO run (key, value) VALUES ('aggregation', CAST(?1 AS BLOB))",
            [fact],
        )?;
    }
    db.execute("DELETE FROM run WHERE key = 'server'", [])?;
    Ok(())
}

/// The settings in the words of 0.2.
fn rename(settings: &mut Table) {
    for (table, old, new) in [
        ("limits", "strangers", "unauthenticated"),
        ("limits", "stranger_seconds", "handshake_seconds"),
        ("round", "lots", "draws"),
    ] {
        if let Some(Value::Table(table)) = settings.get_mut(table)
            && let Some(value) = table.remove(old)
        {
            table.insert(new.to_string(), value);
        }
    }
    let mut aggregation = Table::new();
    if let Some(Value::Table(updates)) = settings.get_mut("updates") {
        for (old, new) in [("combine", "rule"), ("trim", "trim"), ("clip_norm", "clip_norm")] {
            aggregation.extend(updates.remove(old).map(|value| (new.to_string(), value)));
        }
    }
    aggregation.extend(settings.remove("server").map(|rule| ("server".to_string(), rule)));
    settings.insert("aggregation".to_string(), Value::Table(aggregation));
}

/// The rule of the server, as 0.2 writes it among the facts of a run.
fn server_rule(settings: &Table) -> Result<String, CoordinatorError> {
    let rule = settings.get("aggregation").and_then(|rules| rules.get("server")).cloned();
    let server = rule.map(Value::try_into).transpose().map_err(|error| {
        CoordinatorError::Corrupt(format!(
            "the server's rule in the ledger cannot be read: {error}"
        ))
    })?;
    let server = server.unwrap_or_default();
    Ok(AggregationParams { server, ..AggregationParams::default() }.to_string())
}
