//! The one interface of all selection policies, on the coordinator's side and on the client's.
//!
//! A policy sees a [`Round`] and names a cohort. A decentralised policy also has a [`LocalRule`]: the
//! decision that a client can take at home. Such a policy's `select` is nothing but that rule asked for
//! every available client, so both sides agree by construction.

use crate::ages::Ages;
use crate::error::{Error, Result};
use crate::law::{AgeLaw, LawFamily, Laws};
use crate::random::{Lot, Lots, Ranks, Seed, Stream};
use crate::setting::{EmptyCohort, Setting, check_length};
use crate::sizes::Sizes;
use crate::spec::PolicySpec;
use crate::theory::PolicyTheory;
use crate::weighting::{Weighed, Weighting};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt::Debug;

/// Who can take part in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability<'a> {
    /// Every client.
    Everyone,
    /// Those whose entry is `true`.
    Only(&'a [bool]),
}

/// What clients reported when their updates were last accepted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reports {
    losses: Vec<Option<f32>>,
    durations: Vec<Option<f32>>,
}

impl Reports {
    /// The last reported loss of a client.
    pub fn loss(&self, client: u32) -> Option<f32> {
        known(&self.losses, client)
    }

    /// The last reported duration of a client's training, in seconds.
    pub fn duration(&self, client: u32) -> Option<f32> {
        known(&self.durations, client)
    }

    /// One more than the highest client of whom anything is known.
    pub(crate) fn longest(&self) -> usize {
        self.losses.len().max(self.durations.len())
    }

    /// Keeps what an accepted report says.
    pub fn record(&mut self, report: &Report) {
        store(&mut self.losses, report.client, report.loss);
        store(&mut self.durations, report.client, report.duration);
    }
}

fn known(values: &[Option<f32>], client: u32) -> Option<f32> {
    values.get(client as usize).copied().flatten()
}

/// Grows the list only when there is something to keep: most runs report nothing.
fn store(values: &mut Vec<Option<f32>>, client: u32, value: Option<f32>) {
    if value.is_some() {
        if values.len() <= client as usize {
            values.resize(client as usize + 1, None);
        }
        values[client as usize] = value;
    }
}

/// A client's report whose update was accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Who reports.
    pub client: u32,
    /// Its training loss.
    pub loss: Option<f32>,
    /// How long it trained, in seconds.
    pub duration: Option<f32>,
}

impl Report {
    /// A report without figures.
    pub fn plain(client: u32) -> Self {
        Self { client, loss: None, duration: None }
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (field, value) in [("loss", self.loss), ("duration", self.duration)] {
            if let Some(value) = value
                && !value.is_finite()
            {
                let field = format!("{field} of client {}", self.client);
                return Err(Error::new(field, value, "a finite number"));
            }
        }
        Ok(())
    }
}

/// Everything that a policy may look at in one round.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    seed: Seed,
    ages: &'a Ages,
    setting: &'a Setting,
    availability: Availability<'a>,
    reports: &'a Reports,
}

impl<'a> Round<'a> {
    /// Puts the parts of a round together; ages and availability must be those of the setting's clients.
    pub fn new(
        setting: &'a Setting,
        seed: Seed,
        ages: &'a Ages,
        availability: Availability<'a>,
        reports: &'a Reports,
    ) -> Result<Self> {
        check_length("ages", ages.clients() as usize, setting.clients())?;
        if let Availability::Only(mask) = availability {
            check_length("available", mask.len(), setting.clients())?;
        }
        Ok(Self { seed, ages, setting, availability, reports })
    }

    /// The number of the round, from 0.
    pub fn number(&self) -> u64 {
        self.ages.round()
    }

    /// n, m, and what else is fixed.
    pub fn setting(&self) -> &'a Setting {
        self.setting
    }

    /// The ages of all clients.
    pub fn ages(&self) -> &'a Ages {
        self.ages
    }

    /// The data sizes.
    pub fn sizes(&self) -> &'a Sizes {
        self.setting.sizes()
    }

    /// What was reported so far.
    pub fn reports(&self) -> &'a Reports {
        self.reports
    }

    /// Whether everyone is available.
    pub fn everyone_is_available(&self) -> bool {
        match self.availability {
            Availability::Everyone => true,
            Availability::Only(mask) => mask.iter().all(|&available| available),
        }
    }

    /// The available clients, in increasing order.
    pub fn available(&self) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let availability = self.availability;
        (0..self.setting.clients()).filter(move |&client| match availability {
            Availability::Everyone => true,
            Availability::Only(mask) => mask[client as usize],
        })
    }

    /// The random numbers of this round in one stream.
    pub fn lots(&self, stream: Stream) -> Lots {
        Lots::new(self.seed, stream, self.number())
    }

    /// The seed of the run, for randomness that does not belong to one round.
    pub fn seed(&self) -> Seed {
        self.seed
    }
}

