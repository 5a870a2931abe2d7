//! The network's side of the coordinator: streams, chunks and deadlines. Everything that is decided is decided by the driver.

use super::command::{Command, Entrance, Watching};
use super::intake::{Intake, LARGEST_CHUNK, NotTaken};
use super::refusal::{Reason, Refusal};
use super::shared::Shared;
use crate::proto::coordinator_server::Coordinator;
use crate::proto::{
    Announcement, Chunk, EnrolReply, EnrolRequest, FetchModelRequest, JoinReply, JoinRequest,
    ReportHeader, ReportPart, ReportReply, StatusReply, StatusRequest, WatchRequest, report_part,
};
use agewise_core::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status, Streaming};

/// How the model is cut on its way to a client.
const CHUNK: usize = 256 << 10;
/// The largest message that is read: a chunk, and what is around it.
pub(crate) const LARGEST_MESSAGE: usize = LARGEST_CHUNK + 4_096;

/// The coordinator as a service.
pub(crate) struct Service {
    commands: Sender<Command>,
    shared: Arc<Shared>,
    /// The longest that an update may take to come in.
    report_window: Duration,
    attempts: AtomicU64,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

impl Service {
    pub(crate) fn new(
        commands: Sender<Command>,
        shared: Arc<Shared>,
        report_window: Duration,
    ) -> Self {
        Self { commands, shared, report_window, attempts: AtomicU64::new(0) }
    }

    /// Asks the driver.
    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        let unavailable = || Status::unavailable("the coordinator cannot answer now, try again");
        self.commands.send(question(reply)).map_err(|_| unavailable())?;
        answer.await.map_err(|_| unavailable())
    }

    /// Receives the bytes of an update. `Ok` is its distance to the global model.
    async fn receive(
        &self,
        mut intake: Intake,
        parts: &mut Streaming<ReportPart>,
    ) -> Result<Result<f64, Refusal>, Status> {
        let mut bytes = 0;
        let taken = loop {
            let Some(part) = parts.message().await? else {
                // The disk is waited for, and others are not to wait with it.
                let finished = tokio::task::spawn_blocking(move || intake.finish()).await;
                break finished.map_err(|_| Status::internal("the update could not be stored"))?;
            };
            let pushed = match part.part {
                Some(report_part::Part::Data(data)) => {
                    bytes += data.len() as u64;
                    intake.push(&data)
                }
                _ => Err(Refusal::new(Reason::Size, "expected data behind the header").into()),
            };
            if let Err(wrong) = pushed {
                break Err(wrong);
            }
        };
        self.shared.metrics.moved("received", bytes);
        match taken {
            Ok(norm) => Ok(Ok(norm)),
            Err(NotTaken::Refused(refusal)) => Ok(Err(refusal)),
            Err(NotTaken::Trouble(trouble)) => {
                tracing::error!(%trouble, "an update could not be stored");
                self.shared.metrics.troubles.inc();
                Err(Status::unavailable("the update could not be stored, try again"))
            }
        }
    }
}

/// An error of the client: it has to enrol again, or it came too late, or it will never work.
fn refused(error: &Error) -> Status {
    match error.field() {
        "run" | "client" => Status::failed_precondition(error.to_string()),
        "round" => Status::aborted(error.to_string()),
        "stream" => Status::already_exists(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

#[tonic::async_trait]
impl Coordinator for Service {
    async fn enrol(&self, request: Request<EnrolRequest>) -> Result<Response<EnrolReply>, Status> {
        let request = request.into_inner();
        let answer = self.ask(|reply| Command::Enrol { request, reply }).await?;
        answer.map(Response::new).map_err(|error| refused(&error))
    }

    type WatchStream = Announcements;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Announcements>, Status> {
        let request = request.into_inner();
        let client = request.client;
        let watching = self.ask(|reply| Command::Watch { request, reply }).await?;
        let Watching { announcements, token } = watching.map_err(|error| refused(&error))?;
        Ok(Response::new(Announcements {
            stream: WatchStream::new(announcements),
            client,
            token,
            commands: self.commands.clone(),
        }))
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let request = request.into_inner();
        let answer = self.ask(|reply| Command::Join { request, reply }).await?;
        answer.map(Response::new).map_err(|error| refused(&error))
    }

    type FetchModelStream = Chunks;

    async fn fetch_model(
        &self,
        request: Request<FetchModelRequest>,
    ) -> Result<Response<Chunks>, Status> {
        let request = request.into_inner();
        let global = self
            .ask(|reply| Command::Fetch { request, reply })
            .await?
            .map_err(|error| refused(&error))?;
        let bytes = global.bytes;
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
        let mut parts = request.into_inner();
        let too_slow = |_| Status::deadline_exceeded("the update took longer than a round");
        let coming = async {
            let header = first_part(&mut parts).await?;
            let question = header.clone();
            let entrance =
                self.ask(|reply| Command::BeginReport { header: question, reply }).await?;
            let expected = match entrance.map_err(|error| refused(&error))? {
                Entrance::Closed(reply) => return Ok(reply),
                Entrance::Open(expected) => expected,
            };
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let intake = Intake::begin(expected, attempt).map_err(|trouble| {
                tracing::error!(%trouble, "an update could not be stored");
                self.shared.metrics.troubles.inc();
                Status::unavailable("the update could not be stored, try again")
            })?;
            let taken = self.receive(intake, &mut parts).await?;
            self.ask(|reply| Command::EndReport { header, taken, reply }).await
        };
        let reply = tokio::time::timeout(self.report_window, coming).await.map_err(too_slow)??;
        Ok(Response::new(reply))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        self.ask(|reply| Command::Status { reply }).await.map(Response::new)
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
        // There is nobody to tell when the driver has ended.
        self.commands.send(gone).ok();
    }
}
