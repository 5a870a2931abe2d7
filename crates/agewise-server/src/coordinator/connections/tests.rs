#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod calls;

use super::{CallDeadlines, Connection, ConnectionCounters, Incoming, Limits, bounded, connection};
use crate::protocol::coordinator_client::CoordinatorClient;
use crate::protocol::coordinator_server::{Coordinator, CoordinatorServer};
use crate::protocol::{
    Announcement, ChallengeReply, ChallengeRequest, Chunk, EnrolReply, EnrolRequest,
    FetchModelRequest, JoinReply, JoinRequest, ReportPart, ReportReply, RevokeReply, RevokeRequest,
    StatusReply, StatusRequest, WatchRequest, report_part,
};
use crate::tls::{ServerIdentity, TrialCertificates, Trust};
use parking_lot::Mutex;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{interval, sleep, timeout};
use tokio_stream::wrappers::IntervalStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Long enough for a call on a busy machine, and shorter than a preface that drips.
const HANDSHAKE: Duration = Duration::from_millis(1_500);
/// Longer than any test lasts.
const AGES: Duration = Duration::from_secs(600);
const NO_HURRY: CallDeadlines = CallDeadlines { short: AGES, report: AGES };
/// Between two bytes that drip.
const TICK: Duration = Duration::from_millis(100);

/// Authenticates every peer that asks for the status or listens, and counts the bytes of reports.
#[derive(Default)]
struct Host {
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
}

impl Host {
    fn authenticate<T>(&self, request: &Request<T>) {
        let connection = connection(request).unwrap();
        connection.authenticate();
        self.connections.lock().push(connection);
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
        Err(Status::unauthenticated("not authenticated"))
    }

    async fn revoke(&self, _: Request<RevokeRequest>) -> Result<Response<RevokeReply>, Status> {
        Err(Status::unauthenticated("not authenticated"))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.authenticate(&request);
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
        self.authenticate(&request);
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
        self.authenticate(&request);
        Ok(Response::new(StatusReply::default()))
    }
}

struct TestServer {
    address: SocketAddr,
    counters: Arc<ConnectionCounters>,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
    authority: Option<String>,
}

impl TestServer {
    async fn open(limits: Limits) -> Self {
        Self::with(limits, NO_HURRY, false).await
    }

    async fn with(limits: Limits, deadlines: CallDeadlines, has_tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(ConnectionCounters::default());
        let incoming = Incoming::new(listener, limits, counters.clone());
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
        let connections = host.connections.clone();
        let service = CoordinatorServer::new(host).max_decoding_message_size(2 << 20);
        let serving = server.add_service(service);
        let forever = std::future::pending::<()>();
        tokio::spawn(serving.serve_with_incoming_shutdown(incoming, forever));
        Self { address, counters, connections, authority }
    }

