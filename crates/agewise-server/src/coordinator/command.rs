//! The commands that the network sends to the driver. A reply is sent when what it promises is on disk.

use super::refusal::{CallError, Refusal};
use super::storage::models::Global;
use super::uploads::UploadSpec;
use crate::crypto::PublicKey;
use crate::protocol;
use agewise_core::Draw;
use tokio::sync::{oneshot, watch};

/// A command; its reply never comes if it could not be stored.
pub(crate) enum Command {
    /// A client makes itself known. It has shown that it has this key.
    Enrol {
        request: protocol::EnrolRequest,
        key: PublicKey,
        reply: oneshot::Sender<Result<protocol::EnrolReply, CallError>>,
    },
    /// A client wants announcements, and counts as connected from now on.
    Watch {
        request: protocol::WatchRequest,
        reply: oneshot::Sender<Result<Subscription, CallError>>,
    },
    /// A client does not listen any more.
    Unwatch { client: u32, token: u64 },
    /// A client wants to take part, and has proven this draw.
    Join {
        request: protocol::JoinRequest,
        drawn: Option<Draw>,
        reply: oneshot::Sender<Result<protocol::JoinReply, CallError>>,
    },
    /// A client of the cohort wants the model.
    Fetch {
        request: protocol::FetchModelRequest,
        reply: oneshot::Sender<Result<Global, CallError>>,
    },
    /// A client is about to send an update.
    BeginReport {
        header: protocol::ReportHeader,
        reply: oneshot::Sender<Result<UploadDecision, CallError>>,
    },
    /// An update is on disk, at this distance from the global model; or it was refused.
    EndReport {
        header: protocol::ReportHeader,
        taken: Result<f64, Refusal>,
        reply: oneshot::Sender<protocol::ReportReply>,
    },
    /// How the run goes.
    Status { reply: oneshot::Sender<protocol::StatusReply> },
    /// A token is not in the table of the authenticator, but the ledger may have it by now. The ledger is read before this is answered.
    RefreshAccess { reply: oneshot::Sender<()> },
    /// A client or a token is to be revoked.
    Revoke { who: String, reply: oneshot::Sender<Result<protocol::RevokeReply, CallError>> },
    /// Finish or hand back the round, and stop.
    Drain,
}

/// The stream of announcements of one client.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) announcements: watch::Receiver<protocol::Announcement>,
    pub(crate) token: u64,
}

/// Whether an update is received.
#[derive(Debug)]
pub(crate) enum UploadDecision {
    /// It may come in.
    Receive(UploadSpec),
    /// There is nothing to send.
    Reply(protocol::ReportReply),
}
