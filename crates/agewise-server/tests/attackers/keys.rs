//! Those who come with keys and tokens that are not theirs, or that they have tried out before.

use crate::common::ledger;
use crate::game::{ROUNDS, Scene, Snapshot, VILLAINS, play};
use crate::villain::{Villain, challenge, connect, enrolment, identity};
use agewise_core::Draw;
use agewise_server::crypto::Identity;
use agewise_server::crypto::token::Token;
use agewise_server::crypto::vrf::DrawContext;
use agewise_server::protocol::{RevokeRequest, StatusRequest, join_reply};
use std::time::Duration;
use tonic::{Code, Request};

/// The best of so many keys for the draw of a round that is announced.
fn grind(run: &[u8], seen: &Snapshot, keys: u32) -> (Draw, Identity) {
    let mut best: Option<(Draw, Identity)> = None;
    for number in 0..keys {
        let mut secret = [0xab; 32];
        secret[..4].copy_from_slice(&number.to_le_bytes());
        let identity = Identity::from_secret(secret);
        let (drawn, _) = DrawContext { run, round: seen.round, seed: &seen.seed }.draw(&identity);
        if best.as_ref().is_none_or(|(known, _)| drawn.unit() < known.unit()) {
            best = Some((drawn, identity));
        }
    }
    best.unwrap()
}

/// Enrols in the middle of the last round, with a key whose draw wins whatever its age is. Later rounds would have another number of clients.
async fn late_grinder(scene: Scene) {
    let seen = scene.joining(ROUNDS - 1).await;
    let run = run_of(&scene);
    let (drawn, key) = tokio::task::spawn_blocking({
        let (run, seen) = (run.clone(), seen.clone());
        move || grind(&run, &seen, 2_000)
    })
    .await
    .unwrap();
    assert!(drawn.unit() < 0.01, "2,000 keys are enough: {}", drawn.unit());
    let spare = &scene.tokens.spare;
    let villain = Villain::try_enrol(&scene.url, "late", &key, Some(spare)).await;
    let mut villain = villain.unwrap();
    let (_, proof) = DrawContext { run: &run, round: seen.round, seed: &seen.seed }.draw(&key);
    for age in [villain.age(seen.round), 0, 5, 10] {
        let reply = villain.join(seen.round, age, &proof).await.unwrap();
        let outcome = reply.outcome();
        assert_eq!(outcome, join_reply::Outcome::Closed, "{reply:?}, {seen:?}");
    }
}

fn run_of(scene: &Scene) -> Vec<u8> {
    let query = "SELECT value FROM run WHERE key = 'id'";
    ledger(&scene.state).query_row(query, [], |row| row.get(0)).unwrap()
}

/// Takes another key in the middle of a round in which its age alone would be enough for any draw.
async fn renewer(scene: Scene) {
    let before = scene.villain(2).await;
    let wins = |seen: &Snapshot| seen.rule().may_take_part(before.age(seen.round));
    let mut seen = scene.joining(0).await;
    while !wins(&seen) {
        seen = scene.joining(seen.round + 1).await;
    }
    let run = before.run();
    let (drawn, key) = tokio::task::block_in_place(|| grind(&run, &seen, 500));
    let age = before.age(seen.round);
    assert!(seen.rule().takes_part(seen.round, before.client(), age, drawn), "{seen:?}");
    let token = &scene.tokens.for_villain_2;
    let mut villain = Villain::try_enrol(&scene.url, VILLAINS[2], &key, Some(token)).await.unwrap();
    assert_eq!(villain.client(), before.client());
    let (_, proof) = DrawContext { run: &run, round: seen.round, seed: &seen.seed }.draw(&key);
    let reply = villain.join(seen.round, age, &proof).await.unwrap();
    assert_eq!(reply.outcome(), join_reply::Outcome::Refused, "{reply:?}");
    assert!(reply.why.starts_with("proof"), "{reply:?}");
    // The old key is nobody's now, and the token is spent.
    let again = Villain::try_enrol(&scene.url, VILLAINS[2], &before.identity, None).await;
    assert_eq!(again.err().unwrap().code(), Code::Unauthenticated);
    let again = Villain::try_enrol(&scene.url, VILLAINS[2], &before.identity, Some(token)).await;
    assert_eq!(again.err().unwrap().code(), Code::Unauthenticated);
}

/// Tries every token but a good one, over and over.
async fn token_thief(scene: Scene) {
    let tokens = scene.tokens.clone();
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
            let refused = Villain::try_enrol(&scene.url, name, &key, token).await.err().unwrap();
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
async fn snoop(scene: Scene) {
    let tokens = scene.tokens.clone();
    let bearing =
        |token: Option<&str>| token.map(|token| format!("Bearer {token}").parse().unwrap());
    loop {
        let mut calls = connect(&scene.url).await;
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
    let attack = |scene: Scene| async move {
        tokio::join!(late_grinder(scene.clone()), renewer(scene));
    };
    let played = play("attackers-ground", |_| {}, attack).await;
    played.is_as_without().await;
    assert_eq!(played.refused(2, "proof"), 1, "{:?}", played.refusals());
    let late = "SELECT COUNT(*) FROM clients WHERE name = 'late'";
    assert_eq!(ledger(&played.state).query_row(late, [], |row| row.get(0)), Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_good_for_more_than_it_was_made_for() {
    let attack = |scene: Scene| async move {
        tokio::join!(token_thief(scene.clone()), snoop(scene));
    };
    let played = play("attackers-tokens", |_| {}, attack).await;
    played.is_as_without().await;
    assert!(played.refused(-1, "token") >= 30, "{:?}", played.refusals());
    assert!(played.refused(-1, "role") >= 10, "{:?}", played.refusals());
    assert!(played.refused(-1, "revoked") >= 5, "{:?}", played.refusals());
}

/// Twenty names at once with the token of one: one of them gets in, whoever asks first.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_spent_once_also_at_the_same_moment() {
    let attack = |scene: Scene| async move {
        // In the last round, as one client more changes those behind it.
        scene.joining(ROUNDS - 1).await;
        let mut tries = tokio::task::JoinSet::new();
        for number in 0..20 {
            let scene = scene.clone();
            tries.spawn(async move {
                let mut calls = connect(&scene.url).await;
                let challenge = challenge(&mut calls).await.unwrap();
                let name = format!("twin-{number}");
                let token = Some(&scene.tokens.spare);
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
