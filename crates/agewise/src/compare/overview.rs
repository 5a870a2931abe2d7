//! A comparison as one table of texts: what the terminal and a notebook show.

use super::page::{bytes, effect};
use super::sentences::{percent, rejected, rounds as rounds_text, verdict};
use super::timing::MeanTimes;
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
    pub columns: Vec<String>,
    /// One row for each policy.
    pub rows: Vec<Vec<String>>,
    /// How many columns behind the first are about targets: the rounds to each, and the change against the baseline.
    pub target_columns: usize,
    /// Something that spoils the comparison, if there is such a thing.
    pub caution: Option<String>,
    /// What the data support, in a sentence.
    pub verdict: String,
}

/// Columns that say nothing where runs end at the target.
const AT_THE_END: [&str; 2] = ["mean acc. %", "final acc. %"];

/// The last columns.
const OTHERS: [&str; 7] =
    ["worst 10% %", "Var[X]", "longest wait", "Jain", "moved", "s per run", "ms per choice"];

impl Comparison {
    /// The table of this comparison, whose times are in its folder.
    pub fn overview(
        &self,
        summary: &StudySummary,
        folder: &RunFolder,
    ) -> Result<Overview, CompareError> {
        let targets = &self.study.params().targets;
        let ends = !self.study.params().stop_at_target;
        let about_target = |&target: &f64| {
            let rounds = Measure::RoundsTo(target);
            let change = match targets.len() {
                1 => format!("against {}", summary.baseline),
                // No two columns have the same name.
                _ => format!("{rounds}, against {}", summary.baseline).replace("rounds ", ""),
            };
            [rounds.to_string(), change]
        };
        let columns = std::iter::once("policy".to_string())
            .chain(targets.iter().flat_map(about_target))
            .chain(AT_THE_END.iter().filter(|_| ends).chain(&OTHERS).map(ToString::to_string));
        let rows = summary.policies.iter().zip(self.times(folder)?);
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
            columns: columns.collect(),
            rows: rows.map(|(policy, times)| row(policy, summary, ends, times)).collect(),
            target_columns: 2 * targets.len(),
            caution: rejected(summary),
            verdict: verdict(summary),
        })
    }
}

fn row(
    policy: &ContenderSummary,
    summary: &StudySummary,
    ends: bool,
    times: Option<MeanTimes>,
) -> Vec<String> {
    let mean = |name: &str| policy.means.get(name).map(|estimate| estimate.mean);
    let text = |text: Option<String>| text.unwrap_or("-".to_string());
    let mut row = vec![policy.policy.clone()];
    for to in &policy.rounds_to {
        let pair = summary.pair(Measure::RoundsTo(to.target), &policy.policy, &summary.baseline);
        row.extend([rounds_text(to), text(pair.map(effect))]);
    }
    let per_choice = times.and_then(|times| times.seconds_per_choice);
    if ends {
        row.extend(["area", "final_accuracy"].map(|name| percent(policy.means.get(name))));
    }
    row.extend([
        percent(policy.means.get("worst_tenth")),
        text(mean("var_interval").map(number)),
        text(policy.longest_wait.map(|wait| wait.to_string())),
        text(mean("jain").map(|index| format!("{index:.2}"))),
        text(mean("bytes_moved").map(bytes)),
        text(times.map(|times| format!("{:.1}", times.seconds_per_run))),
        text(per_choice.map(|seconds| format!("{:.3}", 1000.0 * seconds))),
    ]);
    row
}
