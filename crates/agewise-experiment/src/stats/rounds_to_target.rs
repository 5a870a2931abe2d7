//! Rounds to a target, where some runs never get there.

use super::bootstrap::median_interval;
use super::confidence_interval::Interval;
use super::quantile::median;
use serde::{Deserialize, Serialize};

/// How many rounds a policy needs to reach a target, over several runs.
///
/// A run that never reached the target counts as longer than every run that did; how long it would have taken is not
/// guessed. With few runs the interval holds the true median less often than 95%: that of ten runs in about 93% of
/// cases, and that of three in at most 75%, as the true median lies outside all three in the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoundsToTarget {
    /// The median over runs; `None` if it falls among the runs that never reached the target.
    pub median: Option<f64>,
    /// The 95% interval of the median by bootstrap over runs; infinite (`null` in JSON) where a bound falls among the
    /// runs that never reached the target, and `None` with fewer than two runs.
    pub interval: Option<Interval>,
    /// How many runs reached the target.
    pub reached: usize,
    /// How many runs there were.
    pub runs: usize,
}

impl RoundsToTarget {
    /// Sums up the rounds of each run, where `None` is a run that never reached the target.
    pub fn of(rounds: &[Option<u64>]) -> Self {
        let rounds = rounds.iter().map(|rounds| rounds.map(|rounds| rounds as f64));
        Self::of_costs(&rounds.collect::<Vec<_>>())
    }

    /// The same for what was spent in any unit.
    pub fn of_costs(costs: &[Option<f64>]) -> Self {
        let mut values: Vec<f64> = costs.iter().map(|cost| cost.unwrap_or(f64::INFINITY)).collect();
        // Sorts them for the bootstrap too.
        let median = median(&mut values).filter(|median| median.is_finite());
        Self {
            median,
            interval: median_interval(&values),
            reached: costs.iter().flatten().count(),
            runs: costs.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::{Draws, Seed, Stream};

    #[test]
    fn never_is_longer_than_every_number() {
        let runs = [Some(30), None, Some(10), Some(20), None];
        let summary = RoundsToTarget::of(&runs);
        assert_eq!((summary.median, summary.reached, summary.runs), (Some(30.0), 3, 5));
        assert_eq!(summary.interval, Some(Interval { low: 10.0, high: f64::INFINITY }));
        // The middle two are 10 and never.
        let summary = RoundsToTarget::of(&[None, Some(10)]);
        assert_eq!((summary.median, summary.reached, summary.runs), (None, 1, 2));
        let summary = RoundsToTarget::of(&[None; 4]);
        let never = f64::INFINITY;
        assert_eq!(summary.median, None);
        assert_eq!(summary.interval, Some(Interval { low: never, high: never }));
    }

    #[test]
    fn one_run_has_no_interval_and_no_run_nothing() {
        let summary = RoundsToTarget::of(&[Some(7)]);
        assert_eq!((summary.median, summary.interval), (Some(7.0), None));
        let summary = RoundsToTarget::of(&[]);
        let nothing = RoundsToTarget { median: None, interval: None, reached: 0, runs: 0 };
        assert_eq!(summary, nothing);
    }

    #[test]
    fn the_order_of_runs_does_not_matter() {
        let mut runs = [Some(9), Some(4), None, Some(25), Some(16), None, Some(1)];
        let summary = RoundsToTarget::of(&runs);
        runs.reverse();
        assert_eq!(RoundsToTarget::of(&runs), summary);
    }

    /// 10 runs whose rounds are geometric with mean 50, cut off at 60 rounds: the true median is 35.
    #[test]
    fn intervals_of_ten_runs_cover_the_true_median() {
        let (success, repetitions) = (0.02f64, 500);
        let rounds = |unit: f64| 1 + ((1.0 - unit).ln() / (1.0 - success).ln()) as u64;
        let mut covered = 0;
        for repetition in 0..repetitions {
            let draws = Draws::new(Seed(6), Stream::custom(902), repetition);
            let runs: Vec<Option<u64>> = (0..10)
                .map(|run| Some(rounds(draws.of(run).unit())).filter(|&rounds| rounds <= 60))
                .collect();
            let Interval { low, high } = RoundsToTarget::of(&runs).interval.unwrap();
            covered += u32::from((low..=high).contains(&35.0));
        }
        // 95% is what is aimed at, but the median of so few values moves in coarse steps.
        assert!(covered >= 450, "{covered} of {repetitions}");
    }
}
