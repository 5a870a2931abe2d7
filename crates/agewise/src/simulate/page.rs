//! The report of a simulation: one page that explains itself.

use super::figures::NamedFigure;
use super::{Finished, SimulateError, config_text};
use crate::format::{number, with_half_width};
use crate::report::{Cell, Column, KeyFigure, Page, Table};
use crate::sim::PolicySummary;

impl Finished {
    /// The report.
    pub(super) fn page(&self, figures: &[NamedFigure]) -> Result<Page, SimulateError> {
        let params = self.simulation.params();
        let interval = self.simulation.setting().interval();
        let mut page = Page::new("How the policies load your clients")
            .lead(
                "A simulation of client selection without training. X is the number of rounds between two \
                 selections of a client, Sigma the sum of the variances of the aggregation weights; both as \
                 small as possible is what you want.",
            )
            .key_figures([
                KeyFigure::new("clients", params.clients.to_string()).note(format!("sizes {}", self.simulation.sizes())),
                KeyFigure::new("per round", params.cohort.to_string())
                    .note(format!("each every {} rounds", number(interval))),
                KeyFigure::new("rounds", params.rounds.to_string())
                    .note(format!(
                        "{} {}, warm-up {}",
                        params.seeds,
                        if params.seeds == 1 { "seed" } else { "seeds" },
                        params.warmup
                    )),
                KeyFigure::new("clients are there", params.availability.clone()).note(format!(
                    "dropout {}, join {}, leave {}",
                    params.dropout, params.join, params.leave
                )),
            ])
            .heading("Results")
            .table(self.table())
            .paragraph(self.verdict());
        for figure in figures {
            page = page.heading(figure.heading).figure(&figure.figure, figure.reading);
        }
        let config = config_text(&self.simulation)?;
        let page = page
            .heading("Run it again")
            .preformatted("config.toml (agewise simulate --config config.toml)", config)
            .footer(format!("agewise {}", env!("CARGO_PKG_VERSION")));
        Ok(page)
    }

    fn table(&self) -> Table {
        let columns = [
            Column::text("policy"),
            Column::number("E[X]"),
            Column::number("Var[X]"),
            Column::number("closed form"),
            Column::number("Sigma"),
            Column::number("closed form"),
            Column::number("cohort"),
            Column::number("sd"),
            Column::number("range"),
            Column::number("Jain"),
            Column::number("never"),
            Column::number("longest"),
        ];
        let intervals = if self.simulation.params().seeds > 1 {
            "Means over seeds, with 95% intervals. "
        } else {
            ""
        };
        let mut table = Table::new(columns)
            .caption(format!("{intervals}The least Var[X] and Sigma, within 1%, are marked."));
        let least = |value: fn(&PolicySummary) -> Option<f64>| {
            let values = self.summary.policies.iter().filter_map(value);
            values.fold(f64::INFINITY, f64::min)
        };
        let least_variance = least(|policy| policy.var_interval);
        let least_sigma = least(|policy| policy.sigma);
        for policy in &self.summary.policies {
            let estimate = |name: &str, value: Option<f64>, least: f64| {
                let text = value.map_or("-".to_string(), |value| {
                    with_half_width(value, policy.half_width.get(name).copied())
                });
                let is_least = value.is_some_and(|value| is_as_good(value, least));
                if is_least { Cell::new(text).best() } else { Cell::new(text) }
            };
            let plain = |value: Option<f64>| Cell::new(value.map_or("-".to_string(), number));
            table = table.row([
                Cell::new(policy.policy.clone()),
                estimate("mean_interval", policy.mean_interval, 0.0),
                estimate("var_interval", policy.var_interval, least_variance),
                plain(policy.var_interval_theory),
                estimate("sigma", policy.sigma, least_sigma),
                plain(policy.sigma_theory),
                estimate("cohort_mean", Some(policy.cohort_mean), 0.0),
                estimate("cohort_sd", Some(policy.cohort_sd), -1.0),
                Cell::new(format!("{} to {}", policy.cohort_min, policy.cohort_max)),
                estimate("jain", policy.jain, 0.0),
                plain(Some(policy.never_selected)),
                Cell::new(policy.longest_wait.to_string()),
            ]);
        }
        table
    }

    /// What the table says, in a sentence.
    fn verdict(&self) -> String {
        let least = |value: fn(&PolicySummary) -> Option<f64>| {
            let known: Vec<(f64, &str)> = (self.summary.policies.iter())
                .filter_map(|policy| Some((value(policy)?, policy.policy.as_str())))
                .collect();
            let least = known.iter().map(|(value, _)| *value).fold(f64::INFINITY, f64::min);
            let names = known.into_iter().filter(|(value, _)| is_as_good(*value, least));
            (least, names.map(|(_, name)| name).collect::<Vec<_>>().join(", "))
        };
        let (variance, even) = least(|policy| policy.var_interval);
        let (sigma, steady) = least(|policy| policy.sigma);
        if even.is_empty() {
            return "No client was selected in the recorded rounds.".to_string();
        }
        let (variance, sigma) = (number(variance), number(sigma));
        format!(
            "The most even load, Var[X] = {variance} rounds squared: {even}. The least Sigma, {sigma}: {steady}. \
             Longest: the longest wait in rounds; never: clients that never took part."
        )
    }
}

/// Within a hundredth of the least: what a finite run cannot tell apart.
fn is_as_good(value: f64, least: f64) -> bool {
    value <= least * 1.01
}
