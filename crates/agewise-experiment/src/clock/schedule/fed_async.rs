//! FedAsync (Xie et al., 2019): every update is a step, and the model moves a share of the way to that of the client.
//!
//! The share is mixing times (1 + staleness)^-exponent, the polynomial rule of that paper.

use super::buffered::{EXPONENT, discount};
use super::options;
use agewise_train::StaleRule;
use std::fmt;

/// The usual share of an update that is not stale.
const MIXING: f64 = 0.6;

/// How the server makes a step with a single update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FedAsync {
    /// The share of the way that the model moves for an update that is not stale.
    pub share: f64,
    /// How fast an update that is stale loses weight.
    pub exponent: f64,
}

impl FedAsync {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let known =
            [("mixing", MIXING, f64::MIN_POSITIVE..=1.0), ("exponent", EXPONENT, 0.0..=10.0)];
        let ("", [share, exponent]) = options(text, &known)? else {
            return None;
        };
        Some(Self { share, exponent })
    }

    /// How an update counts that is so many steps old.
    pub(super) fn rule(self, staleness: u64) -> StaleRule {
        StaleRule::Mix((self.share * discount(staleness, self.exponent)) as f32)
    }
}

impl fmt::Display for FedAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = [("mixing", self.share, MIXING), ("exponent", self.exponent, EXPONENT)];
        let said = options.iter().filter(|(_, value, usual)| value != usual);
        let said: Vec<String> = said.map(|(name, value, _)| format!("{name}={value}")).collect();
        f.write_str("async")?;
        if said.is_empty() { Ok(()) } else { write!(f, "({})", said.join(", ")) }
    }
}
