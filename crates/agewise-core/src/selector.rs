//! A run of a policy: a population, its rounds and its weights in one place.
//!
//! Round by round: [`Selector::select`] names the cohort of the present round, and
//! [`Selector::finish`] ends it with the reports that were accepted ([`Selector::finish_with_failures`] also says which
//! clients were asked and did not deliver). Between two calls clients may be admitted, leave or
//! change their size. What a run is made of, beside its configuration, is in [`SelectorState`]; a selector that gets it
//! back goes on exactly as the first would have, because all randomness is a function of (seed, round, client).

use crate::ages::Ages;
use crate::error::{Error, Result};
use crate::policy::{Policy, PolicySpec, PolicyVariant, Probe};
use crate::population::{Population, PopulationState};
use crate::random::{Draws, Seed, Stream};
use crate::reports::{Report, Reports};
use crate::round::{Availability, Pick, Round};
use crate::setting::{Setting, Start};
use crate::sizes::Sizes;
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
    /// How often each of them was drawn: once, except where clients are drawn with replacement.
    pub draws: Vec<u32>,
    /// The weight of each of them. They add up to 1, except with [`Weighting::Unbiased`].
    pub weights: Vec<f64>,
    /// Whether no client had been selected, and one was forced.
    pub forced: bool,
}

impl Cohort {
    /// Its members as [`Selector::weigh`] wants them: leave those out that did not report.
    pub fn picks(&self) -> impl Iterator<Item = Pick> {
        let members = self.clients.iter().zip(&self.draws);
        members.map(|(&client, &draws)| Pick { client, draws })
    }
}

/// What has to be kept to continue a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectorState {
    /// Ages, failures, reports, and how the population has changed since the beginning.
    pub population: PopulationState,
    /// What the policy remembers beyond that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<f64>,
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
    name: String,
    policy: Box<dyn Policy>,
    weighting: Weighting,
    seed: Seed,
    start: Start,
    population: Population,
}

impl Selector {
    /// A run of a registered policy, with its default weighting.
    pub fn new(spec: &PolicySpec, setting: Setting, seed: Seed, start: Start) -> Result<Self> {
        Self::from_variant(&PolicyVariant::from_spec(spec)?.with_start(start), setting, seed)
    }

    /// A run of any policy, for example one of your own.
    pub fn from_variant(variant: &PolicyVariant, setting: Setting, seed: Seed) -> Result<Self> {
        let policy = variant.build(&setting)?;
        let start = variant.start();
        let ages = match start {
            Start::Stationary => {
                let ages = policy.initial_ages(&setting, seed);
                check_ages(variant.name(), &ages, &setting)?;
                Ages::new(ages)
            }
            Start::Cold => Ages::cold(setting.clients()),
        };
        let population = Population::new(setting, ages)?;
        let (name, weighting) = (variant.name().to_string(), variant.weighting());
        Ok(Self { name, policy, weighting, seed, start, population })
    }

    /// The same with another weighting.
    #[must_use]
    pub fn with_weighting(self, weighting: Weighting) -> Self {
        Self { weighting, ..self }
    }

    /// The cohort of the present round. Asking again gives the same answer.
    ///
    /// A cohort of which a client is unknown, has left, is not available or comes twice, or that is not in increasing
    /// order, is an error that names the policy.
    pub fn select(&mut self, availability: Availability<'_>) -> Result<Cohort> {
        let round = self.population.view_for(&*self.policy, self.seed, availability)?;
        let (picks, forced) = round.choose(&mut *self.policy, &self.name)?;
        let weights = round.weigh(&*self.policy, self.weighting, &picks);
        let weights = self.checked(weights)?;
        let (clients, draws) = picks.into_iter().map(|pick| (pick.client, pick.draws)).unzip();
        Ok(Cohort { round: round.number(), clients, draws, weights, forced })
    }

    /// The weights of some clients of the present round, for example of those members of the cohort that reported.
    pub fn weigh(&self, picks: &[Pick], availability: Availability<'_>) -> Result<Vec<f64>> {
        picks.iter().try_for_each(|pick| self.population.check_client(pick.client))?;
        self.checked(self.view(availability)?.weigh(&*self.policy, self.weighting, picks))
    }

