//! Attackers with stolen keys and tokens, and with keys that were chosen for their draws.

use crate::attacked_run::{ATTACKERS, ROUNDS, Snapshot, Target, play};
use crate::common::raw_client::{RawClient, challenge, enrolment, identity};
use crate::common::site::connect;
use crate::common::site::{Site, eventually, settings};
use crate::common::{folder, ledger};
use agewise_core::Draw;
use agewise_server::coordinator::Admin;
use agewise_server::crypto::Identity;
use agewise_server::crypto::token::{Role, Token};
use agewise_server::crypto::vrf::DrawContext;
use agewise_server::protocol::{PROTOCOL, RevokeRequest, StatusRequest, join_reply};
use std::time::Duration;
use tonic::{Code, Request};

/// The first of some keys whose draw wins in a round that is announced, and the proof of the draw.
fn grind(
    run: &[u8],
    seen: &Snapshot,
    client: u32,
    wins: impl Fn(Draw) -> bool,
) -> (Identity, Vec<u8>) {
    let context = DrawContext { run, round: seen.round, seed: &seen.seed, client };
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
    // The number that it is going to have is no secret: it is the next one.
    let wins = |drawn: Draw| drawn.unit() < 0.01;
    let (key, proof) = tokio::task::block_in_place(|| grind(&run, &seen, seen.clients, wins));
    let spare = &target.tokens.spare;
    let attacker = RawClient::try_enrol(&target.url, "late", &key, Some(spare)).await;
    let mut attacker = attacker.unwrap();
    for age in [attacker.age(seen.round), 0, 5, 10] {
        let reply = attacker.join(seen.round, age, &proof).await.unwrap();
        let outcome = reply.outcome();
        assert_eq!(outcome, join_reply::Outcome::Closed, "{reply:?}, {seen:?}");
    }
    target.hold("late grinder", u64::MAX);
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
        target.hold("renewer", seen.round + 1);
        seen = target.joining(seen.round + 1).await;
    }
    let run = before.run();
    let age = before.age(seen.round);
    let (rule, client) = (seen.rule(), before.client());
    let wins = |drawn| rule.takes_part(seen.round, client, age, drawn);
    let (key, proof) = tokio::task::block_in_place(|| grind(&run, &seen, client, wins));
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
    target.hold("renewer", u64::MAX);
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
    let attack = |target: Target| {
        // The keys are tried while the round is open for joining.
        target.hold("late grinder", ROUNDS - 1);
        target.hold("renewer", 0);
        async move {
            tokio::join!(late_grinder(target.clone()), renewer(target));
        }
    };
    let played = play("attackers-ground", |_| {}, attack).await;
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
    let attack = |target: Target| {
        // In the last round, as one client more changes those behind it.
        target.hold("twins", ROUNDS - 1);
        async move {
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
        }
    };
    let played = play("attackers-twins", |_| {}, attack).await;
    played.is_as_without().await;
    assert_eq!(played.refused(-1, "token"), 19, "{:?}", played.refusals());
}

/// Eight names at once for one key: exactly one of them becomes a client.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_one_name_also_at_the_same_moment() {
    let site = Site::open(settings(&folder("attackers-one-key"), 2, 1), 4).await;
    let mut tries = tokio::task::JoinSet::new();
    for number in 0..8 {
        let url = site.url.clone();
        tries.spawn(async move {
            let key = identity("the owner of many");
            let tried = RawClient::try_enrol(&url, &format!("block-{number}"), &key, None).await;
            tried.map(|client| client.client())
        });
    }
    let (enrolled, refused): (Vec<_>, Vec<_>) =
        tries.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((enrolled.len(), refused.len()), (1, 7));
    for refused in refused.into_iter().filter_map(Result::err) {
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        assert!(refused.message().starts_with("key: this key belongs to a client of another name"));
    }
    site.until(
        "SELECT COALESCE(SUM(count), 0) FROM refusals WHERE reason = 'key' AND client = -1",
        7,
    )
    .await;
    assert_eq!(site.count("SELECT COUNT(*) FROM clients"), 1);
    assert_eq!(site.count("SELECT COUNT(*) FROM key_owners"), 1);
    site.close().await;
}

