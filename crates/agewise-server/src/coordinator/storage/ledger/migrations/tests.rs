//! Old ledgers, as the programs of their time wrote them.

use super::*;
use crate::coordinator::state_machine::read_settings;
use std::path::Path;

/// A small run of 0.1, in which one client of four was revoked: `sqlite3 state/ledger.sqlite .dump`.
const VERSION_2: &str = include_str!("fixtures/version-2.sql");

fn old(text: &str) -> Ledger {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(text).unwrap();
    Ledger { db, writing: false }
}

fn rows(ledger: &Ledger, query: &str) -> Vec<String> {
    let mut query = ledger.db.prepare(query).unwrap();
    let columns = query.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let cells = (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at));
        cells.collect::<rusqlite::Result<Vec<_>>>().map(|cells| format!("{cells:?}"))
    };
    query.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

/// Every column of every table, and the columns of every index.
fn shape(ledger: &Ledger) -> Vec<String> {
    let columns = "SELECT t.name, c.* FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'
                   ORDER BY t.name, c.cid";
    let indexes = "SELECT t.name, l.\"unique\", i.seqno, i.name FROM sqlite_schema t, pragma_index_list(t.name) l,
                   pragma_index_info(l.name) i WHERE t.type = 'table' ORDER BY t.name, l.name, i.seqno";
    [rows(ledger, columns), rows(ledger, indexes)].concat()
}

