//! Those who want to be in a cohort although their draw does not win.

use crate::game::{Scene, play};
use crate::villain::Villain;
use agewise_server::crypto::vrf::{DrawContext, PROOF_BYTES};
use agewise_server::protocol::{JoinReply, join_reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tonic::Code;

type Tally = Arc<AtomicI64>;

fn count(tally: &Tally) {
    tally.fetch_add(1, Ordering::Relaxed);
}

fn counted(tally: &Tally) -> i64 {
    tally.load(Ordering::Relaxed)
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
async fn forger(scene: Scene, tally: Tally) {
    let mut villain = scene.villain(0).await;
    let mut earlier: Vec<u8> = vec![0; PROOF_BYTES];
    for round in 0.. {
        let seen = scene.joining(round).await;
        assert_eq!(seen.round, round, "a round was missed");
        let run = villain.run();
        let (_, right) = DrawContext { run: &run, round, seed: &seen.seed }.draw(&villain.identity);
        let mut forged: Vec<Vec<u8>> = vec![Vec::new(), vec![7; PROOF_BYTES], right[1..].to_vec()];
        for place in [0, 31, 32, 95] {
            forged.push(right.clone());
            forged.last_mut().unwrap()[place] ^= 1;
        }
        forged.push(std::mem::replace(&mut earlier, right));
        // Another run, another seed.
        forged
            .push(DrawContext { run: &[0; 16], round, seed: &seen.seed }.draw(&villain.identity).1);
        forged.push(DrawContext { run: &run, round, seed: &[0; 32] }.draw(&villain.identity).1);
        forged.extend(scene.proofs(round));
        let age = villain.age(round);
        for proof in forged {
            let reply = villain.join(round, age, &proof).await.unwrap();
            if is_about(&reply) {
                refused(&reply, "proof");
                count(&tally);
            }
        }
        // And without having got in.
        let request = villain.fetch_request(round);
        let fetched = villain.calls.fetch_model(request).await.unwrap_err();
        assert_eq!(fetched.code(), Code::Aborted, "{fetched}");
        let reply = villain.report(round, seen.model, 9e9).await.unwrap();
        assert!(reply.why.starts_with("cohort"), "{reply:?}");
    }
}

/// Asks with a right proof: as somebody older, or of a losing draw.
async fn liar(scene: Scene, [ages, draws]: [Tally; 2]) {
    let mut villain = scene.villain(1).await;
    for round in 0.. {
        let seen = scene.joining(round).await;
        let run = villain.run();
        let (drawn, proof) =
            DrawContext { run: &run, round, seed: &seen.seed }.draw(&villain.identity);
        let age = villain.age(round);
        for claimed in [age + 1, age + 10, 1 << 40, u64::MAX, age.wrapping_sub(1)] {
            let reply = villain.join(round, claimed, &proof).await.unwrap();
            if is_about(&reply) {
                refused(&reply, "age");
                count(&ages);
            }
        }
        if !seen.rule().takes_part(round, villain.client(), age, drawn) {
            let reply = villain.join(round, age, &proof).await.unwrap();
            if is_about(&reply) {
                refused(&reply, "draw");
                count(&draws);
            }
        }
    }
}

/// Asks for rounds that are not open.
async fn traveller(scene: Scene, tally: Tally) {
    let mut villain: Villain = scene.villain(2).await;
    for round in 0.. {
        let seen = scene.joining(round).await;
        for ahead in [1, 100, u64::MAX - seen.round] {
            let at = seen.round + ahead;
            let reply = villain.join(at, villain.age(at), &[]).await.unwrap();
            refused(&reply, "round");
            let reply = villain.report(at, seen.model, 9e9).await.unwrap();
            assert!(reply.why.starts_with("round"), "{reply:?}");
            count(&tally);
        }
        if round > 0 {
            let reply = villain.join(round - 1, villain.age(round - 1), &[]).await.unwrap();
            assert_eq!(reply.outcome(), join_reply::Outcome::Closed, "{reply:?}");
            let reply = villain.report(round - 1, seen.model, 9e9).await.unwrap();
            assert!(reply.why.starts_with("cohort"), "{reply:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_gets_in_without_a_winning_draw() {
    let tallies: [Tally; 4] = std::array::from_fn(|_| Tally::default());
    let [proofs, ages, draws, rounds] = tallies.clone();
    let attack = |scene: Scene| async move {
        tokio::join!(
            forger(scene.clone(), proofs),
            liar(scene.clone(), [ages, draws]),
            traveller(scene, rounds)
        );
    };
    let played = play("attackers-draws", |_| {}, attack).await;
    played.is_as_without().await;
    let [proofs, ages, draws, rounds] = tallies.map(|tally| counted(&tally));
    assert!(proofs >= 40 && ages >= 15 && draws >= 1 && rounds >= 9, "{:?}", played.refusals());
    // One call may have been on its way at the end.
    let near = |counted: i64, tried: i64| (tried..=tried + 1).contains(&counted);
    assert!(near(played.refused(0, "proof"), proofs), "{:?}, {proofs}", played.refusals());
    assert!(near(played.refused(1, "age"), ages), "{:?}, {ages}", played.refusals());
    assert!(near(played.refused(1, "draw"), draws), "{:?}, {draws}", played.refusals());
    assert!(played.refused(2, "round") >= 2 * rounds, "{:?}", played.refusals());
    assert!(played.refused(0, "cohort") > 0 && played.refused(2, "cohort") > 0);
}

/// A model is for those who are in the round: who asks without that is refused, and counted like everybody else.
#[tokio::test(flavor = "multi_thread")]
async fn who_fetches_without_having_joined_is_counted() {
    let attack = |scene: Scene| async move {
        let mut villain = scene.villain(0).await;
        loop {
            let round = scene.joining(0).await.round;
            for round in [round, round + 1, 0, u64::MAX] {
                let request = villain.fetch_request(round);
                let fetched = villain.calls.fetch_model(request).await.unwrap_err();
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