    /// Refuses weights that no update can have: they come from the inclusion probabilities of a policy of one's own.
    fn checked(&self, weights: Vec<f64>) -> Result<Vec<f64>> {
        match weights.iter().find(|weight| !weight.is_finite()) {
            None => Ok(weights),
            Some(weight) => {
                let expected =
                    "finite weights: each client of a cohort has an inclusion probability above 0";
                Err(Error::new(format!("weights of {}", self.name), weight, expected))
            }
        }
    }

    /// The mean weight of each client (0 where it is not chosen) over cohorts of the present round, drawn again
    /// from the present ages under `redraws` other seeds: the expectation of Definition 1 for a fixed history.
    ///
    /// The error of a mean falls with the root of `redraws`. The selector stays as it was, as long as its policy
    /// keeps nothing that depends on the seed; built-in ones do not.
    pub fn expected_weights(
        &mut self,
        availability: Availability<'_>,
        redraws: u32,
    ) -> Result<Vec<f64>> {
        if redraws == 0 {
            return Err(Error::new("redraws", redraws, "1 or more"));
        }
        let seeds = Draws::new(self.seed, REDRAW, self.round());
        let mut mean = vec![0.0; self.population.clients() as usize];
        for redraw in 0..u64::from(redraws) {
            let seed = Seed(seeds.of(redraw).bits());
            let round = self.population.view_for(&*self.policy, seed, availability)?;
            let (picks, _) = round.choose(&mut *self.policy, &self.name)?;
            let weights = round.weigh(&*self.policy, self.weighting, &picks);
            for (pick, weight) in picks.iter().zip(weights) {
                mean[pick.client as usize] += weight / f64::from(redraws);
            }
        }
        Ok(mean)
    }

