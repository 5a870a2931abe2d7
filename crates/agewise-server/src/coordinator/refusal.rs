//! Why something was refused: a word that is counted, and a sentence for the one who asked.

use std::fmt;

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// Another age than the one on record.
    Age,
    /// The client's draw does not win at its age.
    Draw,
    /// Another round than the present one.
    Round,
    /// The coordinator chooses, and did not choose this client.
    NotInvited,
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
    /// The proof of a draw is not this client's, or for another round.
    Proof,
    /// No session, or one that has ended: enrol again.
    Session,
    /// The signature on a call is not the client's.
    Signature,
    /// A call that was made before.
    Replay,
    /// More calls than a client may make.
    Rate,
    /// Another key than the one that was registered.
    Key,
    /// Not a token, or one that was used.
    Token,
    /// A token that is good for something else.
    Role,
    /// Shut out by an operator.
    Revoked,
}

impl Reason {
    pub(crate) const ALL: [Self; 21] = [
        Self::Age,
        Self::Draw,
        Self::Round,
        Self::NotInvited,
        Self::Cohort,
        Self::Version,
        Self::Shape,
        Self::Size,
        Self::NotFinite,
        Self::Norm,
        Self::Checksum,
        Self::Twice,
        Self::Proof,
        Self::Session,
        Self::Signature,
        Self::Replay,
        Self::Rate,
        Self::Key,
        Self::Token,
        Self::Role,
        Self::Revoked,
    ];

    /// As it stands in the ledger and in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Draw => "draw",
            Self::Round => "round",
            Self::NotInvited => "not-invited",
            Self::Cohort => "cohort",
            Self::Version => "version",
            Self::Shape => "shape",
            Self::Size => "size",
            Self::NotFinite => "not-finite",
            Self::Norm => "norm",
            Self::Checksum => "checksum",
            Self::Twice => "twice",
            Self::Proof => "proof",
            Self::Session => "session",
            Self::Signature => "signature",
            Self::Replay => "replay",
            Self::Rate => "rate",
            Self::Key => "key",
            Self::Token => "token",
            Self::Role => "role",
            Self::Revoked => "revoked",
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
