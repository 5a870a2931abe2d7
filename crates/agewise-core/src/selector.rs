//! A run of a policy: ages, rounds and weights in one place.
//!
//! Round by round: [`Selector::select`] names the cohort of the present round, and
//! [`Selector::finish`] ends it with the reports that were accepted. What a run is made of, beside its
//! configuration, is in [`SelectorState`]; a selector that gets it back goes on exactly as the first would
//! have, because all randomness is a function of (seed, round, client).

use crate::ages::Ages;
use crate::error::{Error, Result};
use crate::policies;
use crate::policy::{Availability, Policy, Report, Reports, Round};
use crate::random::Seed;
use crate::setting::{Setting, Start, check_length};
use crate::spec::PolicySpec;
use crate::weighting::Weighting;
use serde::{Deserialize, Serialize};

/// The clients of a round and their aggregation weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Cohort {
    /// The round.
    pub round: u64,
    /// The clients, in increasing order, each once.
    pub clients: Vec<u32>,
    /// The weight of each of them. They add up to 1, except with [`Weighting::Unbiased`].
    pub weights: Vec<f64>,
    /// Whether nobody had been selected, and one client was forced.
    pub forced: bool,
}

/// What has to be kept to continue a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectorState {
    /// The round and the ages.
    pub ages: Ages,
    /// What clients reported.
    pub reports: Reports,
}

/// A policy at work on a population.
///
/// ```
/// use agewise_core::{Availability, PolicySpec, Report, Seed, Selector, SettingParams, Start};
///
/// let setting = SettingParams::new(100, 15, 10).check()?;
/// let policy = PolicySpec::named("oldest-first");
/// let mut selector = Selector::new(&policy, setting, Seed(1), Start::Stationary)?;
/// for _ in 0..20 {
///     let cohort = selector.select(Availability::Everyone)?;
///     assert_eq!(cohort.clients.len(), 15);
///     // ... train, and accept what comes back ...
///     let accepted: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
///     selector.finish(&accepted)?;
/// }
/// assert!(selector.ages().iter().all(|age| age <= 6));
/// # Ok::<(), agewise_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Selector {
    policy: Box<dyn Policy>,
    weighting: Weighting,
    setting: Setting,
    seed: Seed,
    ages: Ages,
    reports: Reports,
}

impl Selector {
    /// A run of a registered policy, with its default weighting.
    pub fn new(spec: &PolicySpec, setting: Setting, seed: Seed, start: Start) -> Result<Self> {
        let weighting = policies::find(spec.name())?.weighting;
        Ok(Self::with_policy(policies::build(spec, &setting)?, weighting, setting, seed, start))
    }

    /// A run of any policy, for example one of your own.
    pub fn with_policy(
        policy: Box<dyn Policy>,
        weighting: Weighting,
        setting: Setting,
        seed: Seed,
        start: Start,
    ) -> Self {
        let ages = match start {
            Start::Stationary => Ages::new(policy.first_ages(&setting, seed)),
            Start::Cold => Ages::cold(setting.clients()),
        };
        Self { policy, weighting, setting, seed, ages, reports: Reports::default() }
    }

    /// The same with another weighting.
    #[must_use]
    pub fn weighing(self, weighting: Weighting) -> Self {
        Self { weighting, ..self }
    }

    /// The cohort of the present round. Asking again gives the same answer.
    pub fn select(&mut self, availability: Availability<'_>) -> Result<Cohort> {
        let round = Round::new(&self.setting, self.seed, &self.ages, availability, &self.reports)?;
        let (picks, forced) = round.choose(&mut *self.policy);
        let weights = round.weigh(&*self.policy, self.weighting, &picks);
        let clients = picks.into_iter().map(|pick| pick.client).collect();
        Ok(Cohort { round: round.number(), clients, weights, forced })
    }

    /// Ends the round: accepted clients are credited, so their age is 0; all others grow older.
    ///
    /// A client that was selected and never reported keeps its age and comes back soon. An unknown
    /// client, one that reports twice and a figure that is not finite are errors; nothing is changed then.
    pub fn finish(&mut self, accepted: &[Report]) -> Result<()> {
        for report in accepted {
            report.check()?;
        }
        let credited: Vec<u32> = accepted.iter().map(|report| report.client).collect();
        self.ages.advance(&credited)?;
        for report in accepted {
            self.reports.record(report);
        }
        Ok(())
    }

    /// The round that is about to be played.
    pub fn round(&self) -> u64 {
        self.ages.round()
    }

    /// The ages at the beginning of the present round.
    pub fn ages(&self) -> &Ages {
        &self.ages
    }

    /// The setting.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// What has to be kept to continue this run later.
    pub fn state(&self) -> SelectorState {
        SelectorState { ages: self.ages.clone(), reports: self.reports.clone() }
    }

    /// Continues a run from where its state was taken.
    pub fn restore(&mut self, state: SelectorState) -> Result<()> {
        let clients = self.setting.clients();
        check_length("ages", state.ages.clients() as usize, clients)?;
        if state.reports.longest() > clients as usize {
            let value = format!("a list of {}", state.reports.longest());
            return Err(Error::new("reports", value, format!("at most {clients} clients")));
        }
        self.ages = state.ages;
        self.reports = state.reports;
        Ok(())
    }
}
