//! The optimal law with a stated variance, so that clients do not stay in step.
//!
//! Where n/m is a whole number the law of Theorem 2 has no randomness left: each client comes exactly every n/m rounds,
//! cohort sizes repeat without end, and the same clients always meet. Here X is one of three neighbouring numbers, i - 1, i
//! and i + 1, with mean n/m and a variance that is stated.

use super::{AgeLaw, check_interval, check_max_age};
use crate::error::{Error, Result};

impl AgeLaw {
    /// The law with X in {i - 1, i, i + 1}, i being the whole number next to n/m (and 2 at least), so that E\[X\] = n/m and
    /// Var\[X\] = max(c(1 - c), `variance`), where c is the part of n/m behind the point: the law of Theorem 2 where that
    /// varies enough by itself.
    ///
    /// With d = n/m - i: P(X = i + 1) and P(X = i - 1) are (v + d^2 + d)/2 and (v + d^2 - d)/2. Three values leave room for
    /// v up to 1 - d^2, which is 3/4 or more; where n/m is below 1.5 (so that X = i - 1 = 1 has to be frequent) it is
    /// c(2 - c), and `variance` is cut to that. With a `max_age` that is too small for these ages it is the optimal law for
    /// that `max_age`.
    pub fn mixing(interval: f64, max_age: u32, variance: f64) -> Result<Self> {
        let interval = check_interval(interval)?;
        let max_age = check_max_age(u64::from(max_age))?;
        let variance = check_variance(variance)?;
        let middle = interval.round().max(2.0);
        if f64::from(max_age) < middle {
            return Self::optimal(interval, max_age);
        }
        let d = interval - middle;
        let part = interval.fract();
        let least = part * (1.0 - part);
        let square = variance.clamp(least, (1.0 - d * d).max(least)) + d * d;
        // Rounding may leave a probability that is zero in closed form a little below it.
        let early = (0.5 * (square - d)).clamp(0.0, 1.0);
        let late = (0.5 * (square + d)).clamp(0.0, 1.0);
        let on_time = (1.0 - early - late).max(0.0);
        let p = if early < 1.0 { (on_time / (1.0 - early)).min(1.0) } else { 1.0 };
        // Ages from 0 on; X is the age plus one.
        let zeros = middle as u32 - 2;
        let first = zeros + u32::from(early == 0.0);
        let mut tail = Vec::with_capacity(3);
        if early > 0.0 {
            tail.push(early);
        }
        tail.extend([p, 1.0]);
        while let [.., before, last] = tail[..]
            && before == last
        {
            tail.pop();
        }
        Ok(Self { zeros: first, tail, max_age })
    }
}

/// The largest variance that three neighbouring numbers always have room for.
const LARGEST_VARIANCE: f64 = 0.75;

fn check_variance(variance: f64) -> Result<f64> {
    if variance > 0.0 && variance <= LARGEST_VARIANCE {
        return Ok(variance);
    }
    let expected = format!("a variance above 0 and up to {LARGEST_VARIANCE}");
    Err(Error::new("variance", variance, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_variance_are_as_stated_and_x_is_one_of_three() {
        for step in 0..4_000 {
            let interval = 1.0 + f64::from(step) * 0.011;
            for variance in [1e-6, 0.1, 0.25, 0.5, 0.75] {
                let law = AgeLaw::mixing(interval, 100, variance).unwrap();
                let context = format!("n/m = {interval}, variance {variance}: {law:?}");
                let moments = law.interval();
                assert!((moments.mean - interval).abs() < 1e-9, "{context}: {moments:?}");
                let c = interval.fract();
                let room = if interval < 1.5 { c * (2.0 - c) } else { 0.75 };
                let stated = (c * (1.0 - c)).max(variance.min(room));
                assert!((moments.variance - stated).abs() < 1e-9, "{context}: {moments:?}");
                let values: Vec<u64> = law
                    .interval_distribution()
                    .filter(|&(_, p)| p > 1e-12)
                    .map(|(x, _)| x)
                    .collect();
                assert!(
                    values.len() <= 3 && values[values.len() - 1] - values[0] <= 2,
                    "{context}"
                );
            }
        }
    }

    #[test]
    fn the_quick_start_of_the_deployment() {
        let law = AgeLaw::mixing(4.0, 10, 0.1).unwrap();
        let x: Vec<_> = law.interval_distribution().collect();
        let expected = [(3, 0.05), (4, 0.9), (5, 0.05)];
        assert!(x.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12));
        assert_eq!(law.longest_interval(), Some(5));
    }

    #[test]
    fn is_the_optimal_law_where_that_varies_enough_or_ages_end_too_early() {
        for (interval, max_age) in [(100.0 / 15.0, 10), (2.5, 10), (1.0, 10), (100.0, 10)] {
            let mixing = AgeLaw::mixing(interval, max_age, 0.1).unwrap();
            let optimal = AgeLaw::optimal(interval, max_age).unwrap();
            for age in 0..=u64::from(max_age) {
                let (a, b) = (mixing.probability(age), optimal.probability(age));
                assert!((a - b).abs() < 1e-12, "{interval}, age {age}: {a}, {b}");
            }
        }
    }

    #[test]
    fn refuses_variances_that_it_cannot_have() {
        for variance in [0.0, -0.1, 0.76, f64::NAN, f64::INFINITY] {
            assert_eq!(AgeLaw::mixing(4.0, 10, variance).unwrap_err().field(), "variance");
        }
    }
}
