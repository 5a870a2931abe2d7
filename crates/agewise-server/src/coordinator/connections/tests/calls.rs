//! Calls on an authenticated connection.

use super::super::CallDeadlines;
use super::super::request_limits::LARGEST_REQUEST;
use super::{AGES, NO_HURRY, TICK, TestServer, eventually, roomy};
use crate::protocol::{ReportPart, StatusRequest, WatchRequest, report_part};
use std::io;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt};
use tonic::codegen::Service as _;
use tonic::codegen::http;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// The status that a call is answered with while its request is still coming in.
async fn early_status(
    channel: &mut Channel,
    method: &str,
    bytes: impl Stream<Item = Vec<u8>> + Send + 'static,
) -> Status {
    let bytes = bytes.map(Ok::<_, io::Error>).chain(tokio_stream::pending());
    let body = axum::body::Body::from_stream(bytes);
    let request = http::Request::post(format!("/agewise.v1.Coordinator/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(body))
        .unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    let answer = timeout(Duration::from_secs(30), channel.call(request)).await.unwrap().unwrap();
    Status::from_header_map(answer.headers()).expect("a status instead of an answer")
}

#[tokio::test]
async fn a_request_that_drips_is_cut_off_and_announcements_are_not() {
    let short = Duration::from_secs(1);
    let server =
        TestServer::with(roomy(AGES), CallDeadlines { short, report: short * 3 }, false).await;
    let mut client = server.client().await;
    let mut news = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    let mut channel = server.channel().await;
    for (method, limit) in [("Join", short), ("Watch", short), ("Report", short * 3)] {
        let begun = Instant::now();
        // A message of 100 bytes, uncompressed, of which the last never comes.
        let message = [vec![0, 0, 0, 0, 100], vec![0; 99]].concat();
        let bytes = tokio_stream::iter(message).map(|byte| vec![byte]).throttle(TICK);
        let status = early_status(&mut channel, method, bytes).await;
        assert_eq!(status.code(), Code::DeadlineExceeded, "{method}: {status}");
        assert!(begun.elapsed() >= limit, "{method}: {:?}", begun.elapsed());
        // More announcements than can wait in the connection are not needed to see that it lives.
        news.message().await.unwrap().unwrap();
    }
    client.status(StatusRequest {}).await.unwrap();
    assert_eq!(server.counters.accepted(), 2);
}

#[tokio::test]
async fn an_update_of_seven_megabytes_comes_through() {
    for has_tls in [false, true] {
        let server = TestServer::with(roomy(AGES), NO_HURRY, has_tls).await;
        let mut client = server.client().await;
        let part = ReportPart { part: Some(report_part::Part::Data(vec![7; 1 << 20].into())) };
        let parts = tokio_stream::iter(vec![part; 7]);
        let reply = client.report(parts).await.unwrap().into_inner();
        assert_eq!(reply.waiting_since, 7 << 20);
    }
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let server = TestServer::open(roomy(AGES)).await;
    let mut client = server.client().await;
    let mut request = Request::new(StatusRequest {});
    request.metadata_mut().insert("padding", "x".repeat(16 << 10).parse().unwrap());
    client.status(request).await.unwrap_err();
    assert_eq!(server.connections.lock().len(), 1, "the service has not seen it");
}

#[tokio::test]
async fn a_request_that_does_not_end_is_refused_before_it_is_kept() {
    let server = TestServer::open(roomy(AGES)).await;
    let mut channel = server.channel().await;
    // It says that 1 MiB follows.
    let message = [vec![0, 0, 0x10, 0, 0], vec![0; LARGEST_REQUEST]].concat();
    let status = early_status(&mut channel, "Enrol", tokio_stream::iter([message])).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}

#[tokio::test]
async fn a_second_report_on_a_connection_waits_for_the_first() {
    let server = TestServer::open(roomy(AGES)).await;
    let client = server.client().await;
    let reports = || server.connections.lock().len() - 1;
    let first = tokio::spawn({
        let mut client = client.clone();
        async move { client.report(tokio_stream::pending()).await }
    });
    eventually("the first has begun", || reports() == 1).await;
    let second = tokio::spawn({
        let mut client = client.clone();
        async move { client.report(tokio_stream::empty()).await }
    });
    // Other calls on the connection never wait; they were sent after the second report.
    for _ in 0..3 {
        client.clone().status(StatusRequest {}).await.unwrap();
    }
    assert_eq!(reports(), 4, "the first report and three other calls");
    // Giving up makes room as well.
    server.client().await.report(tokio_stream::empty()).await.unwrap();
    assert!(!second.is_finished());
    first.abort();
    timeout(Duration::from_secs(30), second).await.unwrap().unwrap().unwrap();
}
