//! One connection to the coordinator: rounds as they are announced, until the run or the connection ends.

use super::endpoint::{endpoint, is_here, with_causes};
use super::state::{ClientState, Remembered};
use super::{ClientError, ClientParams, Event, TaskProvider};
use crate::crypto::Identity;
use crate::crypto::seed_chain::{Commitment, RoundSeed, SeedCheck};
use crate::crypto::signing::{RequestSigner, sign_enrolment};
use crate::crypto::token::Token;
use crate::protocol::coordinator_client::CoordinatorClient;
use crate::protocol::{
    self, Announcement, ChallengeRequest, DrawSource, EnrolRequest, PROTOCOL, ReportHeader, State,
    TaskSpec, WatchRequest,
};
use crate::protocol::{ParticipationParams, ParticipationRule};
use agewise_core::Error;
use agewise_train::Task;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// How long a short call may take.
const CALL: Duration = Duration::from_secs(30);
/// A model larger than this is a mistake: 4 billion parameters.
const LARGEST_MODEL: u64 = 1 << 32;

/// How a session ended.
pub(super) enum Ended {
    /// All rounds are over.
    Finished,
    /// The coordinator is away, or about to go.
    Disconnected { why: String, was_connected: bool },
    /// The state of the client could not be written.
    NotWritten(ClientError),
    /// The client gives up for good.
    Failed(ClientError),
}

