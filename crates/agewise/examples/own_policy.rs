//! A policy of your own, compared with ours by training on the embedded digits.
//!
//! It draws twice as many candidates as it needs and takes the oldest of them.
//!
//! `cargo run --release -p agewise --example own_policy`

use agewise::prelude::*;
use agewise::train::data::embedded_digits;
use std::cmp::Reverse;

#[derive(Debug)]
struct OldestOf {
    factor: usize,
}

impl Policy for OldestOf {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let m = round.setting().cohort() as usize;
        // A random number for each client and round; streams from 2^16 on are free.
        let draws = round.draws(Stream::custom(1 << 16));
        let mut clients: Vec<u32> = round.available().collect();
        clients.sort_by_key(|&client| draws.of(u64::from(client)));
        clients.truncate(self.factor * m);
        // A stable sort: among clients of one age the order stays random.
        clients.sort_by_key(|&client| Reverse(round.ages().of(client)));
        clients.truncate(m);
        // A cohort is in increasing order.
        clients.sort_unstable();
        clients.into_iter().map(Pick::once).collect()
    }

    // How likely each of these clients is in a cohort, in the long run: all alike.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&client| round.setting().rate(client)).collect()
    }

    // The ages of a stationary start: m clients of each age, which is near enough.
    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        (0..setting.clients()).map(|client| u64::from(client / setting.cohort())).collect()
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let own = PolicyVariant::new("oldest-of-two", |_| Ok(Box::new(OldestOf { factor: 2 })));
    let experiment = Experiment::builder()
        .data(embedded_digits()?)
        .policy(PolicyVariant::from_spec(&PolicySpec::named("random"))?)
        .policy(own)
        .clients(40)
        .cohort(8)
        .rounds(25)
        .seeds(3)
        .targets([0.75])
        .build()?;
    let results = play(&experiment, None, 2, &NoCallbacks, &AtomicBool::default())?;
    let summary = results.summary()?;
    for policy in &summary.policies {
        println!("{:14} longest wait {:?} rounds", policy.policy, policy.longest_wait);
    }
    assert!(summary.policies[1].longest_wait < summary.policies[0].longest_wait);
    Ok(())
}
