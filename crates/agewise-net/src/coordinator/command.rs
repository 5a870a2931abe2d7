//! What the network asks of the driver. Answers go out when what they promise is on disk.

use super::intake::Expected;
use super::models::Global;
use super::refusal::Refusal;
use crate::honesty::PublicKey;
use crate::proto;
use agewise_core::{Error, Lot};
use tokio::sync::{oneshot, watch};

/// A question; the answer never comes if it could not be stored.
pub(crate) enum Command {
    /// A client makes itself known. It has shown that it has this key.
    Enrol {
        request: proto::EnrolRequest,
        key: PublicKey,
        reply: oneshot::Sender<Result<proto::EnrolReply, Denied>>,
    },
    /// A client wants announcements, and counts as connected from now on.
    Watch { request: proto::WatchRequest, reply: oneshot::Sender<Result<Watching, Error>> },
    /// A client does not listen any more.
    Unwatch { client: u32, token: u64 },
    /// A client wants to take part, and has proven this lot.
    Join {
        request: proto::JoinRequest,
        lot: Option<Lot>,
        reply: oneshot::Sender<Result<proto::JoinReply, Error>>,
    },
    /// A client of the cohort wants the model.
    Fetch { request: proto::FetchModelRequest, reply: oneshot::Sender<Result<Global, Error>> },
    /// A client is about to send an update.
    BeginReport { header: proto::ReportHeader, reply: oneshot::Sender<Result<Entrance, Error>> },
    /// An update is on disk, at this distance from the global model; or it was refused.
    EndReport {
        header: proto::ReportHeader,
        taken: Result<f64, Refusal>,
        reply: oneshot::Sender<proto::ReportReply>,
    },
    /// How the run goes.
    Status { reply: oneshot::Sender<proto::StatusReply> },
    /// Somebody has a token that is not known: perhaps the ledger has it by now. Every answer comes after a look at it.
    LookAgain { reply: oneshot::Sender<()> },
    /// Somebody is to be shut out.
    Revoke { who: String, reply: oneshot::Sender<Result<proto::RevokeReply, Error>> },
    /// Finish or hand back the round, and stop.
    Drain,
}

/// Why somebody cannot enrol.
#[derive(Debug)]
pub(crate) enum Denied {
    /// What it says cannot be.
    Input(Error),
    /// It may not.
    Refused(Refusal),
}

/// What a client that listens gets.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) announcements: watch::Receiver<proto::Announcement>,
    pub(crate) token: u64,
}

/// What happens to an update.
#[derive(Debug)]
pub(crate) enum Entrance {
    /// It may come in.
    Open(Expected),
    /// There is nothing to send.
    Closed(proto::ReportReply),
}
