//! Attackers that try to join although their draw does not win.

use crate::attacked_run::{Target, play};
use crate::common::raw_client::RawClient;
use agewise_server::crypto::vrf::{DrawContext, PROOF_BYTES};
use agewise_server::protocol::{JoinReply, join_reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tonic::Code;

type Counter = Arc<AtomicI64>;

fn count(counter: &Counter) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn counted(counter: &Counter) -> i64 {
    counter.load(Ordering::Relaxed)
}

fn refused(reply: &JoinReply, reason: &str) {
    assert_eq!(reply.outcome(), join_reply::Outcome::Refused, "{reply:?}");
    assert!(reply.why.starts_with(reason), "{reply:?}, expected {reason}");
}

/// `false` when the round has gone on in the meantime, and the answer says nothing about the proof.
fn is_about(reply: &JoinReply) -> bool {
    reply.outcome() != join_reply::Outcome::Closed
}

/// Asks in every round with everything that is not a proof of its draw.
async fn forger(target: Target, counter: Counter) {
    let mut attacker = target.attacker(0).await;
    let mut earlier: Vec<u8> = vec![0; PROOF_BYTES];
    let mut round = 0;
    loop {
        let seen = target.joining(round).await;
        round = seen.round;
        let run = attacker.run();
        let mine = DrawContext { run: &run, round, seed: &seen.seed, client: attacker.client() };
        let (_, right) = mine.draw(&attacker.identity);
        let mut forged: Vec<Vec<u8>> = vec![Vec::new(), vec![7; PROOF_BYTES], right[1..].to_vec()];
        for place in [0, 31, 32, 95] {
            forged.push(right.clone());
            forged.last_mut().unwrap()[place] ^= 1;
        }
        forged.push(std::mem::replace(&mut earlier, right));
        // Another run, another seed, another number: a client cannot choose among several draws of one key.
        for other in [
            DrawContext { run: &[0; 16], ..mine },
            DrawContext { seed: &[0; 32], ..mine },
            DrawContext { client: attacker.client() + 1, ..mine },
        ] {
            forged.push(other.draw(&attacker.identity).1);
        }
        forged.extend(target.proofs(round));
        let age = attacker.age(round);
        for proof in forged {
            let reply = attacker.join(round, age, &proof).await.unwrap();
            if is_about(&reply) {
                refused(&reply, "proof");
                count(&counter);
            }
        }
        // And without having got in.
        let request = attacker.fetch_request(round);
        let fetched = attacker.calls.fetch_model(request).await.unwrap_err();
        assert_eq!(fetched.code(), Code::Aborted, "{fetched}");
        let reply = attacker.report(round, seen.model, 9e9).await.unwrap();
        assert!(reply.why.starts_with("cohort"), "{reply:?}");
        round += 1;
        target.hold("forger", round);
    }
}

/// Joins with a correct proof, and claims a greater age or has a losing draw.
async fn liar(target: Target, [ages, draws]: [Counter; 2]) {
    let mut attacker = target.attacker(1).await;
    let mut round = 0;
    loop {
        let seen = target.joining(round).await;
        round = seen.round;
        let run = attacker.run();
        let client = attacker.client();
        let mine = DrawContext { run: &run, round, seed: &seen.seed, client };
        let (drawn, proof) = mine.draw(&attacker.identity);
        let age = attacker.age(round);
        for claimed in [age + 1, age + 10, 1 << 40, u64::MAX, age.wrapping_sub(1)] {
            let reply = attacker.join(round, claimed, &proof).await.unwrap();
            if is_about(&reply) {
                refused(&reply, "age");
                count(&ages);
            }
        }
        if !seen.rule().takes_part(round, attacker.client(), age, drawn) {
            let reply = attacker.join(round, age, &proof).await.unwrap();
            if is_about(&reply) {
                refused(&reply, "draw");
                count(&draws);
            }
        }
        round += 1;
        target.hold("liar", round);
    }
}

/// Asks for rounds that are not open.
async fn traveller(target: Target, counter: Counter) {
    let mut attacker: RawClient = target.attacker(2).await;
    let mut round = 0;
    loop {
        let seen = target.joining(round).await;
        round = seen.round;
        for ahead in [1, 100, u64::MAX - seen.round] {
            let at = seen.round + ahead;
            let reply = attacker.join(at, attacker.age(at), &[]).await.unwrap();
            refused(&reply, "round");
            let reply = attacker.report(at, seen.model, 9e9).await.unwrap();
            assert!(reply.why.starts_with("round"), "{reply:?}");
            count(&counter);
        }
        if round > 0 {
            let reply = attacker.join(round - 1, attacker.age(round - 1), &[]).await.unwrap();
            assert_eq!(reply.outcome(), join_reply::Outcome::Closed, "{reply:?}");
            let reply = attacker.report(round - 1, seen.model, 9e9).await.unwrap();
            assert!(reply.why.starts_with("cohort"), "{reply:?}");
        }
        round += 1;
        target.hold("traveller", round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_gets_in_without_a_winning_draw() {
    let counters: [Counter; 4] = std::array::from_fn(|_| Counter::default());
    let [proofs, ages, draws, rounds] = counters.clone();
    let attack = |target: Target| {
        // Each of them gets through with what it tries in a round.
        for attacker in ["forger", "liar", "traveller"] {
            target.hold(attacker, 0);
        }
        async move {
            tokio::join!(
                forger(target.clone(), proofs),
                liar(target.clone(), [ages, draws]),
                traveller(target, rounds)
            );
        }
    };
    let played = play("attackers-draws", |_| {}, attack).await;
    played.is_as_without().await;
    let [proofs, ages, draws, rounds] = counters.map(|counter| counted(&counter));
    assert!(proofs >= 10 && ages >= 5 && draws >= 1 && rounds >= 3, "{:?}", played.refusals());
    // One call may have been on its way at the end.
    let near = |counted: i64, tried: i64| (tried..=tried + 1).contains(&counted);
    assert!(near(played.refused(0, "proof"), proofs), "{:?}, {proofs}", played.refusals());
    assert!(near(played.refused(1, "age"), ages), "{:?}, {ages}", played.refusals());
    assert!(near(played.refused(1, "draw"), draws), "{:?}, {draws}", played.refusals());
    assert!(played.refused(2, "round") >= 2 * rounds, "{:?}", played.refusals());
    assert!(played.refused(0, "cohort") > 0 && played.refused(2, "cohort") > 0);
}

/// Only the cohort of a round may fetch its model: other requests are refused and counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_without_having_joined_is_counted() {
    let attack = |target: Target| async move {
        let mut attacker = target.attacker(0).await;
        loop {
            let round = target.joining(0).await.round;
            for round in [round, round + 1, 0, u64::MAX] {
                let request = attacker.fetch_request(round);
                let fetched = attacker.calls.fetch_model(request).await.unwrap_err();
                assert_eq!(fetched.code(), Code::Aborted, "{fetched}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let played = play("attackers-fetch", |_| {}, attack).await;
    played.is_as_without().await;
    let refusals = played.refusals();
    assert!(refusals.iter().any(|(client, _, _)| *client == 0), "not counted: {refusals:?}");
}
