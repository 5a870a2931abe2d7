//! Attackers that send one byte at a time.

use crate::attacked_run::{Target, play};
use crate::common::folder;
use crate::common::raw_client::{RawClient, identity};
use crate::common::site::{PATIENCE, Site, settings, soon};
use crate::frames::{
    DATA, END_HEADERS, HEADERS, PREFACE, answer, frame, greeted, head, is_closed, silent, streamed,
};
use agewise_server::protocol::coordinator_client::CoordinatorClient;
use agewise_server::tls::{ServerIdentity, TrialCertificates};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::transport::Endpoint;

const TICK: Duration = Duration::from_millis(50);
/// Far beyond what the coordinator allows in these tests, also on a busy machine.
const LONG: Duration = PATIENCE;

/// Sends these bytes over and over, one at a time, until the other side has had enough.
async fn drip(mut stream: TcpStream, bytes: &[u8]) {
    let begun = Instant::now();
    for byte in bytes.iter().cycle() {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        assert!(begun.elapsed() < LONG, "the connection is still open");
        tokio::time::sleep(TICK).await;
    }
}

/// Drips a preface, a head, and the body of a call.
async fn unauthenticated(target: Target) {
    loop {
        let preface = async { drip(silent(&target.url).await, PREFACE).await };
        let head_of_call = async {
            let bytes = frame(HEADERS, END_HEADERS, 1, &head("Join"));
            drip(greeted(&target.url).await, &bytes[..bytes.len() - 1]).await;
        };
        let body = async {
            let mut stream = greeted(&target.url).await;
            stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head("Enrol"))).await.unwrap();
            stream.write_all(&frame(DATA, 0, 1, &[0, 0, 0, 0, 200])).await.unwrap();
            // Whole frames with one byte of the message each.
            drip(stream, &frame(DATA, 0, 1, &[1])).await;
        };
        let nothing = async {
            let mut stream = silent(&target.url).await;
            assert!(is_closed(&mut stream, LONG).await, "the connection is still open");
        };
        tokio::join!(preface, head_of_call, body, nothing);
    }
}

/// Has authenticated, and drips a call.
async fn authenticated(target: Target) {
    let mut attacker = target.attacker(0).await;
    loop {
        // On an authenticated connection, so that only the deadline of the call ends it.
        attacker.join(u64::MAX, 0, &[]).await.unwrap();
        let begun = Instant::now();
        let bytes = [vec![0, 0, 0, 0, 200], vec![8; 199]].concat();
        let body = tokio_stream::iter(bytes).map(|byte| vec![byte]).throttle(TICK);
        let mut channel =
            Endpoint::from_shared(target.url.clone()).unwrap().connect().await.unwrap();
        let code = soon("an answer", answer(&mut channel, "Join", None, streamed(body))).await;
        // An unauthenticated connection is closed first.
        assert!(matches!(code, Some(Code::DeadlineExceeded) | None), "{code:?}");
        assert!(begun.elapsed() < LONG);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dripping_connection_is_closed() {
    let attack = |target: Target| async move {
        tokio::join!(unauthenticated(target.clone()), authenticated(target));
    };
    let hurried = |params: &mut agewise_server::CoordinatorParams| {
        params.limits.handshake_seconds = 1.0;
        params.limits.call_seconds = 3.0;
    };
    let played = play("attackers-drips", hurried, attack).await;
    played.is_as_without().await;
    assert!(played.connections("timed-out") >= 4.0, "{}", played.connections("timed-out"));
    // Within the last second a few have come again.
    assert!(played.connections("open") <= 10.0, "{} connections", played.connections("open"));
}

/// A client that is known drips calls and a report on its own connection: they end after their time, and the connection lives on.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_known_client_have_their_time() {
    let mut params = settings(&folder("attackers-drip-known"), 5, 1);
    params.limits.call_seconds = 1.0;
    params.round.join_seconds = 1.0;
    params.round.report_seconds = 2.0;
    let site = Site::open(params, 10).await;
    let mut channel = Endpoint::from_shared(site.url.clone()).unwrap().connect().await.unwrap();
    let calls = CoordinatorClient::new(channel.clone());
    let mut attacker = RawClient::enrol_over(calls, "a", &identity("a"), None).await.unwrap();
    for (method, seconds) in [("Join", 1), ("Watch", 1), ("FetchModel", 1), ("Report", 2)] {
        assert!(attacker.join(0, 0, &[]).await.is_ok());
        let begun = Instant::now();
        let bytes = [vec![0, 0, 0, 0, 200], vec![8; 199]].concat();
        let body = tokio_stream::iter(bytes).map(|byte| vec![byte]).throttle(TICK);
        let code = soon("an answer", answer(&mut channel, method, None, streamed(body))).await;
        assert_eq!(code, Some(Code::DeadlineExceeded), "{method}");
        // Not before its time; how long after it depends on the machine.
        assert!(begun.elapsed() >= Duration::from_secs(seconds), "{method}");
    }
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_drips_is_cut_off() {
    let mut params = settings(&folder("attackers-drip-tls"), 5, 1);
    params.limits.handshake_seconds = 1.0;
    let trial = TrialCertificates::new(&["127.0.0.1".to_string()]).unwrap();
    let identity = ServerIdentity::from_pem(trial.certificate.as_bytes(), trial.key.as_bytes());
    let site = Site::open_with(params, 10, |made| made.with_identity(identity)).await;
    let mut stream = silent(&site.url).await;
    // The head of a handshake that announces 16 KiB.
    stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).await.unwrap();
    drip(stream, &[3]).await;
    let name = "agewise_connections_closed_total{why=\"timed-out\"}";
    assert_eq!(site.metric(name).await, 1.0);
    site.close().await;
}
