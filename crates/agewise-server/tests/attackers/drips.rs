//! Those who take their time.

use crate::common::folder;
use crate::frames::{
    DATA, END_HEADERS, HEADERS, PREFACE, answer, frame, greeted, head, is_closed, silent, streamed,
};
use crate::game::{Scene, play};
use crate::site::{Site, settings, soon};
use crate::villain::{Villain, identity};
use agewise_server::protocol::coordinator_client::CoordinatorClient;
use agewise_server::tls::{ServerIdentity, TrialCertificates};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::transport::Endpoint;

const TICK: Duration = Duration::from_millis(50);
/// Far beyond what the coordinator allows in these tests.
const LONG: Duration = Duration::from_secs(20);

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
async fn stranger(scene: Scene) {
    loop {
        let preface = async { drip(silent(&scene.url).await, PREFACE).await };
        let head_of_call = async {
            let bytes = frame(HEADERS, END_HEADERS, 1, &head("Join"));
            drip(greeted(&scene.url).await, &bytes[..bytes.len() - 1]).await;
        };
        let body = async {
            let mut stream = greeted(&scene.url).await;
            stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head("Enrol"))).await.unwrap();
            stream.write_all(&frame(DATA, 0, 1, &[0, 0, 0, 0, 200])).await.unwrap();
            // Whole frames with one byte of the message each.
            drip(stream, &frame(DATA, 0, 1, &[1])).await;
        };
        let nothing = async {
            let mut stream = silent(&scene.url).await;
            assert!(is_closed(&mut stream, LONG).await, "the connection is still open");
        };
        tokio::join!(preface, head_of_call, body, nothing);
    }
}

/// Is known, and drips a call.
async fn acquaintance(scene: Scene) {
    let mut villain = scene.villain(0).await;
    loop {
        // On a connection that is welcome, so that nothing but the time of the call ends it.
        villain.join(u64::MAX, 0, &[]).await.unwrap();
        let begun = Instant::now();
        let bytes = [vec![0, 0, 0, 0, 200], vec![8; 199]].concat();
        let body = tokio_stream::iter(bytes).map(|byte| vec![byte]).throttle(TICK);
        let mut channel =
            Endpoint::from_shared(scene.url.clone()).unwrap().connect().await.unwrap();
        let code = soon("an answer", answer(&mut channel, "Join", None, streamed(body))).await;
        // As a stranger its connection is closed first.
        assert!(matches!(code, Some(Code::DeadlineExceeded) | None), "{code:?}");
        assert!(begun.elapsed() < LONG);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_drips_is_cut_off() {
    let attack = |scene: Scene| async move {
        tokio::join!(stranger(scene.clone()), acquaintance(scene));
    };
    let hurried = |params: &mut agewise_server::CoordinatorParams| {
        params.limits.handshake_seconds = 1.0;
        params.limits.call_seconds = 3.0;
    };
    let played = play("attackers-drips", hurried, attack).await;
    played.is_as_without().await;
    assert!(played.door("timed-out") >= 8.0, "{}", played.door("timed-out"));
    // Within the last second a few have come again.
    assert!(played.door("open") <= 10.0, "{} connections", played.door("open"));
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
    let mut villain = Villain::enrol_over(calls, "a", &identity("a"), None).await.unwrap();
    for (method, seconds) in [("Join", 1), ("Watch", 1), ("FetchModel", 1), ("Report", 2)] {
        assert!(villain.join(0, 0, &[]).await.is_ok(), "welcome");
        let begun = Instant::now();
        let bytes = [vec![0, 0, 0, 0, 200], vec![8; 199]].concat();
        let body = tokio_stream::iter(bytes).map(|byte| vec![byte]).throttle(TICK);
        let code = soon("an answer", answer(&mut channel, method, None, streamed(body))).await;
        assert_eq!(code, Some(Code::DeadlineExceeded), "{method}");
        let took = begun.elapsed();
        let expected = Duration::from_secs(seconds)..Duration::from_secs(seconds + 8);
        assert!(expected.contains(&took), "{method}: {took:?}");
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
    let begun = Instant::now();
    let mut stream = silent(&site.url).await;
    // The head of a handshake that announces 16 KiB.
    stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).await.unwrap();
    drip(stream, &[3]).await;
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    let name = "agewise_connections_closed_total{why=\"timed-out\"}";
    assert_eq!(site.metric(name).await, 1.0);
    site.close().await;
}
