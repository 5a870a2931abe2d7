//! X, the rounds from one selection of a client to its next, and the peak age before a selection.

use super::variance_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Intervals up to this length are counted in an array, longer ones in a map.
const DENSE: usize = 1_024;

/// Mean, variance and histogram of X. X is the age at a selection plus one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Intervals {
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    /// How many intervals have length 1, 2, ...
    short: Vec<u64>,
    long: BTreeMap<u64, u64>,
}

impl Intervals {
    /// Records that a client of this age was selected.
    pub fn record(&mut self, age: u64) {
        self.record_many(age, 1);
    }

    /// Records that `clients` clients of this age were selected.
    pub fn record_many(&mut self, age: u64, clients: u64) {
        let interval = u128::from(age) + 1;
        self.count += clients;
        self.sum += interval * u128::from(clients);
        self.sum_of_squares += interval * interval * u128::from(clients);
        let Some(index) = usize::try_from(age).ok().filter(|&index| index < DENSE) else {
            *self.long.entry(age + 1).or_default() += clients;
            return;
        };
        if self.short.len() <= index {
            self.short.resize(index + 1, 0);
        }
        self.short[index] += clients;
    }

    /// How many intervals were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// E\[X\]; NaN while nothing was recorded.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// Var\[X\] (of the recorded intervals, not an estimate for more); NaN while nothing was recorded.
    pub fn variance(&self) -> f64 {
        variance_of(u128::from(self.count), self.sum, self.sum_of_squares)
    }

    /// The mean age at which clients are selected: E\[X\] - 1.
    pub fn mean_peak_age(&self) -> f64 {
        self.mean() - 1.0
    }

    /// The longest interval, 0 while nothing was recorded.
    pub fn longest(&self) -> u64 {
        self.histogram().last().map_or(0, |(interval, _)| interval)
    }

    /// Every interval that was seen, with how often, in increasing order.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> {
        let short = (1..).zip(self.short.iter().copied()).filter(|(_, count)| *count > 0);
        short.chain(self.long.iter().map(|(&interval, &count)| (interval, count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_histogram_are_those_of_the_list() {
        let mut intervals = Intervals::default();
        for age in [5, 6, 6, 0, 5_000_000_000] {
            intervals.record(age);
        }
        assert_eq!(intervals.count(), 5);
        assert_eq!(intervals.longest(), 5_000_000_001);
        let histogram: Vec<_> = intervals.histogram().collect();
        assert_eq!(histogram, [(1, 1), (6, 1), (7, 2), (5_000_000_001, 1)]);
        let x = [6.0, 7.0, 7.0, 1.0, 5_000_000_001.0];
        let mean = x.iter().sum::<f64>() / 5.0;
        assert!((intervals.mean() - mean).abs() < 1e-6);
        assert!((intervals.mean_peak_age() - (mean - 1.0)).abs() < 1e-6);
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5.0;
        assert!((intervals.variance() / variance - 1.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_recorded_is_not_a_number() {
        assert!(Intervals::default().mean().is_nan() && Intervals::default().variance().is_nan());
        assert_eq!(Intervals::default().longest(), 0);
    }
}
