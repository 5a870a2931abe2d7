//! The load metric X, the number of rounds from one selection of a client to the next, for any law.
//!
//! The paper gives Var[X] for its optimal law only (Theorem 2); these hold for every law, exactly:
//! P(X > k) is the product of 1 - p_j for j < k, and geometric from `max_age` on.

use super::AgeLaw;
use crate::math::square;
use crate::theory::autocorrelation::LawParts;
use serde::Serialize;

/// Mean and variance of X.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IntervalMoments {
    /// E\[X\], in rounds.
    pub mean: f64,
    /// Var\[X\], in rounds squared.
    pub variance: f64,
}

impl AgeLaw {
    /// Mean and variance of X.
    pub fn interval(&self) -> IntervalMoments {
        let p = self.final_probability();
        let last = self.last_change();
        let mut mean = f64::from(self.zeros);
        let mut waiting = 1.0;
        for age in u64::from(self.zeros)..last {
            mean += waiting;
            waiting *= 1.0 - self.probability(age);
        }
        mean += waiting / p;

        // Around the mean, not around zero: the variance of a good law is tiny beside E[X]^2.
        let mut variance = 0.0;
        let mut waiting = 1.0;
        for age in u64::from(self.zeros)..last {
            let p = self.probability(age);
            variance += waiting * p * square((age + 1) as f64 - mean);
            waiting *= 1.0 - p;
        }
        variance += waiting * ((1.0 - p) / (p * p) + square(last as f64 + 1.0 / p - mean));
        IntervalMoments { mean, variance }
    }

    /// The values x that X can take, in order, each with P(X = x). Unending, unless X has a longest value.
    pub fn interval_distribution(&self) -> impl Iterator<Item = (u64, f64)> {
        // Ages that are never due are skipped, not walked through: there may be billions of them.
        let mut waiting = 1.0;
        (u64::from(self.zeros)..).map_while(move |age| {
            let p = self.probability(age);
            let here = waiting * p;
            waiting *= 1.0 - p;
            (here > 0.0 || waiting > 0.0).then_some((age + 1, here))
        })
    }

    /// The distribution of X as finitely many values and a geometric end.
    pub(crate) fn parts(&self) -> LawParts {
        let mut waiting = 1.0;
        let mut early = Vec::with_capacity(self.tail.len());
        for age in u64::from(self.zeros)..self.last_change() {
            let p = self.probability(age);
            early.push((age + 1, waiting * p));
            waiting *= 1.0 - p;
        }
        let (last, last_chance) = (self.last_change(), self.final_probability());
        LawParts { early, waiting, last, last_chance }
    }

    /// The longest possible X, or `None` where a client may wait for any number of rounds.
    pub fn longest_interval(&self) -> Option<u64> {
        let certain = self.tail.iter().position(|&p| p == 1.0)?;
        Some(u64::from(self.zeros) + certain as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_agree_with_the_distribution() {
        let laws = [
            AgeLaw::optimal(100.0 / 15.0, 10).unwrap(),
            AgeLaw::optimal(9.3, 4).unwrap(),
            AgeLaw::linear(100.0 / 15.0, 10).unwrap(),
            AgeLaw::new(&[0.15, 0.15]).unwrap(),
            AgeLaw::new(&[0.2, 0.0, 0.9, 0.05]).unwrap(),
        ];
        for law in laws {
            let distribution: Vec<_> = law.interval_distribution().take(10_000).collect();
            let moment = |power: i32| -> f64 {
                distribution.iter().map(|&(x, p)| p * (x as f64).powi(power)).sum()
            };
            let moments = law.interval();
            assert!((moment(0) - 1.0).abs() < 1e-12);
            assert!((moment(1) - moments.mean).abs() < 1e-9);
            assert!((moment(2) - moment(1).powi(2) - moments.variance).abs() < 1e-8, "{law:?}");
        }
    }

    #[test]
    fn a_constant_law_is_geometric() {
        let moments = AgeLaw::new(&[0.15, 0.15]).unwrap().interval();
        assert!((moments.mean - 100.0 / 15.0).abs() < 1e-12);
        // n (n - m) / m^2 at n = 100, m = 15.
        assert!((moments.variance - 100.0 * 85.0 / 225.0).abs() < 1e-10);
    }

    #[test]
    fn tiny_variances_of_long_intervals_keep_their_digits() {
        let law = AgeLaw::optimal(999_999.25, 1_000_000).unwrap();
        assert!((law.interval().variance - 0.1875).abs() < 1e-9);
    }

    #[test]
    fn the_distribution_starts_where_the_law_does() {
        let all = |law: AgeLaw| law.interval_distribution().collect::<Vec<_>>();
        assert_eq!(all(AgeLaw::optimal(5.0, 10).unwrap()), [(5, 1.0)]);
        assert_eq!(all(AgeLaw::new(&[0.5, 0.0, 1.0]).unwrap()), [(1, 0.5), (2, 0.0), (3, 0.5)]);
    }

    #[test]
    fn longest_interval_is_where_the_law_is_certain() {
        assert_eq!(AgeLaw::optimal(100.0 / 15.0, 10).unwrap().longest_interval(), Some(7));
        assert_eq!(AgeLaw::optimal(5.0, 10).unwrap().longest_interval(), Some(5));
        assert_eq!(AgeLaw::optimal(9.3, 4).unwrap().longest_interval(), None);
        assert_eq!(AgeLaw::new(&[0.0, 1.0, 0.5]).unwrap().longest_interval(), Some(2));
    }
}
