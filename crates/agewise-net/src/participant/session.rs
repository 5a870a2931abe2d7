//! One connection to the coordinator: rounds as they are announced, until the run or the connection ends.

use super::state::{ClientState, Remembered};
use super::{Event, GaveUp, LocalLearner, ParticipantParams, RoundTask};
use crate::hex::hex;
use crate::honesty::Identity;
use crate::honesty::lots::Draw;
use crate::honesty::seal::{Sealer, sign_enrolment};
use crate::honesty::seeds::{Commitment, RoundSeed, SeedCheck};
use crate::honesty::token::Token;
use crate::parameters::{from_bytes, to_bytes};
use crate::proto::coordinator_client::CoordinatorClient;
use crate::proto::{
    self, Announcement, ChallengeRequest, EnrolRequest, FetchModelRequest, JoinRequest, Lots,
    ReportHeader, ReportPart, State, Task, WatchRequest, join_reply, report_part, report_reply,
};
use crate::rule::{Rule, RuleParams, seeded_lot};
use agewise_core::{Error, Seed};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};

/// How an update is cut on its way to the coordinator.
const CHUNK: usize = 256 << 10;
/// How long a short call may take.
const CALL: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// A dead connection is noticed after this time and the next together.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A model larger than this is a mistake: 4 billion parameters.
const LARGEST_MODEL: u64 = 1 << 32;

/// How a session ended.
pub(super) enum Ended {
    /// All rounds are over.
    Finished,
    /// The coordinator is away, or about to go.
    Disconnected { why: String, was_connected: bool },
    /// It makes no sense to go on.
    GaveUp(GaveUp),
}

/// What went wrong in the middle.
enum Broken {
    Call(Status),
    GaveUp(GaveUp),
}

impl From<Status> for Broken {
    fn from(status: Status) -> Self {
        Self::Call(status)
    }
}

impl From<GaveUp> for Broken {
    fn from(why: GaveUp) -> Self {
        Self::GaveUp(why)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::GaveUp(error.into())
    }
}

/// An update that was trained and not delivered yet.
struct Pending {
    header: ReportHeader,
    bytes: Bytes,
}

/// A client with everything that outlives a connection.
pub(super) struct Session {
    endpoint: Endpoint,
    state: ClientState,
    identity: Identity,
    token: Option<Token>,
    /// Seals the calls of this connection.
    sealer: Sealer,
    seeds: Option<SeedCheck>,
    learner: Arc<Mutex<Box<dyn LocalLearner>>>,
    events: Option<UnboundedSender<Event>>,
    run: Vec<u8>,
    task: Option<Task>,
    rule: Option<(RuleParams, Rule)>,
    pending: Option<Pending>,
}

