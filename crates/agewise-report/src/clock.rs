//! What a clock adds to tables and words: costs in seconds, bytes and the work of clients.

use crate::findings::{cost_in, effect};
use crate::format::{bytes, estimate, number};
use crate::section::ReportSection;
use crate::summary_table::{Column as SummaryColumn, column, mean};
use agewise_experiment::{Measure, RoundsTo, Significance, Unit, Variant, VariantSummary};
use agewise_plot::{Cell, Column, Table};

/// How a number is written.
type NumberText = fn(f64) -> String;

/// A heading, the name of a mean, and how it is written.
type TimeColumn = (&'static str, &'static str, NumberText);

/// A number in a unit.
fn amount(unit: Unit) -> NumberText {
    match unit {
        Unit::Bytes | Unit::BytesDown | Unit::BytesUp => bytes,
        _ => number,
    }
}

/// What a target costs in a unit.
pub(crate) fn cost(unit: Unit, to: &RoundsTo) -> String {
    cost_in(to, amount(unit))
}

impl ReportSection<'_> {
    /// The unit in which what a target costs is told first.
    pub(crate) fn unit(&self) -> Unit {
        self.experiment().unit()
    }

    /// What each target costs a variant in that unit.
    pub(crate) fn costs_of<'b>(
        &self,
        policy: &'b VariantSummary,
    ) -> impl Iterator<Item = &'b RoundsTo> + use<'b> {
        let unit = self.unit();
        policy.rounds_to.iter().filter_map(move |to| policy.cost_to(unit, to.target))
    }

    /// The same with the unit, where that is not rounds.
    pub(crate) fn cost_with_unit(&self, to: &RoundsTo) -> String {
        match self.unit() {
            Unit::Rounds => cost(Unit::Rounds, to),
            unit => format!("{} ({})", cost(unit, to), unit.words()),
        }
    }

    /// What each target costs in all units, and what whole runs take; nothing without a clock.
    pub(crate) fn clock_tables(&self) -> Vec<Table> {
        if !self.experiment().has_clock() {
            return Vec::new();
        }
        let targets = self.experiment().targets().iter();
        let mut tables: Vec<Table> = targets.flat_map(|&target| self.unit_tables(target)).collect();
        tables.push(self.time_table());
        tables
    }

    /// What a target costs in each unit, and the changes against the baseline.
    fn unit_tables(&self, target: f64) -> [Table; 2] {
        let units = self.experiment().units();
        let is_loss = !self.is_measured_by_accuracy();
        let table = || {
            let headings = units.iter().map(|unit| Column::number(unit.words()));
            Table::new([Column::text("policy")].into_iter().chain(headings))
        };
        let (mut costs, mut changes) = (table(), table());
        for policy in &self.summary.policies {
            let name = || [Cell::new(policy.policy.clone())].into_iter();
            let known = |&unit: &Unit| {
                let to = policy.cost_to(unit, target);
                Cell::new(to.map_or("-".to_string(), |to| cost(unit, to)))
            };
            costs = costs.row(name().chain(units.iter().map(known)));
            let change = |&unit: &Unit| {
                let measure = Measure::to_target(unit, target, is_loss);
                let pair = self.summary.pair(measure, &policy.policy, &self.summary.baseline);
                let cell = Cell::new(pair.map_or("-".to_string(), effect));
                let wins = pair.is_some_and(|pair| {
                    pair.verdict == Significance::Significant && pair.effect < 0.0
                });
                if wins { cell.best() } else { cell }
            };
            changes = changes.row(name().chain(units.iter().map(change)));
        }
        let to = Measure::to_target(Unit::Rounds, target, is_loss).to_string();
        let to = to.trim_start_matches("rounds ");
        [
            costs.caption(format!(
                "What it costs {to}, in each unit: median [95% interval], and how many runs got there if not all did. \
                 Client-seconds: download, computation and upload of all clients, probes and lost work included."
            )),
            changes.caption(format!(
                "The same against {}: change in percent over common seeds [95% interval]. Marked: significantly less, after \
                 Holm correction for all comparisons in that unit. A run that never got there counts with all that it cost.",
                self.summary.baseline
            )),
        ]
    }

    /// What whole runs take, and how long clients wait.
    fn time_table(&self) -> Table {
        let mut columns: Vec<TimeColumn> = vec![
            ("s per round", "round_seconds", number),
            ("client-seconds", "client_seconds", number),
            ("for nothing", "share_wasted", share),
            ("down", "bytes_down", bytes),
            ("up", "bytes_up", bytes),
        ];
        if self.experiment().power().is_some() {
            columns.push(("joules", "joules", number));
        }
        if self.has_staleness() {
            columns.push(("staleness", "staleness", number));
        }
        columns.extend([
            ("E[X] s", "mean_interval_seconds", number as NumberText),
            ("Var[X] s²", "var_interval_seconds", variance),
            ("longest wait s", "longest_wait_seconds", number),
            ("Jain of work", "jain_client_seconds", two_decimals),
        ]);
        let headings = columns.iter().map(|(heading, ..)| Column::number(*heading));
        let table = Table::new(
            [Column::text("policy"), Column::number("seconds")].into_iter().chain(headings),
        );
        let row = |table: Table, policy: &VariantSummary| {
            let seconds = Cell::new(estimate(policy.means.get("seconds")));
            let cells = columns.iter().map(|(_, name, text)| Cell::new(mean(policy, name, *text)));
            table.row([Cell::new(policy.policy.clone()), seconds].into_iter().chain(cells))
        };
        let staleness = self.staleness_legend();
        self.summary.policies.iter().fold(table, row).caption(format!(
            "Whole runs in simulated time: seconds, the work of clients and the share of it that came to nothing, bytes; X \
             in seconds, the longest wait, and Jain's index of the seconds that clients worked. Means over seeds.{staleness}"
        ))
    }

    /// The columns of a clock in the table of a terminal.
    pub(crate) fn clock_columns(&self) -> Vec<SummaryColumn<'_>> {
        if !self.experiment().has_clock() {
            return Vec::new();
        }
        let of = |heading: &str, name: &'static str, text: fn(f64) -> String| {
            column(heading, move |_, policy: &VariantSummary| mean(policy, name, text))
        };
        let mut columns = vec![
            of("s per round", "round_seconds", number),
            of("client-s", "client_seconds", number),
            of("for nothing", "share_wasted", share),
            of("longest wait s", "longest_wait_seconds", number),
        ];
        if self.has_staleness() {
            columns.push(of("staleness", "staleness", number));
        }
        columns
    }

    /// What these columns mean.
    pub(crate) fn clock_legend(&self) -> String {
        if !self.experiment().has_clock() {
            return String::new();
        }
        let legend = " Client-s: simulated seconds that clients worked in a run; for nothing: the share of it of which nothing came.";
        format!("{legend}{}", self.staleness_legend())
    }

    /// Whether a variant works without rounds, so that updates can be stale.
    fn has_staleness(&self) -> bool {
        let mut schedules = self.experiment().variants().iter().map(Variant::schedule);
        schedules.any(|schedule| schedule.updates_per_step().is_some())
    }

    fn staleness_legend(&self) -> &'static str {
        if self.has_staleness() {
            " Staleness: the steps that the server made while a client worked, on average."
        } else {
            ""
        }
    }

    /// How simulated time was counted.
    pub(crate) fn clock_methods(&self) -> Vec<String> {
        let experiment = self.experiment();
        let links = match experiment.links() {
            Some(links) => {
                format!("links {links} (Mbit/s down and up; 20,5 where none are written)")
            }
            None => "transfers that take no time".to_string(),
        };
        let mut schedules: Vec<String> =
            experiment.variants().iter().map(|variant| variant.schedule().to_string()).collect();
        schedules.dedup();
        vec![format!(
            "Simulated time: speeds {} (a median of 1,000 samples per second where none is written), {links}, rounds by {}. A \
             round lasts from its announcement until its schedule ends it, and the slowest probe before it; a client that \
             drops out does so at a random moment of its work.",
            experiment.speeds(),
            schedules.join(", ")
        )]
    }
}

fn share(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn two_decimals(index: f64) -> String {
    format!("{index:.2}")
}
/// A variance in seconds squared; what is left of equal intervals after rounding is 0.
fn variance(value: f64) -> String {
    number(if value < 1e-12 { 0.0 } else { value })
}
