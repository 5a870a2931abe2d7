//! The table of a comparison in the terminal.

use super::Failure;
use super::table::table;
use crate::compare::{Comparison, bytes, percent, rejected, rounds_text, verdict};
use crate::format::number;
use crate::run_folder::RunFolder;
use crate::sim::study::{ContenderSummary, Measure, StudySummary};
use std::fmt::Write as _;

/// Everything that is printed at the end.
pub(crate) fn text(
    comparison: &Comparison,
    summary: &StudySummary,
    folder: &RunFolder,
) -> Result<String, Failure> {
    let seconds = comparison.seconds(folder)?;
    let target = summary.policies.first().and_then(|policy| policy.rounds_to.last());
    let to_target =
        target.map_or("rounds".to_string(), |to| Measure::RoundsTo(to.target).to_string());
    let against = format!("against {}", summary.baseline);
    let columns = [
        "policy",
        &to_target,
        &against,
        "mean acc. %",
        "final acc. %",
        "worst 10% %",
        "Var[X]",
        "longest wait",
        "moved",
        "s per run",
    ];
    let rows = summary
        .policies
        .iter()
        .zip(&seconds)
        .map(|(policy, &seconds)| row(policy, summary, seconds));
    let mut text = format!(
        "{}, {} clients, {} per round, {}, {} of {} runs\n{}\n",
        summary.data,
        summary.clients,
        summary.cohort,
        summary.model,
        summary.finished_runs,
        summary.runs,
        table(columns, 1..=9, rows)
    );
    if let Some(caution) = rejected(summary) {
        let _ = writeln!(text, "{caution}");
    }
    let _ = write!(
        text,
        "Rounds: median [95% interval]. Against: change over common seeds [95% interval]. X: rounds between two \
         selections\nof a client. {}\n\nReport: {}\n",
        verdict(summary),
        folder.path().join("report.html").display()
    );
    Ok(text)
}

fn row(policy: &ContenderSummary, summary: &StudySummary, seconds: Option<f64>) -> [String; 10] {
    let mean = |name: &str| policy.means.get(name).map(|estimate| estimate.mean);
    let last = policy.rounds_to.last();
    let pair = last.and_then(|last| {
        summary.pairs.iter().find(|pair| {
            pair.measure == Measure::RoundsTo(last.target)
                && pair.policy == policy.policy
                && pair.other == summary.baseline
        })
    });
    [
        policy.policy.clone(),
        last.map_or("-".to_string(), rounds_text),
        pair.map_or("-".to_string(), crate::compare::effect),
        percent(policy.means.get("area")),
        percent(policy.means.get("final_accuracy")),
        percent(policy.means.get("worst_tenth")),
        mean("var_interval").map_or("-".to_string(), number),
        policy.longest_wait.map_or("-".to_string(), |wait| wait.to_string()),
        mean("bytes_moved").map_or("-".to_string(), bytes),
        seconds.map_or("-".to_string(), |seconds| format!("{seconds:.1}")),
    ]
}