impl Session {
    pub(super) fn new(
        params: &ParticipantParams,
        state: ClientState,
        identity: Identity,
        learner: Arc<Mutex<Box<dyn LocalLearner>>>,
        events: Option<UnboundedSender<Event>>,
    ) -> Result<Self, GaveUp> {
        let endpoint = endpoint(&params.coordinator, &params.trust)?;
        state.save()?;
        let remembered = state.seeds.as_ref().and_then(Remembered::commitment);
        Ok(Self {
            endpoint,
            sealer: Sealer::new(identity.clone(), Vec::new()),
            seeds: remembered.map(SeedCheck::new),
            state,
            identity,
            token: params.token.clone(),
            learner,
            events,
            run: Vec::new(),
            task: None,
            rule: None,
            pending: None,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.state.name
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            // Who does not listen any more does not want to know.
            events.send(event).ok();
        }
    }

    /// Connects and takes part until something ends.
    pub(super) async fn play(&mut self) -> Ended {
        let mut was_connected = false;
        match self.connected(&mut was_connected).await {
            Ok(ended) => ended,
            Err(Broken::GaveUp(why)) => Ended::GaveUp(why),
            Err(Broken::Call(status)) => match status.code() {
                Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated => {
                    Ended::GaveUp(GaveUp::Refused(status.message().to_string()))
                }
                _ => Ended::Disconnected { why: describe(&status), was_connected },
            },
        }
    }

    async fn connected(&mut self, was_connected: &mut bool) -> Result<Ended, Broken> {
        let channel = self.endpoint.connect().await;
        let channel = channel.map_err(|error| Status::unavailable(with_causes(&error)))?;
        let mut coordinator = CoordinatorClient::new(channel);
        self.enrol(&mut coordinator).await?;
        *was_connected = true;
        if self.pending.is_some() {
            self.deliver(&mut coordinator).await?;
        }
        let request = WatchRequest { client: self.state.client, run: self.run.clone(), seal: None };
        let request = self.sealer.seal(request);
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

    async fn enrol(&mut self, coordinator: &mut CoordinatorClient<Channel>) -> Result<(), Broken> {
        let samples = self.lock_learner().samples();
        let challenge = coordinator.challenge(short(ChallengeRequest {})).await?.into_inner();
        let request = EnrolRequest {
            name: self.state.name.clone(),
            samples,
            token: self.token.as_ref().map_or_else(String::new, Token::reveal),
            challenge: challenge.challenge.clone(),
            ..EnrolRequest::default()
        };
        let request = sign_enrolment(request, &self.identity);
        let reply = coordinator.enrol(short(request)).await?.into_inner();
        let Some(task) = reply.task else {
            return Err(Status::internal("the coordinator has sent no task").into());
        };
        if task.lots() != Lots::Proven && !is_here(self.endpoint.uri()) {
            let why =
                "it wants lots that everybody can compute, which only one on this machine may";
            return Err(cheated(why));
        }
        if self.task.as_ref() != Some(&task) {
            if task.parameters > LARGEST_MODEL {
                let expected = format!("at most {LARGEST_MODEL} parameters");
                return Err(Error::new("model", task.parameters, expected).into());
            }
            self.lock_learner().prepare(&task)?;
            self.task = Some(task);
            self.rule = None;
        }
        let run = hex(&reply.run);
        if self.state.run != run {
            // An update for another run is of no use.
            self.pending = None;
        }
        if self.state.run != run {
            self.seeds = None;
        }
        self.sealer = Sealer::new(self.identity.clone(), challenge.challenge);
        if let Some(told) = &reply.seeds {
            self.hold_to(told)?;
        }
        self.run = reply.run;
        self.state.run = run;
        self.state.client = reply.client;
        self.remember(reply.waiting_since)?;
        self.state.save()?;
        self.tell(Event::Enrolled { client: reply.client, waiting_since: reply.waiting_since });
        Ok(())
    }

    /// What the coordinator has committed to must be what it has committed to before.
    fn hold_to(&mut self, told: &proto::Commitment) -> Result<(), Broken> {
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
    fn check_seed(&mut self, announcement: &Announcement) -> Result<RoundSeed, Broken> {
        if let Some(told) = &announcement.seeds {
            self.hold_to(told)?;
        }
        let seed = RoundSeed::try_from(announcement.round_seed.as_slice());
        let seed = seed.map_err(|_| cheated("a round without a seed"))?;
        let checked = self.seeds.as_mut().map(|seeds| seeds.seed(announcement.round, &seed));
        match checked {
            Some(Ok(())) => Ok(seed),
            _ => Err(cheated("the seed of a round is not the one that it has committed to")),
        }
    }

    fn lock_learner(&self) -> std::sync::MutexGuard<'_, Box<dyn LocalLearner>> {
        self.learner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when this client waits, as the coordinator has it.
    fn remember(&mut self, waiting_since: i64) -> Result<(), GaveUp> {
        if self.state.waiting_since != waiting_since {
            self.state.waiting_since = waiting_since;
            self.state.save()?;
        }
        Ok(())
    }

    /// Draws the lot, and does what follows from it.
    async fn decide(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        announcement: &Announcement,
    ) -> Result<(), Broken> {
        let round = announcement.round;
        // Twice at most: after a correction of the age the decision may be another one.
        for _ in 0..2 {
            let Ok(age) = u64::try_from(round as i64 - self.state.waiting_since) else {
                // Credited in this round already.
                return Ok(());
            };
            let won = self.draw(announcement, age)?;
            if !announcement.called && won.is_none() {
                return Ok(());
            }
            let request = JoinRequest {
                client: self.state.client,
                run: self.run.clone(),
                round,
                age,
                proof: won.unwrap_or_default(),
                seal: None,
            };
            let request = self.sealer.seal(request);
            let reply = coordinator.join(short(request)).await?.into_inner();
            let corrected = self.state.waiting_since != reply.waiting_since;
            self.remember(reply.waiting_since)?;
            match reply.outcome() {
                join_reply::Outcome::Selected => {
                    self.tell(Event::Joined { round, age });
                    return self.take_part(coordinator, announcement).await;
                }
                join_reply::Outcome::Reported => return Ok(()),
                join_reply::Outcome::Refused if corrected => {}
                outcome => {
                    let why = match outcome {
                        join_reply::Outcome::Closed => "joining is over".to_string(),
                        _ => reply.why,
                    };
                    self.tell(Event::NotJoined { round, why });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Draws the lot. `Some` is the proof of one that wins; it is empty where lots need none.
    fn draw(&mut self, announcement: &Announcement, age: u64) -> Result<Option<Vec<u8>>, Broken> {
        let Some(task) = &self.task else {
            return Ok(None);
        };
        let params = RuleParams {
            policy: task.policy.parse()?,
            max_age: task.max_age,
            clients: announcement.clients,
            cohort: announcement.cohort,
            interval: announcement.interval,
        };
        let is_proven = task.lots() == Lots::Proven;
        let round = announcement.round;
        // Also who does not take part looks whether the coordinator keeps to its seeds.
        let seed = if is_proven { Some(self.check_seed(announcement)?) } else { None };
        if announcement.state() != State::Joining || announcement.called {
            return Ok(None);
        }
        let rule = match self.rule.take() {
            Some((known, rule)) if known == params => rule,
            _ => params.build()?,
        };
        let client = self.state.client;
        let won = if rule.may_take_part(age) {
            let (lot, proof) = match &seed {
                Some(seed) => Draw { run: &self.run, round, seed }.by(&self.identity),
                None => (seeded_lot(Seed(announcement.seed), round, client), Vec::new()),
            };
            rule.takes_part(round, client, age, lot).then_some(proof)
        } else {
            None
        };
        self.rule = Some((params, rule));
        Ok(won)
    }

    /// Fetches, trains and reports.
    async fn take_part(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        announcement: &Announcement,
    ) -> Result<(), Broken> {
        let Announcement { round, seed, model_version, .. } = *announcement;
        let parameters = match self.fetch(coordinator, announcement).await {
            Err(Broken::Call(status)) if status.code() == Code::Aborted => {
                // The round has ended since this client joined.
                self.tell(Event::NotAccepted { round, why: describe(&status) });
                return Ok(());
            }
            fetched => fetched?,
        };
        let learner = self.learner.clone();
        let client = self.state.client;
        let training = move || {
            let mut parameters = parameters;
            let begun = Instant::now();
            let task = RoundTask { seed: Seed(seed), round, client };
            let mut learner = learner.lock().unwrap_or_else(PoisonError::into_inner);
            let trained = learner.train(&task, &mut parameters)?;
            let bytes = Bytes::from(to_bytes(&parameters));
            let sha256 = Sha256::digest(&bytes).to_vec();
            Ok::<_, Error>((trained, begun.elapsed(), bytes, sha256))
        };
        let trained = tokio::task::spawn_blocking(training).await;
        let trained =
            trained.map_err(|_| GaveUp::State("training ended with a panic".to_string()))?;
        let (trained, time, bytes, sha256) = match trained {
            Ok(trained) => trained,
            Err(error) => {
                // The round goes on without this client; the next one may be better.
                self.tell(Event::NotAccepted { round, why: error.to_string() });
                return Ok(());
            }
        };
        let header = ReportHeader {
            client,
            run: self.run.clone(),
            round,
            model_version,
            samples: trained.samples,
            loss: trained.loss,
            seconds: time.as_secs_f64(),
            parameters: bytes.len() as u64 / 4,
            sha256,
            seal: None,
        };
        self.pending = Some(Pending { header, bytes });
        self.deliver(coordinator).await
    }

    /// The model of the round, checked.
    async fn fetch(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        announcement: &Announcement,
    ) -> Result<Vec<f32>, Broken> {
        let request = FetchModelRequest {
            client: self.state.client,
            run: self.run.clone(),
            round: announcement.round,
            seal: None,
        };
        let request = self.sealer.seal(request);
        let size = 4 * self.task.as_ref().map_or(0, |task| task.parameters) as usize;
        let mut chunks = coordinator.fetch_model(request).await?.into_inner();
        let mut bytes = Vec::with_capacity(size);
        while let Some(chunk) = chunks.message().await? {
            if bytes.len() + chunk.data.len() > size {
                return Err(Status::data_loss("the model is larger than announced").into());
            }
            bytes.extend_from_slice(&chunk.data);
        }
        if bytes.len() != size || Sha256::digest(&bytes).as_slice() != announcement.model_sha256 {
            return Err(Status::data_loss("the model is not the one that was announced").into());
        }
        Ok(from_bytes(&bytes))
    }

    /// Delivers the update that is waiting. It stays if the connection breaks, and is delivered in the next session.
    async fn deliver(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
    ) -> Result<(), Broken> {
        let Some(pending) = &self.pending else {
            return Ok(());
        };
        let round = pending.header.round;
        let header = self.sealer.seal(pending.header.clone());
        let header = ReportPart { part: Some(report_part::Part::Header(header)) };
        let bytes = pending.bytes.clone();
        let parts = (0..bytes.len()).step_by(CHUNK).map(move |begin| {
            let end = bytes.len().min(begin + CHUNK);
            ReportPart { part: Some(report_part::Part::Data(bytes.slice(begin..end))) }
        });
        let stream = tokio_stream::iter(std::iter::once(header).chain(parts));
        let reply = coordinator.report(stream).await?.into_inner();
        self.pending = None;
        self.remember(reply.waiting_since)?;
        self.tell(match reply.outcome() {
            report_reply::Outcome::Accepted => Event::Accepted { round },
            _ => Event::NotAccepted { round, why: reply.why },
        });
        Ok(())
    }
}

fn cheated(why: &str) -> Broken {
    Broken::GaveUp(GaveUp::Cheated(why.to_string()))
}

fn commitment(told: &proto::Commitment) -> Option<Commitment> {
    let seed = |bytes: &[u8]| RoundSeed::try_from(bytes).ok();
    let (anchor, next_anchor) = (seed(&told.anchor)?, seed(&told.next_anchor)?);
    Some(Commitment { chain: told.chain, anchor, next_anchor })
}

/// Where the coordinator is, and how it is reached.
pub(crate) fn endpoint(url: &str, trust: &crate::tls::Trust) -> Result<Endpoint, Error> {
    let wrong = |why: String| Error::new("coordinator", url, why);
    let is_encrypted = url.starts_with("https://");
    if !is_encrypted && !url.starts_with("http://") {
        return Err(wrong("https://HOST:PORT, or http://HOST:PORT on loopback".to_string()));
    }
    let endpoint = Endpoint::from_shared(url.to_string())
        .map_err(|error| wrong(format!("an address such as https://host:7070 ({error})")))?;
    check_address(endpoint.uri()).map_err(|why| wrong(why.to_string()))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1 << 20)
        .tcp_nodelay(true);
    if is_encrypted {
        return endpoint
            .tls_config(trust.config())
            .map_err(|error| wrong(format!("a coordinator with TLS ({})", with_causes(&error))));
    }
    Ok(endpoint)
}

/// What an address may be: a host and a port, and without encryption only this machine.
fn check_address(uri: &Uri) -> Result<(), &'static str> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let has_more = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    if has_more || authority.contains('@') || port.is_some_and(|_| uri.port_u16().is_none()) {
        return Err("nothing but https://HOST:PORT, with a port up to 65535");
    }
    if uri.scheme_str() == Some("http") && !is_here(uri) {
        return Err("https://: without encryption only this machine itself may be reached");
    }
    Ok(())
}

/// Whether an address is of this machine.
fn is_here(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A request that has to be answered soon.
fn short<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL);
    request
}

fn describe(status: &Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        message => message.to_string(),
    }
}

/// An error with what caused it: the outermost alone says little.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// A task that ends when nobody needs it any more.
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
