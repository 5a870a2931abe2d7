//! Clients that agree on when to stay away: what waiting brings them under each law.
//!
//! The theorem (docs/theory.md): in any round, whatever k clients did before, at most Binomial(k, h) of them come, where
//! h is the greatest probability of the law. Here they try; 50 clients, 10 per round, 5 or 10 of them collude.

use crate::common::policy;
use agewise_core::{
    AgeLaw, Availability, Draws, Report, Seed, Selector, SettingParams, Start, Stream,
    theory::Binomial,
};

const CLIENTS: u64 = 50;
const COHORT: u64 = 10;
const ROUNDS: u64 = 4_000;

/// When colluders are ready to come. They know their ages and their draws of the round, and all rules.
#[derive(Debug, Clone, Copy)]
enum Strategy {
    /// Like everyone else.
    Honest,
    /// In every so many rounds only: they gather at a fixed round.
    Every(u64),
    /// From when all of them are older than so many intervals, until each has come once.
    Overdue(u64),
    /// When so many of them would be in the cohort together.
    Lucky(usize),
}

/// How many colluders are in the cohort, round by round.
fn attack(text: &str, colluders: usize, strategy: Strategy, seed: u64) -> Vec<usize> {
    let setting = SettingParams::new(CLIENTS, COHORT, 100).check().unwrap();
    let seed = Seed(seed);
    let mut selector = Selector::new(&policy(text), setting, seed, Start::Stationary).unwrap();
    let mut counts = Vec::new();
    let mut waits: Vec<bool> = vec![true; colluders];
    for round in 0..ROUNDS {
        let draws = Draws::new(seed, Stream::DRAW, round);
        let ages = selector.ages();
        let would_come = |client: usize| {
            let (number, draw) = (client as u32, draws.of(client as u64));
            let rule = selector.policy().local_rule();
            rule.is_some_and(|rule| rule.takes_part(round, number, ages.of(number), draw))
        };
        let ready: Vec<bool> = match strategy {
            Strategy::Honest => vec![true; colluders],
            Strategy::Every(period) => vec![round % period == 0; colluders],
            Strategy::Overdue(intervals) => {
                let oldest = intervals * CLIENTS / COHORT;
                if (0..colluders).all(|client| ages.of(client as u32) > oldest) {
                    waits.fill(false);
                }
                waits.iter().map(|waits| !waits).collect()
            }
            Strategy::Lucky(least) => {
                let together = (0..colluders).filter(|&client| would_come(client)).count();
                vec![together >= least; colluders]
            }
        };
        let mut mask = vec![true; CLIENTS as usize];
        mask[..colluders].copy_from_slice(&ready);
        let cohort = selector.select(Availability::Only(&mask)).unwrap();
        // A round without anyone forces a client, which is no client's choice.
        let chosen = if cohort.forced { &[][..] } else { &cohort.clients[..] };
        let came = chosen.iter().filter(|&&client| (client as usize) < colluders);
        counts.push(came.clone().count());
        came.for_each(|&client| waits[client as usize] = true);
        let accepted: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
        selector.finish(&accepted).unwrap();
    }
    counts
}

fn strategies(colluders: usize) -> Vec<Strategy> {
    let mut all = vec![Strategy::Honest];
    all.extend([3, 4, 5, 6, 7, 10, 40].map(Strategy::Every));
    all.extend([1, 2, 4].map(Strategy::Overdue));
    all.extend([2, 3, 4, 5, 7].into_iter().filter(|&n| n <= colluders).map(Strategy::Lucky));
    all
}

