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
use crate::random::{Lots, Seed, Stream};
use crate::setting::{Setting, Start, check_length};
use crate::spec::PolicySpec;
use crate::weighting::Weighting;
use serde::{Deserialize, Serialize};

/// The seeds under which a round is drawn again.
const REDRAW: Stream = Stream::custom(8);

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
    /// What the policy remembers beyond that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<f64>,
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
    start: Start,
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
        Self { policy, weighting, setting, seed, start, ages, reports: Reports::default() }
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

    /// The mean weight of each client (0 where it is not chosen) over cohorts of the present round, drawn again
    /// from the present ages under `redraws` other seeds: the expectation of Definition 1 for a fixed history.
    ///
    /// The error of a mean falls with the root of `redraws`. The selector stays as it was, as long as its policy
    /// keeps nothing that depends on the seed; those of the house do not.
    pub fn expected_weights(
        &mut self,
        availability: Availability<'_>,
        redraws: u32,
    ) -> Result<Vec<f64>> {
        if redraws == 0 {
            return Err(Error::new("redraws", redraws, "1 or more"));
        }
        let seeds = Lots::new(self.seed, REDRAW, self.round());
        let mut mean = vec![0.0; self.setting.clients() as usize];
        for redraw in 0..u64::from(redraws) {
            let seed = Seed(seeds.of(redraw).bits());
            let round = Round::new(&self.setting, seed, &self.ages, availability, &self.reports)?;
            let (picks, _) = round.choose(&mut *self.policy);
            let weights = round.weigh(&*self.policy, self.weighting, &picks);
            for (pick, weight) in picks.iter().zip(weights) {
                if let Some(mean) = mean.get_mut(pick.client as usize) {
                    *mean += weight / f64::from(redraws);
                }
            }
        }
        Ok(mean)
    }

    /// Ends the round: accepted clients are credited, so their age is 0; all others grow older.
    ///
    /// A client that was selected and never reported keeps its age and comes back soon. An unknown
    /// client, one that reports twice and a figure that is not finite are errors; nothing is changed then.
    pub fn finish(&mut self, accepted: &[Report<'_>]) -> Result<()> {
        self.check(accepted)?;
        let credited: Vec<u32> = accepted.iter().map(|report| report.client).collect();
        self.ages.advance(&credited)?;
        self.policy.finished(&self.setting, accepted);
        for report in accepted {
            self.reports.record(report);
        }
        Ok(())
    }

    /// The figures of reports; the first sketch of all says how wide they are.
    fn check(&self, reports: &[Report<'_>]) -> Result<()> {
        let first = || reports.iter().find_map(|report| report.sketch).map(<[f32]>::len);
        let width = self.reports.sketch_width().or_else(first);
        reports.iter().try_for_each(|report| report.check(width))
    }

    /// The clients whose loss under the present model the policy wants to know before it chooses.
    pub fn asks(&self, availability: Availability<'_>) -> Result<Vec<u32>> {
        let round = Round::new(&self.setting, self.seed, &self.ages, availability, &self.reports)?;
        Ok(self.policy.asks(&round))
    }

    /// The clients of whom the policy wants a sketch before it chooses.
    pub fn asks_sketches(&self, availability: Availability<'_>) -> Result<Vec<u32>> {
        let round = Round::new(&self.setting, self.seed, &self.ages, availability, &self.reports)?;
        Ok(self.policy.asks_sketches(&round))
    }

    /// What clients reported so far.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Keeps what clients said about themselves without ending the round: nobody is credited.
    ///
    /// Before the first round of a stationary start, ages can follow from it ([`Policy::informed_ages`]).
    ///
    /// An unknown client and a figure that is not finite are errors; nothing is kept then.
    pub fn note(&mut self, said: &[Report<'_>]) -> Result<()> {
        let clients = self.setting.clients();
        self.check(said)?;
        for report in said {
            if report.client >= clients {
                let expected = format!("clients from 0 to {}", clients - 1);
                return Err(Error::new("client", report.client, expected));
            }
        }
        for report in said {
            self.reports.record(report);
        }
        if self.round() == 0 && self.start == Start::Stationary {
            let everyone = Availability::Everyone;
            let round = Round::new(&self.setting, self.seed, &self.ages, everyone, &self.reports)?;
            if let Some(ages) = self.policy.informed_ages(&round) {
                self.ages = Ages::new(ages);
            }
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
        SelectorState {
            ages: self.ages.clone(),
            reports: self.reports.clone(),
            memory: self.policy.memory(),
        }
    }

    /// Continues a run from where its state was taken.
    pub fn restore(&mut self, state: SelectorState) -> Result<()> {
        let clients = self.setting.clients();
        check_length("ages", state.ages.clients() as usize, clients)?;
        if state.reports.longest() > clients as usize {
            let value = format!("a list of {}", state.reports.longest());
            return Err(Error::new("reports", value, format!("at most {clients} clients")));
        }
        state.reports.check()?;
        self.policy.recall(&state.memory)?;
        self.ages = state.ages;
        self.reports = state.reports;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::POLICIES;
    use crate::setting::SettingParams;

    fn selector(policy: &str) -> Selector {
        let setting = SettingParams::new(20, 5, 6).check().unwrap();
        let policy = policy.parse().unwrap();
        Selector::new(&policy, setting, Seed(3), Start::Stationary).unwrap()
    }

    /// Every registered policy that needs no options, and the one that keeps places from round to round.
    fn policies() -> impl Iterator<Item = &'static str> {
        let plain = POLICIES.iter().filter(|entry| !entry.needs_options).map(|entry| entry.name);
        plain.chain(["phased(reshuffle=0.5)"])
    }

    #[test]
    fn drawing_again_changes_nothing() {
        let mask: Vec<bool> = (0..20).map(|client| client % 3 != 1).collect();
        for policy in policies() {
            let (mut plain, mut redrawn) = (selector(policy), selector(policy));
            for round in 0..12 {
                let availability = match round % 2 {
                    0 => Availability::Everyone,
                    _ => Availability::Only(&mask),
                };
                let first = redrawn.expected_weights(availability, 7).unwrap();
                let cohort = redrawn.select(availability).unwrap();
                assert_eq!(redrawn.expected_weights(availability, 7).unwrap(), first, "{policy}");
                assert_eq!(plain.select(availability).unwrap(), cohort, "{policy}");
                assert_eq!(plain.state(), redrawn.state());
                let reports: Vec<Report> =
                    cohort.clients.iter().map(|&client| Report::plain(client)).collect();
                plain.finish(&reports).unwrap();
                redrawn.finish(&reports).unwrap();
            }
        }
    }

    #[test]
    fn expected_weights_are_those_of_the_policy() {
        for policy in policies() {
            let weights = selector(policy).expected_weights(Availability::Everyone, 50).unwrap();
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{policy}: {weights:?}");
        }
        // A weight of 1/5 with probability 1/4 has the deviation 0.0866; 4,000 draws make that 0.00137,
        // and 20 clients stay within 4 deviations.
        let weights = selector("random").expected_weights(Availability::Everyone, 4_000).unwrap();
        assert!(weights.iter().all(|weight| (weight - 0.05).abs() < 0.0055), "{weights:?}");
        // Ages 0 to 3 with 5 clients each: oldest-first has no choice, so its mean is its cohort.
        let mut oldest = selector("oldest-first");
        let weights = oldest.expected_weights(Availability::Everyone, 9).unwrap();
        let cohort = oldest.select(Availability::Everyone).unwrap();
        for (client, weight) in (0..).zip(weights) {
            let expected = if cohort.clients.contains(&client) { 0.2 } else { 0.0 };
            assert!((weight - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn what_is_said_is_kept_and_credits_nobody() {
        let mut random = selector("random");
        let ages = random.ages().clone();
        let said = |client, loss| Report { loss: Some(loss), ..Report::plain(client) };
        random.note(&[said(3, 0.5), said(19, 2.0)]).unwrap();
        assert_eq!((random.ages(), random.round()), (&ages, 0));
        let kept = random.state().reports;
        assert_eq!((kept.loss(3), kept.loss(19), kept.loss(4)), (Some(0.5), Some(2.0), None));
        assert_eq!(random.note(&[said(4, 1.0), said(20, 1.0)]).unwrap_err().field(), "client");
        assert!(random.note(&[said(4, 1.0), said(5, f32::NAN)]).is_err());
        assert_eq!(random.state().reports, kept);
    }

    #[test]
    fn who_is_away_has_no_weight() {
        let mask: Vec<bool> = (0..20).map(|client| client >= 10).collect();
        let mut random = selector("random");
        let weights = random.expected_weights(Availability::Only(&mask), 100).unwrap();
        assert!(weights[..10].iter().all(|&weight| weight == 0.0));
        let wrong = random.expected_weights(Availability::Everyone, 0).unwrap_err();
        assert_eq!(wrong.field(), "redraws");
        assert!(random.expected_weights(Availability::Only(&mask[1..]), 1).is_err());
    }
}
