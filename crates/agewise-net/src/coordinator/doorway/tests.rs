#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod calls;

use super::{CallDeadlines, DoorCounters, Doorway, Guest, Limits, bounded, guest};
use crate::proto::coordinator_client::CoordinatorClient;
use crate::proto::coordinator_server::{Coordinator, CoordinatorServer};
use crate::proto::{
    Announcement, ChallengeReply, ChallengeRequest, Chunk, EnrolReply, EnrolRequest,
    FetchModelRequest, JoinReply, JoinRequest, ReportPart, ReportReply, RevokeReply, RevokeRequest,
    StatusReply, StatusRequest, WatchRequest, report_part,
};
use crate::tls::{ServerIdentity, TrialCertificates, Trust};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, sleep, timeout};
use tokio_stream::wrappers::IntervalStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Short against everything that a test waits for.
const PATIENCE: Duration = Duration::from_millis(400);
/// Longer than any test lasts.
const AGES: Duration = Duration::from_secs(600);
const NO_HURRY: CallDeadlines = CallDeadlines { short: AGES, report: AGES };
const TICK: Duration = Duration::from_millis(20);

/// Welcomes whoever asks for the status or listens, and counts the bytes of reports.
#[derive(Default)]
struct Host {
    guests: Arc<Mutex<Vec<Arc<Guest>>>>,
}

impl Host {
    fn welcome<T>(&self, request: &Request<T>) {
        let guest = guest(request).unwrap();
        guest.welcome();
        self.guests.lock().unwrap().push(guest);
    }
}

