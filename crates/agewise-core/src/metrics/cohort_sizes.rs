//! The number of clients per round.

use super::variance_of;
use serde::{Deserialize, Serialize};

/// Mean, standard deviation and range of the cohort size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CohortSizes {
    rounds: u64,
    sum: u128,
    sum_of_squares: u128,
    range: Option<(u64, u64)>,
}

impl CohortSizes {
    /// Records the cohort of one round.
    pub fn record(&mut self, size: u64) {
        self.rounds += 1;
        self.sum += u128::from(size);
        self.sum_of_squares += u128::from(size) * u128::from(size);
        let (min, max) = self.range.unwrap_or((size, size));
        self.range = Some((min.min(size), max.max(size)));
    }

    /// How many rounds were recorded.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The mean; NaN while nothing was recorded.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.rounds as f64
    }

    /// The standard deviation; NaN while nothing was recorded.
    pub fn sd(&self) -> f64 {
        variance_of(u128::from(self.rounds), self.sum, self.sum_of_squares).sqrt()
    }

    /// The smallest cohort, 0 while nothing was recorded.
    pub fn min(&self) -> u64 {
        self.range.map_or(0, |(min, _)| min)
    }

    /// The largest cohort, 0 while nothing was recorded.
    pub fn max(&self) -> u64 {
        self.range.map_or(0, |(_, max)| max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_list() {
        let mut sizes = CohortSizes::default();
        for size in [14, 15, 16, 15] {
            sizes.record(size);
        }
        assert_eq!((sizes.rounds(), sizes.min(), sizes.max()), (4, 14, 16));
        assert_eq!(sizes.mean(), 15.0);
        assert!((sizes.sd() - 0.5f64.sqrt()).abs() < 1e-15);
    }
}