#[test]
fn an_old_ledger_gets_the_tables_of_a_new_one() {
    let mut ledger = old(VERSION_2);
    assert_eq!(ledger.schema().unwrap(), Some(2));
    assert_eq!(ledger.migrate().unwrap(), Some(2));
    assert_eq!(ledger.schema().unwrap(), Some(SCHEMA));
    let new = Ledger::open(Path::new(":memory:")).unwrap();
    assert_eq!(shape(&ledger), shape(&new));
    // There is nothing left to do.
    assert_eq!(ledger.migrate().unwrap(), None);
    assert_eq!(rows(&ledger, "PRAGMA integrity_check"), [r#"[Text("ok")]"#]);
}

#[test]
fn the_rows_of_version_2_are_kept_in_the_words_of_0_2() {
    // What did not happen in that run.
    let more = "UPDATE joins SET outcome = 'called' WHERE round = 5;
                INSERT INTO run VALUES ('memory', x'0102');
                INSERT INTO refusals VALUES (1, 0, 'seal', '', 3), (1, 0, 'lot', '', 4), (2, -1, 'not-called', '', 5);";
    let [before, mut ledger] = [old(VERSION_2), old(VERSION_2)];
    before.db.execute_batch(more).unwrap();
    ledger.db.execute_batch(more).unwrap();
    ledger.migrate().unwrap();
    for (old, new) in [
        ("SELECT *, 0, 0 FROM clients", "SELECT * FROM clients"),
        (
            "SELECT round, recalled, seed, present FROM rounds",
            "SELECT round, fallback, seed, present FROM rounds",
        ),
        (
            "SELECT round, client, age, proof FROM joins",
            "SELECT round, client, age, proof FROM joins",
        ),
        ("SELECT COUNT(*), SUM(count) FROM refusals", "SELECT COUNT(*), SUM(count) FROM refusals"),
        (
            "SELECT SUM(clients) FROM ages GROUP BY round",
            "SELECT SUM(clients) FROM ages GROUP BY round",
        ),
        (
            "SELECT value FROM run WHERE key = 'round.lots'",
            "SELECT value FROM run WHERE key = 'round.draws'",
        ),
        (
            "SELECT COUNT(*) FROM joins WHERE outcome = 'called'",
            "SELECT COUNT(*) FROM joins WHERE outcome = 'invited'",
        ),
        (
            "SELECT value FROM run WHERE key = 'memory'",
            "SELECT value FROM run WHERE key = 'policy-state'",
        ),
        (
            "SELECT count FROM refusals WHERE reason = 'seal'",
            "SELECT count FROM refusals WHERE reason = 'signature'",
        ),
        (
            "SELECT count FROM refusals WHERE reason = 'lot'",
            "SELECT count FROM refusals WHERE reason = 'draw'",
        ),
        (
            "SELECT count FROM refusals WHERE reason = 'not-called'",
            "SELECT count FROM refusals WHERE reason = 'not-invited'",
        ),
    ] {
        let (old, new) = (rows(&before, old), rows(&ledger, new));
        assert!(!old.is_empty());
        assert_eq!(old, new);
    }
    assert_eq!(ledger.fact("aggregation").unwrap().as_deref(), Some(&b"mean"[..]));
    assert_eq!(ledger.fact("server").unwrap(), None);
    let settings = ledger.settings().unwrap();
    let config = read_settings(&settings[0], None).unwrap();
    assert_eq!((config.params.round.clients, config.params.round.cohort), (4, 2));
    assert_eq!(config.params.limits.unauthenticated, 1_000);
}

/// Old ages of one round, together in one row of the greatest.
#[test]
fn ages_above_the_greatest_are_counted_together() {
    let mut ledger = old(VERSION_2);
    let insert = "INSERT INTO ages VALUES (99, 3, 1), (99, 255, 2), (99, 256, 4), (99, 4000, 8), (98, 256, 16)";
    ledger.db.execute_batch(insert).unwrap();
    ledger.migrate().unwrap();
    let found = rows(&ledger, "SELECT age, clients FROM ages WHERE round > 90 ORDER BY round, age");
    let expected =
        ["[Integer(255), Integer(16)]", "[Integer(3), Integer(1)]", "[Integer(255), Integer(14)]"];
    assert_eq!(found, expected);
}

#[test]
fn the_rule_of_the_server_becomes_a_fact_of_the_run() {
    let mut ledger = old(VERSION_2);
    let adam = "[server]\nrule = \"adam\"\nlearning_rate = 0.01\nbeta1 = 0.8999999761581421\nbeta2 = 0.95\ntau = 0.001\n";
    ledger.db.execute("UPDATE settings SET config = ?1", [adam]).unwrap();
    ledger.migrate().unwrap();
    let fact = ledger.fact("aggregation").unwrap().unwrap();
    assert_eq!(String::from_utf8(fact).unwrap(), "adam(beta2=0.95)");
}

/// What cannot be read is left as it was, whatever was done before that was found.
#[test]
fn a_step_that_fails_changes_nothing() {
    let mut ledger = old(VERSION_2);
    ledger.db.execute("UPDATE settings SET config = 'no [ TOML'", []).unwrap();
    let before = (shape(&ledger), rows(&ledger, "SELECT * FROM refusals"));
    let error = ledger.migrate().unwrap_err().to_string();
    assert!(error.contains("settings"), "{error}");
    assert_eq!((shape(&ledger), rows(&ledger, "SELECT * FROM refusals")), before);
    assert_eq!(ledger.schema().unwrap(), Some(2));
}

/// A copy in memory is brought to the newest version, and the file stays as it is.
#[test]
fn a_copy_leaves_the_ledger_alone() {
    let ledger = old(VERSION_2);
    let mut copy = ledger.copy().unwrap();
    assert_eq!(copy.migrate().unwrap(), Some(2));
    assert_eq!((ledger.schema().unwrap(), copy.schema().unwrap()), (Some(2), Some(SCHEMA)));
    assert_eq!(copy.past_clients().unwrap().len(), 4);
}

/// Where clients share a key it stays with the first of them, and it is nobody else's from then on.
#[test]
fn a_shared_key_gets_one_owner() {
    let mut ledger = old(VERSION_2);
    let share =
        "UPDATE keys SET key = (SELECT key FROM keys WHERE client = 1) WHERE client IN (1, 3)";
    ledger.db.execute(share, []).unwrap();
    ledger.migrate().unwrap();
    let owners =
        "SELECT o.client, COUNT(*) FROM key_owners o JOIN keys USING (key) GROUP BY o.client";
    let expected =
        ["[Integer(0), Integer(1)]", "[Integer(1), Integer(2)]", "[Integer(2), Integer(1)]"];
    assert_eq!(rows(&ledger, owners), expected);
    let shared = ledger.key_in(3, 99).unwrap().unwrap();
    ledger.set_key(1, 7, shared).unwrap();
    assert!(ledger.set_key(3, 7, shared).is_err());
    assert!(ledger.set_key(0, 7, shared).is_err());
}

/// Rounds of the time before are audited with the draws of that time; one that was open for joining is closed.
#[test]
fn old_rounds_keep_their_draws() {
    let mut ledger = old(VERSION_2);
    ledger.db.execute("UPDATE rounds SET state = 'joining' WHERE round = 5", []).unwrap();
    ledger.migrate().unwrap();
    let versions = rows(&ledger, "SELECT DISTINCT draw_version FROM rounds");
    assert_eq!(versions, ["[Integer(1)]"]);
    assert_eq!(
        rows(&ledger, "SELECT state FROM rounds WHERE round = 5"),
        [r#"[Text("training")]"#]
    );
}
