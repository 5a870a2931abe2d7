//! Where the run stands, in words and numbers.

use super::history::Snapshot;
use crate::coordinator::shared::LiveStatus;
use crate::protocol::State;
use agewise_plot::{KeyFigure, Page};
use std::fmt::Display;

/// The most warnings that are shown; the last ones matter.
const MOST_WARNINGS: usize = 10;
/// Digits of the run's id that tell runs apart.
const RUN_DIGITS: usize = 8;

const UNREADABLE: &str = "The ledger cannot be read at the moment, so there are no figures. The coordinator's log says why.";

/// The part of the page that changes all the time. Without a past the ledger could not be read.
pub(super) fn section(live: Option<&LiveStatus>, seen: Option<&Snapshot>) -> String {
    let mut page = Page::new("").heading(words(live, seen)).paragraph(about(live, seen));
    let warnings = live.map_or(&[][..], |live| &live.warnings);
    let first = warnings.len().saturating_sub(MOST_WARNINGS);
    if first > 0 {
        page = page.note(format!("{first} earlier warnings are in the log."));
    }
    for warning in &warnings[first..] {
        page = page.note(warning.clone());
    }
    match seen {
        Some(seen) => page = page.key_figures(key_figures(live, seen)),
        None => page = page.note(UNREADABLE),
    }
    let round = live.map_or(0, |live| live.round);
    let (_, blocks) = page.to_parts();
    let state = state_name(live);
    format!(
        "<section id=\"now\" data-state=\"{state}\" data-round=\"{round}\">\n{blocks}</section>\n"
    )
}

/// One word for where the run stands.
pub(super) fn state_name(live: Option<&LiveStatus>) -> &'static str {
    match live.map(|live| live.state) {
        None | Some(State::Unspecified) => "starting",
        Some(State::Waiting) => "waiting",
        Some(State::Joining) => "joining",
        Some(State::Training) => "training",
        Some(State::Aggregating) => "aggregating",
        Some(State::Draining) => "draining",
        Some(State::Finished) => "finished",
    }
}

fn words(live: Option<&LiveStatus>, seen: Option<&Snapshot>) -> String {
    let Some(live) = live else {
        return "Not ready: the coordinator is starting or stopping".to_string();
    };
    let LiveStatus { round, rounds, selected, reported, connected, target, .. } = live;
    match live.state {
        State::Unspecified => "Not ready: the coordinator is starting".to_string(),
        State::Waiting => {
            let params = seen.and_then(|seen| seen.params.as_ref()).map(|params| &params.round);
            let needed = params
                .map(|params| if *round == 0 { params.clients } else { params.fewest_reports() });
            match needed {
                Some(needed) if u64::from(*connected) < needed => {
                    format!("Waiting for clients: {connected} of {needed}")
                }
                Some(_) => format!("Round {round} begins soon"),
                None => format!("Waiting: {connected} clients are connected"),
            }
        }
        State::Joining => format!("Round {round}, joining: {selected} so far, {target} expected"),
        State::Training => format!("Round {round}, training: {reported} of {selected} reported"),
        State::Aggregating => format!("Round {round}: {reported} updates become a model"),
        State::Draining if *selected > 0 => {
            format!("Draining after round {round}: {reported} of {selected} reported")
        }
        State::Draining => "Draining: the coordinator is about to stop".to_string(),
        State::Finished => format!("Finished: all {rounds} rounds are over"),
    }
}

/// What is run.
fn about(live: Option<&LiveStatus>, seen: Option<&Snapshot>) -> String {
    let params = seen.and_then(|seen| seen.params.as_ref());
    let policy = live.map(|live| live.policy.clone());
    let policy = policy.or_else(|| params.map(|params| params.round.policy.clone()));
    let model = params.map(|params| format!("{} on {}", params.model.name, params.model.data));
    let run = seen.map(|seen| seen.run.chars().take(RUN_DIGITS).collect::<String>());
    let run = run.filter(|run| !run.is_empty()).map(|run| format!("run {run}"));
    [policy, model, run].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn key_figures(live: Option<&LiveStatus>, seen: &Snapshot) -> Vec<KeyFigure> {
    let mut figures = Vec::new();
    if let Some(live) = live {
        let over = seen.rounds_over();
        let note = match live.rounds {
            0 => format!("{} are over, no end is set", count(over)),
            rounds => format!("{} of {} are over", count(over), count(rounds)),
        };
        let number =
            if live.state == State::Finished { over.saturating_sub(1) } else { live.round };
        figures.push(KeyFigure::new("round", count(number)).note(note));
    }
    let (value, note) = match seen.evaluated() {
        Some((row, value)) => {
            let loss = row.loss.map_or_else(String::new, |loss| format!("loss {loss:.3}, "));
            (accuracy(value), format!("{loss}after round {}", count(row.round)))
        }
        None => ("–".to_string(), "not measured yet".to_string()),
    };
    figures.push(KeyFigure::new("test accuracy", value).note(note));
    if let Some(live) = live {
        let value = format!("{} of {}", count(live.connected), count(live.enrolled));
        figures.push(KeyFigure::new("clients connected", value).note("enrolled"));
        let note = format!("target {}, {} reported", count(live.target), count(live.reported));
        figures.push(KeyFigure::new("clients in this round", count(live.selected)).note(note));
    }
    let (value, note) = match seen.waiting.first() {
        Some(client) => (count(seen.age(client)), client.name.clone()),
        None => ("–".to_string(), "no clients yet".to_string()),
    };
    figures.push(KeyFigure::new("longest wait (rounds)", value).note(note));
    if let Some(live) = live {
        let value = format!("{:.2}", live.interval);
        figures.push(KeyFigure::new("interval (rounds)", value).note("target between two reports"));
    }
    figures
}

/// A share as it is shown.
pub(super) fn accuracy(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// A whole number as it is shown.
pub(super) fn count(number: impl Display) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        // Four digits are read without help.
        if place > 0 && digits.len() > 4 && (digits.len() - place).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}