    /// Ends the round: accepted clients are credited, so their age is 0; all others grow older.
    ///
    /// A client that was selected and never reported keeps its age and comes back soon: a caller that can say that it
    /// failed uses [`Selector::finish_with_failures`]. An unknown client, one that reports twice and a figure that is
    /// not finite are errors; nothing is changed then.
    pub fn finish(&mut self, accepted: &[Report<'_>]) -> Result<()> {
        self.finish_with_failures(accepted, &[])
    }

    /// Ends the round as [`Selector::finish`] does. The failed were asked and did not deliver: they keep their ages, may
    /// be asked again in the next round after a first failure, and have to wait longer after each further
    /// one in a row ([`Failures`](crate::Failures)).
    ///
    /// An unknown client and one that comes twice, in one list or in both, are errors too; nothing is changed then.
    pub fn finish_with_failures(&mut self, accepted: &[Report<'_>], failed: &[u32]) -> Result<()> {
        self.population.finish(accepted, failed)?;
        self.policy.finished(self.population.setting(), accepted);
        Ok(())
    }

    /// What the policy wants to know of which clients before it chooses.
    pub fn probes(&self, availability: Availability<'_>) -> Result<Vec<Probe>> {
        Ok(self.policy.probes(&self.view(availability)?))
    }

    /// Keeps what clients said about themselves without ending the round: no client is credited.
    ///
    /// Before the first round of a stationary start, ages can follow from it ([`Policy::initial_ages_from_probes`]).
    ///
    /// An unknown client and a figure that is not finite are errors; nothing is kept then.
    pub fn observe(&mut self, said: &[Report<'_>]) -> Result<()> {
        self.population.observe(said)?;
        if self.round() == 0 && self.start == Start::Stationary {
            let round = self.view(Availability::Everyone)?;
            if let Some(ages) = self.policy.initial_ages_from_probes(&round) {
                check_ages(&self.name, &ages, self.setting())?;
                self.population.set_ages(Ages::new(ages))?;
            }
        }
        Ok(())
    }

    /// One more client, with this size and this age in the present round; returns its number, which is the number of
    /// clients before. A policy that cannot be for so many clients refuses, and nothing is changed then.
    pub fn admit(&mut self, size: f64, age: u64) -> Result<u32> {
        self.admit_all([(size, age)])
    }

    /// Several clients at once, each with its size and its age; returns the number of the first. The policy hears of
    /// them once.
    pub fn admit_all(&mut self, clients: impl IntoIterator<Item = (f64, u64)>) -> Result<u32> {
        let first = self.population.clients();
        let mut clients = clients.into_iter();
        let admitted =
            clients.try_for_each(|(size, age)| self.population.admit(size, age).map(drop));
        let admitted = admitted.and_then(|()| self.tell_policy());
        if admitted.is_err() {
            self.population.dismiss(first);
        }
        admitted.map(|()| first)
    }

    /// A client that is never available again. Its number, its size and its age stay, so for the policy
    /// nothing changes but the set of available clients.
    pub fn leave(&mut self, client: u32) -> Result<()> {
        self.population.leave(client)
    }

    /// Another amount of data of one client.
    pub fn set_size(&mut self, client: u32, size: f64) -> Result<()> {
        self.population.check_client(client)?;
        let before = self.setting().sizes().of(client);
        self.population.set_size(client, size)?;
        self.tell_policy().or_else(|error| {
            self.population.set_size(client, before)?;
            Err(error)
        })
    }

    /// Other amounts of data of all clients. The policy hears of them once.
    pub fn set_sizes(&mut self, sizes: Sizes) -> Result<()> {
        let before = self.setting().sizes().clone();
        self.population.set_sizes(sizes)?;
        self.tell_policy().or_else(|error| {
            self.population.set_sizes(before)?;
            Err(error)
        })
    }

    /// The target number of rounds between two selections from now on, instead of n/m.
    pub fn set_interval(&mut self, interval: f64) -> Result<()> {
        let before = self.setting().own_interval();
        self.population.set_interval(interval)?;
        self.tell_policy().or_else(|error| {
            self.population.setting_mut().set_interval(before)?;
            Err(error)
        })
    }

    /// The target number of rounds between two selections is n/m again, whatever was set before.
    pub fn unset_interval(&mut self) -> Result<()> {
        self.population.setting_mut().set_interval(None)?;
        self.tell_policy()
    }

    fn tell_policy(&mut self) -> Result<()> {
        self.policy.population_changed(self.population.setting())
    }

    /// Another seed from the present round on, where each round has a seed of its own.
    pub fn set_seed(&mut self, seed: Seed) {
        self.seed = seed;
    }

    /// The present round as the policy sees it.
    pub fn view<'a>(&'a self, availability: Availability<'a>) -> Result<Round<'a>> {
        self.population.view_for(&*self.policy, self.seed, availability)
    }

    /// The clients.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// What clients reported so far.
    pub fn reports(&self) -> &Reports {
        self.population.reports()
    }

    /// The round that is about to be played.
    pub fn round(&self) -> u64 {
        self.population.round()
    }

    /// The ages at the beginning of the present round.
    pub fn ages(&self) -> &Ages {
        self.population.ages()
    }

    /// The setting.
    pub fn setting(&self) -> &Setting {
        self.population.setting()
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// The name of the policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How cohorts are weighed.
    pub fn weighting(&self) -> Weighting {
        self.weighting
    }

    /// What has to be kept to continue this run later.
    pub fn state(&self) -> SelectorState {
        SelectorState { population: self.population.state(), policy: self.policy.state() }
    }

    /// Continues a run from where its state was taken; the run must have begun as this one. After an error everything is
    /// as it was.
    pub fn restore(&mut self, state: SelectorState) -> Result<()> {
        let before = self.population.restored(state.population)?;
        let before = std::mem::replace(&mut self.population, before);
        let restored = self.tell_policy().and_then(|()| self.policy.load_state(&state.policy));
        restored.or_else(|error| {
            self.population = before;
            self.tell_policy()?;
            Err(error)
        })
    }
}

/// Checks that a policy has named an age for each client.
fn check_ages(name: &str, ages: &[u64], setting: &Setting) -> Result<()> {
    let clients = setting.clients();
    if ages.len() == clients as usize {
        return Ok(());
    }
    let expected = format!("one for each of the {clients} clients");
    Err(Error::new(
        format!("initial ages of {name}"),
        format!("a list of {}", ages.len()),
        expected,
    ))
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
        random.observe(&[said(3, 0.5), said(19, 2.0)]).unwrap();
        assert_eq!((random.ages(), random.round()), (&ages, 0));
        let kept = random.state().population.reports;
        assert_eq!((kept.loss(3), kept.loss(19), kept.loss(4)), (Some(0.5), Some(2.0), None));
        assert_eq!(random.observe(&[said(4, 1.0), said(20, 1.0)]).unwrap_err().field(), "client");
        assert!(random.observe(&[said(4, 1.0), said(5, f32::NAN)]).is_err());
        assert_eq!(random.state().population.reports, kept);
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
