//! Mutated messages over HTTP/2: none of them does anything, and the coordinator neither falls nor grows.
//!
//! `AGEWISE_FUZZ_MESSAGES` says how many; the fuzz job sends a million.

use crate::attacked_run::{Target, play};
use crate::common::folder;
use crate::common::raw_client::RawClient;
use crate::common::site::{PATIENCE, Site, eventually, settings, soon};
use crate::frames::{answer, memory, whole};
use crate::mutator::{Dice, corpus, mutate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};

const SEED: u64 = 20_260_101;
const MESSAGES: usize = 20_000;
const SENDERS: u64 = 4;
/// What the memory of the process may have grown by in the end, with whatever other tests of this program need at that moment.
const MOST_KIB: u64 = 100 << 10;

type Corpus = Arc<Vec<(&'static str, Vec<u8>)>>;
/// How often each code was the answer; `None` where the connection had ended.
type Codes = BTreeMap<String, usize>;

fn messages() -> usize {
    let told = std::env::var("AGEWISE_FUZZ_MESSAGES").ok();
    told.map_or(MESSAGES, |told| told.parse().expect("AGEWISE_FUZZ_MESSAGES: a number"))
}

fn channel(url: &str) -> Channel {
    // It connects again by itself when it was cut off.
    Endpoint::from_shared(url.to_string()).unwrap().connect_lazy()
}

/// Sends mutated messages until there are none left.
async fn send(url: String, corpus: Corpus, seed: u64, left: Arc<AtomicUsize>) -> Codes {
    let mut dice = Dice::new(seed);
    let mut codes = Codes::new();
    let mut channel = channel(&url);
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let (method, message) = &corpus[dice.below(corpus.len())];
        let other = &corpus[dice.below(corpus.len())].1;
        let body = mutate(&mut dice, message, other);
        let sent = answer(&mut channel, method, None, whole(body));
        let code = match tokio::time::timeout(PATIENCE, sent).await {
            Ok(Some(code)) => format!("{code:?}"),
            Ok(None) => "cut off".to_string(),
            Err(_) => {
                channel = self::channel(&url);
                format!("no answer to {method}")
            }
        };
        *codes.entry(code).or_default() += 1;
    }
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn mutated_messages_neither_fell_nor_feed_the_coordinator() {
    let mut params = settings(&folder("attackers-mutation"), 5, 1);
    params.limits.unauthenticated = 100;
    let site = Site::open(params, 100).await;
    let mut attacker = RawClient::enrol(&site.url, "hostile", None).await;
    let corpus = Arc::new(corpus(&mut attacker));
    let total = messages();
    // Caches and pools have to fill once; that is not growth.
    let warm = Arc::new(AtomicUsize::new(total / 10));
    send(site.url.clone(), corpus.clone(), SEED, warm).await;
    let before = memory("VmRSS");

    let left = Arc::new(AtomicUsize::new(total));
    let begun = Instant::now();
    let mut senders = tokio::task::JoinSet::new();
    for number in 1..=SENDERS {
        senders.spawn(send(site.url.clone(), corpus.clone(), SEED + number, left.clone()));
    }
    // Beside it an honest client enrols and asks, and is answered.
    let mut honest = 0;
    while left.load(Ordering::Relaxed) > 0 {
        let mut client = soon("honest", RawClient::enrol(&site.url, "honest", None)).await;
        let reply = soon("an answer", client.join(0, 0, &[])).await.unwrap();
        assert!(reply.why.is_empty(), "{reply:?}");
        honest += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut codes = Codes::new();
    for sent in senders.join_all().await {
        for (code, count) in sent {
            *codes.entry(code).or_default() += count;
        }
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), memory("VmRSS"));
    let rate = total as f64 / seconds;
    println!("{total} messages, {rate:.0} per second, {honest} honest calls: {codes:?}");
    println!("KiB in memory: {before:?} before, {after:?} after");
    assert_eq!(codes.values().sum::<usize>(), total);
    assert!(honest > 0);
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after < before + MOST_KIB, "{before} KiB before, {after} KiB after");
    }
    // No client has enrolled that way, and no round has begun.
    assert_eq!(site.count("SELECT COUNT(*) FROM clients"), 2);
    assert_eq!(site.count("SELECT COUNT(*) FROM rounds"), 0);
    assert_eq!(site.count("SELECT COUNT(*) FROM joins"), 0);
    site.until("SELECT COUNT(*) > 0 FROM refusals", 1).await;
    drop(attacker);
    let open = "agewise_connections{state=\"open\"}";
    eventually("no connection is left", async || site.metric(open).await == 0.0).await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_under_mutated_messages() {
    let attack = |target: Target| async move {
        let mut attacker = target.attacker(0).await;
        let corpus = Arc::new(corpus(&mut attacker));
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        send(target.url.clone(), corpus, SEED, left).await;
    };
    let played = play("attackers-mutated-run", |_| {}, attack).await;
    played.has_the_same_model().await;
    assert!(played.refusals().iter().map(|(_, _, count)| count).sum::<i64>() > 0);
}
