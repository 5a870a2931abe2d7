//! Self-calibration: the coordinator learns the target interval from the number of reports alone.
//!
//! Under the optimal law a client takes part once per interval, so the reports of the last x rounds are the
//! number of clients that are really there, whatever the coordinator had assumed. The published interval moves
//! towards that number over the target cohort:
//!
//! ```text
//! x = (k(t) + k(t-1) + ... over the last x rounds) / m
//! ```
//!
//! In a steady state the sum is x k, so the only fixed point is k = m: also where clients are offline or drop
//! out when they are due, which makes them come back every x + d rounds.
//!
//! Two rules damp it. First, the step is small: an oscillation of the cohort size returns after one interval, and
//! the sum, which runs over x and not over x + d rounds, responds to it. In an interval the oscillation grows by
//! 2 pi d g/x for a step of g times the error, and decays by (2 pi)^2 Var\[X\]/(2 x^2) because X varies, so the
//! step is at most [`STEP`]/x. Second, a trend is estimated beside the level, so that a growing population is
//! followed without a lag.
//!
//! `crates/agewise-experiment/tests/experiment/calibration.rs` shows it stable with clients that are offline, drop out, join and
//! leave; a population that grows by much of itself within one interval is followed too late.

use crate::error::{Error, Result};
use std::collections::VecDeque;

/// Estimates the target interval from the number of reports per round.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrator {
    cohort: f64,
    interval: f64,
    /// What is left of the first guess: the clients that are assumed to be there and have not had time
    /// to report yet, in rounds of m.
    unseen: f64,
    /// The growth of the interval per round.
    trend: f64,
    /// The reports of the last rounds, the newest first.
    reports: VecDeque<f64>,
}

/// The longest interval, in rounds.
const LONGEST: f64 = 1_000_000.0;

/// The share of the error that is taken over in a round, times the interval; half of what waves allow.
const STEP: f64 = 1.5;
/// The same for short intervals, where the noise of single rounds matters more.
const LARGEST_STEP: f64 = 0.3;

impl Calibrator {
    /// Starts from a first guess of the interval, which is used until it is over.
    pub fn new(cohort: u32, first_interval: f64) -> Result<Self> {
        if !(1.0..=LONGEST).contains(&first_interval) {
            let expected = format!("a number of rounds from 1 to {LONGEST}");
            return Err(Error::new("interval", first_interval, expected));
        }
        if cohort == 0 {
            return Err(Error::new("cohort", cohort, "1 or more"));
        }
        Ok(Self {
            cohort: f64::from(cohort),
            interval: first_interval,
            unseen: first_interval,
            trend: 0.0,
            reports: VecDeque::new(),
        })
    }

    /// The interval that is published for the next round.
    pub fn interval(&self) -> f64 {
        self.interval
    }

    /// Learns from the number of reports of a round.
    pub fn observe(&mut self, reported: u64) {
        self.reports.push_front(reported as f64);
        self.unseen = (self.unseen - 1.0).max(0.0);
        let whole = self.interval.floor();
        let part = self.interval - whole;
        let memory = self.reports.iter();
        let full: f64 = memory.clone().take(whole as usize).sum();
        let last = memory.clone().nth(whole as usize).map_or(0.0, |reported| part * reported);
        let counted = (full + last) / self.cohort + self.unseen;
        let step = (STEP / self.interval).min(LARGEST_STEP);
        let error = counted - self.interval;
        // A quarter of the squared step: the fastest that level and trend can be followed without
        // overshooting each other.
        self.trend += 0.25 * step * step * error;
        let wanted = self.interval + self.trend + step * error;
        self.interval = wanted.clamp(1.0, LONGEST);
        if wanted != self.interval {
            // At the end of the range (fewer clients than m are there) nothing can be followed.
            self.trend = 0.0;
        }
        // A burst can make the interval jump: keep more than one interval, but not everything.
        self.reports.truncate(4 * self.interval.max(whole) as usize + 1_024);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_on_target_change_nothing() {
        let mut calibrator = Calibrator::new(15, 100.0 / 15.0).unwrap();
        for _ in 0..100 {
            calibrator.observe(15);
            assert!((calibrator.interval() - 100.0 / 15.0).abs() < 1e-9);
        }
    }

    /// N clients that come back every x + d rounds: the cohort becomes m for every N and d.
    #[test]
    fn the_fixed_point_is_the_target() {
        for (clients, delay) in [(100.0, 0.0), (1_000.0, 0.4), (40.0, 2.0), (3_000.0, 5.0)] {
            let mut calibrator = Calibrator::new(15, 100.0 / 15.0).unwrap();
            let mut owed = 0.0f64;
            let mut late = Vec::new();
            for round in 0..4_000 {
                owed += clients / (calibrator.interval() + delay);
                let reported = owed.floor();
                owed -= reported;
                calibrator.observe(reported as u64);
                if round >= 3_000 {
                    late.push(reported);
                }
            }
            let mean = late.iter().sum::<f64>() / late.len() as f64;
            let target = 15.0f64.min(clients / (1.0 + delay));
            assert!((mean / target - 1.0).abs() < 0.02, "{clients}, {delay}: {mean}");
        }
    }

    #[test]
    fn wild_counts_are_harmless() {
        let mut calibrator = Calibrator::new(1, 1.0).unwrap();
        for reported in [0, u64::MAX, 0, 0, 5, u64::MAX, 1] {
            calibrator.observe(reported);
            assert!((1.0..=LONGEST).contains(&calibrator.interval()));
        }
        assert_eq!(Calibrator::new(0, 2.0).unwrap_err().field(), "cohort");
        assert_eq!(Calibrator::new(1, f64::NAN).unwrap_err().field(), "interval");
    }
}
