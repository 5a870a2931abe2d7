//! The ledger as another program reads it, and what must hold in it at any instant.

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct Ledger {
    db: Connection,
    path: PathBuf,
}

type Table = Vec<Vec<Cell>>;

impl Ledger {
    pub(crate) fn open(path: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).unwrap();
        db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        Self { db, path: path.to_path_buf() }
    }

    pub(crate) fn number(&self, query: &str) -> i64 {
        let found = self.db.query_row(query, [], |row| row.get(0));
        found.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    pub(crate) fn table(&self, query: &str) -> Table {
        let mut query = self.db.prepare(query).unwrap();
        let columns = query.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
        query.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// How many rounds are over. A run that has just begun may have no tables yet.
    pub(crate) fn rounds_over(&self) -> i64 {
        let query = "SELECT COUNT(*) FROM rounds WHERE state NOT IN ('joining', 'training')";
        self.db.query_row(query, [], |row| row.get(0)).unwrap_or(0)
    }

    /// The cohorts of all rounds.
    pub(crate) fn cohorts(&self) -> Table {
        self.table("SELECT round, client, age, sha256 FROM joins WHERE outcome = 'reported' ORDER BY round, client")
    }
}

/// What was seen of a run, which must never change again.
#[derive(Default)]
pub(crate) struct Snapshot {
    rounds: BTreeMap<i64, Vec<Cell>>,
    reports: BTreeMap<(i64, i64), Vec<Cell>>,
    first_ages: BTreeMap<i64, i64>,
}

/// A whole number of a row.
pub(crate) fn whole(cell: &Cell) -> i64 {
    match cell {
        Cell::Integer(value) => *value,
        other => panic!("expected a whole number, found {other:?}"),
    }
}

impl Snapshot {
    /// Checks a ledger against itself and against everything that was seen before.
    pub(crate) fn check(&mut self, ledger: &Ledger) {
        // One state of the ledger, also while the coordinator goes on.
        ledger.db.execute_batch("BEGIN").unwrap();
        self.check_rounds(ledger);
        self.check_reports(ledger);
        self.check_clients(ledger);
        check_models(ledger);
        ledger.db.execute_batch("COMMIT").unwrap();
    }

    /// Rounds follow each other, and one that is over stays as it is.
    fn check_rounds(&mut self, ledger: &Ledger) {
        let all = ledger.table("SELECT round, state FROM rounds ORDER BY round");
        for (at, row) in all.iter().enumerate() {
            assert_eq!(whole(&row[0]), at as i64, "rounds are consecutive");
            let is_over = ["committed", "abandoned", "refused"]
                .iter()
                .any(|state| row[1] == Cell::Text((*state).into()));
            assert!(is_over || at + 1 == all.len(), "only the last round is under way: {row:?}");
        }
        // Late and refused reports may still be counted for a round that is over.
        let over = ledger.table(
            "SELECT round, state, interval, clients, model, began, available, selected, reported, forced, seconds, loss,
               accuracy, note FROM rounds WHERE state NOT IN ('joining', 'training')",
        );
        let over: BTreeMap<i64, Vec<Cell>> =
            over.into_iter().map(|row| (whole(&row[0]), row)).collect();
        for (round, row) in &self.rounds {
            assert_eq!(over.get(round), Some(row), "round {round} was over");
        }
        self.rounds = over;
    }

    /// A report that was credited stays so; those of a round that is over are the ones that it counted.
    fn check_reports(&mut self, ledger: &Ledger) {
        let all = ledger.table(
            "SELECT round, client, age, draws, samples, loss, seconds, norm, sha256 FROM joins WHERE outcome = 'reported'",
        );
        let all: BTreeMap<(i64, i64), Vec<Cell>> =
            all.into_iter().map(|row| ((whole(&row[0]), whole(&row[1])), row)).collect();
        for (place, row) in &self.reports {
            assert_eq!(all.get(place), Some(row), "the report of round and client {place:?}");
        }
        self.reports = all;
        let wrong = ledger.table(
            "SELECT round FROM rounds WHERE state NOT IN ('joining', 'training') AND reported !=
               (SELECT COUNT(*) FROM joins WHERE joins.round = rounds.round AND outcome = 'reported')",
        );
        assert_eq!(wrong, Table::new(), "rounds that counted other reports");
        let wrong = ledger.table(
            "SELECT * FROM joins WHERE outcome IN ('invited', 'selected') AND round IN
               (SELECT round FROM rounds WHERE state NOT IN ('joining', 'training'))",
        );
        assert_eq!(wrong, Table::new(), "clients that are awaited in a round that is over");
    }

    /// Who was credited last in round t waits since t + 1, and who never was waits since it came.
    fn check_clients(&mut self, ledger: &Ledger) {
        let rows = ledger.table(
            "SELECT clients.client, waiting_since, reports, COUNT(joins.round), COALESCE(MAX(joins.round), -1)
             FROM clients LEFT JOIN joins ON joins.client = clients.client AND joins.outcome = 'reported'
             GROUP BY clients.client",
        );
        for row in rows {
            let [client, since, reports, rounds, last] = [0, 1, 2, 3, 4].map(|at| whole(&row[at]));
            assert_eq!(reports, rounds, "client {client}: each report counts once");
            let expected =
                if rounds > 0 { last + 1 } else { *self.first_ages.entry(client).or_insert(since) };
            assert_eq!(since, expected, "client {client}: its age");
        }
    }

    /// How many rounds were seen to be over, and how many credits.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.rounds.len(), self.reports.len())
    }

    /// Whether a client was credited in a round.
    pub(crate) fn credits(&self, round: i64, client: i64) -> bool {
        self.reports.contains_key(&(round, client))
    }
}

/// The newest model is the one of the newest round that made one, and its file is whole.
fn check_models(ledger: &Ledger) {
    let committed =
        ledger.number("SELECT COALESCE(MAX(round), -1) FROM rounds WHERE state = 'committed'");
    let newest = ledger.table(
        "SELECT version, file, sha256 FROM models WHERE damaged = 0 ORDER BY version DESC LIMIT 1",
    );
    let Some(row) = newest.first() else {
        // Killed before the first model was there.
        assert_eq!(committed, -1);
        return;
    };
    assert_eq!(
        whole(&row[0]),
        committed + 1,
        "every committed round has its model, or a newer one"
    );
    let (Cell::Text(file), Cell::Blob(sha256)) = (&row[1], &row[2]) else { panic!("{row:?}") };
    let bytes = fs::read(ledger.path.with_file_name("models").join(file)).unwrap();
    assert_eq!(Sha256::digest(bytes).to_vec(), *sha256, "{file}");
}
