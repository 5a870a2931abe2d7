//! A comparison as one table of texts: what the terminal and a notebook show.

use super::page::{bytes, effect};
use super::sentences::{percent, rejected, rounds as rounds_text, verdict};
use super::{CompareError, Comparison};
use crate::format::number;
use crate::run_folder::RunFolder;
use crate::sim::study::{ContenderSummary, Measure, StudySummary};
use serde::Serialize;

/// The table of a comparison. The first column names the policy, all others hold numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// What was compared.
    pub title: String,
    /// The columns.
    pub columns: [String; 10],
    /// One row for each policy.
    pub rows: Vec<[String; 10]>,
    /// Something that spoils the comparison, if there is such a thing.
    pub caution: Option<String>,
    /// What the data support, in a sentence.
    pub verdict: String,
}

impl Comparison {
    /// The table of this comparison, whose times are in its folder.
    pub fn overview(
        &self,
        summary: &StudySummary,
        folder: &RunFolder,
    ) -> Result<Overview, CompareError> {
        let seconds = self.seconds(folder)?;
        let target = summary.policies.first().and_then(|policy| policy.rounds_to.last());
        let to_target =
            target.map_or("rounds".to_string(), |to| Measure::RoundsTo(to.target).to_string());
        let columns = [
            "policy",
            &to_target,
            &format!("against {}", summary.baseline),
            "mean acc. %",
            "final acc. %",
            "worst 10% %",
            "Var[X]",
            "longest wait",
            "moved",
            "s per run",
        ];
        let rows = summary.policies.iter().zip(seconds);
        Ok(Overview {
            title: format!(
                "{}, {} clients, {} per round, {}, {} of {} runs",
                summary.data,
                summary.clients,
                summary.cohort,
                summary.model,
                summary.finished_runs,
                summary.runs
            ),
            columns: columns.map(str::to_string),
            rows: rows.map(|(policy, seconds)| row(policy, summary, seconds)).collect(),
            caution: rejected(summary),
            verdict: verdict(summary),
        })
    }
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
        pair.map_or("-".to_string(), effect),
        percent(policy.means.get("area")),
        percent(policy.means.get("final_accuracy")),
        percent(policy.means.get("worst_tenth")),
        mean("var_interval").map_or("-".to_string(), number),
        policy.longest_wait.map_or("-".to_string(), |wait| wait.to_string()),
        mean("bytes_moved").map_or("-".to_string(), bytes),
        seconds.map_or("-".to_string(), |seconds| format!("{seconds:.1}")),
    ]
}
