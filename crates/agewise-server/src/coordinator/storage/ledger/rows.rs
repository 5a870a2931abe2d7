//! The rows of clients, rounds and models.

use crate::crypto::PublicKey;
use crate::crypto::seed_chain::RoundSeed;
use agewise_core::Failures;
use serde::Serialize;

/// The outcome of a client in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The coordinator wants it, and it has not come yet.
    Invited,
    /// In the cohort; its report is awaited.
    Selected,
    /// Its report was accepted: it is credited.
    Reported,
    /// It was in the cohort, and nothing came.
    Missing,
    /// It was in the cohort, and hung up before its report was there.
    Gone,
    /// It was in the cohort, and its update was refused.
    Refused,
    /// It was in the cohort, and enough others had reported: it was not waited for.
    Surplus,
    /// Its report came after the round was over.
    Late,
    /// It wanted to join when the cohort was full.
    Full,
}

impl Outcome {
    /// Whether a client with it was asked and did not deliver.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Missing | Self::Gone | Self::Refused | Self::Late)
    }

    const ALL: [Self; 9] = [
        Self::Invited,
        Self::Selected,
        Self::Reported,
        Self::Missing,
        Self::Gone,
        Self::Refused,
        Self::Surplus,
        Self::Late,
        Self::Full,
    ];

    /// The outcome with this name. A word that was written into the ledger by hand promises nothing, so it counts as missing.
    pub(crate) fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name).unwrap_or(Self::Missing)
    }

    /// As it stands in the ledger.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Invited => "invited",
            Self::Selected => "selected",
            Self::Reported => "reported",
            Self::Missing => "missing",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Surplus => "surplus",
            Self::Late => "late",
            Self::Full => "full",
        }
    }
}

/// What came of a round that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RoundOutcome {
    /// There is a new model.
    Committed,
    /// Too few have reported, so the model stays.
    Abandoned,
    /// Enough have reported, and what came of it is no model to go on with: the model stays.
    Refused,
}

impl RoundOutcome {
    /// The condition of SQL that a round is over.
    pub(super) const IS_OVER: &str = "state IN ('committed', 'abandoned', 'refused')";

    pub(crate) const ALL: [Self; 3] = [Self::Committed, Self::Abandoned, Self::Refused];

    /// The outcome with this name. A word that was written into the ledger by hand is no model.
    pub(super) fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name).unwrap_or(Self::Abandoned)
    }

    /// As it stands in the ledger.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Abandoned => "abandoned",
            Self::Refused => "refused",
        }
    }
}

/// A client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientRow {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    /// The first round in which the key is good for draws.
    pub(crate) key_since: u64,
    pub(crate) samples: u64,
    pub(crate) waiting_since: i64,
    pub(crate) revoked: bool,
    pub(crate) revoked_from: Option<u64>,
    /// Failures in a row, and the first round in which it may take part again after them.
    pub(crate) failures: u32,
    pub(crate) eligible_from: u32,
}

/// A round that was announced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundRow {
    pub(crate) round: u64,
    pub(crate) settings: u32,
    pub(crate) is_joining: bool,
    pub(crate) interval: f64,
    pub(crate) clients: u32,
    pub(crate) seed: Option<RoundSeed>,
    pub(crate) model: u64,
    pub(crate) began: i64,
    pub(crate) available: u32,
    pub(crate) forced: bool,
}

/// A client in a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JoinRow {
    pub(crate) client: u32,
    pub(crate) age: u64,
    pub(crate) outcome: Outcome,
    pub(crate) draws: u32,
    pub(crate) report: Option<ReportRow>,
}

/// A client that comes into a round, or asks to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NewJoin<'a> {
    pub(crate) age: u64,
    pub(crate) outcome: Outcome,
    pub(crate) draws: u32,
    /// Of its draw; a client that was invited has none.
    pub(crate) proof: Option<&'a [u8]>,
}

impl NewJoin<'_> {
    /// The coordinator wants a client.
    pub(crate) fn invited(age: u64, draws: u32) -> Self {
        Self { age, outcome: Outcome::Invited, draws, proof: None }
    }
}

/// An accepted report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportRow {
    pub(crate) samples: u64,
    pub(crate) loss: f64,
    pub(crate) seconds: f64,
    pub(crate) norm: f64,
    pub(crate) sha256: Vec<u8>,
}

/// A stored model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelRow {
    pub(crate) version: u64,
    pub(crate) file: String,
    pub(crate) sha256: Vec<u8>,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundEnd {
    pub(crate) round: u64,
    pub(crate) outcome: RoundOutcome,
    pub(crate) seconds: f64,
    pub(crate) loss: Option<f64>,
    pub(crate) accuracy: Option<f64>,
    pub(crate) weights: Vec<(u32, f64)>,
    /// What became of the members that have not reported.
    pub(crate) unreported: Vec<(u32, Outcome)>,
    /// The failures in a row of those that failed.
    pub(crate) failures: Vec<(u32, Failures)>,
    pub(crate) model: Option<ModelRow>,
    pub(crate) note: Option<String>,
}
