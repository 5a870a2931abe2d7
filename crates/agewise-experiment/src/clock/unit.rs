//! In which units the cost of a target is told.

use super::RoundCosts;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a target costs is counted in one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Rounds: steps of the global model, or as many updates as a cohort has clients.
    #[default]
    Rounds,
    /// Simulated seconds.
    Seconds,
    /// Bytes, down and up.
    Bytes,
    /// Bytes from the server to clients.
    BytesDown,
    /// Bytes from clients to the server.
    BytesUp,
    /// Seconds that clients worked, for nothing or not.
    ClientSeconds,
    /// Joules that clients spent, where their power is given.
    Joules,
}

impl Unit {
    /// All units, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Rounds,
        Self::Seconds,
        Self::Bytes,
        Self::BytesDown,
        Self::BytesUp,
        Self::ClientSeconds,
        Self::Joules,
    ];

    /// What so many rounds with these costs come to; nothing where that was not counted.
    pub fn of(self, rounds: f64, costs: &RoundCosts) -> Option<f64> {
        Some(match self {
            Self::Rounds => rounds,
            Self::Seconds => costs.seconds,
            Self::Bytes => (costs.bytes_down + costs.bytes_up) as f64,
            Self::BytesDown => costs.bytes_down as f64,
            Self::BytesUp => costs.bytes_up as f64,
            Self::ClientSeconds => costs.client_seconds,
            Self::Joules => return costs.joules,
        })
    }

    /// As it is called in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::BytesDown => "bytes-down",
            Self::BytesUp => "bytes-up",
            Self::ClientSeconds => "client-seconds",
            Self::Joules => "joules",
        }
    }

    /// As it stands before "to 90%".
    pub fn words(self) -> &'static str {
        match self {
            Self::BytesDown => "bytes down",
            Self::BytesUp => "bytes up",
            other => other.name(),
        }
    }
}

impl FromStr for Unit {
    type Err = agewise_core::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.iter().map(|unit| unit.name());
        let found = Self::ALL.into_iter().find(|unit| unit.name() == text);
        found.ok_or_else(|| agewise_core::Error::unknown("unit", text, names()))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
