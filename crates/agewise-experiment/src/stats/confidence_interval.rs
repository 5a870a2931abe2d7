//! An interval that holds a value in 95 of 100 cases.

use serde::{Deserialize, Serialize};

/// A 95% interval.
///
/// A bound may be infinite: "never within the run". JSON has no such number, so an infinite bound is `null` there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "Bounds", into = "Bounds")]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// An interval as it is written.
#[derive(Serialize, Deserialize)]
struct Bounds {
    // With a function of its own a missing bound is an error, not an infinite one.
    #[serde(deserialize_with = "Option::deserialize")]
    low: Option<f64>,
    #[serde(deserialize_with = "Option::deserialize")]
    high: Option<f64>,
}

impl From<Interval> for Bounds {
    fn from(interval: Interval) -> Self {
        let written = |bound: f64| bound.is_finite().then_some(bound);
        Self { low: written(interval.low), high: written(interval.high) }
    }
}

impl From<Bounds> for Interval {
    fn from(bounds: Bounds) -> Self {
        let read = |bound: Option<f64>| bound.unwrap_or(f64::INFINITY);
        Self { low: read(bounds.low), high: read(bounds.high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_bounds_are_written_as_none_and_read_back() {
        let never = f64::INFINITY;
        for (low, high) in [(1.0, 2.5), (-3.0, never), (never, never)] {
            let interval = Interval { low, high };
            let bounds = Bounds::from(interval);
            assert_eq!(bounds.high.is_none(), high == never);
            assert_eq!(Interval::from(bounds), interval);
        }
    }
}
