//! The tables of a report page.

use crate::clock::cost;
use crate::findings::{effect, is_as_good, support};
use crate::format::{bytes, capitalised, estimate, number, percent, target_name};
use crate::section::ReportSection;
use agewise_experiment::{Measure, RoundsTo, Significance, VariantSummary};
use agewise_plot::{Cell, Column, Table};

/// With more, a table of rounds and changes would be wider than the page.
const MOST_TARGETS_IN_A_TABLE: usize = 2;

/// A figure by which models are compared: its heading in a page, its heading in a terminal, its name in the summary, and
/// whether it is a share.
pub(crate) struct Score {
    pub(crate) heading: &'static str,
    pub(crate) short: &'static str,
    pub(crate) name: &'static str,
    pub(crate) is_share: bool,
}

const fn score(
    heading: &'static str,
    short: &'static str,
    name: &'static str,
    is_share: bool,
) -> Score {
    Score { heading, short, name, is_share }
}

const ACCURACIES: [Score; 3] = [
    score("mean accuracy %", "mean acc. %", "area", true),
    score("final accuracy %", "final acc. %", "final_accuracy", true),
    score("worst 10% of clients %", "worst 10% %", "worst_tenth", true),
];
const LOSSES: [Score; 2] = [
    score("mean loss", "mean loss", "mean_loss", false),
    score("final loss", "final loss", "final_loss", false),
];

impl Score {
    pub(crate) fn text(&self, policy: &VariantSummary) -> String {
        let known = policy.means.get(self.name);
        if self.is_share { percent(known) } else { estimate(known) }
    }
}

/// A row for each variant, whose first cell is its name.
fn by_policy<'a>(
    columns: impl IntoIterator<Item = Column>,
    policies: impl IntoIterator<Item = &'a VariantSummary>,
    cells: impl Fn(&VariantSummary) -> Vec<Cell>,
) -> Table {
    let table = Table::new(std::iter::once(Column::text("policy")).chain(columns));
    policies.into_iter().fold(table, |table, policy| {
        table.row(std::iter::once(Cell::new(policy.policy.clone())).chain(cells(policy)))
    })
}

