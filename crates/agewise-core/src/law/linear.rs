//! The non-optimal family: p_a = min(1, s (a + 1)).
//!
//! The paper asks only for p_0 < p_1 < ... and gives no values; this is our choice of such a law, with
//! the slope s solved so that a client is called every n/m rounds on average.

use super::{AgeLaw, check_interval, check_max_age};
use crate::error::Result;

impl AgeLaw {
    /// The law whose probabilities grow linearly with age, for a target interval of n/m rounds.
    pub fn linear(interval: f64, max_age: u32) -> Result<Self> {
        let interval = check_interval(interval)?;
        let max_age = check_max_age(u64::from(max_age))?;
        // p_a lies between s and s (max_age + 1), so the mean interval lies between the inverses of
        // the two, and the slope lies between the two that put the target at either end. The mean falls
        // as s grows: bisect until the two ends are neighbours.
        let mut low = 1.0 / (interval * (f64::from(max_age) + 1.0));
        let mut high = 1.0 / interval;
        if mean_interval(high, max_age) >= interval {
            low = high;
        }
        loop {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                break;
            }
            if mean_interval(middle, max_age) > interval {
                low = middle;
            } else {
                high = middle;
            }
        }
        let probabilities: Vec<f64> = (0..=max_age).map(|age| p(high, age)).collect();
        Ok(Self::from_checked(&probabilities, max_age))
    }
}

fn p(slope: f64, age: u32) -> f64 {
    (slope * (f64::from(age) + 1.0)).min(1.0)
}

/// E[X] for a slope: the sum of P(X > k), which stops early because that product falls fast.
fn mean_interval(slope: f64, max_age: u32) -> f64 {
    let mut waiting = 1.0;
    let mut mean = 0.0;
    for age in 0..max_age {
        if waiting < 1e-300 {
            return mean;
        }
        mean += waiting;
        waiting *= 1.0 - p(slope, age);
    }
    mean + waiting / p(slope, max_age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_target_rate_and_grows_with_age() {
        for interval in [1.0, 1.001, 1.5, 2.0, 100.0 / 15.0, 20.0, 1_000.0, 1e9] {
            for max_age in [1, 2, 10, 100, 5_000] {
                let law = AgeLaw::linear(interval, max_age).unwrap();
                let mean = law.interval().mean;
                assert!((mean / interval - 1.0).abs() < 1e-10, "{interval}, {max_age}: {mean}");
                let p = law.probabilities();
                assert!(p.windows(2).all(|pair| pair[0] < pair[1] || pair[1] == 1.0));
            }
        }
    }

    #[test]
    fn everyone_in_every_round_is_probability_one() {
        assert_eq!(AgeLaw::linear(1.0, 4).unwrap().probabilities(), vec![1.0; 5]);
    }
}
