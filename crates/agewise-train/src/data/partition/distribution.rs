//! How samples are divided among clients.

use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How samples are divided among clients: `iid`, `dirichlet:ALPHA`, `shards:K` or `clients`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum PartitionDistribution {
    /// Images are shared at random.
    #[default]
    Iid,
    /// Each client has its own distribution of labels, drawn from a symmetric Dirichlet distribution: the smaller
    /// alpha, the fewer classes a client has.
    Dirichlet(f64),
    /// Images are sorted by label and cut into shards, of which each client gets so many (McMahan et al., 2017).
    Shards(u32),
    /// Each client has its own samples, as the data say; of more clients than are asked for, some are drawn.
    Clients,
}

/// The range of alpha in which the draws are exact enough to mean something.
const ALPHA: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

const EXPECTED: &str = "iid, dirichlet:ALPHA with ALPHA from 0.000001 to 1000000 (such as dirichlet:0.3), shards:K with K \
                        a whole number of 1 or more (such as shards:2), or clients";

impl PartitionDistribution {
    /// Whether the parameter makes sense; a distribution that was parsed always does.
    pub(crate) fn check(self) -> Result<()> {
        let sensible = match self {
            Self::Iid | Self::Clients => true,
            Self::Dirichlet(alpha) => ALPHA.contains(&alpha),
            Self::Shards(shards) => shards >= 1,
        };
        if sensible { Ok(()) } else { Err(Error::new("partition", self, EXPECTED)) }
    }
}

impl FromStr for PartitionDistribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let distribution = match text.split_once(':') {
            None if text == "iid" => Some(Self::Iid),
            None if text == "clients" => Some(Self::Clients),
            Some(("dirichlet", alpha)) => alpha.parse().ok().map(Self::Dirichlet),
            Some(("shards", shards)) => shards.parse().ok().map(Self::Shards),
            _ => None,
        };
        distribution
            .filter(|distribution| distribution.check().is_ok())
            .ok_or_else(|| Error::new("partition", text, EXPECTED))
    }
}

impl fmt::Display for PartitionDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iid => write!(f, "iid"),
            Self::Clients => write!(f, "clients"),
            Self::Dirichlet(alpha) => write!(f, "dirichlet:{alpha}"),
            Self::Shards(shards) => write!(f, "shards:{shards}"),
        }
    }
}

impl From<PartitionDistribution> for String {
    fn from(distribution: PartitionDistribution) -> Self {
        distribution.to_string()
    }
}

impl TryFrom<String> for PartitionDistribution {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}
