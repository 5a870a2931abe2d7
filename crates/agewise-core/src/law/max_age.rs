//! The age from which on a law does not change any more: a number, or as large as the law needs.

use super::{LARGEST_MAX_AGE, LawFamily, check_max_age};
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// m': the age from which on an age law does not change any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaxAge {
    /// As large as the law needs for its target interval, and 10 at least ([`MaxAge::at`]).
    #[default]
    Auto,
    /// This number. Below n/m it costs the optimal law its variance ([`MaxAgeCost`]).
    Fixed(u64),
}

/// What [`MaxAge::Auto`] is where n/m is small: the maximum age of the paper's experiments.
const LEAST_AUTO: u32 = 10;

impl MaxAge {
    /// The maximum age for a target interval of n/m rounds.
    ///
    /// `Auto` is ceil(n/m), from which on no law changes that is the best of its family without a bound; at least 10, as in
    /// the paper, and at most [`LARGEST_MAX_AGE`].
    pub fn at(self, interval: f64) -> Result<u32> {
        match self {
            // A number that is too large for a u32 becomes the largest one.
            Self::Auto => Ok((interval.ceil() as u32).clamp(LEAST_AUTO, LARGEST_MAX_AGE)),
            Self::Fixed(age) => check_max_age(age),
        }
    }

    /// What this maximum age costs a family of laws, if it costs anything beside [`MaxAge::Auto`].
    pub fn cost(self, family: LawFamily, interval: f64) -> Result<Option<MaxAgeCost>> {
        let law = family.law(interval, self)?;
        let (max_age, variance) = (law.max_age(), law.interval().variance);
        let least = family.law(interval, Self::Auto)?.interval().variance;
        // Below a thousandth (of the variance or of a squared round) rounding is all that differs.
        let costs = variance > least + 1e-3 * least.max(1.0);
        Ok(costs.then_some(MaxAgeCost { max_age, interval, variance, least }))
    }
}

impl From<u64> for MaxAge {
    fn from(age: u64) -> Self {
        Self::Fixed(age)
    }
}

impl fmt::Display for MaxAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(f, "auto"),
            Self::Fixed(age) => write!(f, "{age}"),
        }
    }
}

impl FromStr for MaxAge {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let wrong = || {
            let expected = format!("auto, or a whole number from 1 to {LARGEST_MAX_AGE}");
            Error::new("max_age", format!("{text:?}"), expected)
        };
        text.parse().map(Self::Fixed).map_err(|_| wrong())
    }
}

impl Serialize for MaxAge {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(age) => serializer.serialize_u64(*age),
        }
    }
}

impl<'de> Deserialize<'de> for MaxAge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = MaxAge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"auto\", or a whole number from 1 to {LARGEST_MAX_AGE}")
            }

            fn visit_u64<E>(self, age: u64) -> std::result::Result<MaxAge, E> {
                Ok(MaxAge::Fixed(age))
            }

            fn visit_i64<E: serde::de::Error>(self, age: i64) -> std::result::Result<MaxAge, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(age), &self);
                u64::try_from(age).map(MaxAge::Fixed).map_err(wrong)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<MaxAge, E> {
                if text == "auto" {
                    return Ok(MaxAge::Auto);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// What a maximum age costs: the law waits until it, and has to be random from there on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaxAgeCost {
    /// The maximum age.
    pub max_age: u32,
    /// The target interval, n/m.
    pub interval: f64,
    /// Var\[X\] of the law with it.
    pub variance: f64,
    /// Var\[X\] of the law with the one that is chosen by itself.
    pub least: f64,
}

impl fmt::Display for MaxAgeCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_age, interval, variance, least } = self;
        write!(
            f,
            "max_age = {max_age} costs: Var[X] {} instead of {} at n/m = {} (max_age = auto does not)",
            rounded(*variance),
            rounded(*least),
            rounded(*interval)
        )
    }
}

/// A number with two digits behind the point at most.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_papers_number_or_what_the_interval_needs() {
        for (interval, age) in [(1.0, 10), (100.0 / 15.0, 10), (10.0, 10), (10.5, 11), (100.0, 100)]
        {
            assert_eq!(MaxAge::Auto.at(interval).unwrap(), age, "{interval}");
        }
        assert_eq!(MaxAge::Auto.at(4e9).unwrap(), LARGEST_MAX_AGE);
        assert_eq!(MaxAge::Fixed(7).at(100.0).unwrap(), 7);
        assert_eq!(MaxAge::Fixed(0).at(100.0).unwrap_err().field(), "max_age");
    }

    /// Auto is the unbounded optimum for every interval that occurs, and a number may be told what it costs.
    #[test]
    fn a_number_says_what_it_costs_and_auto_costs_nothing() {
        for interval in [1.0, 1.5, 100.0 / 15.0, 10.0, 10.01, 37.5, 99.9, 100.0, 12_345.6] {
            let cost = MaxAge::Auto.cost(LawFamily::Optimal, interval).unwrap();
            assert_eq!(cost, None, "{interval}");
            let law = LawFamily::Optimal.law(interval, MaxAge::Auto).unwrap();
            let c = interval.fract();
            assert!((law.interval().variance - c * (1.0 - c)).abs() < 1e-6, "{interval}");
        }
        let cost = MaxAge::Fixed(10).cost(LawFamily::Optimal, 100.0).unwrap().unwrap();
        let text =
            "max_age = 10 costs: Var[X] 8010 instead of 0 at n/m = 100 (max_age = auto does not)";
        assert_eq!(cost.to_string(), text);
        assert!(MaxAge::Fixed(10).cost(LawFamily::Linear, 100.0).unwrap().is_some());
        // A linear law would fall a little further with a larger one; the default warns of nothing.
        assert_eq!(MaxAge::Auto.cost(LawFamily::Linear, 100.0 / 15.0).unwrap(), None);
        assert_eq!(MaxAge::Fixed(10).cost(LawFamily::Linear, 100.0 / 15.0).unwrap(), None);
        assert_eq!(MaxAge::Fixed(10).cost(LawFamily::Optimal, 100.0 / 15.0).unwrap(), None);
    }

    #[test]
    fn is_written_as_it_is_read() {
        for (age, text) in [(MaxAge::Auto, "\"auto\""), (MaxAge::Fixed(12), "12")] {
            assert_eq!(serde_json::to_string(&age).unwrap(), text);
            assert_eq!(serde_json::from_str::<MaxAge>(text).unwrap(), age);
            assert_eq!(age.to_string().parse::<MaxAge>().unwrap(), age);
        }
        for bad in ["-1", "1.5", "\"never\"", "null"] {
            let error = serde_json::from_str::<MaxAge>(bad).unwrap_err().to_string();
            assert!(error.contains("\"auto\", or a whole number"), "{error}");
        }
        assert_eq!("ten".parse::<MaxAge>().unwrap_err().field(), "max_age");
    }
}
