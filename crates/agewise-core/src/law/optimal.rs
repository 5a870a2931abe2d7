//! Theorem 2: the law with the least Var\[X\] among all laws with the same rate and `max_age`.

use super::{AgeLaw, check_interval, check_max_age};
use crate::error::Result;

impl AgeLaw {
    /// The optimal law for a target interval of n/m rounds (Theorem 2).
    ///
    /// With i = floor(n/m): if `max_age` >= i, a client is never due before age i - 1, is due with
    /// probability i + 1 - n/m at that age, and surely after it. With a smaller `max_age` it waits until
    /// it is at `max_age`, and then takes part with probability 1/(n/m - `max_age`).
    pub fn optimal(interval: f64, max_age: u32) -> Result<Self> {
        let interval = check_interval(interval)?;
        let max_age = check_max_age(u64::from(max_age))?;
        if f64::from(max_age) < interval.floor() {
            let p = 1.0 / (interval - f64::from(max_age));
            return Ok(Self { zeros: max_age, tail: vec![p], max_age });
        }
        Ok(Self { max_age, ..Self::unsaturated(interval) })
    }

    /// The optimal law that never saturates: no client waits longer than ceil(n/m) rounds.
    ///
    /// The interval is a checked one, at most the number of clients, so its parts fit.
    pub(crate) fn unsaturated(interval: f64) -> Self {
        let whole = interval.floor();
        let p = whole + 1.0 - interval;
        let tail = if p == 1.0 { vec![1.0] } else { vec![p, 1.0] };
        Self { zeros: whole as u32 - 1, tail, max_age: whole as u32 }
    }

    /// The least possible Var\[X\] for a target interval and `max_age` (Theorem 2).
    pub fn optimal_variance(interval: f64, max_age: u32) -> Result<f64> {
        let interval = check_interval(interval)?;
        let max_age = f64::from(check_max_age(u64::from(max_age))?);
        let whole = interval.floor();
        if max_age < whole {
            Ok((interval - max_age) * (interval - max_age - 1.0))
        } else {
            let c = interval - whole;
            Ok(c * (1.0 - c))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example() {
        let law = AgeLaw::optimal(100.0 / 15.0, 10).unwrap();
        let mut expected = vec![0.0; 11];
        expected[5] = 1.0 / 3.0;
        expected[6..].fill(1.0);
        for (p, q) in law.probabilities().iter().zip(&expected) {
            assert!((p - q).abs() < 1e-14);
        }
    }

    #[test]
    fn every_case_has_the_right_rate_and_variance() {
        for (n, m) in [(100, 15), (100, 20), (100, 100), (100, 1), (7, 3), (99, 98), (1_000, 3)] {
            let interval = f64::from(n) / f64::from(m);
            for max_age in [1, 2, 3, 5, 6, 7, 10, 49, 99, 100, 333, 400] {
                let law = AgeLaw::optimal(interval, max_age).unwrap();
                let moments = law.interval();
                let variance = AgeLaw::optimal_variance(interval, max_age).unwrap();
                let context = format!("n = {n}, m = {m}, max_age = {max_age}");
                assert!((moments.mean / interval - 1.0).abs() < 1e-12, "{context}: {moments:?}");
                let tolerance = 1e-9 * variance.max(1.0);
                assert!((moments.variance - variance).abs() < tolerance, "{context}: {moments:?}");
                assert_eq!(law.probabilities().len(), max_age as usize + 1);
            }
        }
    }

    #[test]
    fn refuses_impossible_intervals_and_ages() {
        for interval in [0.99, 0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert_eq!(AgeLaw::optimal(interval, 10).unwrap_err().field(), "interval");
        }
        for max_age in [0, super::super::LARGEST_MAX_AGE + 1] {
            assert_eq!(AgeLaw::optimal(5.0, max_age).unwrap_err().field(), "max_age");
        }
    }
}
