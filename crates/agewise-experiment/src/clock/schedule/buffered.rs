//! FedBuff (Nguyen et al., 2022): clients work without rounds, and the server makes a step when so many updates are there.
//!
//! The model moves by the mean of what clients changed of the models that they were sent, each multiplied by
//! (1 + staleness)^-exponent, where staleness is the number of steps that the server made while the client worked.

use super::options;
use agewise_train::StaleRule;
use std::fmt;

/// The usual exponent: one over the root.
pub(super) const EXPONENT: f64 = 0.5;

/// How the server makes a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buffered {
    /// K: the updates of a step.
    pub updates: u32,
    /// How fast an update that is stale loses weight.
    pub exponent: f64,
}

impl Buffered {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (updates, [exponent]) = options(text, &[("exponent", EXPONENT, 0.0..=10.0)])?;
        let updates = updates.parse().ok().filter(|&updates| updates > 0)?;
        Some(Self { updates, exponent })
    }

    /// How an update counts that is so many steps old.
    pub(super) fn rule(self, staleness: u64) -> StaleRule {
        StaleRule::Step(discount(staleness, self.exponent) as f32)
    }
}

/// What is left of the weight of an update.
pub(super) fn discount(staleness: u64, exponent: f64) -> f64 {
    libm::pow(1.0 + staleness as f64, -exponent)
}

impl fmt::Display for Buffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffered:{}", self.updates)?;
        if self.exponent == EXPONENT { Ok(()) } else { write!(f, "(exponent={})", self.exponent) }
    }
}
