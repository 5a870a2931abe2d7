//! What all age-law policies share: every available client decides on its own (policies 3 and 4 of the
//! paper).

use crate::error::Result;
use crate::law::{AgeLaw, LawFamily, Laws};
use crate::math::square;
use crate::policy::{LocalRule, Plan, Policy, ask_everyone};
use crate::random::{Draw, Draws, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::{EmptyCohort, Setting};
use crate::theory::independent::{IndependentSigma, sigma, weighted_sigma};
use crate::theory::subset_weights::{SizeClass, gather};
use crate::theory::windows::renewal_window_sd;
use crate::theory::{
    PhaseTheory, PolicyTheory, Sigma, WINDOW_LENGTHS, distribution_for_drawing, sum_over_clients,
    unbiased_sigma,
};
use crate::weighting::Weighting;
use std::collections::BTreeMap;

/// Clients that follow age laws.
#[derive(Debug)]
pub(super) struct LawPolicy {
    laws: Laws,
    /// Where the laws come from, unless the user gave them.
    family: Option<LawFamily>,
    /// The chance that a given client is the one that is forced into an empty cohort.
    forced: f64,
}

impl LawPolicy {
    /// The laws of a family for a setting.
    pub(super) fn of_family(family: LawFamily, setting: &Setting) -> Result<Self> {
        let policy = Self::new(setting.laws(family)?, setting);
        Ok(Self { family: Some(family), ..policy })
    }

    /// Laws that the user gave.
    pub(super) fn new(laws: Laws, setting: &Setting) -> Self {
        let forced = forced_probability(&laws, setting);
        Self { laws, family: None, forced }
    }

    fn sigma(&self, setting: &Setting, weighting: Weighting) -> IndependentSigma {
        let rule = setting.empty_cohort();
        match weighting {
            Weighting::Uniform | Weighting::DrawCount => match self.laws.common() {
                Some(law) => sigma(setting.clients(), law.rate(), rule),
                None => weighted_sigma(&size_classes(&self.laws, setting, false).0, rule),
            },
            Weighting::DataSize => {
                if let (Some(law), true) = (self.laws.common(), setting.sizes().are_equal()) {
                    return sigma(setting.clients(), law.rate(), rule);
                }
                let (classes, exact) = size_classes(&self.laws, setting, true);
                let mut sigma = weighted_sigma(&classes, rule);
                sigma.with_rule.exact = exact;
                sigma.given_nonempty.exact = exact;
                sigma
            }
            Weighting::Unbiased => {
                let rate = |client| self.laws.of(client).rate();
                let inclusion = |client| rate(client) + self.forced;
                let empty = empty_probability(&self.laws, setting);
                // Given a cohort that is not empty, the probability of each client is a little higher.
                let given = |client: u32| rate(client) / (1.0 - empty);
                let given_nonempty = sum_over_clients(setting, |client| {
                    let weight = setting.sizes().share(client) / inclusion(client);
                    weight * weight * given(client) * (1.0 - given(client))
                });
                IndependentSigma {
                    with_rule: Sigma::exact(unbiased_sigma(setting, inclusion)),
                    given_nonempty: Sigma::exact(given_nonempty),
                    as_printed: None,
                    empty_probability: empty,
                }
            }
        }
    }
}

impl Policy for LawPolicy {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        ask_everyone(self, round)
    }

    fn inclusion(&self, _round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&client| self.laws.of(client).rate() + self.forced).collect()
    }

    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        let draws = Draws::new(seed, Stream::FIRST_AGE, 0);
        let draw = |client: u32| draws.of(u64::from(client));
        if let Some(law) = self.laws.common() {
            let ages = law.stationary_age();
            return (0..setting.clients()).map(|client| ages.draw(draw(client))).collect();
        }
        let age = |client| self.laws.of(client).stationary_age().draw(draw(client));
        (0..setting.clients()).map(age).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<Option<PolicyTheory>> {
        let sigma = self.sigma(setting, weighting);
        let classes = self.laws.classes(setting.clients());
        let sum = |value: &dyn Fn(&AgeLaw) -> f64| -> f64 {
            classes.iter().map(|&(law, count)| f64::from(count) * value(law)).sum()
        };
        let cohort_mean = sum(&|law| law.rate());
        let cohort_variance = sum(&|law| law.rate() * (1.0 - law.rate()));
        // A selection picked at random belongs to a class in proportion to its rate.
        let mean = f64::from(setting.clients()) / cohort_mean;
        let variance = sum(&|law| {
            let own = law.interval();
            law.rate() * (own.variance + square(own.mean - mean))
        }) / cohort_mean;
        let longest = classes.iter().map(|(law, _)| law.longest_interval());
        let common = self.laws.common();
        Ok(Some(PolicyTheory {
            probabilities: common.map(AgeLaw::probabilities),
            steady_state: common.map(AgeLaw::steady_state),
            mean_interval: mean,
            var_interval: variance,
            longest_wait: longest
                .collect::<Option<Vec<u64>>>()
                .and_then(|all| all.into_iter().max()),
            sigma: Some(sigma.with_rule.value),
            sigma_given_nonempty: Some(sigma.given_nonempty.value),
            sigma_as_printed: sigma.as_printed.map(|sigma| sigma.value),
            sigma_exact: sigma.with_rule.exact,
            cohort_mean,
            cohort_sd: cohort_variance.sqrt(),
            empty_probability: sigma.empty_probability,
            window_sd: common
                .map_or_else(BTreeMap::new, |law| renewal_window_sd(law, &WINDOW_LENGTHS)),
            phases: common.map(PhaseTheory::new),
            interval_distribution: common.map_or_else(Vec::new, distribution_for_drawing),
        }))
    }

    fn population_changed(&mut self, setting: &Setting) -> Result<()> {
        if let Some(family) = self.family {
            self.laws = setting.laws(family)?;
        }
        self.forced = forced_probability(&self.laws, setting);
        Ok(())
    }

    fn local_rule(&self) -> Option<&dyn LocalRule> {
        Some(self)
    }

    fn plan(&self) -> Plan<'_> {
        Plan::Laws(&self.laws)
    }

    fn law_family(&self) -> Option<LawFamily> {
        self.family
    }
}

