//! Replayed calls, and calls under the number of another client.

use crate::attacked_run::{Target, play};
use crate::common::folder;
use crate::common::raw_client::{RawClient, data_part, header_part};
use crate::common::site::{Site, connect, settings};
use agewise_server::crypto::signing::sign_enrolment;
use agewise_server::protocol::{EnrolRequest, FetchModelRequest, JoinRequest, WatchRequest};
use std::time::Duration;
use tonic::{Code, Status};

fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, reason: &str) {
    let status = answer.unwrap_err();
    assert!(status.message().starts_with(reason), "{status}, expected {reason}");
}

/// Makes calls and repeats them byte for byte, on the same connection and on a new one.
async fn parrot(target: Target) {
    loop {
        let mut attacker = target.attacker(0).await;
        let seen = target.joining(0).await;
        let age = attacker.age(seen.round);
        let join = attacker.join_request(seen.round, age, &[]);
        let join = attacker.sign(join);
        let bytes = vec![0; 4 * attacker.parameters()];
        let fetch = attacker.fetch_request(seen.round);
        let header = attacker.header(seen.round, seen.model, &bytes);
        let header = attacker.sign(header);
        let report = || tokio_stream::iter(vec![header_part(header.clone()), data_part(&bytes)]);
        // Once, as it should be; none of it is allowed, but all of it is heard.
        attacker.calls.join(join.clone()).await.unwrap();
        assert_eq!(
            attacker.calls.fetch_model(fetch.clone()).await.unwrap_err().code(),
            Code::Aborted
        );
        attacker.calls.report(report()).await.unwrap();
        refused(attacker.calls.join(join.clone()).await, "replay");
        refused(attacker.calls.fetch_model(fetch.clone()).await, "replay");
        refused(attacker.calls.report(report()).await, "replay");
        // The signature of one call on another one.
        let other =
            FetchModelRequest { call_signature: join.call_signature.clone(), ..fetch.clone() };
        refused(attacker.calls.fetch_model(other).await, "signature");
        let changed = JoinRequest { age: join.age + 1, ..join.clone() };
        refused(attacker.calls.join(changed).await, "signature");
        // On another connection there is no session.
        attacker.reconnect(&target.url).await;
        refused(attacker.calls.join(join.clone()).await, "session");
        refused(attacker.calls.fetch_model(fetch.clone()).await, "session");
        refused(attacker.calls.report(report()).await, "session");
        refused(attacker.calls.enrol(attacker.enrolment.clone()).await, "replay");
        // A newer session ends the older one, and a call of the older one is worth nothing in it.
        let mut newer = target.attacker(0).await;
        refused(attacker.join(seen.round, age, &[]).await, "session");
        refused(newer.calls.join(join).await, "signature");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_said_can_be_said_again() {
    let played = play("attackers-replays", |_| {}, parrot).await;
    played.is_as_without().await;
    assert!(played.refused(0, "replay") >= 4, "{:?}", played.refusals());
    assert!(played.refusals().iter().any(|(_, reason, _)| reason == "signature"));
}

/// Calls under the numbers of honest clients, with a key of its own: the honest ones have nothing to do with it, and are not to be blamed.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_calls_under_the_number_of_another() {
    let attack = |target: Target| async move {
        loop {
            let mut attacker = target.attacker(2).await;
            let seen = target.joining(0).await;
            for client in [3, 14, 4_000_000_000] {
                let (run, round, call_signature) = (attacker.run(), seen.round, None);
                let watch =
                    attacker.sign(WatchRequest { client, run: run.clone(), call_signature: None });
                // Their sessions are on their connections.
                let why = "session";
                refused(attacker.calls.watch(watch).await, why);
                let join =
                    JoinRequest { client, run, round, age: 5, proof: Vec::new(), call_signature };
                let join = attacker.sign(join);
                refused(attacker.calls.join(join).await, why);
                attacker.reconnect(&target.url).await;
                let bytes = vec![0; 4 * attacker.parameters()];
                let mut header = attacker.header(round, seen.model, &bytes);
                header.client = client;
                refused(attacker.send(header, &bytes).await, why);
                attacker.reconnect(&target.url).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let played = play("attackers-impersonator", |_| {}, attack).await;
    played.has_the_same_model().await;
    assert!(played.refused(-1, "session") >= 3, "{:?}", played.refusals());
    played.blames_no_honest_client();
}

/// An enrolment that was heard on the way tells the coordinator nothing new, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_enrolment_has_no_effect() {
    // No client listens, so no round begins.
    let site = Site::open(settings(&folder("attackers-enrolments"), 5, 1), 10).await;
    let first = RawClient::enrol(&site.url, "a", None).await;
    let mut calls = connect(&site.url).await;
    let challenge = crate::common::raw_client::challenge(&mut calls).await.unwrap();
    let more =
        EnrolRequest { name: "a".to_string(), samples: 20, challenge, ..EnrolRequest::default() };
    calls.enrol(sign_enrolment(more, &first.identity)).await.unwrap();
    let samples = "SELECT samples FROM clients WHERE name = 'a'";
    assert_eq!(site.count(samples), 20);
    refused(calls.enrol(first.enrolment.clone()).await, "replay");
    assert_eq!(site.count(samples), 20, "what a replayed enrolment says was believed");
    site.close().await;
}

/// Enrolling again on the same connection begins a new session there, and does not close it.
#[tokio::test(flavor = "multi_thread")]
async fn enrolling_again_on_the_same_connection_keeps_it() {
    let site = Site::open(settings(&folder("attackers-same-connection"), 5, 1), 10).await;
    let first = RawClient::enrol(&site.url, "a", None).await;
    let again = RawClient::enrol_over(first.calls, "a", &first.identity, None).await;
    let mut again = again.unwrap();
    assert!(again.join(0, 0, &[]).await.is_ok());
    site.close().await;
}

/// Who repeats the enrolment of another uses up nothing of what that one may do.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_enrolment_costs_its_owner_nothing() {
    let mut params = settings(&folder("attackers-allowance"), 5, 1);
    // Hardly more than a burst of 20 calls, for as long as the test takes.
    params.limits.calls_per_second = 4.0;
    params.limits.call_seconds = 60.0;
    let site = Site::open(params, 10).await;
    let mut honest = RawClient::enrol(&site.url, "a", None).await;
    for _ in 0..20 {
        let mut calls = connect(&site.url).await;
        for _ in 0..6 {
            calls.enrol(honest.enrolment.clone()).await.unwrap_err();
        }
    }
    let reply = honest.join(0, 0, &[]).await;
    assert!(reply.is_ok(), "an honest client pays for what others repeat: {reply:?}");
    site.close().await;
}
