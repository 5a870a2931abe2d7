//! Attackers that send more than the coordinator can keep or unpack.

use crate::attacked_run::{Target, play};
use crate::common::folder;
use crate::common::site::{Site, settings, soon};
use crate::frames::{
    CONTINUATION, END_HEADERS, HEADERS, answer, frame, greeted, head, is_closed, literal, memory,
    streamed, whole,
};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

const METHODS: [&str; 8] =
    ["Challenge", "Enrol", "Watch", "Join", "FetchModel", "Report", "Status", "Revoke"];
/// What all attacks together may add to the memory of this process, which has other tests in it as well: 4 GB would not fit.
const MOST_KIB: u64 = 400 << 10;

async fn channel(target: &Target) -> Channel {
    let endpoint = Endpoint::from_shared(target.url.clone()).unwrap();
    soon("a connection", endpoint.connect()).await.unwrap()
}

/// Announces 4 GB, and sends a little, or as much as it is let.
async fn boaster(target: Target) {
    loop {
        for method in METHODS {
            let mut channel = channel(&target).await;
            let body = whole(vec![0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
            let code = soon(method, answer(&mut channel, method, None, body)).await;
            assert!(
                matches!(code, Some(Code::OutOfRange | Code::ResourceExhausted | Code::Internal)),
                "{method}: {code:?}"
            );
            // A small head, and zeros without end behind it: 1 MiB announced.
            let zeros = tokio_stream::iter(
                std::iter::once(vec![0, 0, 0x10, 0, 0]).chain(std::iter::repeat(vec![0; 16 << 10])),
            );
            let code = soon(method, answer(&mut channel, method, None, streamed(zeros))).await;
            assert_ne!(code, Some(Code::Ok), "{method}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends what has to be unpacked.
async fn packer(target: Target) {
    loop {
        for method in METHODS {
            for encoding in ["gzip", "deflate", "zstd", "br"] {
                let mut channel = channel(&target).await;
                let body = whole(vec![1, 0, 0, 0, 4, 0x1f, 0x8b, 8, 0]);
                let code = soon(method, answer(&mut channel, method, Some(encoding), body)).await;
                assert_eq!(code, Some(Code::Unimplemented), "{method}, {encoding}");
                // Packed, without saying how.
                let body = whole(vec![1, 0, 0, 0, 4, 0x1f, 0x8b, 8, 0]);
                let code = soon(method, answer(&mut channel, method, None, body)).await;
                let is_refused = matches!(
                    code,
                    Some(Code::Internal | Code::Unimplemented | Code::InvalidArgument)
                );
                assert!(is_refused, "{method}: {code:?}");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends headers without end.
async fn talker(target: Target) {
    let line = literal("padding", &"x".repeat(100));
    let block: Vec<u8> = std::iter::repeat_n(line, 140).flatten().collect();
    loop {
        let mut stream = greeted(&target.url).await;
        stream.write_all(&frame(HEADERS, 0, 1, &head("Join"))).await.unwrap();
        let mut sent = 0;
        // 64 MiB, if it is let.
        while sent < 64 << 20 {
            if stream.write_all(&frame(CONTINUATION, 0, 1, &block)).await.is_err() {
                break;
            }
            sent += block.len();
        }
        assert!(sent < 64 << 20, "64 MiB of headers were taken");
        assert!(is_closed(&mut stream, Duration::from_secs(20)).await, "still open");
        // One megabyte that ends.
        let mut stream = greeted(&target.url).await;
        stream.write_all(&frame(HEADERS, 0, 1, &head("Join"))).await.unwrap();
        for part in 0..72 {
            let flags = if part == 71 { END_HEADERS } else { 0 };
            if stream.write_all(&frame(CONTINUATION, flags, 1, &block)).await.is_err() {
                break;
            }
        }
        drop(stream);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_not_kept() {
    let before = memory("VmRSS");
    let attack = |target: Target| async move {
        tokio::join!(boaster(target.clone()), packer(target.clone()), talker(target));
    };
    let played = play("attackers-bombs", |_| {}, attack).await;
    played.is_as_without().await;
    assert!(played.connections("open") <= 10.0, "{} connections", played.connections("open"));
    if let (Some(before), Some(most)) = (before, memory("VmHWM")) {
        assert!(most < before + MOST_KIB, "{before} KiB, at the highest point {most} KiB");
    }
}

/// Three bytes that no message begins with.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_no_message_is_the_callers_fault() {
    let site = Site::open(settings(&folder("attackers-garbage"), 2, 1), 4).await;
    let endpoint = Endpoint::from_shared(site.url.clone()).unwrap();
    for method in METHODS {
        let mut channel = soon("a connection", endpoint.connect()).await.unwrap();
        let body = whole(vec![0, 0, 0, 0, 3, 0xff, 0xff, 0xff]);
        let code = soon(method, answer(&mut channel, method, None, body)).await;
        assert_eq!(code, Some(Code::InvalidArgument), "{method}");
    }
    site.close().await;
}