type Endless<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Coordinator for Host {
    type WatchStream = Endless<Announcement>;
    type FetchModelStream = Endless<Chunk>;

    async fn challenge(
        &self,
        _: Request<ChallengeRequest>,
    ) -> Result<Response<ChallengeReply>, Status> {
        Ok(Response::new(ChallengeReply::default()))
    }

    async fn enrol(&self, _: Request<EnrolRequest>) -> Result<Response<EnrolReply>, Status> {
        Err(Status::unauthenticated("a stranger"))
    }

    async fn revoke(&self, _: Request<RevokeRequest>) -> Result<Response<RevokeReply>, Status> {
        Err(Status::unauthenticated("a stranger"))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.welcome(&request);
        let ticks = IntervalStream::new(interval(TICK)).map(|_| Ok(Announcement::default()));
        Ok(Response::new(Box::pin(ticks)))
    }

    async fn join(&self, _: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        Ok(Response::new(JoinReply::default()))
    }

    async fn fetch_model(
        &self,
        _: Request<FetchModelRequest>,
    ) -> Result<Response<Self::FetchModelStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn report(
        &self,
        request: Request<Streaming<ReportPart>>,
    ) -> Result<Response<ReportReply>, Status> {
        self.welcome(&request);
        let mut parts = request.into_inner();
        let mut bytes = 0;
        while let Some(part) = parts.message().await? {
            if let Some(report_part::Part::Data(data)) = part.part {
                bytes += data.len() as i64;
            }
        }
        Ok(Response::new(ReportReply { waiting_since: bytes, ..ReportReply::default() }))
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusReply>, Status> {
        self.welcome(&request);
        Ok(Response::new(StatusReply::default()))
    }
}

struct House {
    address: SocketAddr,
    counters: Arc<DoorCounters>,
    guests: Arc<Mutex<Vec<Arc<Guest>>>>,
    authority: Option<String>,
}

impl House {
    async fn open(limits: Limits) -> Self {
        Self::with(limits, NO_HURRY, false).await
    }

    async fn with(limits: Limits, deadlines: CallDeadlines, has_tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(DoorCounters::default());
        let doorway = Doorway::new(listener, limits, counters.clone());
        let mut server = bounded(Server::builder().layer(deadlines));
        let mut authority = None;
        if has_tls {
            let trial = TrialCertificates::new(&["127.0.0.1".to_string()]).unwrap();
            let identity =
                ServerIdentity::from_pem(trial.certificate.as_bytes(), trial.key.as_bytes());
            server = server.tls_config(identity.config()).unwrap();
            authority = Some(trial.authority);
        }
        let host = Host::default();
        let guests = host.guests.clone();
        let service = CoordinatorServer::new(host).max_decoding_message_size(2 << 20);
        let serving = server.add_service(service);
        let forever = std::future::pending::<()>();
        tokio::spawn(serving.serve_with_incoming_shutdown(doorway, forever));
        Self { address, counters, guests, authority }
    }

    async fn stranger(&self) -> TcpStream {
        let before = self.counters.accepted();
        let stream = TcpStream::connect(self.address).await.unwrap();
        eventually("it is let in", || self.counters.accepted() == before + 1).await;
        stream
    }

    async fn channel(&self) -> Channel {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", self.address)).unwrap();
        if let Some(authority) = &self.authority {
            let trust = Trust::Authority(authority.clone().into_bytes());
            endpoint = endpoint.tls_config(trust.config()).unwrap();
        }
        endpoint.connect().await.unwrap()
    }

    async fn client(&self) -> CoordinatorClient<Channel> {
        let mut client = CoordinatorClient::new(self.channel().await);
        client.status(StatusRequest {}).await.unwrap();
        client
    }
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "expected that {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the other side has closed the connection, whatever it says before.
async fn closed(stream: &mut TcpStream) {
    let mut bytes = [0; 256];
    let reading = async { while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {} };
    timeout(Duration::from_secs(30), reading).await.expect("the connection is still open");
}

/// Sends these bytes over and over, one at a time, until the other side has had enough.
async fn drip(stream: &mut TcpStream, bytes: &[u8]) {
    let begun = Instant::now();
    for byte in bytes.iter().cycle() {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the connection is still open");
        sleep(TICK).await;
    }
}

fn roomy(patience: Duration) -> Limits {
    Limits { connections: 100, strangers: 50, patience }
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let house = House::open(roomy(PATIENCE)).await;
    let begun = Instant::now();
    let mut silent = house.stranger().await;
    assert_eq!((house.counters.open(), house.counters.strangers()), (1, 1));
    closed(&mut silent).await;
    assert!(begun.elapsed() >= PATIENCE / 2, "closed after {:?}", begun.elapsed());
    eventually("it is gone", || house.counters.open() == 0).await;
    assert_eq!((house.counters.timed_out(), house.counters.strangers()), (1, 0));
}

#[tokio::test]
async fn a_preface_with_nothing_behind_it_is_closed() {
    let house = House::open(roomy(PATIENCE)).await;
    let mut stream = house.stranger().await;
    stream.write_all(PREFACE).await.unwrap();
    closed(&mut stream).await;
    eventually("it is gone", || house.counters.open() == 0).await;
    assert_eq!(house.counters.timed_out(), 1);
}

#[tokio::test]
async fn a_connection_that_drips_is_closed() {
    let house = House::open(roomy(PATIENCE)).await;
    let mut preface = house.stranger().await;
    drip(&mut preface, PREFACE).await;
    // Empty settings, then an unknown frame that the peer may send as often as it likes.
    let mut frames = house.stranger().await;
    frames.write_all(PREFACE).await.unwrap();
    frames.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    drip(&mut frames, &[0, 0, 0, 0xbb, 0, 0, 0, 0, 0]).await;
    eventually("both are gone", || house.counters.open() == 0).await;
    assert_eq!(house.counters.timed_out(), 2);
}

#[tokio::test]
async fn a_client_that_calls_and_does_not_authenticate_is_closed() {
    let house = House::open(roomy(PATIENCE)).await;
    let mut client = CoordinatorClient::new(house.channel().await);
    while house.counters.timed_out() == 0 {
        // Once it is closed the channel connects again, or says that it could not.
        client.enrol(EnrolRequest::default()).await.unwrap_err();
        sleep(TICK).await;
    }
    assert!(house.guests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_welcome_connection_lives_on() {
    let house = House::open(roomy(PATIENCE)).await;
    let mut client = house.client().await;
    sleep(PATIENCE * 3).await;
    client.status(StatusRequest {}).await.unwrap();
    // The channel would have connected again behind our back.
    assert_eq!((house.counters.accepted(), house.counters.timed_out()), (1, 0));
    assert_eq!((house.counters.open(), house.counters.strangers()), (1, 0));
    let guest = house.guests.lock().unwrap()[0].clone();
    assert!(guest.is_welcome());
    assert!(guest.peer().ip().is_loopback());
    drop(client);
    eventually("it is gone", || house.counters.open() == 0).await;
}

#[tokio::test]
async fn the_most_connections_hold_until_one_leaves() {
    let house = House::open(Limits { connections: 2, strangers: 2, patience: AGES }).await;
    let first = house.client().await;
    let mut second = house.client().await;
    for turned_away in 1..=3 {
        let mut third = TcpStream::connect(house.address).await.unwrap();
        closed(&mut third).await;
        assert_eq!(house.counters.turned_away(), turned_away);
    }
    assert_eq!((house.counters.open(), house.counters.accepted()), (2, 2));
    drop(first);
    eventually("there is room", || house.counters.open() == 1).await;
    house.client().await;
    second.status(StatusRequest {}).await.unwrap();
    assert_eq!(house.counters.accepted(), 3);
}

#[tokio::test]
async fn strangers_push_out_the_oldest_stranger_and_nobody_else() {
    let house = House::open(Limits { connections: 100, strangers: 2, patience: AGES }).await;
    let mut client = house.client().await;
    let mut strangers = Vec::new();
    for _ in 0..5 {
        strangers.push(house.stranger().await);
    }
    for stranger in &mut strangers[..3] {
        closed(stranger).await;
    }
    eventually("three are left", || house.counters.open() == 3).await;
    assert_eq!((house.counters.evicted(), house.counters.strangers()), (3, 2));
    // An honest one comes in among them.
    house.client().await;
    closed(&mut strangers[3]).await;
    client.status(StatusRequest {}).await.unwrap();
    assert_eq!((house.counters.accepted(), house.counters.turned_away()), (7, 0));
    // The newest is still there: it says so by being heard.
    strangers[4].write_all(PREFACE).await.unwrap();
    let mut settings = [0; 9];
    timeout(Duration::from_secs(30), strangers[4].read_exact(&mut settings))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(settings[3], 4);
}

#[tokio::test]
async fn showing_out_closes_a_connection_in_the_middle_of_an_answer() {
    for has_tls in [false, true] {
        let house = House::with(roomy(AGES), NO_HURRY, has_tls).await;
        let mut client = house.client().await;
        let mut news = client.watch(WatchRequest::default()).await.unwrap().into_inner();
        news.message().await.unwrap().unwrap();
        let guest = house.guests.lock().unwrap()[0].clone();
        guest.show_out();
        assert!(!guest.is_welcome());
        let ending = async { while let Ok(Some(_)) = news.message().await {} };
        timeout(Duration::from_secs(30), ending).await.expect("the answer ends");
        eventually("it is gone", || house.counters.open() == 0).await;
        guest.welcome();
        assert!(!guest.is_welcome());
    }
}

#[tokio::test]
async fn it_is_the_same_with_tls() {
    let house = House::with(roomy(PATIENCE), NO_HURRY, true).await;
    let mut client = house.client().await;
    let mut silent = house.stranger().await;
    closed(&mut silent).await;
    // The head of a handshake that announces 16 KiB.
    let mut dripping = house.stranger().await;
    dripping.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).await.unwrap();
    drip(&mut dripping, &[3]).await;
    eventually("both are gone", || house.counters.open() == 1).await;
    assert_eq!(house.counters.timed_out(), 2);
    client.status(StatusRequest {}).await.unwrap();
    assert_eq!(house.counters.accepted(), 3);
}

#[test]
fn only_errors_of_the_system_make_us_pause() {
    let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
    assert!(super::is_of_one_connection(&aborted));
    assert!(!super::is_of_one_connection(&io::Error::other("no descriptors left")));
}
