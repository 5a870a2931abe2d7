//! `round-robin`: the next m clients in the order of their numbers.
//!
//! It is oldest-first with ties broken by number: from equal ages that walks through the clients in
//! order, needs no memory but the ages, and a client that was away when its turn came is the next to be
//! asked. Nothing is random, so the same clients meet again and again.

use super::oldest_first::equivalent_law;
use crate::error::Result;
use crate::policy::{Pick, Policy, PolicyEntry, Round, smallest_by_key};
use crate::random::Seed;
use crate::setting::Setting;
use crate::theory::windows::rhythm_window_sd;
use crate::theory::{PolicyTheory, WINDOW_LENGTHS, uniform_subset_sigma};
use crate::weighting::Weighting;
use std::cmp::Reverse;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "round-robin",
    summary: "the next m clients in order: as balanced as can be, and nothing is random.",
    options: &[],
    weighting: Weighting::Uniform,
    build: |_, _| Ok(Box::new(RoundRobin)),
};

#[derive(Debug)]
struct RoundRobin;

impl Policy for RoundRobin {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        smallest_by_key(round, round.setting().cohort(), |client| Reverse(round.ages().of(client)))
    }

    fn inclusion(&self, round: &Round<'_>, _client: u32) -> f64 {
        (f64::from(round.setting().cohort()) / round.available().count() as f64).min(1.0)
    }

    /// As if the last round had ended with the last client: the first clients have waited longest.
    fn first_ages(&self, setting: &Setting, _seed: Seed) -> Vec<u64> {
        let clients = u64::from(setting.clients());
        let waited = |client: u64| (clients - 1 - client) / u64::from(setting.cohort());
        (0..clients).map(waited).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<PolicyTheory> {
        let rate = f64::from(setting.cohort()) / f64::from(setting.clients());
        // Which clients meet is fixed, so cohorts are no random subsets: data sizes have no closed form.
        let known = weighting != Weighting::DataSize || setting.sizes().are_equal();
        let sigma = known.then(|| uniform_subset_sigma(setting, weighting));
        let theory = PolicyTheory::fixed_cohort(setting, &equivalent_law(setting)?);
        let window_sd = rhythm_window_sd(rate, &WINDOW_LENGTHS);
        Ok(PolicyTheory { window_sd, ..theory }.with_sigma(sigma))
    }
}
