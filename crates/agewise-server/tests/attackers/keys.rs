//! Attackers with stolen keys and tokens, and with keys that were chosen for their draws.

use crate::attacked_run::{ATTACKERS, ROUNDS, Snapshot, Target, play};
use crate::common::ledger;
use crate::common::raw_client::{RawClient, challenge, enrolment, identity};
use crate::common::site::connect;
use agewise_core::Draw;
use agewise_server::CoordinatorParams;
use agewise_server::crypto::Identity;
use agewise_server::crypto::token::Token;
use agewise_server::crypto::vrf::DrawContext;
use agewise_server::protocol::{RevokeRequest, StatusRequest, join_reply};
use std::time::Duration;
use tonic::{Code, Request};

/// The first of some keys whose draw wins in a round that is announced, and the proof of the draw.
fn grind(run: &[u8], seen: &Snapshot, wins: impl Fn(Draw) -> bool) -> (Identity, Vec<u8>) {
    let context = DrawContext { run, round: seen.round, seed: &seen.seed };
    let key = |number: u32| {
        let mut secret = [0xab; 32];
        secret[..4].copy_from_slice(&number.to_le_bytes());
        Identity::from_secret(secret)
    };
    let tried = (0..10_000).map(key).map(|key| (context.draw(&key), key));
    let found = tried.into_iter().find(|((drawn, _), _)| wins(*drawn));
    let ((_, proof), key) = found.expect("a key whose draw wins");
    (key, proof)
}

/// Enrols in the middle of the last round, with a key whose draw wins whatever its age is. Later rounds would have another number of clients.
async fn late_grinder(target: Target) {
    let seen = target.joining(ROUNDS - 1).await;
    let run = run_of(&target);
    let (key, proof) =
        tokio::task::block_in_place(|| grind(&run, &seen, |drawn| drawn.unit() < 0.01));
    let spare = &target.tokens.spare;
    let attacker = RawClient::try_enrol(&target.url, "late", &key, Some(spare)).await;
    let mut attacker = attacker.unwrap();
    for age in [attacker.age(seen.round), 0, 5, 10] {
        let reply = attacker.join(seen.round, age, &proof).await.unwrap();
        let outcome = reply.outcome();
        assert_eq!(outcome, join_reply::Outcome::Closed, "{reply:?}, {seen:?}");
    }
}

fn run_of(target: &Target) -> Vec<u8> {
    let query = "SELECT value FROM run WHERE key = 'id'";
    ledger(&target.state).query_row(query, [], |row| row.get(0)).unwrap()
}

/// Takes another key in the middle of a round in which its age alone would be enough for any draw.
async fn renewer(target: Target) {
    let before = target.attacker(2).await;
    let wins = |seen: &Snapshot| seen.rule().may_take_part(before.age(seen.round));
    let mut seen = target.joining(0).await;
    while !wins(&seen) {
        seen = target.joining(seen.round + 1).await;
    }
    let run = before.run();
    let age = before.age(seen.round);
    let (rule, client) = (seen.rule(), before.client());
    let wins = |drawn| rule.takes_part(seen.round, client, age, drawn);
    let (key, proof) = tokio::task::block_in_place(|| grind(&run, &seen, wins));
    let token = &target.tokens.for_attacker_2;
    let mut attacker =
        RawClient::try_enrol(&target.url, ATTACKERS[2], &key, Some(token)).await.unwrap();
    assert_eq!(attacker.client(), before.client());
    let reply = attacker.join(seen.round, age, &proof).await.unwrap();
    assert_eq!(reply.outcome(), join_reply::Outcome::Refused, "{reply:?}");
    assert!(reply.why.starts_with("proof"), "{reply:?}");
    // The old key is not registered any more, and the token is spent.
    let again = RawClient::try_enrol(&target.url, ATTACKERS[2], &before.identity, None).await;
    assert_eq!(again.err().unwrap().code(), Code::Unauthenticated);
    let again =
        RawClient::try_enrol(&target.url, ATTACKERS[2], &before.identity, Some(token)).await;
    assert_eq!(again.err().unwrap().code(), Code::Unauthenticated);
}

