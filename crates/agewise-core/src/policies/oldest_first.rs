//! `oldest-first`: the m oldest available clients, ties broken at random.
//!
//! In its steady state it is the chain of the optimal law with a fixed cohort (at n = 100, m = 15: all of
//! age 6, and 5 of the 15 of age 5, so p_5 = 1/3): Var\[X\] = c(1 - c) and Sigma = 1/m - 1/n, both minima at
//! once. The price is a coordinator that sees the ages.

use crate::error::Result;
use crate::law::AgeLaw;
use crate::policy::{Plan, Policy, PolicyEntry, Ranking, uniform_inclusion};
use crate::random::{Draws, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::theory::{PolicyTheory, uniform_subset_sigma};
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "oldest-first",
    summary: "the m oldest clients, ties at random: least Var[X] and least Sigma at once.",
    options: &[],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |_, _| Ok(Box::new(OldestFirst)),
};

#[derive(Debug)]
struct OldestFirst;

impl Policy for OldestFirst {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        Ranking::OldestThenDraws.select(round)
    }

    fn plan(&self) -> Plan<'_> {
        Plan::Ranked(Ranking::OldestThenDraws)
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    /// m clients of each age, in random order: the only steady state there is.
    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        let draws = Draws::new(seed, Stream::FIRST_AGE, 0);
        let mut order: Vec<u32> = (0..setting.clients()).collect();
        order.sort_unstable_by_key(|&client| (draws.of(u64::from(client)), client));
        let mut ages = vec![0; order.len()];
        for (rank, client) in order.into_iter().enumerate() {
            ages[client as usize] = rank as u64 / u64::from(setting.cohort());
        }
        ages
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<Option<PolicyTheory>> {
        // A client's selections follow the optimal law, whatever `max_age` is.
        let theory = PolicyTheory::fixed_cohort(setting, &AgeLaw::unsaturated(setting.interval()));
        Ok(Some(theory.with_sigma(Some(uniform_subset_sigma(setting, weighting)))))
    }
}
