//! A finished run as plain data: what is stored, summed up and drawn.

use crate::run::RunOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Clients selected.
    pub selected: u64,
    /// Clients that reported.
    pub reported: u64,
    /// Whether one was forced.
    pub forced: bool,
    /// The target interval.
    pub interval: f64,
    /// Sigma over the recorded rounds so far.
    pub sigma: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Every round, from 0.
    pub rounds: Vec<RoundRecord>,
    /// Every X that was seen, with how often.
    pub intervals: Vec<(u64, u64)>,
    /// E\[X\].
    pub mean_interval: Option<f64>,
    /// Var\[X\].
    pub var_interval: Option<f64>,
    /// Sigma.
    pub sigma: Option<f64>,
    /// Mean covariance of two clients' weights.
    pub mean_covariance: Option<f64>,
    /// Mean cohort (reports) of the recorded rounds.
    pub cohort_mean: f64,
    /// Its standard deviation.
    pub cohort_sd: f64,
    /// Smallest cohort.
    pub cohort_min: u64,
    /// Largest cohort.
    pub cohort_max: u64,
    /// Jain's index.
    pub jain: Option<f64>,
    /// Clients never selected.
    pub never_selected: u64,
    /// Longest X, or age of a client that still waits.
    pub longest_wait: u64,
    /// sqrt(Var Y)/T.
    pub window_sd: BTreeMap<u32, f64>,
    /// The number of clients by how often they took part.
    pub selections: Vec<(u32, u64)>,
    /// The number of clients by age, in some rounds.
    pub ages: Vec<(u64, Vec<(u64, u64)>)>,
}

impl From<RunOutcome> for RunRecord {
    fn from(outcome: RunOutcome) -> Self {
        // NaN (nothing recorded yet, nobody selected) has no place in a JSON file.
        let known = |value: f64| value.is_finite().then_some(value);
        let rounds = outcome.rows.iter().map(|row| RoundRecord {
            selected: row.selected,
            reported: row.reported,
            forced: row.forced,
            interval: row.interval,
            sigma: known(row.sigma),
        });
        let ages = outcome.age_map.rounds.iter().zip(&outcome.age_map.counts);
        Self {
            rounds: rounds.collect(),
            intervals: outcome.intervals.histogram().collect(),
            mean_interval: known(outcome.intervals.mean()),
            var_interval: known(outcome.intervals.variance()),
            sigma: known(outcome.sigma),
            mean_covariance: known(outcome.mean_covariance),
            cohort_mean: outcome.cohort_sizes.mean(),
            cohort_sd: outcome.cohort_sizes.sd(),
            cohort_min: outcome.cohort_sizes.min(),
            cohort_max: outcome.cohort_sizes.max(),
            jain: known(outcome.load.jain()),
            never_selected: outcome.load.never_selected(),
            longest_wait: outcome.longest_wait,
            window_sd: outcome.window_sd,
            selections: outcome.selections.into_iter().collect(),
            ages: ages
                .map(|(&round, counts)| (round, counts.clone().into_iter().collect()))
                .collect(),
        }
    }
}
