//! How long clients stay in step: the closed forms of `theory::phases` against played rounds.

use crate::common::{play, policy, skipping};
use agewise_core::{Seed, Selector, Start, Weighting, build_policy};
use std::collections::BTreeMap;

/// What was seen in a run: cohort sizes, and how often two clients of a cohort met again the next time that both came.
struct MeetingCounts {
    sizes: Vec<f64>,
    together: u64,
    pairs: u64,
}

fn watch(text: &str, clients: u64, cohort: u64, rounds: u64) -> MeetingCounts {
    let setting = skipping(clients, cohort, 100);
    let mut selector = Selector::new(&policy(text), setting, Seed(5), Start::Stationary).unwrap();
    let mut seen = MeetingCounts { sizes: Vec::new(), together: 0, pairs: 0 };
    let mut cohorts: Vec<Vec<u32>> = Vec::new();
    play(&mut selector, rounds, |cohort, _| {
        seen.sizes.push(cohort.clients.len() as f64);
        cohorts.push(cohort.clients.clone());
    });
    // For each client the round after each of its rounds.
    let mut next: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); clients as usize];
    let mut last = vec![None; clients as usize];
    for (round, cohort) in cohorts.iter().enumerate() {
        for &client in cohort {
            if let Some(before) = last[client as usize].replace(round) {
                next[client as usize].insert(before, round);
            }
        }
    }
    for (round, cohort) in cohorts.iter().enumerate() {
        for pair in cohort.chunks_exact(2) {
            let of = |client: u32| next[client as usize].get(&round);
            if let (Some(a), Some(b)) = (of(pair[0]), of(pair[1])) {
                seen.pairs += 1;
                seen.together += u64::from(a == b);
            }
        }
    }
    seen
}

/// The correlation of sizes so many rounds apart.
fn correlation(sizes: &[f64], lag: usize) -> f64 {
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>();
    let pairs = sizes.iter().zip(&sizes[lag..]);
    pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / variance
}

/// 60,000 rounds of 40 clients. A run has as many independent pieces as it is long over the time in which it forgets (50
/// rounds or less here), and so more than a thousand; the tolerances of 0.1 and of a tenth are more than three times the
/// error that this leaves to a correlation and a variance. Pairs are nearly independent: 0.02.
#[test]
fn correlation_spread_and_meetings_are_those_of_the_closed_forms() {
    for text in [
        "markov-mixing",
        "markov-mixing(variance=0.5)",
        "markov-capped",
        "markov-capped(factor=3)",
        "markov-linear",
    ] {
        let setting = skipping(40, 10, 100);
        let built = build_policy(&policy(text), &setting).unwrap();
        let theory = built.theory(&setting, Weighting::Uniform).unwrap().unwrap();
        let phases = theory.phases.unwrap();
        assert!(phases.forgetting_rounds.unwrap() < 50.0, "{text}: {phases:?}");
        let seen = watch(text, 40, 10, 60_000);
        let found = correlation(&seen.sizes, 4);
        let expected = phases.cohort_correlation.unwrap();
        assert!((found - expected).abs() < 0.1, "{text}: {found}, expected {expected}");
        // However even the start was, the spread over time is that of a binomial: 40 * 1/4 * 3/4.
        let mean = seen.sizes.iter().sum::<f64>() / 60_000.0;
        let spread = seen.sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 60_000.0;
        assert!((spread / 7.5 - 1.0).abs() < 0.1, "{text}: {spread}");
        let met = seen.together as f64 / seen.pairs as f64;
        assert!((met - phases.meet_again).abs() < 0.02, "{text}: {met}, {phases:?}");
    }
}

/// Where n/m is whole the optimal law keeps the cohorts of its start for ever.
#[test]
fn the_optimal_law_freezes_and_the_mixing_one_does_not() {
    let frozen = watch("markov-optimal", 20, 5, 400);
    assert!(frozen.sizes.windows(5).all(|sizes| sizes[0] == sizes[4]));
    assert_eq!(frozen.together, frozen.pairs);
    let mixing = watch("markov-mixing", 20, 5, 400);
    assert!(!mixing.sizes.windows(5).all(|sizes| sizes[0] == sizes[4]));
    assert!(mixing.together < mixing.pairs);
}