    async fn connect_silently(&self) -> TcpStream {
        let before = self.counters.accepted();
        let stream = TcpStream::connect(self.address).await.unwrap();
        eventually("it is accepted", || self.counters.accepted() == before + 1).await;
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

fn roomy(handshake_timeout: Duration) -> Limits {
    Limits { connections: 100, unauthenticated: 50, per_address: 50, handshake_timeout }
}

fn two_strangers() -> Limits {
    Limits { unauthenticated: 2, per_address: 2, ..roomy(AGES) }
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let server = TestServer::open(roomy(HANDSHAKE)).await;
    let begun = Instant::now();
    let mut silent = server.connect_silently().await;
    assert_eq!((server.counters.open(), server.counters.unauthenticated()), (1, 1));
    closed(&mut silent).await;
    assert!(begun.elapsed() >= HANDSHAKE / 2, "closed after {:?}", begun.elapsed());
    eventually("it is gone", || server.counters.open() == 0).await;
    assert_eq!((server.counters.timed_out(), server.counters.unauthenticated()), (1, 0));
}

#[tokio::test]
async fn a_preface_with_nothing_behind_it_is_closed() {
    let server = TestServer::open(roomy(HANDSHAKE)).await;
    let mut stream = server.connect_silently().await;
    stream.write_all(PREFACE).await.unwrap();
    closed(&mut stream).await;
    eventually("it is gone", || server.counters.open() == 0).await;
    assert_eq!(server.counters.timed_out(), 1);
}

#[tokio::test]
async fn a_connection_that_drips_is_closed() {
    let server = TestServer::open(roomy(HANDSHAKE)).await;
    let mut preface = server.connect_silently().await;
    drip(&mut preface, PREFACE).await;
    // Empty settings, then an unknown frame that the peer may send as often as it likes.
    let mut frames = server.connect_silently().await;
    frames.write_all(PREFACE).await.unwrap();
    frames.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    drip(&mut frames, &[0, 0, 0, 0xbb, 0, 0, 0, 0, 0]).await;
    eventually("both are gone", || server.counters.open() == 0).await;
    assert_eq!(server.counters.timed_out(), 2);
}

#[tokio::test]
async fn a_client_that_calls_and_does_not_authenticate_is_closed() {
    let server = TestServer::open(roomy(HANDSHAKE)).await;
    let mut client = CoordinatorClient::new(server.channel().await);
    while server.counters.timed_out() == 0 {
        // Once it is closed the channel connects again, or says that it could not.
        client.enrol(EnrolRequest::default()).await.unwrap_err();
        sleep(TICK).await;
    }
    assert!(server.connections.lock().is_empty());
}

#[tokio::test]
async fn an_authenticated_connection_lives_on() {
    let server = TestServer::open(roomy(HANDSHAKE)).await;
    let mut client = server.client().await;
    // A later connection without a call is closed by then.
    closed(&mut server.connect_silently().await).await;
    client.status(StatusRequest {}).await.unwrap();
    // The channel would have connected again by itself.
    assert_eq!((server.counters.accepted(), server.counters.timed_out()), (2, 1));
    eventually("the other one is gone", || server.counters.open() == 1).await;
    assert_eq!((server.counters.open(), server.counters.unauthenticated()), (1, 0));
    let connection = server.connections.lock()[0].clone();
    assert!(connection.is_authenticated());
    assert!(connection.peer().ip().is_loopback());
    drop(client);
    eventually("it is gone", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn the_most_connections_hold_until_one_leaves() {
    let server = TestServer::open(Limits { connections: 2, ..two_strangers() }).await;
    let first = server.client().await;
    let mut second = server.client().await;
    for rejected in 1..=3 {
        let mut third = TcpStream::connect(server.address).await.unwrap();
        closed(&mut third).await;
        assert_eq!(server.counters.rejected(), rejected);
    }
    assert_eq!((server.counters.open(), server.counters.accepted()), (2, 2));
    drop(first);
    eventually("there is room", || server.counters.open() == 1).await;
    server.client().await;
    second.status(StatusRequest {}).await.unwrap();
    assert_eq!(server.counters.accepted(), 3);
}

#[tokio::test]
async fn a_new_connection_closes_the_oldest_unauthenticated_one_and_no_other() {
    let server = TestServer::open(two_strangers()).await;
    let mut client = server.client().await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(server.connect_silently().await);
    }
    for stream in &mut silent[..3] {
        closed(stream).await;
    }
    eventually("three are left", || server.counters.open() == 3).await;
    assert_eq!((server.counters.evicted(), server.counters.unauthenticated()), (3, 2));
    // An honest one comes in among them.
    server.client().await;
    closed(&mut silent[3]).await;
    client.status(StatusRequest {}).await.unwrap();
    assert_eq!((server.counters.accepted(), server.counters.rejected()), (7, 0));
    // The newest is still there: it says so by being heard.
    silent[4].write_all(PREFACE).await.unwrap();
    let mut settings = [0; 9];
    timeout(Duration::from_secs(30), silent[4].read_exact(&mut settings)).await.unwrap().unwrap();
    assert_eq!(settings[3], 4);
}

/// Connections from one address, opened as fast as they are accepted, and a newcomer from another one and from the same one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_flood_of_silent_connections_keeps_no_newcomer_out() {
    let limits = Limits { unauthenticated: 8, per_address: 6, ..roomy(AGES) };
    let server = TestServer::with(limits, NO_HURRY, true).await;
    let address = server.address;
    let flood = tokio::spawn(async move {
        let mut kept = std::collections::VecDeque::new();
        loop {
            if let Ok(stream) = TcpStream::connect(address).await {
                kept.push_back(stream);
            }
            if kept.len() > 64 {
                kept.pop_front();
            }
        }
    });
    eventually("places are taken", || server.counters.evicted() > 100).await;
    let elsewhere = TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let elsewhere = elsewhere.connect(address).await.unwrap();
    // The client's TLS handshake takes several round trips: it is not closed in between.
    server.client().await;
    let evicted = server.counters.evicted();
    eventually("the flood goes on", || server.counters.evicted() > evicted + 100).await;
    // A silent one from another address has been there all the time. Asked without tokio, which may not have heard yet that it was closed.
    let still_open = elsewhere.into_std().unwrap().read(&mut [0]).unwrap_err();
    assert_eq!(still_open.kind(), io::ErrorKind::WouldBlock);
    flood.abort();
}

#[tokio::test]
async fn disconnecting_closes_a_connection_in_the_middle_of_an_answer() {
    for has_tls in [false, true] {
        let server = TestServer::with(roomy(AGES), NO_HURRY, has_tls).await;
        let mut client = server.client().await;
        let mut news = client.watch(WatchRequest::default()).await.unwrap().into_inner();
        news.message().await.unwrap().unwrap();
        let connection = server.connections.lock()[0].clone();
        connection.disconnect();
        assert!(!connection.is_authenticated());
        let ending = async { while let Ok(Some(_)) = news.message().await {} };
        timeout(Duration::from_secs(30), ending).await.expect("the answer ends");
        eventually("it is gone", || server.counters.open() == 0).await;
        connection.authenticate();
        assert!(!connection.is_authenticated());
    }
}

#[tokio::test]
async fn it_is_the_same_with_tls() {
    let server = TestServer::with(roomy(HANDSHAKE), NO_HURRY, true).await;
    let mut client = server.client().await;
    let mut silent = server.connect_silently().await;
    closed(&mut silent).await;
    // The head of a handshake that announces 16 KiB.
    let mut dripping = server.connect_silently().await;
    dripping.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).await.unwrap();
    drip(&mut dripping, &[3]).await;
    eventually("both are gone", || server.counters.open() == 1).await;
    assert_eq!(server.counters.timed_out(), 2);
    client.status(StatusRequest {}).await.unwrap();
    assert_eq!(server.counters.accepted(), 3);
}

#[test]
fn only_errors_of_the_system_make_us_pause() {
    let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
    assert!(super::is_of_one_connection(&aborted));
    assert!(!super::is_of_one_connection(&io::Error::other("no descriptors left")));
}
