//! What has happened so far: read from the ledger, shown as figures and tables.

use super::figures;
use super::status::{accuracy, count};
use crate::config::CoordinatorParams;
use crate::coordinator::shared::LiveStatus;
use crate::coordinator::storage::ledger::{
    Ledger, RefusedCall, RoundOutcome, RoundSummary, WaitingClient,
};
use agewise_plot::{Column, Page, Table};
use data_encoding::HEXLOWER;
use std::path::Path;

/// The most rounds that are read and drawn.
pub(super) const MOST_ROUNDS: u32 = 500;
/// The most columns of the heat map of ages.
pub(super) const MOST_AGE_ROUNDS: u32 = 120;
/// The most rows of each table.
const WAITING_ROWS: u32 = 10;
const REFUSED_ROWS: u32 = 10;
const ROUND_ROWS: usize = 12;

/// The past of a run, as far as it is shown.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The run's id.
    pub(super) run: String,
    /// The settings of the last start.
    pub(super) params: Option<CoordinatorParams>,
    /// The last rounds that are over, oldest first.
    pub(super) rounds: Vec<RoundSummary>,
    /// (round, age, clients), at the beginning of the last rounds.
    pub(super) ages: Vec<(u64, u64, u32)>,
    /// (age, how often it was credited), in the last rounds.
    pub(super) credited: Vec<(u64, u64)>,
    pub(super) waiting: Vec<WaitingClient>,
    /// The most frequent refusals.
    pub(super) refused: Vec<RefusedCall>,
}

impl Snapshot {
    pub(super) fn read(path: &Path) -> rusqlite::Result<Self> {
        Ledger::open_to_read(path)?.at_one_moment(|ledger| {
            let id = ledger.fact("id")?.unwrap_or_default();
            let config = ledger.settings()?.pop().unwrap_or_default();
            let mut rounds = ledger.history(MOST_ROUNDS)?;
            rounds.reverse();
            Ok(Self {
                run: HEXLOWER.encode(&id),
                // Another version may have written it; then the page says less.
                params: toml::from_str(&config).ok(),
                rounds,
                ages: ledger.age_counts(MOST_AGE_ROUNDS)?,
                credited: ledger.credited_ages(MOST_ROUNDS)?,
                waiting: ledger.waiting_longest(WAITING_ROWS)?,
                refused: ledger.refused_most(REFUSED_ROWS)?,
            })
        })
    }

    /// How many rounds are over.
    pub(super) fn rounds_over(&self) -> u64 {
        self.rounds.last().map_or(0, |row| row.round.saturating_add(1))
    }

    /// How long a client has been waiting, in rounds.
    pub(super) fn age(&self, client: &WaitingClient) -> u64 {
        let age = i128::from(self.rounds_over()) - i128::from(client.waiting_since);
        u64::try_from(age).unwrap_or(0)
    }

    /// The last round that was evaluated.
    pub(super) fn evaluated(&self) -> Option<(&RoundSummary, f64)> {
        self.rounds.iter().rev().find_map(|row| row.accuracy.map(|accuracy| (row, accuracy)))
    }
}

/// Everything that is shown of the past, as HTML.
pub(super) fn draw(seen: &Snapshot, live: Option<&LiveStatus>) -> String {
    let mut page = Page::new("");
    if seen.rounds.is_empty() {
        page = page.paragraph(
            "No round is over yet. Accuracy, cohorts, ages and intervals are drawn here as soon as the first one is.",
        );
    } else {
        for (figure, reading) in figures::all(seen, live) {
            page = page.figure(&figure, reading);
        }
    }
    if !seen.waiting.is_empty() {
        page = page.table(waiting_table(seen));
    }
    if !seen.refused.is_empty() {
        page = page.table(refused_table(seen));
    }
    if !seen.rounds.is_empty() {
        page = page.table(round_table(seen));
    }
    page.to_parts().1
}

fn waiting_table(seen: &Snapshot) -> Table {
    let columns = ["age (rounds)", "reports", "late", "missing", "refused"].map(Column::number);
    let table = Table::new([Column::text("client")].into_iter().chain(columns));
    seen.waiting.iter().fold(table.caption("Clients that wait longest"), |table, client| {
        let WaitingClient { name, reports, late, missing, refused, .. } = client;
        table.row([
            name.clone(),
            count(seen.age(client)),
            count(*reports),
            count(*late),
            count(*missing),
            count(*refused),
        ])
    })
}

fn refused_table(seen: &Snapshot) -> Table {
    let columns = [
        Column::text("client"),
        Column::text("reason"),
        Column::number("times"),
        Column::number("last in round"),
        Column::text("what was said"),
    ];
    let table = Table::new(columns).caption("Refused most often");
    seen.refused.iter().fold(table, |table, refused| {
        let RefusedCall { name, reason, count: times, round, detail } = refused;
        let name = name.clone().unwrap_or_else(|| "unknown client".to_string());
        table.row([name, reason.clone(), count(*times), count(*round), detail.clone()])
    })
}

fn round_table(seen: &Snapshot) -> Table {
    let numbers = [
        "connected",
        "selected",
        "reported",
        "late",
        "refused",
        "seconds",
        "test accuracy",
        "test loss",
    ];
    let columns = [Column::text("round"), Column::text("outcome")];
    let table = Table::new(columns.into_iter().chain(numbers.map(Column::number)));
    let last = seen.rounds.iter().rev().take(ROUND_ROWS);
    last.fold(table.caption("The last rounds"), |table, row| {
        table.row([
            count(row.round),
            outcome(row).to_string(),
            count(row.available),
            count(row.selected),
            count(row.reported),
            count(row.late),
            count(row.refused),
            format!("{:.2}", row.seconds),
            row.accuracy.map_or_else(String::new, accuracy),
            row.loss.map_or_else(String::new, |loss| format!("{loss:.4}")),
        ])
    })
}

fn outcome(row: &RoundSummary) -> &'static str {
    match (row.outcome, row.forced) {
        (RoundOutcome::Committed, false) => "new model",
        (RoundOutcome::Committed, true) => "new model, forced",
        (RoundOutcome::Abandoned, false) => "abandoned",
        (RoundOutcome::Abandoned, true) => "abandoned, forced",
        (RoundOutcome::Refused, _) => "model refused",
    }
}
