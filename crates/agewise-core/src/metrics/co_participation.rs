//! Counts how often two clients are in the same cohort: under periodic policies the same pairs recur.

use crate::math::square;
use serde::{Deserialize, Serialize};

/// Counts the rounds that pairs of clients share, among at most [`CoParticipation::MOST`] clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoParticipation {
    /// Every `stride`-th client is watched.
    stride: u32,
    watched: u32,
    /// Shared rounds of the pairs (i, j), i < j, row by row.
    shared: Vec<u32>,
}

/// The number of pairs of so many clients.
fn pairs(watched: u32) -> usize {
    watched as usize * (watched as usize).saturating_sub(1) / 2
}

impl CoParticipation {
    /// The most clients that are watched; with more clients an evenly spread sample is.
    pub const MOST: u32 = 512;

    /// Watches a population.
    pub fn new(clients: u32) -> Self {
        let stride = clients.div_ceil(Self::MOST).max(1);
        let watched = clients.div_ceil(stride);
        Self { stride, watched, shared: vec![0; pairs(watched)] }
    }

    /// There are so many clients now, which is more than before. Pairs with a new client have not met. Where more than
    /// [`Self::MOST`] would be watched, every second one is left out: those that stay were watched from the beginning.
    pub(super) fn admit(&mut self, clients: u32) {
        let mut step = 1;
        while clients.div_ceil(self.stride * step) > Self::MOST {
            step *= 2;
        }
        let mut grown = Self { stride: self.stride * step, watched: 0, shared: Vec::new() };
        grown.watched = clients.div_ceil(grown.stride);
        grown.shared = vec![0; pairs(grown.watched)];
        let kept = self.watched.div_ceil(step) as usize;
        let step = step as usize;
        for j in 0..kept {
            for i in 0..j {
                let pair = grown.pair(i, j);
                grown.shared[pair] = self.shared[self.pair(i * step, j * step)];
            }
        }
        *self = grown;
    }

    /// Whether two accumulators watch the same clients.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        (self.stride, self.watched, self.shared.len())
            == (other.stride, other.watched, other.shared.len())
    }

    /// Records a cohort (clients in increasing order).
    pub fn record(&mut self, cohort: &[u32]) {
        let present: Vec<usize> = cohort
            .iter()
            .filter(|&client| client.is_multiple_of(self.stride))
            .map(|client| (client / self.stride) as usize)
            .collect();
        for (index, &j) in present.iter().enumerate() {
            for &i in &present[..index] {
                let pair = self.pair(i, j);
                self.shared[pair] += 1;
            }
        }
    }

    fn pair(&self, i: usize, j: usize) -> usize {
        let n = self.watched as usize;
        i * (2 * n - i - 1) / 2 + j - i - 1
    }

    /// The share of pairs that never met; NaN if there is no pair.
    pub fn never_together(&self) -> f64 {
        let never = self.shared.iter().filter(|&&count| count == 0).count();
        never as f64 / self.shared.len() as f64
    }

    /// The standard deviation of the number of shared rounds over pairs, relative to its mean: near 0
    /// if all pairs of clients meet equally often; NaN if no pair met.
    pub fn relative_spread(&self) -> f64 {
        let pairs = self.shared.len() as f64;
        let mean = self.shared.iter().map(|&count| f64::from(count)).sum::<f64>() / pairs;
        let square = self.shared.iter().map(|&count| square(f64::from(count) - mean)).sum::<f64>();
        (square / pairs).sqrt() / mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_pair() {
        let mut co_participation = CoParticipation::new(4);
        co_participation.record(&[0, 1]);
        co_participation.record(&[0, 1, 3]);
        co_participation.record(&[2]);
        // Pairs 01, 02, 03, 12, 13, 23.
        assert_eq!(co_participation.shared, [2, 0, 1, 0, 1, 0]);
        assert_eq!(co_participation.never_together(), 0.5);
        // A mean of 2/3 and a variance of 5/9.
        let spread = (5.0f64 / 9.0).sqrt() / (2.0 / 3.0);
        assert!((co_participation.relative_spread() - spread).abs() < 1e-15);
    }

    #[test]
    fn large_populations_are_sampled() {
        let mut co_participation = CoParticipation::new(10_000);
        assert!(co_participation.watched <= CoParticipation::MOST);
        co_participation.record(&(0..10_000).collect::<Vec<_>>());
        assert_eq!(co_participation.never_together(), 0.0);
        assert!(CoParticipation::new(1).never_together().is_nan());
    }

    #[test]
    fn a_population_that_grows_is_sampled_more_thinly() {
        let cohort = |clients: u32| -> Vec<u32> { (0..clients).step_by(3).collect() };
        let mut grown = CoParticipation::new(500);
        grown.record(&cohort(500));
        grown.admit(513);
        grown.record(&cohort(513));
        grown.admit(3_213);
        grown.record(&cohort(3_213));
        // 8 is the smallest power of 2 that leaves 512 or fewer of 3,213.
        let mut whole = CoParticipation { stride: 8, watched: 402, shared: vec![0; pairs(402)] };
        for clients in [500, 513, 3_213] {
            whole.record(&cohort(clients));
        }
        assert_eq!(grown, whole);
        let mut at_once = CoParticipation::new(500);
        at_once.admit(3_213);
        assert!(at_once.is_alike(&grown));
    }
}
