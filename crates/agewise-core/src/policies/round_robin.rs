//! `round-robin`: the next m clients in the order of their numbers.
//!
//! It is oldest-first with ties broken by number, counted from where the last round would have stopped. That
//! walks through the clients in order, needs no memory but the ages, and a client that was away when its turn
//! came is the next to be asked. Nothing is random, so the same clients meet again and again. Where clients join, it
//! counts those that have joined so far: a cohort does not depend on who will come later.

use crate::error::Result;
use crate::law::AgeLaw;
use crate::policy::{Plan, Policy, PolicyEntry, Ranking, uniform_inclusion};
use crate::random::Seed;
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::theory::deterministic::{MOST_DECISIONS, replay};
use crate::theory::phased;
use crate::theory::windows::periodic_window_sd;
use crate::theory::{PolicyTheory, Sigma, WINDOW_LENGTHS, uniform_subset_sigma};
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "round-robin",
    summary: "the next m clients in order: as balanced as can be, and nothing is random.",
    options: &[],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |_, _| Ok(Box::new(RoundRobin)),
};

#[derive(Debug)]
struct RoundRobin;

impl Policy for RoundRobin {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        Ranking::OldestThenNumbers.select(round)
    }

    fn plan(&self) -> Plan<'_> {
        Plan::Ranked(Ranking::OldestThenNumbers)
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    /// As if the last round had ended with the last client: the first clients have waited longest.
    fn initial_ages(&self, setting: &Setting, _seed: Seed) -> Vec<u64> {
        let clients = u64::from(setting.clients());
        let waited = |client: u64| (clients - 1 - client) / u64::from(setting.cohort());
        (0..clients).map(waited).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<Option<PolicyTheory>> {
        let rate = f64::from(setting.cohort()) / f64::from(setting.clients());
        let sigma = if weighting == Weighting::DataSize && !setting.sizes().are_equal() {
            replayed_sigma(setting)
        } else {
            Some(uniform_subset_sigma(setting, weighting))
        };
        let theory = PolicyTheory::fixed_cohort(setting, &AgeLaw::unsaturated(setting.interval()));
        let window_sd = periodic_window_sd(rate, &WINDOW_LENGTHS);
        Ok(Some(PolicyTheory { window_sd, ..theory }.with_sigma(sigma)))
    }
}

/// Which clients meet is fixed, so cohorts are no random subsets: with data sizes, play one period.
fn replayed_sigma(setting: &Setting) -> Option<Sigma> {
    let (n, m) = (u64::from(setting.clients()), u64::from(setting.cohort()));
    let period = phased::period(setting.clients(), setting.cohort());
    let short = period.checked_mul(n).is_some_and(|decisions| decisions <= MOST_DECISIONS);
    short.then(|| {
        let takes_part = |round, client| (u64::from(client) + n - round * m % n) % n < m;
        Sigma::exact(replay(setting, Weighting::DataSize, period, takes_part).sigma)
    })
}
