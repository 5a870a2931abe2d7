//! The network's side of the coordinator: streams, chunks and deadlines. Everything that is decided is decided by the driver.

use super::auth::Authenticator;
use super::command::{Command, Subscription, UploadDecision};
use super::connections::{Connection, connection};
use super::error::CoordinatorError;
use super::refusal::{CallError, Reason, Refusal};
use super::shared::Shared;
use super::uploads::{LARGEST_CHUNK, UpdateReceiver, UploadError};
use crate::crypto::signing::SignedRequest;
use crate::crypto::token::Role;
use crate::protocol::coordinator_server::Coordinator;
use crate::protocol::{
    Announcement, ChallengeReply, ChallengeRequest, Chunk, EnrolReply, EnrolRequest,
    FetchModelRequest, JoinReply, JoinRequest, PROTOCOL, ReportHeader, ReportPart, ReportReply,
    RevokeReply, RevokeRequest, StatusReply, StatusRequest, WatchRequest, report_part,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming};

/// How long the driver may take to answer for a status. It waits longer for a locked ledger, and callers do not.
const DRIVER: Duration = Duration::from_secs(4);
/// How long the header of a report may take to come.
const HEADER: Duration = Duration::from_secs(15);
/// How the model is cut on its way to a client.
const CHUNK: usize = 256 << 10;
/// The largest message that is read: a chunk, and what is around it.
pub(crate) const LARGEST_MESSAGE: usize = LARGEST_CHUNK + 4_096;

/// The coordinator as a service.
pub(crate) struct Service {
    commands: Sender<Command>,
    auth: Arc<Authenticator>,
    shared: Arc<Shared>,
    /// Calls that may be worked on at a time; the others wait here.
    places: Semaphore,
    /// The longest that an update may take to come in.
    report_window: Duration,
    attempts: AtomicU64,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

impl Service {
    pub(crate) fn new(
        commands: Sender<Command>,
        auth: Arc<Authenticator>,
        shared: Arc<Shared>,
        calls: usize,
        report_window: Duration,
    ) -> Self {
        let places = Semaphore::new(calls);
        Self { commands, auth, shared, places, report_window, attempts: AtomicU64::new(0) }
    }

    /// Asks the driver.
    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        let unavailable = || Status::unavailable("the coordinator cannot answer now, try again");
        let _place = self.places.acquire().await.map_err(|_| unavailable())?;
        self.commands.send(question(reply)).map_err(|_| unavailable())?;
        answer.await.map_err(|_| unavailable())
    }

    /// The message of a call, if the auth lets it in.
    fn admit<M: SignedRequest>(&self, request: Request<M>) -> Result<M, Status> {
        let connection = connection(&request);
        let message = request.into_inner();
        self.auth.admit(&message, connection.as_ref()).map_err(CallError::from)?;
        Ok(message)
    }

    /// Whether the token in the metadata is good for a role.
    async fn check_bearer(
        &self,
        metadata: &MetadataMap,
        connection: Option<Arc<Connection>>,
        role: Role,
    ) -> Result<(), Status> {
        if connection.as_ref().is_none_or(|connection| connection.may_ask()) {
            self.ask(|reply| Command::RefreshAccess { reply }).await?;
        }
        self.known_bearer(metadata, connection.as_ref(), role)
    }

    /// Whether the token in the metadata is good for a role, as far as is known without asking the ledger.
    fn known_bearer(
        &self,
        metadata: &MetadataMap,
        connection: Option<&Arc<Connection>>,
        role: Role,
    ) -> Result<(), Status> {
        let header = metadata.get("authorization");
        let token = header.and_then(|text| text.to_str().ok()?.strip_prefix("Bearer "));
        let checked = self.auth.check_bearer(token, role, connection);
        Ok(checked.map_err(CallError::from)?)
    }

    /// Receives the bytes of an update. `Ok` is its distance to the global model.
    async fn receive(
        &self,
        mut receiver: UpdateReceiver,
        parts: &mut Streaming<ReportPart>,
    ) -> Result<Result<f64, Refusal>, Status> {
        let mut bytes = 0;
        let taken = loop {
            let Some(part) = parts.message().await? else {
                // The disk is waited for, and others are not to wait with it.
                let finished = tokio::task::spawn_blocking(move || receiver.finish()).await;
                break finished.map_err(|_| Status::internal("the update could not be stored"))?;
            };
            let pushed = match part.part {
                Some(report_part::Part::Data(data)) => {
                    bytes += data.len() as u64;
                    receiver.push(&data)
                }
                _ => Err(Refusal::new(Reason::Size, "expected data behind the header").into()),
            };
            if let Err(wrong) = pushed {
                break Err(wrong);
            }
        };
        self.shared.metrics.moved("received", bytes);
        match taken {
            Ok(norm) => {
                self.shared.health.stored(None);
                Ok(Ok(norm))
            }
            Err(UploadError::Refused(refusal)) => Ok(Err(refusal)),
            Err(UploadError::Storage(error)) => Err(self.not_stored(&error)),
        }
    }

    fn not_stored(&self, error: &CoordinatorError) -> Status {
        tracing::error!(%error, "an update could not be stored");
        self.shared.metrics.storage_failures.inc();
        self.shared.health.stored(Some(error.to_string()));
        Status::unavailable("the update could not be stored, try again")
    }
}

#[tonic::async_trait]
impl Coordinator for Service {
    async fn challenge(
        &self,
        request: Request<ChallengeRequest>,
    ) -> Result<Response<ChallengeReply>, Status> {
        let challenge = self.auth.challenge(connection(&request).as_ref());
        let challenge = challenge.map_err(CallError::from)?;
        Ok(Response::new(ChallengeReply { challenge, protocol: PROTOCOL }))
    }