/// A chosen client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pick {
    /// Who.
    pub client: u32,
    /// How often it was drawn: 1, except where clients are drawn with replacement.
    pub draws: u32,
}

impl Pick {
    /// A client that is chosen once.
    pub fn once(client: u32) -> Self {
        Self { client, draws: 1 }
    }
}

/// A way to choose who trains next.
///
/// A policy of the house is one file in `policies/` and one line of registration; one of your own can
/// live anywhere:
///
/// ```
/// use agewise_core::theory::PolicyTheory;
/// use agewise_core::{
///     Availability, Error, Pick, Policy, Report, Result, Round, Seed, Selector, Setting,
///     SettingParams, Start, Weighting,
/// };
///
/// /// The m clients whose last reported loss is highest; who never reported comes first.
/// #[derive(Debug)]
/// struct HighestLoss;
///
/// impl Policy for HighestLoss {
///     fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
///         let loss = |client: &u32| round.reports().loss(*client).unwrap_or(f32::INFINITY);
///         let mut clients: Vec<u32> = round.available().collect();
///         clients.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
///         clients.truncate(round.setting().cohort() as usize);
///         clients.sort_unstable();
///         clients.into_iter().map(Pick::once).collect()
///     }
///     fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
///         clients.iter().map(|&client| round.setting().rate(client)).collect()
///     }
///     fn first_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
///         vec![0; setting.clients() as usize]
///     }
///     fn theory(&self, _: &Setting, _: Weighting) -> Result<PolicyTheory> {
///         Err(Error::new("policy", "highest-loss", "a policy with closed forms"))
///     }
/// }
///
/// let setting = SettingParams::new(4, 2, 5).check()?;
/// let policy = Box::new(HighestLoss);
/// let mut selector =
///     Selector::with_policy(policy, Weighting::Uniform, setting, Seed(1), Start::Cold);
/// let report = |client, loss| Report { client, loss: Some(loss), duration: None };
/// selector.finish(&[report(0, 0.1), report(1, 2.0), report(2, 0.5), report(3, 0.9)])?;
/// assert_eq!(selector.select(Availability::Everyone)?.clients, [1, 3]);
/// # Ok::<(), Error>(())
/// ```
pub trait Policy: Debug + Send + Sync {
    /// Chooses the clients of a round: available ones, each at most once, in increasing order.
    ///
    /// An empty choice is fine; the rule of the setting says what happens then.
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick>;

    /// For each of these clients the probability that it is in a cohort in the long run, for
    /// [`Weighting::Unbiased`].
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64>;

    /// The age of every client in the policy's steady state, for a stationary start.
    fn first_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64>;

    /// What is known in closed form, with these weights.
    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<PolicyTheory>;

    /// The client's side, if clients can decide by themselves.
    fn local_rule(&self) -> Option<&dyn LocalRule> {
        None
    }

    /// How the policy chooses, for an engine that keeps clients in order of age and need not look at
    /// all of them.
    fn plan(&self) -> Plan<'_> {
        Plan::Select
    }

    /// Whether a cohort tells nothing about the next one.
    fn rounds_are_independent(&self) -> bool {
        false
    }

    /// The family of its laws, if they follow from a target interval: such a policy can be calibrated.
    fn law_family(&self) -> Option<LawFamily> {
        None
    }

    /// The age law that everyone follows, if that is how the policy works.
    fn age_law(&self) -> Option<&AgeLaw> {
        match self.plan() {
            Plan::Laws(laws) => laws.common(),
            _ => None,
        }
    }
}

/// How a policy chooses: a description from which the same cohorts follow as from [`Policy::select`].
#[derive(Debug, Clone, Copy)]
pub enum Plan<'a> {
    /// Each available client takes part iff its lot wins against its law.
    Laws(&'a Laws),
    /// The first m available clients by this order.
    Ranked(Ranking),
    /// By nothing simpler than asking [`Policy::select`].
    Select,
}

/// An order of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// In a random order, by [`Ranks`].
    Random,
    /// Older clients first, then by lot.
    OldestThenLots,
    /// Older clients first, then by number, counted from [`Ranking::first_number`] on.
    OldestThenNumbers,
}

impl Ranking {
    /// The number from which a round counts: where the last one would have stopped if everyone had been
    /// there. Counting from 0 would favour low numbers whenever a cohort wraps around.
    pub fn first_number(setting: &Setting, round: u64) -> u32 {
        let clients = u64::from(setting.clients());
        (round % clients * u64::from(setting.cohort()) % clients) as u32
    }