/// Why a session ends before the coordinator closes it.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] tonic::transport::Error),
    /// A call was answered with an error.
    #[error(transparent)]
    Call(#[from] Status),
    /// The client gives up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The client gives up: a setting is wrong.
    #[error(transparent)]
    Input(#[from] Error),
}

/// An update that was trained and not delivered yet.
pub(super) struct UndeliveredUpdate {
    pub(super) header: ReportHeader,
    pub(super) bytes: Bytes,
}

/// A client with everything that outlives a connection.
pub(super) struct ClientSession {
    pub(super) endpoint: Endpoint,
    pub(super) state: ClientState,
    pub(super) identity: Identity,
    pub(super) token: Option<Token>,
    /// Signs the calls of this connection.
    pub(super) signer: RequestSigner,
    pub(super) seeds: Option<SeedCheck>,
    pub(super) provider: Box<dyn TaskProvider>,
    pub(super) events: Option<UnboundedSender<Event>>,
    pub(super) run: Vec<u8>,
    /// The coordinator's specification of the task, and the task.
    pub(super) task: Option<(TaskSpec, Arc<dyn Task>)>,
    pub(super) rule: Option<(ParticipationParams, ParticipationRule)>,
    pub(super) pending: Option<UndeliveredUpdate>,
    /// Whether its state was written by now: then it can be, and whatever is in the way may go away again.
    is_written: bool,
}

impl ClientSession {
    pub(super) fn new(
        params: &ClientParams,
        state: ClientState,
        identity: Identity,
        provider: Box<dyn TaskProvider>,
        events: Option<UnboundedSender<Event>>,
    ) -> Result<Self, ClientError> {
        let endpoint = endpoint(&params.coordinator, &params.trust)?;
        let remembered = state.seeds.as_ref().and_then(Remembered::commitment);
        Ok(Self {
            endpoint,
            signer: RequestSigner::new(identity.clone(), Vec::new()),
            seeds: remembered.map(SeedCheck::new),
            state,
            identity,
            token: params.token.clone(),
            provider,
            events,
            run: Vec::new(),
            task: None,
            rule: None,
            pending: None,
            is_written: false,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.state.name
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            // The receiver may be gone.
            events.send(event).ok();
        }
    }

    /// Connects and takes part until something ends.
    pub(super) async fn play(&mut self) -> Ended {
        let mut was_connected = false;
        let played = match self.write_first() {
            Ok(()) => self.connected(&mut was_connected).await,
            Err(why) => Err(why.into()),
        };
        match played {
            Ok(ended) => ended,
            Err(SessionError::Client(why @ ClientError::State { .. }))
                if self.is_written || why.is_of_the_disk() =>
            {
                Ended::NotWritten(why)
            }
            Err(SessionError::Client(why)) => Ended::Failed(why),
            Err(SessionError::Input(error)) => Ended::Failed(error.into()),
            Err(SessionError::Connect(error)) => {
                Ended::Disconnected { why: with_causes(&error), was_connected }
            }
            Err(SessionError::Call(status)) => match status.code() {
                Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated => {
                    Ended::Failed(ClientError::Refused(status.message().to_string()))
                }
                _ => Ended::Disconnected { why: describe(&status), was_connected },
            },
        }
    }

    /// Before the first connection: a client that cannot remember its name begins nothing.
    fn write_first(&mut self) -> Result<(), ClientError> {
        if !self.is_written {
            self.state.save()?;
            self.is_written = true;
        }
        Ok(())
    }

    async fn connected(&mut self, was_connected: &mut bool) -> Result<Ended, SessionError> {
        let mut coordinator = CoordinatorClient::new(self.endpoint.connect().await?);
        self.enrol(&mut coordinator).await?;
        *was_connected = true;
        if self.pending.is_some() {
            self.deliver(&mut coordinator).await?;
        }
        let request =
            WatchRequest { client: self.state.client, run: self.run.clone(), call_signature: None };
        let request = self.signer.sign(request);
        let mut stream = coordinator.watch(request).await?.into_inner();
        // Only the latest announcement matters: training may outlast several of them.
        let (sender, mut latest) = watch::channel(None::<Announcement>);
        let listening = tokio::spawn(async move {
            loop {
                match stream.message().await {
                    Ok(Some(announcement)) => {
                        if sender.send(Some(announcement)).is_err() {
                            return None;
                        }
                    }
                    Ok(None) => return None,
                    Err(status) => return Some(status),
                }
            }
        });
        let listening = AbortOnDrop(listening);
        while latest.changed().await.is_ok() {
            let Some(announcement) = latest.borrow_and_update().clone() else { continue };
            match announcement.state() {
                State::Finished => return Ok(Ended::Finished),
                State::Joining | State::Training => {
                    self.decide(&mut coordinator, &announcement).await?;
                }
                _ => {}
            }
        }
        let ended = listening.join().await;
        let why =
            ended.map_or_else(|| "the coordinator hung up".to_string(), |status| describe(&status));
        Ok(Ended::Disconnected { why, was_connected: true })
    }

    async fn enrol(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
    ) -> Result<(), SessionError> {
        let samples = self.provider.samples()?;
        let challenge = coordinator.challenge(short(ChallengeRequest {})).await?.into_inner();
        check_protocol(challenge.protocol)?;
        let request = EnrolRequest {
            name: self.state.name.clone(),
            samples,
            token: self.token.as_ref().map_or_else(String::new, Token::reveal),
            challenge: challenge.challenge.clone(),
            ..EnrolRequest::default()
        };
        let request = sign_enrolment(request, &self.identity);
        let reply = coordinator.enrol(short(request)).await?.into_inner();
        let Some(spec) = reply.task else {
            return Err(Status::internal("the coordinator has sent no task").into());
        };
        if spec.draws() != DrawSource::Proven && !is_here(self.endpoint.uri()) {
            let why = "it asks for seeded draws, which only a coordinator on this machine may";
            return Err(cheated(why));
        }
        if self.task.as_ref().is_none_or(|(known, _)| *known != spec) {
            if spec.parameters > LARGEST_MODEL {
                let expected = format!("at most {LARGEST_MODEL} parameters");
                return Err(Error::new("model", spec.parameters, expected).into());
            }
            let task = self.provider.prepare(&spec)?;
            if task.parameters() as u64 != spec.parameters {
                let expected = format!("{} parameters, as the task says", spec.parameters);
                return Err(Error::new("model", task.parameters(), expected).into());
            }
            self.task = Some((spec, task));
            self.rule = None;
        }
        let run = HEXLOWER.encode(&reply.run);
        if self.state.run != run {
            // An update for another run is of no use.
            self.pending = None;
            self.seeds = None;
        }
        self.signer = RequestSigner::new(self.identity.clone(), challenge.challenge);
        if let Some(told) = &reply.seeds {
            self.check_commitment(told)?;
        }
        self.run = reply.run;
        self.state.run = run;
        self.state.client = reply.client;
        self.remember(reply.waiting_since)?;
        self.state.save()?;
        self.tell(Event::Enrolled { client: reply.client, waiting_since: reply.waiting_since });
        Ok(())
    }

    /// Checks that a commitment agrees with the earlier ones.
    fn check_commitment(&mut self, told: &protocol::Commitment) -> Result<(), SessionError> {
        let told = commitment(told)
            .ok_or_else(|| cheated("it has committed to something that is not a seed"))?;
        match &mut self.seeds {
            Some(seeds) => seeds
                .told(told)
                .map_err(|_| cheated("it has committed to other seeds than before"))?,
            None => self.seeds = Some(SeedCheck::new(told)),
        }
        let remembered = Some(Remembered::from(told));
        if self.state.seeds != remembered {
            self.state.seeds = remembered;
            self.state.save()?;
        }
        Ok(())
    }

    /// The seed of a round, if it is the one that was committed to.
    pub(super) fn check_seed(
        &mut self,
        announcement: &Announcement,
    ) -> Result<RoundSeed, SessionError> {
        if let Some(told) = &announcement.seeds {
            self.check_commitment(told)?;
        }
        let seed = RoundSeed::try_from(announcement.round_seed.as_slice());
        let seed = seed.map_err(|_| cheated("a round without a seed"))?;
        let checked = self.seeds.as_mut().map(|seeds| seeds.seed(announcement.round, &seed));
        match checked {
            Some(Ok(())) => Ok(seed),
            _ => Err(cheated("the seed of a round is not the one that it has committed to")),
        }
    }

    /// Since when this client waits, as the coordinator has it.
    pub(super) fn remember(&mut self, waiting_since: i64) -> Result<(), ClientError> {
        if self.state.waiting_since != waiting_since {
            self.state.waiting_since = waiting_since;
            self.state.save()?;
        }
        Ok(())
    }
}

/// Whether the coordinator has the same protocol version. 0 means version 1, which did not send its version.
fn check_protocol(told: u32) -> Result<(), Error> {
    if told == PROTOCOL {
        return Ok(());
    }
    let expected =
        format!("{PROTOCOL}, as this client has: give both the same release (docs/upgrading.md)");
    Err(Error::new("protocol of the coordinator", told.max(1), expected))
}

fn cheated(why: &'static str) -> SessionError {
    SessionError::Client(ClientError::Cheated(why))
}

fn commitment(told: &protocol::Commitment) -> Option<Commitment> {
    let seed = |bytes: &[u8]| RoundSeed::try_from(bytes).ok();
    let (anchor, next_anchor) = (seed(&told.anchor)?, seed(&told.next_anchor)?);
    Some(Commitment { chain: told.chain, anchor, next_anchor })
}

/// A request that has to be answered soon.
pub(super) fn short<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL);
    request
}

pub(super) fn describe(status: &Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        message => message.to_string(),
    }
}

/// A task that ends when this is dropped.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<Option<T>> {
    async fn join(mut self) -> Option<T> {
        (&mut self.0).await.ok().flatten()
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_of_another_version_is_told_apart() {
        check_protocol(PROTOCOL).unwrap();
        for (told, version) in [(0, "1"), (1, "1"), (PROTOCOL + 1, "3")] {
            let error = check_protocol(told).unwrap_err();
            assert_eq!(error.value(), version);
            assert!(error.to_string().contains("docs/upgrading.md"), "{error}");
        }
    }
}