    async fn enrol(&self, request: Request<EnrolRequest>) -> Result<Response<EnrolReply>, Status> {
        let connection = connection(&request);
        let request = request.into_inner();
        if self.auth.may_be_new(&request)
            && connection.as_ref().is_none_or(|connection| connection.may_ask())
        {
            self.ask(|reply| Command::RefreshAccess { reply }).await?;
        }
        let key = self.auth.check_enrolment(&request, connection.as_ref());
        let key = key.map_err(CallError::from)?;
        let (challenge, name) = (request.challenge.clone(), request.name.clone());
        let reply = self.ask(|reply| Command::Enrol { request, key, reply }).await??;
        let begun = self.auth.begin_session(reply.client, &challenge, connection.as_ref());
        if begun.map_err(CallError::from)? {
            let (client, name) = (reply.client, name);
            tracing::warn!(client, name, "a session was taken over: do two clients have one key?");
            self.shared.metrics.sessions_taken_over.inc();
        }
        Ok(Response::new(reply))
    }

    type WatchStream = Announcements;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Announcements>, Status> {
        let request = self.admit(request)?;
        let client = request.client;
        let Subscription { announcements, token } =
            self.ask(|reply| Command::Watch { request, reply }).await??;
        Ok(Response::new(Announcements {
            stream: WatchStream::new(announcements),
            client,
            token,
            commands: self.commands.clone(),
        }))
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let request = self.admit(request)?;
        let drawn = self.auth.verified_draw(&request);
        let reply = self.ask(|reply| Command::Join { request, drawn, reply }).await??;
        Ok(Response::new(reply))
    }

    type FetchModelStream = Chunks;

    async fn fetch_model(
        &self,
        request: Request<FetchModelRequest>,
    ) -> Result<Response<Chunks>, Status> {
        let request = self.admit(request)?;
        let bytes = self.ask(|reply| Command::Fetch { request, reply }).await??.bytes;
        self.shared.metrics.moved("sent", bytes.len() as u64);
        let chunks = (0..bytes.len()).step_by(CHUNK).map(move |begin| {
            let end = bytes.len().min(begin + CHUNK);
            // A view of the one copy that all clients share.
            Ok(Chunk { data: bytes.slice(begin..end) })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }

    async fn report(
        &self,
        request: Request<Streaming<ReportPart>>,
    ) -> Result<Response<ReportReply>, Status> {
        let connection = connection(&request);
        let mut parts = request.into_inner();
        let too_slow = |_| Status::deadline_exceeded("the update took longer than a round");
        let coming = async {
            let header = tokio::time::timeout(HEADER, first_part(&mut parts)).await;
            let header = header.map_err(too_slow)??;
            self.auth.admit(&header, connection.as_ref()).map_err(CallError::from)?;
            let question = header.clone();
            let decision = self.ask(|reply| Command::BeginReport { header: question, reply });
            let expected = match decision.await?? {
                UploadDecision::Reply(reply) => return Ok(reply),
                UploadDecision::Receive(expected) => expected,
            };
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let receiver = UpdateReceiver::begin(expected, attempt);
            let receiver = receiver.map_err(|error| self.not_stored(&error))?;
            let taken = self.receive(receiver, &mut parts).await?;
            self.ask(|reply| Command::EndReport { header, taken, reply }).await
        };
        let reply = tokio::time::timeout(self.report_window, coming).await.map_err(too_slow)??;
        Ok(Response::new(reply))
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusReply>, Status> {
        // A driver that cannot answer is what the status is asked for: then it says what is known without it.
        let checked = self.check_bearer(request.metadata(), connection(&request), Role::Observer);
        let asked = async {
            checked.await?;
            self.ask(|reply| Command::Status { reply }).await
        };
        match tokio::time::timeout(DRIVER, asked).await {
            Ok(Err(status)) if status.code() != Code::Unavailable => Err(status),
            Ok(Ok(reply)) => Ok(Response::new(reply)),
            _ => {
                let connection = connection(&request);
                self.known_bearer(request.metadata(), connection.as_ref(), Role::Observer)?;
                let live = self.shared.live();
                let unavailable = || Status::unavailable("the coordinator is starting or stopping");
                live.map(|live| Response::new(live.into())).ok_or_else(unavailable)
            }
        }
    }

    async fn revoke(
        &self,
        request: Request<RevokeRequest>,
    ) -> Result<Response<RevokeReply>, Status> {
        self.check_bearer(request.metadata(), connection(&request), Role::Operator).await?;
        let who = request.into_inner().who;
        let reply = self.ask(|reply| Command::Revoke { who, reply }).await??;
        Ok(Response::new(reply))
    }
}

async fn first_part(parts: &mut Streaming<ReportPart>) -> Result<ReportHeader, Status> {
    match parts.message().await?.and_then(|part| part.part) {
        Some(report_part::Part::Header(header)) => Ok(header),
        _ => Err(Status::invalid_argument("expected a header first")),
    }
}

/// The announcements for one client. When the stream goes, the client is not connected any more.
pub(crate) struct Announcements {
    stream: WatchStream<Announcement>,
    client: u32,
    token: u64,
    commands: Sender<Command>,
}

impl Stream for Announcements {
    type Item = Result<Announcement, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.stream).poll_next(cx).map(|next| next.map(Ok))
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        let gone = Command::Unwatch { client: self.client, token: self.token };
        // The driver may have ended.
        self.commands.send(gone).ok();
    }
}
