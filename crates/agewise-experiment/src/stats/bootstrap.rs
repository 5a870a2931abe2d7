//! The percentile bootstrap of a median: what the median would be if the runs were drawn again from themselves.

use super::confidence_interval::Interval;
use agewise_core::{Draws, Seed, Stream};

/// The draws of the resamples: the resample is the round, and the draw in it the index.
const RESAMPLE: Stream = Stream::custom(300);
/// The same for every median, so that the same runs have the same interval.
const SEED: Seed = Seed(0);
const RESAMPLES: usize = 10_000;

/// The 95% interval of the median of sorted values; `None` of fewer than two.
///
/// Its bounds are medians of resamples themselves, so one of them is infinite only if such a median is.
pub(super) fn median_interval(sorted: &[f64]) -> Option<Interval> {
    if sorted.len() < 2 {
        return None;
    }
    let mut drawn = vec![0; sorted.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|resample| {
            let draws = Draws::new(SEED, RESAMPLE, resample as u64);
            for (draw, place) in drawn.iter_mut().enumerate() {
                *place = below(draws.of(draw as u64).bits(), sorted.len());
            }
            // Places in a sorted list are in the order of the values.
            drawn.sort_unstable();
            let (low, high) = (drawn[(drawn.len() - 1) / 2], drawn[drawn.len() / 2]);
            0.5 * (sorted[low] + sorted[high])
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    // 2.5% of the resamples are cut off at each end.
    let cut = RESAMPLES / 40;
    Some(Interval { low: medians[cut], high: medians[RESAMPLES - 1 - cut] })
}

/// A whole number below `count`, from 64 random bits.
const fn below(bits: u64, count: usize) -> usize {
    ((bits as u128 * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_span_the_interval_and_one_has_none() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[3.0]), None);
        // A quarter of the resamples has the first value twice, a quarter the second.
        assert_eq!(median_interval(&[3.0, 5.0]), Some(Interval { low: 3.0, high: 5.0 }));
        assert_eq!(median_interval(&[4.0; 9]), Some(Interval { low: 4.0, high: 4.0 }));
    }

    /// With 13 values the median of a resample is the k-th value or one before it if at least 7 of 13 draws are among
    /// the first k: probability 0.0157 for k = 3 and 0.0707 for k = 4, so the bounds are the fourth from each end.
    #[test]
    fn bounds_are_those_of_the_binomial_distribution() {
        let sorted: Vec<f64> = (1..=13).map(f64::from).collect();
        assert_eq!(median_interval(&sorted), Some(Interval { low: 4.0, high: 10.0 }));
    }
}
