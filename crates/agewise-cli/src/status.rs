//! `agewise status`: how a run goes.

use super::network::{TokenArgs, TrustArgs, block_on};
use super::table::table;
use super::{Failure, print, print_json};
use agewise_server::protocol::{State, StatusReply};
use agewise_server::remote::{RemoteError, status};
use clap::Args;
use data_encoding::HEXLOWER;
use serde_json::json;
use std::fmt::Write as _;

#[derive(Debug, Args)]
#[command(about = "Show the status of a run: round, cohort, ages, health")]
pub(crate) struct StatusArgs {
    /// The coordinator: https://HOST:PORT (http:// only on loopback)
    #[arg(value_name = "URL")]
    coordinator: String,

    #[command(flatten)]
    trust: TrustArgs,

    #[command(flatten)]
    token: TokenArgs,

    /// Print one JSON document instead of the text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    let (trust, token) = (args.trust.trust()?, args.token.read()?);
    let reply = block_on(async {
        status(&args.coordinator, &trust, token.as_ref()).await.map_err(|error| match error {
            RemoteError::Input(error) => error.into(),
            _ => Failure::Io(format!("{}: {error}", args.coordinator)),
        })
    })?;
    if args.json {
        return print_json(&as_json(&reply));
    }
    print(&as_text(&reply))
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Unspecified => "unknown",
        State::Waiting => "waiting",
        State::Joining => "joining",
        State::Training => "training",
        State::Aggregating => "aggregating",
        State::Draining => "draining",
        State::Finished => "finished",
    }
}

fn as_text(reply: &StatusReply) -> String {
    let mut text = String::new();
    let of = if reply.rounds == 0 { String::new() } else { format!(" of {}", reply.rounds) };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "round      {}{of}, {}", reply.round, state_name(reply.state()));
    let _ = writeln!(text, "policy     {}", reply.policy);
    let _ = writeln!(text, "clients    {} connected of {}", reply.connected, reply.enrolled);
    let _ = writeln!(
        text,
        "cohort     {} joined, {} reported; {} expected, interval {:.2} rounds",
        reply.selected, reply.reported, reply.target, reply.interval
    );
    if reply.sessions_taken_over > 0 {
        let count = reply.sessions_taken_over;
        let _ = writeln!(
            text,
            "sessions   {count} taken over from another connection of the same client"
        );
    }
    let total: u64 = reply.ages.iter().map(|count| u64::from(count.clients)).sum();
    let sum: u64 = reply.ages.iter().map(|count| count.age * u64::from(count.clients)).sum();
    if let Some(oldest) = reply.ages.last().filter(|_| total > 0) {
        let mean = sum as f64 / total as f64;
        let _ = writeln!(
            text,
            "ages       {mean:.2} on average, {} at most ({} client{})",
            oldest.age,
            oldest.clients,
            if oldest.clients == 1 { "" } else { "s" }
        );
    }
    let health = match reply.warnings.len() {
        0 => "ok".to_string(),
        1 => "1 warning".to_string(),
        count => format!("{count} warnings"),
    };
    let _ = writeln!(text, "health     {health}");
    for warning in &reply.warnings {
        let _ = writeln!(text, "warning    {warning}");
    }
    if reply.history.is_empty() {
        return text;
    }
    let rows = reply.history.iter().map(|round| {
        let outcome = match (round.outcome.as_str(), round.committed) {
            ("", true) => "committed",
            ("", false) => "abandoned",
            (outcome, _) => outcome,
        };
        let forced = if round.forced { ", forced" } else { "" };
        [
            round.round.to_string(),
            format!("{outcome}{forced}"),
            round.available.to_string(),
            round.selected.to_string(),
            round.reported.to_string(),
            round.late.to_string(),
            round.refused.to_string(),
            round.accuracy.map_or("-".to_string(), |accuracy| format!("{accuracy:.4}")),
            format!("{:.2}", round.seconds),
        ]
    });
    let columns = [
        "round",
        "outcome",
        "available",
        "selected",
        "reported",
        "late",
        "refused",
        "accuracy",
        "seconds",
    ];
    let _ = writeln!(text, "{}", table(columns, 2..=8, rows));
    text
}

fn as_json(reply: &StatusReply) -> serde_json::Value {
    let history: Vec<_> = reply
        .history
        .iter()
        .map(|round| {
            json!({
                "round": round.round,
                "committed": round.committed,
                "outcome": round.outcome,
                "note": round.note,
                "forced": round.forced,
                "available": round.available,
                "selected": round.selected,
                "reported": round.reported,
                "late": round.late,
                "refused": round.refused,
                "accuracy": round.accuracy,
                "loss": round.loss,
                "seconds": round.seconds,
            })
        })
        .collect();
    let ages: Vec<_> = reply.ages.iter().map(|count| json!([count.age, count.clients])).collect();
    json!({
        "run": HEXLOWER.encode(&reply.run),
        "state": state_name(reply.state()),
        "round": reply.round,
        "rounds": reply.rounds,
        "policy": reply.policy,
        "enrolled": reply.enrolled,
        "connected": reply.connected,
        "target": reply.target,
        "selected": reply.selected,
        "reported": reply.reported,
        "interval": reply.interval,
        "ages": ages,
        "history": history,
        "warnings": reply.warnings,
        "sessions_taken_over": reply.sessions_taken_over,
    })
}
