//! A sum of real numbers that does not depend on the order of its terms.

use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::AddAssign;

/// A sum in fixed point: 100 binary places, up to about 1.3e8.
///
/// Each term is rounded on its own and whole numbers are added, so any order gives the same bits. Aggregation weights and their squares fit with many digits to spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FixedSum(i128);

/// 2^100.
const SCALE: f64 = 1.267_650_600_228_229_4e30;

impl FixedSum {
    /// The sum as a double.
    pub fn value(self) -> f64 {
        self.0 as f64 / SCALE
    }
}

impl From<f64> for FixedSum {
    fn from(term: f64) -> Self {
        // The cast saturates and takes NaN to 0: a wild term spoils the sum but cannot panic.
        Self((term * SCALE) as i128)
    }
}

impl AddAssign<f64> for FixedSum {
    fn add_assign(&mut self, term: f64) {
        self.0 = self.0.saturating_add(Self::from(term).0);
    }
}

impl Sum<f64> for FixedSum {
    fn sum<I: Iterator<Item = f64>>(terms: I) -> Self {
        terms.fold(Self::default(), |mut sum, term| {
            sum += term;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter() {
        let terms: Vec<f64> = (1..1_000).map(|k| 1.0 / f64::from(k)).collect();
        let forward: FixedSum = terms.iter().copied().sum();
        let backward: FixedSum = terms.iter().rev().copied().sum();
        assert_eq!(forward, backward);
        assert!((forward.value() - terms.iter().sum::<f64>()).abs() < 1e-12);
    }

    #[test]
    fn tiny_squares_keep_their_digits() {
        let weight = 1.0 / 15_000_000.0f64;
        let mut sum = FixedSum::default();
        for _ in 0..1_000 {
            sum += weight * weight;
        }
        assert!((sum.value() / (1_000.0 * weight * weight) - 1.0).abs() < 1e-12);
    }
}
