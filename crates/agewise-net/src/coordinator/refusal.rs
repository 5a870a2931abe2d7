//! Why something was refused: a word that is counted, and a sentence for the one who asked.

use std::fmt;

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// Another age than the one on record.
    Age,
    /// The client's lot does not win at its age.
    Lot,
    /// Another round than the present one.
    Round,
    /// The coordinator chooses, and did not choose this client.
    NotCalled,
    /// Not in the cohort.
    Cohort,
    /// Trained from another model.
    Version,
    /// Another number of parameters than the model has.
    Shape,
    /// More or fewer bytes than were promised, or a chunk that is too large.
    Size,
    /// A number that is infinite or not a number.
    NotFinite,
    /// Too far from the global model.
    Norm,
    /// Other bytes than were promised.
    Checksum,
    /// A second report that is not the first one.
    Twice,
}

impl Reason {
    pub(crate) const ALL: [Self; 12] = [
        Self::Age,
        Self::Lot,
        Self::Round,
        Self::NotCalled,
        Self::Cohort,
        Self::Version,
        Self::Shape,
        Self::Size,
        Self::NotFinite,
        Self::Norm,
        Self::Checksum,
        Self::Twice,
    ];

    /// As it stands in the ledger and in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Lot => "lot",
            Self::Round => "round",
            Self::NotCalled => "not-called",
            Self::Cohort => "cohort",
            Self::Version => "version",
            Self::Shape => "shape",
            Self::Size => "size",
            Self::NotFinite => "not-finite",
            Self::Norm => "norm",
            Self::Checksum => "checksum",
            Self::Twice => "twice",
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.detail)
    }
}
