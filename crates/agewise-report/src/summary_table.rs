//! An experiment as one table of texts: what the terminal and a notebook show.

use crate::clock::cost;
use crate::findings::effect;
use crate::format::{bytes, capitalised, counted, estimate, number};
use crate::section::ReportSection;
use crate::tables::{cohort_range, longest_wait};
use agewise_experiment::VariantSummary;
use agewise_experiment::run_dir::MeanTimes;
use serde::Serialize;

/// The table of an experiment. The first column names the variant, all others hold numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SummaryTable {
    /// What was played.
    pub title: String,
    /// The columns.
    pub columns: Vec<String>,
    /// One row for each variant.
    pub rows: Vec<Vec<String>>,
    /// How many columns behind the first are about targets: the rounds to each, and the change against the baseline.
    pub target_columns: usize,
    /// Something that spoils the experiment, if there is such a thing.
    pub caution: Option<String>,
    /// What the columns mean.
    pub legend: String,
    /// What the data support, in a few sentences.
    pub verdict: String,
}

/// A heading, and the text of each variant.
pub(crate) type Column<'a> = (String, Box<dyn Fn(usize, &VariantSummary) -> String + 'a>);

pub(crate) fn column<'a>(
    heading: impl Into<String>,
    text: impl Fn(usize, &VariantSummary) -> String + 'a,
) -> Column<'a> {
    (heading.into(), Box::new(text))
}

/// A mean over seeds with half of its interval.
fn of_mean<'a>(heading: &str, name: &'static str) -> Column<'a> {
    column(heading, move |_, policy| estimate(policy.means.get(name)))
}

pub(crate) fn mean(policy: &VariantSummary, name: &str, text: fn(f64) -> String) -> String {
    policy.means.get(name).map_or("-".to_string(), |known| text(known.mean))
}

impl ReportSection<'_> {
    /// The table of this experiment.
    pub fn summary_table(&self) -> SummaryTable {
        let mut columns = if self.trains() { self.training_columns() } else { selection_columns() };
        if self.loses_places() {
            columns.push(column("lost", |_, policy| {
                let share = mean(policy, "share_lost", |share| format!("{:.1}%", 100.0 * share));
                format!("{} ({share})", mean(policy, "places_lost", number))
            }));
        }
        let row = |(place, policy): (usize, &VariantSummary)| {
            let cells = columns.iter().map(|(_, text)| text(place, policy));
            std::iter::once(policy.policy.clone()).chain(cells).collect()
        };
        let headings = columns.iter().map(|(heading, _)| heading.clone());
        SummaryTable {
            title: self.title(),
            columns: std::iter::once("policy".to_string()).chain(headings).collect(),
            rows: self.summary.policies.iter().enumerate().map(row).collect(),
            target_columns: 2 * self.experiment().targets().len(),
            caution: self.caution(),
            legend: self.legend(),
            verdict: self.main_finding(),
        }
    }

    fn title(&self) -> String {
        let params = self.experiment().params();
        let size = format!("{} clients, {} per round", params.clients, params.cohort);
        let finished = format!("{} of {} runs", self.summary.finished_runs, self.summary.runs);
        let mut title = if self.trains() {
            let (data, model) = self.task_names();
            format!("{data}, {size}, {model}, {finished}")
        } else {
            format!(
                "{size}, maximum age {}, sizes {}, {} rounds, {}",
                self.summary.max_age,
                self.experiment().sizes(),
                params.rounds,
                counted(params.seeds, "seed")
            )
        };
        if !self.trains() && !self.results.is_finished() {
            title = format!("{title}, {finished}");
        }
        if !self.experiment().is_calm() {
            title = format!("{title}, {}", self.world_line());
        }
        title
    }

    fn training_columns(&self) -> Vec<Column<'_>> {
        let mut columns: Vec<Column<'_>> = Vec::new();
        let targets = self.experiment().targets();
        for (number, &target) in targets.iter().enumerate() {
            let measure = self.target_measure(target);
            let baseline = &self.summary.baseline;
            let against = match targets.len() {
                1 => format!("against {baseline}"),
                // No two columns have the same name.
                _ => format!("{measure}, against {baseline}")
                    .replace(&format!("{} ", self.unit().words()), ""),
            };
            columns.push(column(measure.to_string(), move |_, policy| {
                self.costs_of(policy)
                    .nth(number)
                    .map_or("-".to_string(), |to| cost(self.unit(), to))
            }));
            columns.push(column(against, move |_, policy| {
                let pair = self.summary.pair(measure, &policy.policy, baseline);
                pair.map_or("-".to_string(), effect)
            }));
        }
        for score in self.scores() {
            columns.push(column(score.short, |_, policy| score.text(policy)));
        }
        if !self.experiment().is_calm() {
            for (heading, name) in [("reported", "reported"), ("never reached", "never_reached")] {
                columns.push(column(heading, move |_, policy| mean(policy, name, number)));
            }
        }
        columns.push(column("Var[X]", |_, policy| mean(policy, "var_interval", number)));
        columns.push(column("longest wait", |_, policy| longest_wait(policy)));
        let two_decimals = |index| format!("{index:.2}");
        columns.push(column("Jain", move |_, policy| mean(policy, "jain", two_decimals)));
        columns.extend(self.clock_columns());
        columns.push(column("traffic", |_, policy| mean(policy, "bytes_moved", bytes)));
        let time = |heading: &str, text: fn(MeanTimes, f64) -> String| {
            column(heading, move |place, policy: &VariantSummary| {
                let times = self.results.times.get(place).copied().flatten();
                let rounds = policy.means.get("rounds").map(|rounds| rounds.mean);
                times.zip(rounds).map_or("-".to_string(), |(times, rounds)| text(times, rounds))
            })
        };
        columns.push(time("s per run", |times, rounds| {
            format!("{:.1}", times.seconds_per_round * rounds)
        }));
        columns.push(time("ms per choice", |times, _| {
            format!("{:.3}", 1000.0 * times.seconds_per_choice)
        }));
        columns
    }

    /// What the columns mean.
    fn legend(&self) -> String {
        let x = "X: rounds between two selections of a client.";
        if self.trains() {
            return format!(
                "{}: median [95% interval]. Against: change over common seeds [95% interval]. {x} Times: on this \
                 machine.{}{}",
                capitalised(self.unit().words()),
                self.clock_legend(),
                self.failing_note()
            );
        }
        let means = if self.summary.seeds > 1 {
            "Means over seeds ± half of the 95% interval. "
        } else {
            ""
        };
        format!(
            "{means}{x} Sigma: sum of the variances of the weights. Jain: 1 if all clients take part equally often. Never: \
             clients that never took part.{}{}",
            if self.loses_places() {
                " Lost: places that were given to clients that did not report, in a run."
            } else {
                ""
            },
            self.failing_note()
        )
    }
}

/// The columns of an experiment without training.
fn selection_columns() -> Vec<Column<'static>> {
    let mut columns = vec![
        of_mean("E[X]", "mean_interval"),
        of_mean("Var[X]", "var_interval"),
        of_mean("Sigma", "sigma"),
    ];
    columns.push(column("in theory", |_, policy| {
        let sigma = policy.theory.as_ref().and_then(|theory| theory.sigma);
        sigma.map_or("-".to_string(), number)
    }));
    columns.extend([
        of_mean("cohort", "cohort_mean"),
        of_mean("sd", "cohort_sd"),
        column("range", |_, policy| cohort_range(policy, "..")),
        of_mean("Jain", "jain"),
        of_mean("never", "never_reached"),
        column("longest wait", |_, policy| longest_wait(policy)),
    ]);
    columns
}
