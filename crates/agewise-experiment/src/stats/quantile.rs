//! Quantiles of a handful of values, for medians and bands.

/// The median, with the mean of the middle two of an even number; `None` of no values. Sorts the values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    quantile(values, 0.5)
}

/// The quantile `q` in [0, 1] of sorted values, linear between neighbours; `None` of no values.
///
/// Between a finite and an infinite value it is infinite.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let position = q * (sorted.len().checked_sub(1)?) as f64;
    let (below, share) = (position.floor() as usize, position.fract());
    let (low, high) = (*sorted.get(below)?, *sorted.get(position.ceil() as usize)?);
    // Equal neighbours may be infinite, and their difference no number.
    Some(if low == high { low } else { low + share * (high - low) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        let expected = [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.95, 14.4), (1.0, 16.0)];
        for (q, value) in expected {
            assert!((quantile(&sorted, q).unwrap() - value).abs() < 1e-12, "{q}");
        }
        assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert!([-0.1, 1.1, f64::NAN].iter().all(|&q| quantile(&sorted, q).is_none()));
    }

    #[test]
    fn the_median_is_in_the_middle_and_infinite_next_to_infinity() {
        let never = f64::INFINITY;
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut [never, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [never, 1.0]), Some(never));
        assert_eq!(median(&mut [never, never]), Some(never));
        assert_eq!(median(&mut []), None);
    }
}