    /// The first m available clients of a round, in increasing order of client.
    pub(crate) fn select(self, round: &Round<'_>) -> Vec<Pick> {
        let lots = round.lots(Stream::LOT);
        let lot = |client: u32| lots.of(u64::from(client));
        let age = |client: u32| Reverse(round.ages().of(client));
        match self {
            Self::Random => {
                let ranks = Ranks::new(round.seed(), round.number());
                let mut block = (0, ranks.coarse(0));
                first_by(round, |client| {
                    let client = u64::from(client);
                    if client / Ranks::BLOCK != block.0 {
                        block = (client / Ranks::BLOCK, ranks.coarse(client / Ranks::BLOCK));
                    }
                    ranks.in_block(&block.1, client)
                })
            }
            Self::OldestThenLots => first_by(round, |client| (age(client), lot(client))),
            Self::OldestThenNumbers => {
                let first = Self::first_number(round.setting(), round.number());
                // Wrapping below the first number sends those behind all others.
                first_by(round, |client| (age(client), client.wrapping_sub(first)))
            }
        }
    }
}

/// The inclusion probabilities where m of the available clients are chosen and all are treated alike.
pub(crate) fn alike(round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
    let available = round.available().count() as f64;
    vec![(f64::from(round.setting().cohort()) / available).min(1.0); clients.len()]
}

/// The m available clients with the smallest keys (then numbers), in increasing order of client.
fn first_by<K: Ord>(round: &Round<'_>, mut key: impl FnMut(u32) -> K) -> Vec<Pick> {
    let mut ranked: Vec<(K, u32)> = round.available().map(|client| (key(client), client)).collect();
    let count = round.setting().cohort() as usize;
    if count < ranked.len() {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    let mut picks: Vec<Pick> = ranked.into_iter().map(|(_, client)| Pick::once(client)).collect();
    picks.sort_unstable();
    picks
}

/// The client's side of a decentralised policy: one client decides alone.
pub trait LocalRule: Send + Sync {
    /// Whether the client takes part, given its age and its own random number of the round.
    fn takes_part(&self, round: u64, client: u32, age: u64, lot: Lot) -> bool;
}

/// The coordinator's form of a local rule: asks it for every available client.
pub(crate) fn ask_everyone(rule: &dyn LocalRule, round: &Round<'_>) -> Vec<Pick> {
    let lots = round.lots(Stream::LOT);
    let number = round.number();
    let takes_part = |&client: &u32| {
        rule.takes_part(number, client, round.ages().of(client), lots.of(u64::from(client)))
    };
    round.available().filter(takes_part).map(Pick::once).collect()
}

impl Round<'_> {
    /// The clients that a policy chooses, with the rule for an empty cohort applied; and whether one was
    /// forced.
    pub fn choose(&self, policy: &mut dyn Policy) -> (Vec<Pick>, bool) {
        let picks = policy.select(self);
        if !picks.is_empty() || self.setting.empty_cohort() == EmptyCohort::Skip {
            return (picks, false);
        }
        let forced = self.forced_client();
        (forced.map(Pick::once).into_iter().collect(), forced.is_some())
    }

    /// The client that has to take part if nobody wants to: a random one of those that are available.
    pub fn forced_client(&self) -> Option<u32> {
        let lots = self.lots(Stream::FORCED);
        self.available().min_by_key(|&client| lots.of(u64::from(client)))
    }

    /// The weights of a cohort.
    pub fn weigh(&self, policy: &dyn Policy, weighting: Weighting, picks: &[Pick]) -> Vec<f64> {
        // Asking costs a look at all clients for some policies, and only one weighting needs it.
        let inclusion = if weighting == Weighting::Unbiased {
            let clients: Vec<u32> = picks.iter().map(|pick| pick.client).collect();
            policy.inclusion(self, &clients)
        } else {
            Vec::new()
        };
        let claim = |(index, pick): (usize, &Pick)| {
            weighting.claim(&Weighed {
                draws: pick.draws,
                size: self.sizes().of(pick.client),
                share: self.sizes().share(pick.client),
                inclusion: inclusion.get(index).copied().unwrap_or(1.0),
            })
        };
        let mut weights: Vec<f64> = picks.iter().enumerate().map(claim).collect();
        let claims = weights.iter().sum();
        for weight in &mut weights {
            *weight = weighting.weight(*weight, picks.len(), claims);
        }
        weights
    }
}

/// A policy in the registry: its name, what it does, and how it is made from its options.
#[derive(Debug, Clone, Copy)]
pub struct PolicyEntry {
    /// The name by which it is configured.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The options it understands, each with its meaning.
    pub options: &'static [(&'static str, &'static str)],
    /// Whether it cannot be made without options.
    pub needs_options: bool,
    /// The paper's weighting, or the natural one.
    pub weighting: Weighting,
    /// Makes the policy for a setting.
    pub build: fn(&PolicySpec, &Setting) -> Result<Box<dyn Policy>>,
}
