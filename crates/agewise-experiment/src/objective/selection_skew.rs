//! The selection skew of Definition 1: does a policy lean towards clients that are far from their optimum?
//!
//! With gap_k = F_k(theta) - F_k*, weights w and shares q it is rho = sum E\[w_k\] gap_k / sum q_k gap_k. Theorem 1
//! takes the smallest rho of all rounds and models, and the largest of all rounds at theta*. All models cannot be
//! looked at, so the smallest is taken over those that a run has visited, as the paper does, and over theta*.
//!
//! With the weights of the cohort itself in place of their expectation, the same code gives the skew of single cohorts.

use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// Sum of weight times gap over sum of share times gap: above 1 where clients that are far from their optimum count
/// for more than their share. `None` where the divisor is not above 0, the quotient is not finite (training that
/// diverges) or the lists differ in length.
///
/// At a model that is optimal for everyone all gaps are rounding, and so is the quotient.
pub fn skew(gaps: &[f64], expected_weights: &[f64], shares: &[f64]) -> Option<f64> {
    if gaps.len() != expected_weights.len() || gaps.len() != shares.len() {
        return None;
    }
    let sum = |weights: &[f64]| -> f64 {
        gaps.iter().zip(weights).map(|(gap, weight)| gap * weight).sum()
    };
    let divisor = sum(shares);
    let skew = sum(expected_weights) / divisor;
    (divisor > 0.0 && divisor.is_finite() && skew.is_finite()).then_some(skew)
}

/// The skews of a run, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct SkewTrack {
    shares: Vec<f64>,
    /// Of every round, for the skew at an optimum that is known only later.
    weights: Vec<Vec<f64>>,
    /// Of every round, at the model that it began with.
    skews: Vec<Option<f64>>,
}

/// The skews of a run in a few numbers; `None` where no round had one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SkewRange {
    /// The rounds that were recorded.
    pub rounds: u64,
    /// The smallest over all rounds, each at the model that it began with.
    pub min: Option<f64>,
    /// The mean over all rounds, each at the model that it began with.
    pub mean: Option<f64>,
    /// The smallest over all rounds at theta*.
    pub min_at_optimum: Option<f64>,
    /// The largest over all rounds at theta*.
    pub max: Option<f64>,
}

impl SkewRange {
    /// The smallest and the largest skew as Theorem 1 takes them. Definition 1 takes the smallest over theta* too, so
    /// the first is never above the second.
    pub fn of_the_theorem(&self) -> Option<(f64, f64)> {
        let (min, at_optimum, max) = (self.min?, self.min_at_optimum?, self.max?);
        Some((min.min(at_optimum), max))
    }
}

impl SkewTrack {
    /// Nothing yet, for clients with these shares q of the global objective.
    pub fn new(shares: Vec<f64>) -> Self {
        Self { shares, weights: Vec::new(), skews: Vec::new() }
    }

    /// Adds a round: F_k(theta) - F_k* at the model that it begins with, and the expected weight of every client.
    /// Returns its skew, if there is one.
    pub fn record(&mut self, gaps: &[f64], expected_weights: &[f64]) -> Result<Option<f64>> {
        self.check("gaps", gaps)?;
        self.check("expected weights", expected_weights)?;
        let skew = skew(gaps, expected_weights, &self.shares);
        self.weights.push(expected_weights.to_vec());
        self.skews.push(skew);
        Ok(skew)
    }

    /// The skew of every recorded round at the model that it began with.
    pub fn skews(&self) -> &[Option<f64>] {
        &self.skews
    }

    /// The range of all rounds, now that F_k(theta*) - F_k* is known.
    pub fn finish(&self, gaps_at_optimum: &[f64]) -> Result<SkewRange> {
        self.check("gaps", gaps_at_optimum)?;
        let known: Vec<f64> = self.skews.iter().copied().flatten().collect();
        let at_optimum: Vec<f64> = self
            .weights
            .iter()
            .filter_map(|weights| skew(gaps_at_optimum, weights, &self.shares))
            .collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        Ok(SkewRange {
            rounds: self.weights.len() as u64,
            min: known.iter().copied().reduce(f64::min),
            mean: (!known.is_empty()).then_some(mean),
            min_at_optimum: at_optimum.iter().copied().reduce(f64::min),
            max: at_optimum.iter().copied().reduce(f64::max),
        })
    }

    fn check(&self, field: &str, values: &[f64]) -> Result<()> {
        if values.len() == self.shares.len() {
            return Ok(());
        }
        let value = format!("a list of {}", values.len());
        Err(Error::new(
            field,
            value,
            format!("one number for each of {} clients", self.shares.len()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_where_weights_are_the_shares() {
        let (gaps, shares) = ([0.3, 1.7, 0.02], [0.5, 0.2, 0.3]);
        assert_eq!(skew(&gaps, &shares, &shares), Some(1.0));
        // All on the second client: 1.7 / (0.15 + 0.34 + 0.006).
        let one = skew(&gaps, &[0.0, 1.0, 0.0], &shares).unwrap();
        assert!((one - 1.7 / 0.496).abs() < 1e-12);
        assert_eq!(skew(&[0.0; 3], &shares, &shares), None);
        assert_eq!(skew(&[f64::NAN; 3], &shares, &shares), None);
        assert_eq!(skew(&gaps[1..], &shares, &shares), None);
    }

    #[test]
    fn a_track_takes_the_smallest_on_the_way_and_the_largest_at_the_optimum() {
        let mut track = SkewTrack::new(vec![0.5, 0.5]);
        assert_eq!(track.finish(&[1.0, 1.0]).unwrap().of_the_theorem(), None);
        assert_eq!(track.record(&[1.0, 3.0], &[1.0, 0.0]).unwrap(), Some(0.5));
        assert_eq!(track.record(&[1.0, 1.0], &[0.25, 0.75]).unwrap(), Some(1.0));
        assert_eq!(track.record(&[0.0, 0.0], &[0.5, 0.5]).unwrap(), None);
        let range = track.finish(&[1.0, 0.0]).unwrap();
        assert_eq!((range.rounds, range.min, range.mean), (3, Some(0.5), Some(0.75)));
        assert_eq!((range.min_at_optimum, range.max), (Some(0.5), Some(2.0)));
        assert_eq!(range.of_the_theorem(), Some((0.5, 2.0)));
        let lower = track.finish(&[0.0, 1.0]).unwrap();
        assert_eq!((lower.min_at_optimum, lower.of_the_theorem()), (Some(0.0), Some((0.0, 1.5))));
        assert_eq!(track.record(&[1.0], &[0.5, 0.5]).unwrap_err().field(), "gaps");
        assert_eq!(track.record(&[1.0, 1.0], &[0.5]).unwrap_err().field(), "expected weights");
        assert_eq!(track.skews().len(), 3);
    }
}
