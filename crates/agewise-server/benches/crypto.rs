//! What verification costs on one core: signatures, draws and their proofs, and links of the seed chain.
//!
//! `cargo bench -p agewise-server --bench crypto [-- REPEATS]`: all of them in turns, the best of so many.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up ends")]

use agewise_core::{Error, Result};
use agewise_server::crypto::seed_chain::{LINKS, SeedChains, SeedCheck};
use agewise_server::crypto::signing::{self, RequestSigner};
use agewise_server::crypto::vrf::{DrawContext, PROOF_BYTES};
use agewise_server::crypto::{Identity, PublicKey};
use agewise_server::protocol::JoinRequest;
use std::hint::black_box;
use std::time::Instant;

/// Signatures and proofs that are made, and then checked, in one turn.
const BATCH: u64 = 2_000;
const RUN: [u8; 16] = [1; 16];
const SEED: [u8; 32] = [2; 32];
const SESSION: [u8; 40] = [3; 40];

/// Something that is measured.
struct Figure {
    name: &'static str,
    /// How many are done per second, at best.
    best: f64,
}

impl Figure {
    fn new(name: &'static str) -> Self {
        Self { name, best: 0.0 }
    }

    /// Does `count` of them, and keeps the best rate.
    fn measure<T>(&mut self, count: u64, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let made = black_box(work());
        self.best = self.best.max(count as f64 / begun.elapsed().as_secs_f64());
        made
    }
}

fn join(round: u64) -> JoinRequest {
    let run = RUN.to_vec();
    JoinRequest { client: 3, run, round, age: 2, proof: vec![9; PROOF_BYTES], call_signature: None }
}

fn draw(round: u64) -> DrawContext<'static> {
    DrawContext { run: &RUN, round, seed: &SEED, client: 1 }
}

fn measure(repeats: u64) -> [Figure; 6] {
    let identity = Identity::from_secret([7; 32]);
    let key: PublicKey = identity.public();
    let mut figures = [
        Figure::new("signatures made"),
        Figure::new("signatures verified"),
        Figure::new("draws made and proven"),
        Figure::new("proofs of draws verified"),
        Figure::new("links of the chain made"),
        Figure::new("links of the chain checked"),
    ];
    let [signed, verified, drawn, proven, made, checked] = &mut figures;
    for turn in 0..repeats {
        let mut signer = RequestSigner::new(identity.clone(), SESSION.to_vec());
        let messages: Vec<JoinRequest> = (0..BATCH).map(join).collect();
        let signed: Vec<JoinRequest> = signed
            .measure(BATCH, || messages.into_iter().map(|message| signer.sign(message)).collect());
        let are_right = verified
            .measure(BATCH, || signed.iter().all(|one| signing::verify(one, &key, &SESSION)));
        assert!(are_right, "every signature is right");

        let rounds = turn * BATCH..(turn + 1) * BATCH;
        let draws: Vec<_> = drawn
            .measure(BATCH, || rounds.clone().map(|round| draw(round).draw(&identity)).collect());
        let are_right = proven.measure(BATCH, || {
            rounds.zip(&draws).all(|(round, (drawn, proof))| {
                draw(round).verify(&key, proof).is_some_and(|shown| shown == *drawn)
            })
        });
        assert!(are_right, "every proof is right");

        // A new run makes its own chain and the anchor of the next one.
        let mut chains = made.measure(2 * LINKS, || SeedChains::new([turn as u8; 32]));
        let mut check = SeedCheck::new(chains.commitment(0));
        let last = chains.seed(LINKS - 1);
        // Who has slept through a whole chain checks all of it at once.
        let is_right = checked.measure(LINKS, || check.seed(LINKS - 1, &last).is_ok());
        assert!(is_right, "the chain ends in its anchor");
    }
    figures
}

fn main() -> Result<()> {
    // `cargo bench` adds a flag of its own.
    let repeats = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let repeats: u64 = match repeats {
        None => 10,
        Some(text) => text.parse().map_err(|_| Error::new("repeats", &text, "a whole number"))?,
    };
    let figures = measure(repeats.max(1));
    let proofs = figures[3].best;
    println!("on one core, best of {}:", repeats.max(1));
    println!("{:<28} {:>12} {:>10} {:>12}", "", "per second", "each", "to a proof");
    for Figure { name, best } in &figures {
        let micros = 1e6 / best;
        println!("{name:<28} {best:>12.0} {micros:>7.2} us {:>11.2}x", best / proofs);
    }
    Ok(())
}