impl ReportSection<'_> {
    /// All tables of the results, in the order of the page.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if self.trains() {
            tables.extend(self.target_tables());
            tables.extend(self.clock_tables());
            tables.push(self.score_table());
        }
        if !self.experiment().is_calm() {
            tables.push(self.world_table());
        }
        tables.extend([self.wait_table(), self.cohort_table()]);
        tables.extend(self.skew_table());
        tables.extend(self.constants_table());
        tables
    }

    /// The figures by which models are compared, as far as any variant has them.
    pub(crate) fn scores(&self) -> Vec<&'static Score> {
        let all: &'static [Score] =
            if self.is_measured_by_accuracy() { &ACCURACIES } else { &LOSSES };
        let at_the_end = |score: &&Score| score.name == "worst_tenth" || self.runs_to_the_end();
        all.iter().filter(at_the_end).collect()
    }

    /// What the targets cost in the unit that comes first, and the changes against the baseline: in one table, or in two
    /// where there are many targets.
    fn target_tables(&self) -> Vec<Table> {
        let unit = capitalised(self.unit().words());
        let targets = self.experiment().targets();
        let change = format!("vs {}", self.summary.baseline);
        let medians = "median [95% interval], and how many runs got there if not all did";
        let marked = "Marked: significantly fewer, after Holm correction for all comparisons.";
        let measured =
            if self.is_measured_by_accuracy() { "test accuracies" } else { "test losses" };
        if targets.is_empty() {
            return Vec::new();
        }
        if targets.len() <= MOST_TARGETS_IN_A_TABLE {
            let columns = |measure: Measure| vec![measure.to_string(), change.clone()];
            let table = self.target_table(columns, |policy, to| {
                vec![Cell::new(cost(self.unit(), to)), self.change(policy, to.target)]
            });
            return vec![table.caption(format!(
                "{unit} to {measured}: {medians}; beside it the change over common seeds. {marked}"
            ))];
        }
        let column = |measure: Measure| vec![measure.to_string()];
        let medians_table =
            self.target_table(column, |_, to| vec![Cell::new(cost(self.unit(), to))]);
        let changes = self.target_table(column, |policy, to| vec![self.change(policy, to.target)]);
        let caption = format!(
            "{unit} to {measured} against {}: the change over common seeds [95% interval]. {marked}",
            self.summary.baseline
        );
        vec![
            medians_table.caption(format!("{unit} to {measured}: {medians}.")),
            changes.caption(caption),
        ]
    }

    /// A row for each variant, and the same columns for each target.
    fn target_table(
        &self,
        columns: impl Fn(Measure) -> Vec<String>,
        cells: impl Fn(&str, &RoundsTo) -> Vec<Cell>,
    ) -> Table {
        let targets = self.experiment().targets().iter();
        let columns = targets.flat_map(|&target| columns(self.target_measure(target)));
        by_policy(columns.map(Column::number), &self.summary.policies, |policy| {
            self.costs_of(policy).flat_map(|to| cells(&policy.policy, to)).collect()
        })
    }

    /// The change of what a target costs against the baseline.
    fn change(&self, policy: &str, target: f64) -> Cell {
        let measure = self.target_measure(target);
        let pair = self.summary.pair(measure, policy, &self.summary.baseline);
        let text = pair.map_or("-".to_string(), effect);
        let wins =
            pair.is_some_and(|pair| pair.verdict == Significance::Significant && pair.effect < 0.0);
        if wins { Cell::new(text).best() } else { Cell::new(text) }
    }

    fn score_table(&self) -> Table {
        let scores = self.scores();
        let headings = scores.iter().map(|score| score.heading).chain(["rounds played", "traffic"]);
        let table = by_policy(headings.map(Column::number), &self.summary.policies, |policy| {
            let mut cells: Vec<String> = scores.iter().map(|score| score.text(policy)).collect();
            cells.push(estimate(policy.means.get("rounds")));
            let moved = policy.means.get("bytes_moved").map(|moved| bytes(moved.mean));
            cells.push(moved.unwrap_or("-".to_string()));
            cells.into_iter().map(Cell::new).collect()
        });
        let means =
            "means over seeds ± half of the 95% interval. Traffic: model downloads and uploads.";
        table.caption(match (self.runs_to_the_end(), self.is_measured_by_accuracy()) {
            (true, true) => format!(
                "Test accuracy: mean over all rounds, at the end, and at the end for the tenth of the clients that is \
                 served worst; {means}"
            ),
            (true, false) => format!("Test loss: mean over all rounds, and at the end; {means}"),
            (false, true) => format!(
                "Runs end at the last target, so the test accuracy at the end says nothing; that for the tenth of the \
                 clients that is served worst does: {means}"
            ),
            (false, false) => {
                format!("Runs end at the last target, so the test loss at the end says nothing; {means}")
            }
        })
    }

    /// Available, selected and reporting clients.
    fn world_table(&self) -> Table {
        let mut columns = vec![
            ("available", "available"),
            ("selected", "selected"),
            ("reported", "reported"),
            ("never reached", "never_reached"),
            ("forced", "forced"),
        ];
        if self.loses_places() {
            columns.push(("places lost", "places_lost"));
        }
        let headings = columns.iter().map(|(heading, _)| Column::number(*heading));
        let table = by_policy(headings, &self.summary.policies, |policy| {
            let cell = |name: &str| Cell::new(estimate(policy.means.get(name)));
            columns.iter().map(|(_, name)| cell(name)).collect()
        });
        table.caption(format!(
            "Who was reached: clients per round that could be selected, that were, and that reported; clients that never \
             reported in a run; rounds in which a client was forced because no other was selected{}. {}.{} Means over seeds \
             ± half of the 95% interval.",
            if self.loses_places() { "; places of a run that were given to clients that did not report" } else { "" },
            self.world_line(),
            self.failing_note()
        ))
    }

    /// Where clients always fail: what that means for the figures about waits.
    pub(crate) fn failing_note(&self) -> String {
        let share = self.experiment().params().world.failing.unwrap_or(0.0);
        if share == 0.0 {
            return String::new();
        }
        format!(
            " The clients that always fail ({}% of all) are never credited: they are among those that were never reached, and \
             the longest wait is theirs.",
            number(100.0 * share)
        )
    }

    /// How long clients wait and how much weights vary, beside the closed forms where there are any.
    fn wait_table(&self) -> Table {
        let has_theory = self.summary.policies.iter().any(|policy| policy.theory.is_some());
        let mut columns = vec![Column::text("weights"), Column::number("E[X]")];
        for heading in ["Var[X]", "Sigma"] {
            columns.push(Column::number(heading));
            if has_theory {
                columns.push(Column::number("closed form"));
            }
        }
        columns.push(Column::number("longest wait"));
        let least = |name: &str| {
            let means = self.summary.policies.iter().filter_map(|policy| policy.means.get(name));
            means.map(|estimate| estimate.mean).fold(f64::INFINITY, f64::min)
        };
        let (least_variance, least_sigma) = (least("var_interval"), least("sigma"));
        let table = by_policy(columns, &self.summary.policies, |policy| {
            let compared = |name: &str, least: f64| {
                let known = policy.means.get(name);
                let best = known.is_some_and(|known| is_as_good(known.mean, least));
                let cell = Cell::new(estimate(known));
                if best { cell.best() } else { cell }
            };
            let theory = policy.theory.as_ref();
            let exact = |value: Option<f64>| {
                has_theory.then(|| Cell::new(value.map_or("-".to_string(), number)))
            };
            let mut cells = vec![Cell::new(policy.weighting.to_string())];
            cells.push(Cell::new(estimate(policy.means.get("mean_interval"))));
            cells.push(compared("var_interval", least_variance));
            cells.extend(exact(theory.map(|theory| theory.var_interval)));
            cells.push(compared("sigma", least_sigma));
            cells.extend(exact(theory.and_then(|theory| theory.sigma)));
            cells.push(Cell::new(longest_wait(policy)));
            cells
        });
        table.caption(format!(
            "Waits and weights. X: rounds between two selections of a client; Sigma: sum of the variances of the \
             weights.{} The least Var[X] and Sigma, within 1%, are marked.",
            self.means_over_seeds()
        ))
    }

    /// How many clients take part, and how evenly.
    fn cohort_table(&self) -> Table {
        let headings = ["cohort", "sd", "range", "Jain", "never", "forced"].map(Column::number);
        let table = by_policy(headings, &self.summary.policies, |policy| {
            let cell = |name: &str| Cell::new(estimate(policy.means.get(name)));
            let range = Cell::new(cohort_range(policy, " to "));
            let [mean, sd] = ["cohort_mean", "cohort_sd"].map(cell);
            let [jain, never, forced] = ["jain", "never_reached", "forced"].map(cell);
            vec![mean, sd, range, jain, never, forced]
        });
        table.caption(format!(
            "Cohorts: clients per round, their standard deviation and range. Jain: 1 if all clients take part equally \
             often; never: clients that never took part; forced: rounds in which a client was forced because no other was \
             selected.{}",
            self.means_over_seeds()
        ))
    }

    fn means_over_seeds(&self) -> &'static str {
        if self.summary.seeds > 1 { " Means over seeds ± half of the 95% interval." } else { "" }
    }

    /// Definition 1, as the paper's Table II; nothing where the skew was not estimated.
    fn skew_table(&self) -> Option<Table> {
        let known = |policy: &VariantSummary| policy.means.contains_key("skew_min");
        if !self.summary.policies.iter().any(known) {
            return None;
        }
        let columns =
            ["smallest rho", "mean rho", "largest rho at the optimum"].map(Column::number);
        let table = by_policy(columns, &self.summary.policies, |policy| {
            let names = ["skew_min", "skew_mean", "skew_max"];
            names.iter().map(|name| Cell::new(estimate(policy.means.get(name)))).collect()
        });
        Some(table.caption(
            "Selection skew (Definition 1). Above 1, cohorts have more to gain than the average client. The expectation is \
             over 200 cohorts that could have been drawn in the round; smallest and mean over rounds, at the model of the \
             round; largest at the optimum of all, or at the last model where that is not known. Means over seeds.",
        ))
    }

    /// The constants of Theorem 1 under the first seed.
    fn constants_table(&self) -> Option<Table> {
        if !self.experiment().training()?.bound {
            return None;
        }
        let training = self.runs_of(0).next()?.training.as_ref()?;
        let constants = training.objectives.as_ref()?.constants.as_ref()?;
        let rows = [
            ("L", "smoothness", constants.objectives.smoothness),
            ("mu", "strong convexity: the weight decay", constants.objectives.convexity),
            ("G", "bound on stochastic gradients", constants.objectives.gradient_bound),
            ("sigma", "deviation of stochastic gradients", constants.objectives.gradient_sd),
            ("Gamma", "F* minus the clients' own optima", constants.objectives.objective_gap),
            ("F*", "the least value of the objective", constants.optimum_value),
            ("|theta0 - theta*|", "distance to the optimum", constants.objectives.initial_distance),
        ];
        let columns = [Column::text("constant"), Column::text("meaning"), Column::number("value")];
        let table = Table::new(columns).caption(
            "The constants of Theorem 1 under the first seed, estimated from the data. Bounds on gradients are those at the \
             first model and at the optimum. The learning rate was the theorem's: 1/(mu (t + gamma)).",
        );
        Some(rows.into_iter().fold(table, |table, (name, meaning, value)| {
            table.row([Cell::new(name), Cell::new(meaning), Cell::new(number(value))])
        }))
    }

    /// The measure that counts what a target costs in the unit that comes first.
    pub(crate) fn target_measure(&self, target: f64) -> Measure {
        Measure::to_target(self.unit(), target, !self.is_measured_by_accuracy())
    }
}

