//! One policy against another over common seeds: Student's t on what differs between the runs of a pair.

use super::confidence_interval::Interval;
use super::estimate::{Uncertainty, mean_of};
use serde::{Deserialize, Serialize};

/// By how much a value differs between two policies, the first minus the second, over pairs of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedDifference {
    /// How many pairs there were.
    pub pairs: usize,
    /// The mean difference.
    pub mean: f64,
    /// Its 95% interval; `None` for a single pair.
    pub interval: Option<Interval>,
    /// How likely a difference of this size is if there is none in truth (two-sided); `None` for a single pair.
    pub p_value: Option<f64>,
}

impl PairedDifference {
    /// The difference over these pairs; `None` without pairs, or if a difference is not a finite number.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let differences: Vec<f64> = pairs.iter().map(|(first, second)| first - second).collect();
        Self::of_differences(&differences)
    }

    fn of_differences(differences: &[f64]) -> Option<Self> {
        let first = *differences.first()?;
        let (mean, uncertainty) = mean_of(differences)?;
        let (mean, uncertainty) = if differences.iter().all(|&difference| difference == first) {
            // Rounding in the mean must not look like variance.
            (first, uncertainty.map(|uncertainty| Uncertainty { error: 0.0, ..uncertainty }))
        } else {
            (mean, uncertainty)
        };
        let half_width = uncertainty.map(Uncertainty::half_width);
        let finite = mean.is_finite() && half_width.is_none_or(f64::is_finite);
        finite.then(|| Self {
            pairs: differences.len(),
            mean,
            interval: half_width.map(|half| Interval { low: mean - half, high: mean + half }),
            p_value: uncertainty.map(|Uncertainty { error, student }| {
                if mean == 0.0 {
                    // Nothing divided by nothing: no difference at all.
                    1.0
                } else if error == 0.0 {
                    // The same difference in every pair, as whole numbers can have by luck: what is left to say is that
                    // all have the same sign.
                    libm::pow(0.5, differences.len() as f64 - 1.0)
                } else {
                    student.two_sided(mean / error)
                }
            }),
        })
    }
}

/// What a run spent in some unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Until it reached the target, or else until its end.
    pub amount: f64,
    /// Whether it reached the target.
    pub reached: bool,
}

/// By how many percent the rounds to a target differ between two policies, the first against the second, over pairs of
/// runs: -20 if the first needs a fifth less.
///
/// The mean is that of the logarithms of the ratios, so that half as many and twice as many rounds cancel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedChange {
    /// How many pairs there were.
    pub pairs: usize,
    /// The mean change in percent.
    pub percent: f64,
    /// Its 95% interval, in percent; `None` for a single pair.
    pub interval: Option<Interval>,
    /// How likely a change of this size is if there is none in truth (two-sided); `None` for a single pair.
    pub p_value: Option<f64>,
    /// In how many pairs a run never reached the target and was counted at the rounds allowed. Where it is one of the
    /// two, the true change of the pair is at least as large; where it is both, the pair counts as no change.
    pub at_limit: usize,
}

impl PairedChange {
    /// The change over these pairs, where `None` is a run that did not reach the target within the rounds `allowed`;
    /// `None` without pairs.
    ///
    /// A target reached later than allowed is not reached, and one reached before the first round counts as one round.
    pub fn of(pairs: &[(Option<u64>, Option<u64>)], allowed: u64) -> Option<Self> {
        let within = |rounds: Option<u64>| rounds.filter(|&rounds| rounds <= allowed);
        let counted = |rounds| Spent {
            amount: within(rounds).unwrap_or(allowed).max(1) as f64,
            reached: within(rounds).is_some(),
        };
        let pairs: Vec<_> =
            pairs.iter().map(|&(first, second)| (counted(first), counted(second))).collect();
        Self::of_costs(&pairs)
    }

