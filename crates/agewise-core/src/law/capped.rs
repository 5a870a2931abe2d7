//! The best law of which no probability exceeds a cap: what is left of Theorem 2 if no client may choose its round.
//!
//! A client that stays away chooses its age, and so its probability: under a law with a certain age it comes in the round
//! that it likes. If no p_a exceeds h, it comes with probability h at most in every round, whatever it did before. Among
//! all laws with that property this one has the least Var\[X\] (docs/theory.md has the proof).

use super::{AgeLaw, check_interval, check_max_age};
use crate::error::{Error, Result};

impl AgeLaw {
    /// The law with the least Var\[X\] among all laws with E\[X\] = n/m and p_a <= h, where h is `factor` times m/n, or 1 if
    /// that is more.
    ///
    /// With z = floor(n/m - 1/h) and f = n/m - 1/h - z, the probability is 0 before age z, h(1 - f) there, and h from then
    /// on. Var\[X\] = b(2 - h - b)/h^2 with b = 1 - h(1 - f): where f = 0 that is (1 - h)/h^2. A factor of 1 is a geometric
    /// X, as under random selection, and a factor of n/m or more is Theorem 2. With a `max_age` of z or less it is the
    /// optimal law for that `max_age`, whose probabilities are smaller still.
    pub fn capped(interval: f64, max_age: u32, factor: f64) -> Result<Self> {
        let interval = check_interval(interval)?;
        let max_age = check_max_age(u64::from(max_age))?;
        if !(factor.is_finite() && factor >= 1.0) {
            return Err(Error::new("factor", factor, "a finite multiple of m/n, 1 or more"));
        }
        let cap = (factor / interval).min(1.0);
        let waits = (interval - 1.0 / cap).max(0.0);
        let zeros = waits.floor();
        if f64::from(max_age) <= zeros {
            return Self::optimal(interval, max_age);
        }
        let first = cap * (1.0 - waits.fract());
        let tail = if first == cap { vec![cap] } else { vec![first, cap] };
        Ok(Self { zeros: zeros as u32, tail, max_age })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_variance_and_cap_are_as_stated() {
        for interval in [1.0, 1.3, 2.0, 4.0, 5.0, 100.0 / 15.0, 20.0, 99.7, 1_000.0] {
            for factor in [1.0, 1.5, 2.0, 3.0, 7.5, 1e9] {
                let law = AgeLaw::capped(interval, 1_000, factor).unwrap();
                let context = format!("n/m = {interval}, factor {factor}: {law:?}");
                let cap = (factor / interval).min(1.0);
                let moments = law.interval();
                assert!((moments.mean / interval - 1.0).abs() < 1e-10, "{context}: {moments:?}");
                assert!(law.greatest_probability() <= cap, "{context}");
                let f = (interval - 1.0 / cap).fract();
                let b = 1.0 - cap * (1.0 - f);
                let variance = b * (2.0 - cap - b) / (cap * cap);
                assert!(
                    (moments.variance - variance).abs() < 1e-8 * variance.max(1.0),
                    "{context}"
                );
            }
        }
    }

    #[test]
    fn lies_between_random_selection_and_theorem_2() {
        let interval = 100.0 / 15.0;
        let constant = AgeLaw::capped(interval, 10, 1.0).unwrap();
        assert!((0..20).all(|age| (constant.probability(age) - 0.15).abs() < 1e-12));
        let certain = AgeLaw::capped(interval, 10, 7.0).unwrap();
        let optimal = AgeLaw::optimal(interval, 10).unwrap();
        assert!((0..20).all(|a| (certain.probability(a) - optimal.probability(a)).abs() < 1e-12));
    }

    #[test]
    fn a_small_maximum_age_keeps_below_the_cap() {
        for max_age in [1, 5, 20, 49, 50, 51] {
            let law = AgeLaw::capped(100.0, max_age, 2.0).unwrap();
            assert!(law.greatest_probability() <= 0.02 + 1e-12, "{law:?}");
            assert!((law.interval().mean - 100.0).abs() < 1e-9);
        }
        for factor in [0.99, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(AgeLaw::capped(5.0, 10, factor).unwrap_err().field(), "factor");
        }
    }
}