impl LocalRule for LawPolicy {
    fn takes_part(&self, _round: u64, client: u32, age: u64, draw: Draw) -> bool {
        self.laws.of(client).takes_part(age, draw)
    }
}

/// The chance that a given client is the one that is forced into an empty cohort.
fn forced_probability(laws: &Laws, setting: &Setting) -> f64 {
    match setting.empty_cohort() {
        EmptyCohort::ForceOne => empty_probability(laws, setting) / f64::from(setting.clients()),
        EmptyCohort::Skip => 0.0,
    }
}

fn empty_probability(laws: &Laws, setting: &Setting) -> f64 {
    let classes = laws.classes(setting.clients());
    let log = classes.iter().map(|(law, count)| f64::from(*count) * libm::log1p(-law.rate()));
    libm::exp(log.sum())
}

/// The clients gathered by rate and, if asked for, by their share of the data.
fn size_classes(laws: &Laws, setting: &Setting, by_size: bool) -> (Vec<SizeClass>, bool) {
    let sizes = setting.sizes();
    let mut each: Vec<SizeClass> = match laws.common() {
        Some(law) => {
            let (rate, total) = (law.rate(), sizes.total());
            let class = |(size, count)| SizeClass { size: size / total, rate, count };
            sizes.classes().into_iter().map(class).collect()
        }
        None => (0..setting.clients())
            .map(|client| SizeClass {
                size: if by_size { sizes.share(client) } else { 1.0 },
                rate: laws.of(client).rate(),
                count: 1,
            })
            .collect(),
    };
    each.sort_by(|a, b| a.rate.total_cmp(&b.rate).then(a.size.total_cmp(&b.size)));
    let alike = each.chunk_by(|a, b| a.rate == b.rate && a.size == b.size);
    let merged = alike
        .map(|chunk| SizeClass { count: chunk.iter().map(|class| class.count).sum(), ..chunk[0] });
    gather(merged.collect())
}