/// Tries every token but a good one, over and over.
async fn token_thief(target: Target) {
    let tokens = target.tokens.clone();
    let key = identity("thief");
    loop {
        let random = Token::generate().unwrap();
        for (token, name, why) in [
            (None, "thief", "token"),
            (Some(&tokens.used[0]), "thief", "token"),
            (Some(&tokens.observer), "thief", "token"),
            (Some(&tokens.for_another), "thief", "token"),
            (Some(&random), "thief", "token"),
            (Some(&tokens.revoked), "thief", "revoked"),
        ] {
            let refused = RawClient::try_enrol(&target.url, name, &key, token).await.err().unwrap();
            assert!(refused.message().starts_with(why), "{refused}");
            if let Some(token) = token {
                let secret = token.reveal();
                let secret = secret.rsplit('_').next().unwrap();
                assert!(!refused.message().contains(secret), "a secret is told");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Looks and revokes without being allowed to.
async fn snoop(target: Target) {
    let tokens = target.tokens.clone();
    let bearing =
        |token: Option<&str>| token.map(|token| format!("Bearer {token}").parse().unwrap());
    loop {
        let mut calls = connect(&target.url).await;
        let used = tokens.used[1].reveal();
        let garbage = "agewise_00_11";
        for (token, code) in [
            (None, Code::Unauthenticated),
            (Some(garbage), Code::Unauthenticated),
            (Some(used.as_str()), Code::PermissionDenied),
        ] {
            let mut request = Request::new(StatusRequest {});
            if let Some(value) = bearing(token) {
                request.metadata_mut().insert("authorization", value);
            }
            let refused = calls.status(request).await.unwrap_err();
            assert_eq!(refused.code(), code, "{refused}");
        }
        let mut request = Request::new(RevokeRequest { who: "swarm-00000".to_string() });
        let observer = tokens.observer.reveal();
        request.metadata_mut().insert("authorization", bearing(Some(&observer)).unwrap());
        let refused = calls.revoke(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        let request = RevokeRequest { who: "swarm-00000".to_string() };
        let refused = calls.revoke(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_keys_come_too_late() {
    let attack = |target: Target| async move {
        tokio::join!(late_grinder(target.clone()), renewer(target));
    };
    // The keys are tried while the round is open for joining.
    let patient = |params: &mut CoordinatorParams| params.round.join_seconds = 4.0;
    let played = play("attackers-ground", patient, attack).await;
    played.is_as_without().await;
    assert_eq!(played.refused(2, "proof"), 1, "{:?}", played.refusals());
    let late = "SELECT COUNT(*) FROM clients WHERE name = 'late'";
    assert_eq!(ledger(&played.state).query_row(late, [], |row| row.get(0)), Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_good_for_more_than_it_was_made_for() {
    let attack = |target: Target| async move {
        tokio::join!(token_thief(target.clone()), snoop(target));
    };
    let played = play("attackers-tokens", |_| {}, attack).await;
    played.is_as_without().await;
    assert!(played.refused(-1, "token") >= 5, "{:?}", played.refusals());
    assert!(played.refused(-1, "role") >= 2, "{:?}", played.refusals());
    assert!(played.refused(-1, "revoked") >= 1, "{:?}", played.refusals());
}

/// Twenty names at once with the token of one: exactly one of them enrols.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_spent_once_also_at_the_same_moment() {
    let attack = |target: Target| async move {
        // In the last round, as one client more changes those behind it.
        target.joining(ROUNDS - 1).await;
        let mut tries = tokio::task::JoinSet::new();
        for number in 0..20 {
            let target = target.clone();
            tries.spawn(async move {
                let mut calls = connect(&target.url).await;
                let challenge = challenge(&mut calls).await.unwrap();
                let name = format!("twin-{number}");
                let token = Some(&target.tokens.spare);
                let request = enrolment(challenge, &name, &identity(&name), token);
                calls.enrol(request).await.is_ok()
            });
        }
        let enrolled = tries.join_all().await;
        assert_eq!(enrolled.iter().filter(|enrolled| **enrolled).count(), 1);
    };
    let played = play("attackers-twins", |_| {}, attack).await;
    played.is_as_without().await;
    assert_eq!(played.refused(-1, "token"), 19, "{:?}", played.refusals());
}