/// A key that was given up stays its owner's: another client cannot have it, and its owner can come back to it. So it is after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_renewed_is_not_free() {
    let state = folder("attackers-renewed-key");
    let params = settings(&state, 3, 1);
    let mut admin = Admin::open(&state).unwrap();
    let mut token = || admin.invite(Role::Client, Some("first"), 1).unwrap().remove(0);
    let (second, third) = (token(), token());
    let (old, new) = (identity("old"), identity("new"));
    let site = Site::open(params.clone(), 4).await;
    RawClient::try_enrol(&site.url, "first", &old, None).await.unwrap();
    RawClient::try_enrol(&site.url, "first", &new, Some(&second)).await.unwrap();
    for key in [&old, &new] {
        let refused = RawClient::try_enrol(&site.url, "other", key, None).await.err().unwrap();
        assert!(refused.message().starts_with("key"), "{refused}");
    }
    site.close().await;
    let site = Site::open(params, 4).await;
    for key in [&old, &new] {
        let refused = RawClient::try_enrol(&site.url, "other", key, None).await.err().unwrap();
        assert!(refused.message().starts_with("key"), "{refused}");
    }
    let back = RawClient::try_enrol(&site.url, "first", &old, Some(&third)).await.unwrap();
    assert_eq!(back.client(), 0);
    let other = RawClient::try_enrol(&site.url, "other", &identity("its own"), None).await.unwrap();
    assert_eq!(other.client(), 1);
    site.close().await;
}

/// In a ledger of a time when that was allowed a key has two clients: it stays with the first, and the other one needs a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_key_stays_with_its_first_client() {
    let state = folder("attackers-shared-key");
    let params = settings(&state, 3, 1);
    let site = Site::open(params.clone(), 4).await;
    let (shared, own) = (identity("shared"), identity("own"));
    RawClient::try_enrol(&site.url, "first", &shared, None).await.unwrap();
    RawClient::try_enrol(&site.url, "second", &own, None).await.unwrap();
    site.close().await;
    let token =
        Admin::open(&state).unwrap().invite(Role::Client, Some("second"), 1).unwrap().remove(0);
    let db = ledger(&state);
    let share = "UPDATE keys SET key = (SELECT key FROM keys WHERE client = 0);
                 UPDATE clients SET key = (SELECT key FROM keys WHERE client = 0);
                 DELETE FROM key_owners WHERE client = 1;";
    db.execute_batch(share).unwrap();
    drop(db);
    let site = Site::open(params, 4).await;
    RawClient::try_enrol(&site.url, "first", &shared, None).await.unwrap();
    let refused = RawClient::try_enrol(&site.url, "second", &shared, None).await.err().unwrap();
    assert!(refused.message().contains("a new token for its name"), "{refused}");
    let again = RawClient::try_enrol(&site.url, "second", &own, Some(&token)).await.unwrap();
    assert_eq!(again.client(), 1);
    site.close().await;
}

/// A client of a release whose draws are others is told so when it enrols, and not in every round.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_another_version_is_told_so() {
    let site = Site::open(settings(&folder("attackers-version"), 2, 1), 4).await;
    let mut calls = connect(&site.url).await;
    for (told, version) in [(0, "1"), (1, "1"), (PROTOCOL + 1, "3")] {
        let challenge = challenge(&mut calls).await.unwrap();
        let mut request = enrolment(challenge, "old", &identity("old"), None);
        request.protocol = told;
        let refused = calls.enrol(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        let expected = format!(
            "protocol: the client speaks version {version}, this coordinator version {PROTOCOL}"
        );
        assert!(refused.message().starts_with(&expected), "{refused}");
    }
    site.until("SELECT COALESCE(SUM(count), 0) FROM refusals WHERE reason = 'protocol'", 3).await;
    assert_eq!(site.count("SELECT COUNT(*) FROM clients"), 0);
    site.close().await;
}

/// Two machines with the key of one client take the session from each other, again and again: the operator sees it.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_taken_over_are_counted() {
    let site = Site::open(settings(&folder("attackers-taken-over"), 2, 1), 4).await;
    let taken_over = async || site.metric("agewise_sessions_taken_over_total").await;
    let first = RawClient::enrol(&site.url, "both", None).await;
    assert!(taken_over().await == 0.0);
    let second = RawClient::enrol(&site.url, "both", None).await;
    let third = RawClient::enrol(&site.url, "both", None).await;
    assert!(taken_over().await == 2.0);
    assert_eq!(site.status().await.sessions_taken_over, 2);
    // A client whose connection is gone comes back: nothing is taken over.
    drop((first, second, third));
    let open = "agewise_connections{state=\"open\"}";
    eventually("the connections are closed", async || site.metric(open).await == 0.0).await;
    RawClient::enrol(&site.url, "both", None).await;
    assert!(taken_over().await == 2.0);
    site.close().await;
}
