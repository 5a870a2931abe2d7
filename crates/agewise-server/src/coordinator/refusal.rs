//! Why a request is refused: a reason that is counted, and a sentence for the client.

use agewise_core::Error;
use tonic::Status;

/// Makes the reasons from one list, with the name that each has in the ledger and in metrics.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// What is wrong with a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            pub(crate) const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The name in the ledger and in metrics.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// Another age than the one on record.
    Age = "age",
    /// The client's draw does not win at its age.
    Draw = "draw",
    /// Another round than the present one.
    Round = "round",
    /// The coordinator selects, and did not select this client.
    NotInvited = "not-invited",
    /// Not in the cohort.
    Cohort = "cohort",
    /// Trained from another model.
    Version = "version",
    /// Another number of parameters than the model has.
    Shape = "shape",
    /// More or fewer bytes than were promised, or a chunk that is too large.
    Size = "size",
    /// A number that is infinite or not a number.
    NotFinite = "not-finite",
    /// Too far from the global model.
    Norm = "norm",
    /// Other bytes than were promised.
    Checksum = "checksum",
    /// A second report that is not the first one.
    Twice = "twice",
    /// The proof of a draw is not this client's, or for another round.
    Proof = "proof",
    /// No session, or one that has ended: enrol again.
    Session = "session",
    /// The signature on a call is not the client's.
    Signature = "signature",
    /// A call that was made before.
    Replay = "replay",
    /// More calls than a client may make.
    Rate = "rate",
    /// Another key than the one that was registered.
    Key = "key",
    /// Not a token, or one that was used.
    Token = "token",
    /// A token that is good for something else.
    Role = "role",
    /// Failed again and again, and has to wait.
    BackOff = "back-off",
    /// Failed too often, until an operator reinstates it.
    Suspended = "suspended",
    /// Revoked by an operator.
    Revoked = "revoked",
    /// Another version of the protocol.
    Protocol = "protocol",
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", reason.name())]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// Why a call is answered with an error; the variant decides the gRPC code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Another run, or a client that this run does not know: it has to enrol again.
    #[error(transparent)]
    NotEnrolled(Error),
    /// The client has not joined this round, or the round is over.
    #[error(transparent)]
    NotInRound(Error),
    /// The client has a stream of announcements already.
    #[error(transparent)]
    AlreadyWatching(Error),
    /// The client has fetched the model too often.
    #[error(transparent)]
    TooManyFetches(Error),
    /// The client was revoked.
    #[error(transparent)]
    Revoked(Error),
    /// A request that can never be granted.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// Authentication failed.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::NotEnrolled(_) => Self::failed_precondition(message),
            CallError::NotInRound(_) => Self::aborted(message),
            CallError::AlreadyWatching(_) => Self::already_exists(message),
            CallError::TooManyFetches(_) => Self::resource_exhausted(message),
            CallError::Revoked(_) => Self::permission_denied(message),
            CallError::Invalid(_) => Self::invalid_argument(message),
            CallError::Refused(refusal) => match refusal.reason {
                Reason::Session | Reason::Replay => Self::failed_precondition(message),
                Reason::Rate => Self::resource_exhausted(message),
                Reason::Protocol => Self::invalid_argument(message),
                Reason::Revoked | Reason::Role => Self::permission_denied(message),
                _ => Self::unauthenticated(message),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn codes_follow_from_variants_and_not_from_texts() {
        let error = || Error::new("round", 3, "a text that says nothing about the code");
        let denied = |reason| CallError::from(Refusal::new(reason, "round, run, revoked"));
        for (error, code) in [
            (CallError::NotEnrolled(error()), Code::FailedPrecondition),
            (CallError::NotInRound(error()), Code::Aborted),
            (CallError::AlreadyWatching(error()), Code::AlreadyExists),
            (CallError::TooManyFetches(error()), Code::ResourceExhausted),
            (CallError::Revoked(error()), Code::PermissionDenied),
            (CallError::from(error()), Code::InvalidArgument),
            (denied(Reason::Session), Code::FailedPrecondition),
            (denied(Reason::Rate), Code::ResourceExhausted),
            (denied(Reason::Role), Code::PermissionDenied),
            (denied(Reason::Token), Code::Unauthenticated),
            (denied(Reason::Protocol), Code::InvalidArgument),
        ] {
            let message = error.to_string();
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, message.as_str()));
        }
    }
}