/// One row for each variant of each experiment that trains.
pub(crate) fn learning_overview(sections: &[ReportSection<'_>]) -> Option<Table> {
    let columns = [
        Column::text("experiment"),
        Column::text("policy"),
        Column::text("target"),
        Column::number("cost"),
        Column::number("against the baseline"),
        Column::text("supported?"),
    ];
    let mut table = Table::new(columns).caption(
        "What the last target costs, in rounds where no unit is said: median and 95% interval; the change against the baseline over common seeds. The other \
         targets are below, with each experiment.",
    );
    let mut is_empty = true;
    for section in sections.iter().filter(|section| section.trains()) {
        let summary = &section.summary;
        for policy in &summary.policies {
            let last = section.costs_of(policy).last();
            let measure = last.map(|last| section.target_measure(last.target));
            let pair = measure
                .and_then(|measure| summary.pair(measure, &policy.policy, &summary.baseline));
            let name = |to: &RoundsTo| target_name(to.target, section.is_measured_by_accuracy());
            table = table.row([
                Cell::new(section.name.clone()),
                Cell::new(policy.policy.clone()),
                Cell::new(last.map_or("-".to_string(), name)),
                Cell::new(last.map_or("-".to_string(), |to| section.cost_with_unit(to))),
                Cell::new(pair.map_or("baseline".to_string(), effect)),
                Cell::new(pair.map_or("", support)),
            ]);
            is_empty = false;
        }
    }
    (!is_empty).then_some(table)
}

/// One row for each variant of each experiment.
pub(crate) fn load_overview(sections: &[ReportSection<'_>]) -> Table {
    let names = ["mean_interval", "var_interval", "sigma", "cohort_mean", "jain", "never_reached"];
    let columns = ["E[X]", "Var[X]", "Sigma", "cohort", "Jain", "never", "longest wait"];
    let columns =
        ["experiment", "policy"].map(Column::text).into_iter().chain(columns.map(Column::number));
    let table = Table::new(columns).caption(
        "Load: rounds between two selections of a client (X), the sum of the variances of the weights, clients per round, \
         Jain's index, clients that never took part, and the longest wait.",
    );
    let rows = sections.iter().flat_map(|section| {
        section.summary.policies.iter().map(move |policy| (section.name.clone(), policy))
    });
    rows.fold(table, |table, (name, policy)| {
        let means = names.iter().map(|name| estimate(policy.means.get(name)));
        let cells = [name, policy.policy.clone()].into_iter().chain(means);
        table.row(cells.chain([longest_wait(policy)]).map(Cell::new))
    })
}

/// The smallest and the largest cohort.
pub(crate) fn cohort_range(policy: &VariantSummary, between: &str) -> String {
    match (policy.cohort_min, policy.cohort_max) {
        (Some(least), Some(most)) => format!("{least}{between}{most}"),
        _ => "-".to_string(),
    }
}

/// The longest wait, where anything was played.
pub(crate) fn longest_wait(policy: &VariantSummary) -> String {
    policy.longest_wait.map_or("-".to_string(), |wait| wait.to_string())
}