/// How often at least so many come must not exceed what the binomial says by more than five standard errors: in each round
/// the chance is bounded whatever came before, so the excess is a supermartingale with at most this variance.
#[test]
fn under_a_capped_law_no_strategy_beats_the_binomial() {
    for (text, factor) in [("markov-capped", 2.0), ("markov-capped(factor=1.5)", 1.5)] {
        for colluders in [5usize, 10] {
            let bound = Binomial::new(colluders as u32, factor * COHORT as f64 / CLIENTS as f64);
            for strategy in strategies(colluders) {
                let counts = attack(text, colluders, strategy, 1);
                for least in 1..=colluders {
                    let at_least = bound.iter().filter(|&(count, _)| count as usize >= least);
                    let chance: f64 = at_least.map(|(_, p)| p).sum();
                    let seen = counts.iter().filter(|&&count| count >= least).count() as f64;
                    let rounds = ROUNDS as f64;
                    // Below the bound on the chance the variance may be larger, but not above 1/4.
                    let variance = if chance < 0.5 { chance * (1.0 - chance) } else { 0.25 };
                    let most = rounds * chance + 5.0 * (rounds * variance).sqrt();
                    let context = format!("{text}, {colluders}, {strategy:?}, {least} or more");
                    assert!(seen <= most + 1.0, "{context}: {seen} rounds, at most {most}");
                }
            }
        }
    }
}

/// The bound is needed: under laws with a certain age all of them come in one round, again and again. Prints the table of
/// docs/theory.md.
#[test]
fn under_a_law_with_a_certain_age_colluders_gather() {
    for text in ["markov-optimal", "markov-mixing", "phased"] {
        for colluders in [5, 10] {
            let counts = attack(text, colluders, Strategy::Every(40), 1);
            let gathered = counts.iter().filter(|&&count| count == colluders).count();
            assert!(gathered > 90, "{text}: {gathered} rounds with all {colluders}");
        }
    }
    println!("10 of 50 clients come in every 40th round only: mean and most, in 100 such rounds");
    for text in [
        "random",
        "markov-optimal",
        "markov-mixing",
        "phased",
        "phased(grace=1)",
        "phased(grace=0)",
        "markov-capped(factor=3)",
        "markov-capped",
        "markov-capped(factor=1.5)",
    ] {
        let counts = attack(text, 10, Strategy::Every(40), 1);
        let counts: Vec<usize> = counts.into_iter().step_by(40).collect();
        let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
        println!("{text:<26} {mean:5.2} {:3}", counts.iter().max().unwrap());
    }
}

/// `phased(grace=G)`: turns follow from number and round, so at most those come whose turn is in the last G + 1 rounds.
#[test]
fn turns_that_cannot_be_made_up_cannot_be_gathered() {
    for (text, grace) in [("phased(grace=0)", 0), ("phased(grace=1)", 1)] {
        for colluders in [5usize, 10] {
            let turns = attack("phased(grace=0)", colluders, Strategy::Honest, 1);
            for strategy in strategies(colluders) {
                let counts = attack(text, colluders, strategy, 1);
                for (round, &count) in counts.iter().enumerate() {
                    let due: usize = turns[round.saturating_sub(grace)..=round].iter().sum();
                    let context = format!("{text}, {colluders}, {strategy:?}, round {round}");
                    assert!(count <= due, "{context}: {count} of {due}");
                }
            }
        }
    }
}

/// A client that was away comes back after 1/h rounds in the mean: a geometric wait, as h is its chance in every round.
/// 2,000 absences; five standard errors.
#[test]
fn a_client_that_was_away_is_back_in_the_stated_time() {
    let law = AgeLaw::capped(5.0, 10, 2.0).unwrap();
    let cap = law.greatest_probability();
    let (mut waits, absences) = (0u64, 2_000u64);
    for absence in 0..absences {
        let age = 20 + absence % 7;
        // A wait of 1,000 rounds has a chance of 0.6^1000.
        let wait = (0..1_000).find(|&later| {
            let draw = Draws::new(Seed(9), Stream::DRAW, later).of(absence);
            law.takes_part(age + later, draw)
        });
        waits += wait.unwrap() + 1;
    }
    let mean = waits as f64 / absences as f64;
    let error = ((1.0 - cap) / (cap * cap) / absences as f64).sqrt();
    assert!((mean - 1.0 / cap).abs() < 5.0 * error, "{mean}, expected {}", 1.0 / cap);
}
