//! HTTP/2 by hand, for those who do not keep to it.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::{Service as _, http};
use tonic::transport::Channel;
use tonic::{Code, Status};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
const SETTINGS: u8 = 4;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_HEADERS: u8 = 4;

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A header as a literal that is not indexed, without compression; both parts are shorter than 127 bytes.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(value.len() as u8);
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

/// The head of a call.
pub(crate) fn head(method: &str) -> Vec<u8> {
    let path = format!("/agewise.v1.Coordinator/{method}");
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", &path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    .iter()
    .flat_map(|(name, value)| literal(name, value))
    .collect()
}

/// The address in a URL.
pub(crate) fn address(url: &str) -> SocketAddr {
    url.rsplit('/').next().unwrap().parse().unwrap()
}

/// A connection with nothing on it.
pub(crate) async fn silent(url: &str) -> TcpStream {
    TcpStream::connect(address(url)).await.unwrap()
}

/// A connection on which calls can be made.
pub(crate) async fn greeted(url: &str) -> TcpStream {
    let mut stream = silent(url).await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    // Its settings, and that it has seen ours.
    stream.write_all(&frame(SETTINGS, 1, 0, &[])).await.unwrap();
    stream
}

/// Reads until the other side has closed the connection; `false` if it has not after this time.
pub(crate) async fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    let mut bytes = [0; 4_096];
    let reading = async { while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(within, reading).await.is_ok()
}

/// What a call is answered with whose request is these bytes: a gRPC code, or `None` if the connection broke.
pub(crate) async fn answer(
    channel: &mut Channel,
    method: &str,
    encoding: Option<&str>,
    body: Body,
) -> Option<Code> {
    let mut request = http::Request::post(format!("/agewise.v1.Coordinator/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(encoding) = encoding {
        request = request.header("grpc-encoding", encoding);
    }
    let request = request.body(body).unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.ok()?;
    let answer = channel.call(request).await.ok()?;
    // An answer that goes well has its status behind it.
    Some(Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code()))
}

/// A message as gRPC frames it: not compressed, with its true length.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// A request that is these bytes and nothing else.
pub(crate) fn whole(bytes: Vec<u8>) -> Body {
    Body::new(axum::body::Body::from(bytes))
}

/// A request of bytes that come one after the other.
pub(crate) fn streamed(bytes: impl Stream<Item = Vec<u8>> + Send + 'static) -> Body {
    Body::new(axum::body::Body::from_stream(bytes.map(Ok::<_, std::io::Error>)))
}

/// A figure of this process in KiB, such as `VmRSS`; `None` where the system does not tell.
pub(crate) fn memory(figure: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