    /// The same for what was spent in any unit. A run that did not reach the target counts with all that it spent, and at
    /// least with what the other of its pair needed: a run that gave up early is not cheap. A pair of which neither reached
    /// it counts as no change; nothing counts less than 1e-9.
    pub fn of_costs(pairs: &[(Spent, Spent)]) -> Option<Self> {
        let logarithm = |(first, second): &(Spent, Spent)| {
            let ratio = libm::log(first.amount.max(1e-9) / second.amount.max(1e-9));
            match (first.reached, second.reached) {
                (true, true) => ratio,
                (false, true) => ratio.max(0.0),
                (true, false) => ratio.min(0.0),
                (false, false) => 0.0,
            }
        };
        let logarithms: Vec<f64> = pairs.iter().map(logarithm).collect();
        let change = PairedDifference::of_differences(&logarithms)?;
        let percent = |logarithm: f64| 100.0 * libm::expm1(logarithm);
        Some(Self {
            pairs: change.pairs,
            percent: percent(change.mean),
            interval: change
                .interval
                .map(|Interval { low, high }| Interval { low: percent(low), high: percent(high) }),
            p_value: change.p_value,
            at_limit: pairs
                .iter()
                .filter(|(first, second)| !first.reached || !second.reached)
                .count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::{Draws, Seed, Stream};
    use std::f64::consts::TAU;

    /// Differences 1, 2, 3, 4, 5: mean 3, standard error sqrt(2.5 / 5), t = 4.2426 with 4 degrees of freedom.
    #[test]
    fn a_worked_example() {
        let pairs = [(11.0, 10.0), (12.0, 10.0), (3.0, 0.0), (4.0, 0.0), (0.0, -5.0)];
        let difference = PairedDifference::of(&pairs).unwrap();
        assert_eq!((difference.pairs, difference.mean), (5, 3.0));
        let interval = difference.interval.unwrap();
        let half = 2.776_445 * 0.5f64.sqrt();
        assert!((interval.low - (3.0 - half)).abs() < 1e-6, "{interval:?}");
        assert!((interval.high - (3.0 + half)).abs() < 1e-6, "{interval:?}");
        assert!((difference.p_value.unwrap() - 0.013_236).abs() < 1e-6, "{difference:?}");
    }

    #[test]
    fn equal_differences_count_by_their_sign() {
        // 0.1 three times has a mean that is not 0.1 in floating point.
        let difference = PairedDifference::of(&[(0.1, 0.0); 3]).unwrap();
        assert_eq!(difference.mean, 0.1);
        assert_eq!(difference.interval, Some(Interval { low: 0.1, high: 0.1 }));
        assert_eq!(difference.p_value, Some(0.25));
        let difference = PairedDifference::of(&[(0.7, 0.7), (0.8, 0.8)]).unwrap();
        assert_eq!(difference.interval, Some(Interval { low: 0.0, high: 0.0 }));
        assert_eq!(difference.p_value, Some(1.0));
    }

    #[test]
    fn one_pair_has_no_interval_and_values_that_are_no_numbers_have_no_difference() {
        let difference = PairedDifference::of(&[(3.0, 1.0)]).unwrap();
        let single = PairedDifference { pairs: 1, mean: 2.0, interval: None, p_value: None };
        assert_eq!(difference, single);
        assert_eq!(PairedDifference::of(&[]), None);
        for odd in [f64::NAN, f64::INFINITY, f64::MAX] {
            assert_eq!(PairedDifference::of(&[(1.0, 0.0), (odd, -f64::MAX)]), None, "{odd}");
        }
        assert_eq!(PairedChange::of(&[], 10), None);
    }

    /// Twice and half as many rounds cancel; a third and a third again stay a third.
    #[test]
    fn changes_are_relative() {
        let change = PairedChange::of(&[(Some(20), Some(10)), (Some(50), Some(100))], 200).unwrap();
        assert!(change.percent.abs() < 1e-12 && change.at_limit == 0, "{change:?}");
        assert!(change.p_value.unwrap() > 0.999, "{change:?}");
        let change = PairedChange::of(&[(Some(10), Some(30)), (Some(20), Some(60))], 200).unwrap();
        assert!((change.percent + 200.0 / 3.0).abs() < 1e-12, "{change:?}");
        let interval = change.interval.unwrap();
        assert_eq!((interval.low, interval.high), (change.percent, change.percent));
        assert_eq!(change.p_value, Some(0.5));
    }

    #[test]
    fn runs_that_never_reach_the_target_count_at_the_limit() {
        let pairs = [(Some(50), None), (None, Some(25)), (None, None), (Some(300), Some(100))];
        let change = PairedChange::of(&pairs, 100).unwrap();
        let counted = [(50, 100), (100, 25), (100, 100), (100, 100)]
            .map(|(first, second)| (Some(first), Some(second)));
        let same = PairedChange::of(&counted, 100).unwrap();
        assert_eq!((change.at_limit, same.at_limit), (4, 0));
        assert_eq!(PairedChange { at_limit: 0, ..change }, same);
        // Nothing allowed and nothing needed: still no logarithm of zero.
        let change = PairedChange::of(&[(Some(0), None), (Some(0), Some(0))], 0).unwrap();
        assert_eq!((change.percent, change.p_value, change.at_limit), (0.0, Some(1.0), 1));
    }

    #[test]
    fn a_run_that_gave_up_early_is_not_cheap() {
        let spent = |amount, reached| Spent { amount, reached };
        let change = |pair| PairedChange::of_costs(&[pair]).unwrap();
        let half = change((spent(2.0, true), spent(4.0, true)));
        assert!((half.percent + 50.0).abs() < 1e-9 && half.at_limit == 0);
        // At least as much as the other, and more where it has spent more.
        for (amount, percent) in [(2.0, 0.0), (8.0, 100.0)] {
            let failed = change((spent(amount, false), spent(4.0, true)));
            assert!((failed.percent - percent).abs() < 1e-9 && failed.at_limit == 1);
        }
        assert_eq!(change((spent(1.0, true), spent(0.5, false))).percent, 0.0);
        assert_eq!(change((spent(1.0, false), spent(9.0, false))).percent, 0.0);
    }

    /// 5 pairs of normal values with a common part: 95% of 4,000 intervals, give or take 3.5 standard deviations
    /// (0.0034 each), hold the true difference of 0.4; and the p-value is below 0.05 for just the intervals without 0.
    #[test]
    fn intervals_cover_the_true_difference_as_often_as_they_say() {
        let repetitions = 4_000;
        let mut covered = 0;
        for repetition in 0..repetitions {
            let draws = Draws::new(Seed(5), Stream::custom(902), repetition);
            let normal = |index: u64| {
                let radius = (-2.0 * (1.0 - draws.of(2 * index).unit()).ln()).sqrt();
                radius * (TAU * draws.of(2 * index + 1).unit()).cos()
            };
            let pairs: Vec<(f64, f64)> = (0..5)
                .map(|pair| (pair * 3, 10.0 * normal(pair * 3)))
                .map(|(draw, both)| (both + 0.4 + normal(draw + 1), both + 0.5 * normal(draw + 2)))
                .collect();
            let difference = PairedDifference::of(&pairs).unwrap();
            let Interval { low, high } = difference.interval.unwrap();
            covered += u32::from((low..=high).contains(&0.4));
            assert_eq!((low..=high).contains(&0.0), difference.p_value.unwrap() >= 0.05);
        }
        let share = f64::from(covered) / repetitions as f64;
        assert!((share - 0.95).abs() < 0.012, "{share}");
    }
}
