//! The facts of the live page for programs.

use super::history::Snapshot;
use super::status::state_name;
use crate::coordinator::shared::LiveStatus;
use crate::coordinator::storage::ledger::WaitingClient;
use serde_json::{Value, json};

/// Where the run stands and what has happened; `live` is null while the coordinator starts or stops.
pub(super) fn state(live: Option<&LiveStatus>, seen: &Snapshot) -> String {
    let ages = seen.ages.iter().filter(|(round, ..)| Some(round) == last_round(seen).as_ref());
    let body = json!({
        "run": seen.run,
        "state": state_name(live),
        "live": live,
        "rounds_over": seen.rounds_over(),
        "last_rounds": seen.rounds,
        "ages": {
            "round": last_round(seen),
            "counts": ages
                .map(|(_, age, clients)| json!({ "age": age, "clients": clients }))
                .collect::<Vec<_>>(),
        },
        "credited_intervals": seen
            .credited
            .iter()
            .map(|(age, clients)| json!({ "interval": age.saturating_add(1), "clients": clients }))
            .collect::<Vec<_>>(),
        "waiting_longest": seen
            .waiting
            .iter()
            .map(|client| waiting(seen, client))
            .collect::<Vec<_>>(),
        "refused_most": seen.refused,
    });
    format!("{body}\n")
}

/// The answer when there is none.
pub(super) fn unreadable() -> String {
    format!("{}\n", json!({ "error": "the ledger cannot be read at the moment" }))
}

/// The last round with known ages.
fn last_round(seen: &Snapshot) -> Option<u64> {
    seen.ages.last().map(|(round, ..)| *round)
}

fn waiting(seen: &Snapshot, client: &WaitingClient) -> Value {
    json!({
        "client": client.client,
        "name": client.name,
        "age": seen.age(client),
        "reports": client.reports,
        "late": client.late,
        "missing": client.missing,
        "refused": client.refused,
    })
}
