//! The metrics of a run, with or without a task.

use crate::engines::counters;
use crate::engines::round::{AgeCounts, RoundMetrics, RoundSelection};
use crate::record::{LoadRecord, RoundRecord};
use agewise_core::metrics::{
    CohortSizes, Intervals, Load, MeanWeights, WeightMoments, WindowTally,
};
use agewise_core::{Plan, Policy, Setting, Weighting};
use std::collections::BTreeMap;

/// The rounds in which ages are recorded: at most this many.
const AGE_ROUNDS: u64 = 400;

/// A figure that is known. NaN (nothing recorded yet, no client selected) has no place in a JSON file.
pub(super) fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(super) struct RunMetrics {
    warmup: u64,
    look_every: u64,
    rows: Vec<RoundRecord>,
    intervals: Intervals,
    cohort_sizes: CohortSizes,
    weights: WeightMoments,
    means: MeanWeights,
    windows: Vec<WindowTally>,
    /// The sum over rounds of the sum of weights, and of its square.
    total_weight: (f64, f64),
    /// How many clients wait, by the round since which they do.
    waiting: BTreeMap<i64, u64>,
    ages: Vec<(u64, Vec<(u64, u64)>)>,
}

impl RunMetrics {
    /// For a run of so many rounds, and so many clients with those that join later.
    pub(super) fn new(clients: u64, rounds: u64, warmup: u64, means: MeanWeights) -> Self {
        Self {
            warmup,
            look_every: rounds.div_ceil(AGE_ROUNDS).max(1),
            rows: Vec::new(),
            intervals: Intervals::default(),
            cohort_sizes: CohortSizes::default(),
            weights: WeightMoments::new(clients),
            means,
            windows: counters::windows(clients),
            total_weight: (0.0, 0.0),
            waiting: BTreeMap::new(),
            ages: Vec::new(),
        }
    }

    /// The ages of the clients with which the run begins.
    pub(super) fn begin(&mut self, ages: &AgeCounts) {
        self.waiting = ages.iter().map(|(age, count)| (-(age as i64), count)).collect();
    }

    /// Whether there was no round yet.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Records the next round.
    pub(super) fn record(
        &mut self,
        interval: f64,
        selection: &RoundSelection,
        metrics: &RoundMetrics,
    ) -> RoundRecord {
        let round = self.rows.len() as u64;
        self.begin_waiting(round, selection.joined);
        self.end_waiting(round, &selection.left);
        self.look_at_ages(round);
        self.end_waiting(round, &metrics.ages);
        // A client whose update was not taken is not credited and goes on waiting.
        self.begin_waiting(round + 1, metrics.ages.iter().map(|(_, clients)| clients).sum());
        if let Some(now) = round.checked_sub(self.warmup) {
            let sums = &metrics.sums;
            self.cohort_sizes.record(selection.reported);
            self.total_weight.0 += sums.weight;
            self.total_weight.1 += sums.weight * sums.weight;
            self.weights.record_many(sums.squares, sums.growth);
            for (age, clients) in metrics.ages.iter() {
                self.intervals.record_many(age, clients);
            }
            sums.record(&mut self.windows);
            for window in &mut self.windows {
                window.end_round(now);
            }
        }
        let row = RoundRecord {
            available: selection.available,
            selected: selection.selected,
            reported: selection.reported,
            forced: selection.forced,
            interval,
            sigma: known(self.sigma((round + 1).saturating_sub(self.warmup))),
        };
        self.rows.push(row);
        row
    }

    fn look_at_ages(&mut self, round: u64) {
        if round.is_multiple_of(self.look_every) {
            // By age, so the other way round.
            let waiting = self.waiting.iter().rev();
            let counts = waiting.map(|(&since, &count)| ((round as i64 - since) as u64, count));
            self.ages.push((round, counts.collect()));
        }
    }

    /// Clients of these ages no longer wait.
    fn end_waiting(&mut self, round: u64, ages: &AgeCounts) {
        for (age, clients) in ages.iter() {
            let since = round as i64 - age as i64;
            if let Some(count) = self.waiting.get_mut(&since) {
                *count -= clients;
                if *count == 0 {
                    self.waiting.remove(&since);
                }
            }
        }
    }

    /// Clients begin to wait in a round.
    fn begin_waiting(&mut self, round: u64, clients: u64) {
        if clients > 0 {
            *self.waiting.entry(round as i64).or_default() += clients;
        }
    }

    fn sigma(&self, recorded: u64) -> f64 {
        self.weights.estimated_sigma(recorded, self.means, self.total_weight.0)
    }

    /// The figures of the rounds so far, `selections` being those of each client.
    pub(super) fn finish(self, selections: BTreeMap<u32, u64>) -> (Vec<RoundRecord>, LoadRecord) {
        let played = self.rows.len() as u64;
        let recorded = played.saturating_sub(self.warmup);
        let rounds = recorded as f64;
        let mean = self.total_weight.0 / rounds;
        let total_variance = (self.total_weight.1 / rounds - mean * mean).max(0.0);
        let mut load = Load::default();
        for (&count, &clients) in &selections {
            load.record_many(u64::from(count), clients);
        }
        let sigma = self.sigma(recorded);
        let oldest = self.waiting.keys().next().map_or(0, |since| played as i64 - since);
        let windows = self.windows.iter().map(|window| (window.length(), window.normalised_sd()));
        let load = LoadRecord {
            mean_interval: known(self.intervals.mean()),
            var_interval: known(self.intervals.variance()),
            sigma: known(sigma),
            mean_covariance: known(self.weights.mean_covariance(sigma, total_variance)),
            cohort_mean: self.cohort_sizes.mean(),
            cohort_sd: self.cohort_sizes.sd(),
            cohort_min: self.cohort_sizes.min(),
            cohort_max: self.cohort_sizes.max(),
            jain: known(load.jain()),
            never_reached: load.never_selected(),
            longest_wait: self.intervals.longest().max(oldest as u64),
            window_sd: windows.filter(|(_, sd)| sd.is_finite()).collect(),
            intervals: self.intervals.histogram().collect(),
            selections: selections.into_iter().collect(),
            ages: self.ages,
            never_together: None,
            co_participation_spread: None,
        };
        (self.rows, load)
    }
}

/// What is known about the mean weights of the clients of a policy before anything is played.
pub(super) fn mean_weights(
    policy: &dyn Policy,
    weighting: Weighting,
    setting: &Setting,
    is_calm: bool,
) -> MeanWeights {
    // Ages and draws treat all clients alike. Under a periodic policy each client always meets the same others.
    let chosen_alike = setting.rates().is_none() && !matches!(policy.plan(), Plan::Select);
    let weighed_alike = setting.sizes().are_equal() || weighting == Weighting::Uniform;
    if !is_calm {
        MeanWeights::Unknown
    } else if chosen_alike && weighed_alike {
        MeanWeights::Alike
    } else if policy.rounds_are_independent() {
        MeanWeights::IndependentRounds
    } else {
        MeanWeights::Unknown
    }
}
