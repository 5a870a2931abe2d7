//! Age laws: the probability with which a client of a given age takes part.
//!
//! Section III of the paper (Markov selection based on age). A law is a vector p_0, ..., p_{max_age};
//! a client older than `max_age` uses the last entry, so the law saturates while the true age goes on.

mod capped;
mod interval;
mod linear;
mod max_age;
mod mixing;
mod optimal;
mod per_client;
mod steady_state;

pub use interval::IntervalMoments;
pub use max_age::{MaxAge, MaxAgeCost};
pub(crate) use per_client::check_rate;
pub use per_client::{LawFamily, Laws, proportional_rates};
pub use steady_state::StationaryAge;

use crate::error::{Error, Result};
use crate::random::{Chance, Draw};

/// The largest `max_age` that is accepted: a longer vector is of no use and costs memory.
pub const LARGEST_MAX_AGE: u32 = 1_000_000;

/// The smallest last probability: below it a client that gets there might as well have left.
const SMALLEST_LAST: f64 = 1e-12;

/// The probabilities p_0, ..., p_{max_age} with which a client takes part, by age.
///
/// ```
/// use agewise_core::{AgeLaw, Draw};
///
/// // 15 of 100 clients per round: a client is called every 100/15 rounds on average.
/// let law = AgeLaw::optimal(100.0 / 15.0, 10)?;
/// assert_eq!(law.probability(4), 0.0);
/// assert!((law.probability(5) - 1.0 / 3.0).abs() < 1e-12);
/// assert_eq!(law.probability(6), 1.0);
///
/// // One client decides alone, with its age and one random number.
/// let draw = Draw::from_bits(1 << 62); // 0.25
/// assert!(law.takes_part(5, draw));
/// # Ok::<(), agewise_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AgeLaw {
    /// How many ages, from 0 on, have probability zero.
    zeros: u32,
    /// p_zeros, p_{zeros+1}, ...: the last one holds for every greater age. Never empty, and its last
    /// entry is positive, so a client does not wait without end.
    tail: Vec<f64>,
    max_age: u32,
}

impl AgeLaw {
    /// A law of your own: any probabilities p_0, ..., p_{max_age}, of which the last is not zero.
    pub fn new(probabilities: &[f64]) -> Result<Self> {
        for (age, p) in probabilities.iter().enumerate() {
            if !(0.0..=1.0).contains(p) {
                return Err(Error::new(
                    format!("probabilities[{age}]"),
                    p,
                    "a probability from 0 to 1",
                ));
            }
        }
        let &[_, .., last] = probabilities else {
            let value = format!("{probabilities:?}");
            return Err(Error::new("probabilities", value, "p_0, ..., p_max_age: two or more"));
        };
        let max_age = check_max_age(probabilities.len() as u64 - 1)?;
        if last < SMALLEST_LAST {
            return Err(Error::new(
                format!("probabilities[{max_age}]"),
                last,
                format!(
                    "a last probability of at least {SMALLEST_LAST:e}, or a client that reaches this \
                     age waits for ever"
                ),
            ));
        }
        Ok(Self::from_checked(probabilities, max_age))
    }

    /// Drops the leading zeros and the repeated end: what is left is all that a round has to look at.
    fn from_checked(probabilities: &[f64], max_age: u32) -> Self {
        let zeros = probabilities.iter().take_while(|&&p| p == 0.0).count();
        let mut tail = probabilities[zeros..].to_vec();
        while let [.., before, last] = tail[..]
            && before == last
        {
            tail.pop();
        }
        Self { zeros: zeros as u32, tail, max_age }
    }

    /// The probability that a client of this age takes part.
    pub fn probability(&self, age: u64) -> f64 {
        match age.checked_sub(u64::from(self.zeros)) {
            None => 0.0,
            Some(index) => self.tail[(index as usize).min(self.tail.len() - 1)],
        }
    }

    /// The decision of one client: its age and one random number are all it takes.
    pub fn takes_part(&self, age: u64, draw: Draw) -> bool {
        Chance::new(self.probability(age)).wins(draw)
    }

    /// The whole vector p_0, ..., p_{max_age}.
    pub fn probabilities(&self) -> Vec<f64> {
        (0..=u64::from(self.max_age)).map(|age| self.probability(age)).collect()
    }

    /// The age from which on the law no longer changes, as configured.
    pub fn max_age(&self) -> u32 {
        self.max_age
    }

    /// The age from which on p is constant: `max_age`, or earlier.
    fn last_change(&self) -> u64 {
        u64::from(self.zeros) + self.tail.len() as u64 - 1
    }

    /// The greatest of all p_a: the chance of a client that may choose its age by staying away.
    pub fn greatest_probability(&self) -> f64 {
        self.tail.iter().copied().fold(0.0, f64::max)
    }

    /// p at and after [`Self::last_change`].
    fn final_probability(&self) -> f64 {
        self.tail[self.tail.len() - 1]
    }
}

/// Checks a maximum age given from outside.
pub(crate) fn check_max_age(max_age: u64) -> Result<u32> {
    match u32::try_from(max_age) {
        Ok(age @ 1..=LARGEST_MAX_AGE) => Ok(age),
        _ => Err(Error::new(
            "max_age",
            max_age,
            format!("a whole number from 1 to {LARGEST_MAX_AGE}"),
        )),
    }
}

/// Checks a target interval (rounds between two selections, n/m).
pub(crate) fn check_interval(interval: f64) -> Result<f64> {
    if interval.is_finite() && interval >= 1.0 {
        Ok(interval)
    } else {
        Err(Error::new("interval", interval, "a finite number of rounds, at least 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_vector_it_was_given() {
        let p = [0.0, 0.0, 0.25, 0.0, 1.0, 0.5, 0.5, 0.5];
        let law = AgeLaw::new(&p).unwrap();
        assert_eq!(law.probabilities(), p);
        assert_eq!(law.probability(1_000_000_000_000), 0.5);
        assert_eq!(law.max_age(), 7);
        assert_eq!(law.last_change(), 5);
    }

    #[test]
    fn refuses_vectors_that_are_no_law() {
        let field = |p: &[f64]| AgeLaw::new(p).unwrap_err().field().to_string();
        assert_eq!(field(&[]), "probabilities");
        assert_eq!(field(&[0.5]), "probabilities");
        assert_eq!(field(&[0.5, 1.5]), "probabilities[1]");
        assert_eq!(field(&[-0.1, 0.5]), "probabilities[0]");
        assert_eq!(field(&[0.1, f64::NAN, 0.5]), "probabilities[1]");
        assert_eq!(field(&[0.5, 0.5, 0.0]), "probabilities[2]");
    }

    #[test]
    fn a_client_decides_by_its_own_age_and_draw() {
        let law = AgeLaw::new(&[0.0, 0.5, 1.0]).unwrap();
        let low = Draw::from_bits(0);
        let high = Draw::from_bits(u64::MAX);
        assert!(!law.takes_part(0, low));
        assert!(law.takes_part(1, low) && !law.takes_part(1, high));
        assert!(law.takes_part(2, high) && law.takes_part(u64::MAX, high));
    }
}
