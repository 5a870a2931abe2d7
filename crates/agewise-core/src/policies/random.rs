//! `random`: m of the available clients uniformly, without replacement (policy 1 of the paper, `FedAvg`).

use crate::error::Result;
use crate::law::AgeLaw;
use crate::policy::{Plan, Policy, PolicyEntry, Ranking, uniform_inclusion};
use crate::random::{Draws, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::theory::{PolicyTheory, uniform_subset_sigma};
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random",
    summary: "m clients uniformly at random, as in FedAvg: some wait for dozens of rounds.",
    options: &[],
    needs_options: false,
    weighting: Weighting::DataSize,
    build: |_, _| Ok(Box::new(Random)),
};

#[derive(Debug)]
struct Random;

impl Policy for Random {
    /// The m lowest ranks: each client has its own, so the cohort depends on nothing else.
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        Ranking::Random.select(round)
    }

    fn plan(&self) -> Plan<'_> {
        Plan::Ranked(Ranking::Random)
    }

    fn rounds_are_independent(&self) -> bool {
        true
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        // Without memory the age is geometric, which is the steady state of a constant law.
        let Ok(law) = memoryless(setting) else {
            return Vec::new();
        };
        let ages = law.stationary_age();
        let draws = Draws::new(seed, Stream::FIRST_AGE, 0);
        (0..setting.clients()).map(|client| ages.draw(draws.of(u64::from(client)))).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<Option<PolicyTheory>> {
        let theory = PolicyTheory::fixed_cohort(setting, &memoryless(setting)?);
        Ok(Some(theory.with_sigma(Some(uniform_subset_sigma(setting, weighting)))))
    }
}

fn memoryless(setting: &Setting) -> Result<AgeLaw> {
    let rate = f64::from(setting.cohort()) / f64::from(setting.clients());
    AgeLaw::new(&[rate, rate])
}
