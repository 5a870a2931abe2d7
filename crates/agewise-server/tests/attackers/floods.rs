//! Those who ask for much, and often.

use crate::attacked_run::{ATTACKERS, Target, play};
use crate::common::folder;
use crate::common::raw_client::{RawClient, challenge, enrolment, identity};
use crate::common::site::{Site, connect, settings, soon};
use crate::frames::{
    DATA, END_HEADERS, HEADERS, RESET, frame, framed, greeted, head, is_closed, silent,
};
use agewise_server::protocol::{CallSignature, ChallengeRequest, JoinRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tonic::Code;

/// Makes good calls as fast as it can.
async fn hasty(target: Target) {
    let mut attacker = target.attacker(0).await;
    loop {
        match attacker.join(u64::MAX, 0, &[]).await {
            Ok(reply) => assert!(reply.why.starts_with("round"), "{reply:?}"),
            Err(status) if status.code() == Code::ResourceExhausted => {
                assert!(status.message().starts_with("rate"), "{status}");
            }
            // The connection was closed: it comes back as soon as it is let in.
            Err(_) => loop {
                let name = ATTACKERS[0];
                let again = RawClient::try_enrol(&target.url, name, &identity(name), None).await;
                if let Ok(again) = again {
                    attacker = again;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            },
        }
    }
}

/// Makes calls of which none is signed, until the connection is closed.
async fn unsigned(target: Target) {
    let call_signature = Some(CallSignature { counter: 1, signature: vec![7; 64] });
    let run = target.attacker(1).await.run();
    // No client has this number.
    let join =
        JoinRequest { client: 77_777, run, round: 0, age: 5, proof: vec![1; 96], call_signature };
    let body = framed(&prost_bytes(&join));
    loop {
        let mut stream = greeted(&target.url).await;
        for call in 0..100 {
            let number = 2 * call + 1;
            let bytes =
                [frame(HEADERS, END_HEADERS, number, &head("Join")), frame(DATA, 1, number, &body)];
            if stream.write_all(&bytes.concat()).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(is_closed(&mut stream, Duration::from_secs(20)).await, "still open");
    }
}

pub(crate) fn prost_bytes(message: &impl prost::Message) -> Vec<u8> {
    message.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_calls_are_refused_and_cut_off() {
    let attack = |target: Target| async move {
        tokio::join!(hasty(target.clone()), unsigned(target.clone()), asks_for_challenges(target));
    };
    let slow =
        |params: &mut agewise_server::CoordinatorParams| params.limits.calls_per_second = 20.0;
    let played = play("attackers-hasty", slow, attack).await;
    played.is_as_without().await;
    assert!(played.refused(0, "rate") >= 1, "{:?}", played.refusals());
    assert!(played.refused(-1, "session") >= 1, "{:?}", played.refusals());
    // Of the attackers' connections, at most those at the very end are left.
    assert!(played.connections("open") <= 5.0, "{} connections", played.connections("open"));
}

/// Asks for challenges and does nothing with them.
async fn asks_for_challenges(target: Target) {
    let mut calls = connect(&target.url).await;
    loop {
        // Unauthenticated are closed after a while, and this one connects again by itself.
        calls.challenge(ChallengeRequest {}).await.ok();
        tokio::task::yield_now().await;
    }
}

/// Three thousand silent connections, while an honest client comes and goes.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_push_out_each_other() {
    let opened = Arc::new(AtomicU32::new(0));
    let count = opened.clone();
    let attack = |target: Target| async move {
        // The honest ones are known by now.
        target.joining(1).await;
        let mut streams = Vec::new();
        for _ in 0..3_000 {
            streams.push(silent(&target.url).await);
            count.fetch_add(1, Ordering::Relaxed);
        }
        soon("a way in", target.attacker(1)).await;
        std::future::pending::<()>().await;
    };
    let few = |params: &mut agewise_server::CoordinatorParams| {
        params.limits.unauthenticated = 50;
        params.limits.handshake_seconds = 2.0;
    };
    let played = play("attackers-silent", few, attack).await;
    played.is_as_without().await;
    let (opened, evicted) = (opened.load(Ordering::Relaxed), played.connections("evicted"));
    let closed = evicted + played.connections("timed-out");
    assert!(evicted > 100.0 && closed + 60.0 >= f64::from(opened), "{closed} of {opened}");
    assert_eq!(played.connections("rejected"), 0.0);
    assert!(played.connections("open") <= 5.0, "{} connections", played.connections("open"));
}

/// Ten thousand calls that are opened and reset at once.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_opened_and_reset_end_the_connection() {
    let attack = |target: Target| async move {
        for _ in 0..5 {
            let mut stream = greeted(&target.url).await;
            let mut sent = 0;
            while sent < 10_000 {
                let number = 2 * sent + 1;
                let bytes = [
                    frame(HEADERS, END_HEADERS, number, &head("Join")),
                    frame(RESET, 0, number, &[0, 0, 0, 8]),
                ];
                if stream.write_all(&bytes.concat()).await.is_err() {
                    break;
                }
                sent += 1;
            }
            assert!(is_closed(&mut stream, Duration::from_secs(20)).await, "still open");
        }
    };
    let patient = |params: &mut agewise_server::CoordinatorParams| {
        // So that it is not handshake_timeout that ends it.
        params.limits.handshake_seconds = 600.0;
    };
    let played = play("attackers-reset", patient, attack).await;
    played.is_as_without().await;
    assert_eq!(played.connections("timed-out"), 0.0);
}

/// Enrolling is a call like others: a client that does nothing else is too fast at some point.
#[tokio::test(flavor = "multi_thread")]
async fn enrolling_again_and_again_is_too_fast() {
    let mut params = settings(&folder("attackers-enrol-flood"), 5, 1);
    params.limits.calls_per_second = 20.0;
    let site = Site::open(params, 10).await;
    let a = RawClient::enrol(&site.url, "a", None).await;
    let mut calls = a.calls.clone();
    let mut refused = 0;
    for _ in 0..400 {
        let Ok(challenge) = challenge(&mut calls).await else { continue };
        let request = enrolment(challenge, "a", &a.identity, None);
        refused += u32::from(calls.enrol(request).await.is_err());
    }
    assert!(refused > 0, "400 enrolments of one client in a row, and none was too many");
    site.close().await;
}

/// One client on every connection that there is: another one has to find a place.
#[tokio::test(flavor = "multi_thread")]
async fn one_client_cannot_take_all_connections() {
    let mut params = settings(&folder("attackers-connections"), 5, 1);
    params.limits.connections = 30;
    params.limits.unauthenticated = 10;
    let site = Site::open(params, 10).await;
    let key = identity("greedy");
    let mut kept = Vec::new();
    for _ in 0..40 {
        // Each of them is a session of the same client, and so on an authenticated connection.
        let trying = RawClient::try_enrol(&site.url, "greedy", &key, None);
        if let Ok(Ok(attacker)) = tokio::time::timeout(Duration::from_secs(2), trying).await {
            kept.push(attacker);
        } else {
            break;
        }
    }
    let honest = identity("honest");
    let coming = RawClient::try_enrol(&site.url, "honest", &honest, None);
    let came = tokio::time::timeout(Duration::from_secs(5), coming).await;
    let sessions = kept.len();
    assert!(matches!(came, Ok(Ok(_))), "locked out by {sessions} connections of one client");
    drop(kept);
    site.close().await;
}
