//! The books of a run: everything that is recorded of its rounds.

use super::{AgeMap, RoundRow, RunOutcome, RunSpec};
use crate::played::{AgeCounts, Chosen, Settled};
use crate::tally;
use agewise_core::metrics::{
    CohortSizes, Intervals, Load, MeanWeights, WeightMoments, WindowTally,
};
use std::collections::BTreeMap;

/// The rounds of the age map: at most this many.
const AGE_MAP_ROUNDS: u64 = 400;

pub(super) struct Ledger {
    warmup: u64,
    /// The age map has every so many rounds.
    look_every: u64,
    rows: Vec<RoundRow>,
    intervals: Intervals,
    cohort_sizes: CohortSizes,
    weights: WeightMoments,
    means: MeanWeights,
    windows: Vec<WindowTally>,
    /// The sum over rounds of the sum of weights, and of its square.
    total_weight: (f64, f64),
    /// How many clients wait, by the round since which they do.
    waiting: BTreeMap<i64, u64>,
    age_map: AgeMap,
}

impl Ledger {
    /// Books for so many clients in all, of which some are there with these ages.
    pub(super) fn new(
        spec: &RunSpec,
        means: MeanWeights,
        clients: u32,
        first_ages: &AgeCounts,
    ) -> Self {
        let clients = u64::from(clients);
        Self {
            warmup: spec.warmup,
            look_every: spec.rounds.div_ceil(AGE_MAP_ROUNDS).max(1),
            rows: Vec::new(),
            intervals: Intervals::default(),
            cohort_sizes: CohortSizes::default(),
            weights: WeightMoments::new(clients),
            means,
            windows: tally::windows(clients),
            total_weight: (0.0, 0.0),
            waiting: first_ages.iter().map(|(age, count)| (-(age as i64), count)).collect(),
            age_map: AgeMap::default(),
        }
    }

    /// Records the next round.
    pub(super) fn record(&mut self, interval: f64, chosen: &Chosen, settled: &Settled) -> RoundRow {
        let round = self.rows.len() as u64;
        self.look_at_ages(round);
        self.welcome(round, chosen.joined);
        self.forget(round, &chosen.left);
        self.forget(round, &settled.ages);
        self.welcome(round + 1, chosen.reported);
        if let Some(now) = round.checked_sub(self.warmup) {
            let sums = &settled.sums;
            self.cohort_sizes.record(chosen.reported);
            self.total_weight.0 += sums.weight;
            self.total_weight.1 += sums.weight * sums.weight;
            self.weights.record_many(sums.squares, sums.growth);
            for (age, clients) in settled.ages.iter() {
                self.intervals.record_many(age, clients);
            }
            sums.record(&mut self.windows);
            for window in &mut self.windows {
                window.end_round(now);
            }
        }
        let row = RoundRow {
            round,
            selected: chosen.selected,
            reported: chosen.reported,
            forced: chosen.forced,
            interval,
            sigma: self.sigma((round + 1).saturating_sub(self.warmup)),
        };
        self.rows.push(row);
        row
    }

    fn look_at_ages(&mut self, round: u64) {
        if round.is_multiple_of(self.look_every) {
            let age = |(&since, &count): (&i64, &u64)| ((round as i64 - since) as u64, count);
            self.age_map.rounds.push(round);
            self.age_map.counts.push(self.waiting.iter().map(age).collect());
        }
    }

    /// Clients of these ages no longer wait.
    fn forget(&mut self, round: u64, ages: &AgeCounts) {
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
    fn welcome(&mut self, round: u64, clients: u64) {
        if clients > 0 {
            *self.waiting.entry(round as i64).or_default() += clients;
        }
    }

    fn sigma(&self, recorded: u64) -> f64 {
        self.weights.estimated_sigma(recorded, self.means, self.total_weight.0)
    }

    /// The figures of the rounds so far, `selections` being those of each client.
    pub(super) fn outcome(self, selections: BTreeMap<u32, u64>) -> RunOutcome {
        let played = self.rows.len() as u64;
        let recorded = played.saturating_sub(self.warmup);
        let rounds = recorded as f64;
        let mean = self.total_weight.0 / rounds;
        let total_variance = (self.total_weight.1 / rounds - mean * mean).max(0.0);
        let mut load = Load::default();
        for (&count, &clients) in &selections {
            load.record_many(u64::from(count), clients);
        }
        let oldest = self.waiting.keys().next().map_or(0, |since| played as i64 - since);
        let closed = self.windows.iter().map(|window| (window.length(), window.normalised_sd()));
        RunOutcome {
            sigma: self.sigma(recorded),
            mean_covariance: self.weights.mean_covariance(self.sigma(recorded), total_variance),
            longest_wait: self.intervals.longest().max(oldest as u64),
            window_sd: closed.filter(|(_, sd)| sd.is_finite()).collect(),
            intervals: self.intervals,
            rows: self.rows,
            cohort_sizes: self.cohort_sizes,
            load,
            selections,
            age_map: self.age_map,
        }
    }
}
