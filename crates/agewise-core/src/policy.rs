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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    root_mean_squares: Vec<Option<f32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sketches: Vec<Option<Vec<f32>>>,
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

    /// The root of the mean square of a client's losses over the samples it last trained on.
    pub fn root_mean_square(&self, client: u32) -> Option<f32> {
        known(&self.root_mean_squares, client)
    }

    /// The sketch of a client's last accepted update.
    pub fn sketch(&self, client: u32) -> Option<&[f32]> {
        self.sketches.get(client as usize)?.as_deref()
    }

    /// All sketches, by client.
    pub fn sketches(&self) -> impl Iterator<Item = (u32, &[f32])> {
        (0..).zip(&self.sketches).filter_map(|(client, sketch)| Some((client, sketch.as_deref()?)))
    }

    /// How many numbers a sketch has; nothing while there is none.
    pub fn sketch_width(&self) -> Option<usize> {
        self.sketches.iter().flatten().next().map(Vec::len)
    }

    /// One more than the highest client of whom anything is known.
    pub(crate) fn longest(&self) -> usize {
        let lists = [self.losses.len(), self.durations.len(), self.root_mean_squares.len()];
        lists.into_iter().fold(self.sketches.len(), usize::max)
    }

    /// Checks what was read from somewhere: all sketches have the same width and finite numbers.
    pub(crate) fn check(&self) -> Result<()> {
        let width = self.sketch_width();
        for (client, sketch) in (0..).zip(&self.sketches) {
            if let Some(sketch) = sketch {
                check_sketch(client, sketch, width)?;
            }
        }
        Ok(())
    }

    /// Keeps what an accepted report says.
    pub fn record(&mut self, report: &Report<'_>) {
        store(&mut self.losses, report.client, report.loss);
        store(&mut self.durations, report.client, report.duration);
        store(&mut self.root_mean_squares, report.client, report.root_mean_square);
        store(&mut self.sketches, report.client, report.sketch.map(<[f32]>::to_vec));
    }
}

fn known(values: &[Option<f32>], client: u32) -> Option<f32> {
    values.get(client as usize).copied().flatten()
}

/// Grows the list only when there is something to keep: most runs report nothing.
fn store<T: Clone>(values: &mut Vec<Option<T>>, client: u32, value: Option<T>) {
    if value.is_some() {
        if values.len() <= client as usize {
            values.resize(client as usize + 1, None);
        }
        values[client as usize] = value;
    }
}

fn check_sketch(client: u32, sketch: &[f32], width: Option<usize>) -> Result<()> {
    let field = || format!("sketch of client {client}");
    if sketch.is_empty() || width.is_some_and(|width| width != sketch.len()) {
        let expected = width.map_or("1 or more".to_string(), |width| format!("{width} numbers"));
        return Err(Error::new(field(), format!("{} numbers", sketch.len()), expected));
    }
    match sketch.iter().find(|value| !value.is_finite()) {
        Some(bad) => Err(Error::new(field(), bad, "finite numbers only")),
        None => Ok(()),
    }
}

/// A client's report whose update was accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report<'a> {
    /// Who reports.
    pub client: u32,
    /// Its training loss.
    pub loss: Option<f32>,
    /// How long it trained, in seconds.
    pub duration: Option<f32>,
    /// The root of the mean square of the losses of all samples it trained on.
    pub root_mean_square: Option<f32>,
    /// A sketch of its update: few numbers whose differences are like those of the whole.
    pub sketch: Option<&'a [f32]>,
}

impl Report<'_> {
    /// A report without figures.
    pub fn plain(client: u32) -> Self {
        Self { client, loss: None, duration: None, root_mean_square: None, sketch: None }
    }

    /// Checks all figures; sketches must be as wide as those that are known already.
    pub(crate) fn check(&self, width: Option<usize>) -> Result<()> {
        if let Some(sketch) = self.sketch {
            check_sketch(self.client, sketch, width)?;
        }
        let figures = [
            ("loss", self.loss),
            ("duration", self.duration),
            ("root_mean_square", self.root_mean_square),
        ];
        for (field, value) in figures {
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
/// use agewise_core::{
///     Availability, Error, Pick, Policy, Report, Round, Seed, Selector, Setting, SettingParams,
///     Start, Weighting,
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
/// }
///
/// let setting = SettingParams::new(4, 2, 5).check()?;
/// let policy = Box::new(HighestLoss);
/// let mut selector =
///     Selector::with_policy(policy, Weighting::Uniform, setting, Seed(1), Start::Cold);
/// let report = |client, loss| Report { loss: Some(loss), ..Report::plain(client) };
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

    /// What is known in closed form, with these weights; nothing unless a policy says so.
    fn theory(&self, _setting: &Setting, _weighting: Weighting) -> Result<Option<PolicyTheory>> {
        Ok(None)
    }

    /// The clients whose loss under the present model it wants to know before it chooses, in increasing order. Who
    /// can find that out does so and tells [`crate::Selector::note`]; otherwise the last reports have to do.
    fn asks(&self, _round: &Round<'_>) -> Vec<u32> {
        Vec::new()
    }

    /// Whether its choices follow from what clients report about their training: without training it is another policy.
    fn learns_from_training(&self) -> bool {
        self.wants_squares() || self.wants_whole_losses() || self.wants_sketches()
    }

    /// Whether it looks at the root mean squares of losses.
    fn wants_squares(&self) -> bool {
        false
    }

    /// Whether a reported loss should be that of all the client's samples under the model that it was sent, and not of
    /// the samples that it met while training.
    fn wants_whole_losses(&self) -> bool {
        false
    }

    /// Whether reports should bring a sketch of the update.
    fn wants_sketches(&self) -> bool {
        false
    }

    /// The clients of whom it wants a sketch of what they would do under the present model, before it chooses. Like
    /// [`Self::asks`], a wish.
    fn asks_sketches(&self, _round: &Round<'_>) -> Vec<u32> {
        Vec::new()
    }

    /// Whether that should be of a whole round's work, because it is compared with updates by length too; otherwise one
    /// step is enough.
    fn asks_whole_rounds(&self) -> bool {
        false
    }

    /// The ages of its steady state, if they depend on what it asked for before the first round and that is known now.
    fn informed_ages(&self, _round: &Round<'_>) -> Option<Vec<u64>> {
        None
    }

    /// Hears who was credited at the end of a round; for policies with a memory beyond ages and last reports.
    fn finished(&mut self, _setting: &Setting, _accepted: &[Report<'_>]) {}

    /// That memory, as numbers.
    fn memory(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Takes such a memory back.
    fn recall(&mut self, memory: &[f64]) -> Result<()> {
        if memory.is_empty() {
            return Ok(());
        }
        Err(Error::new("memory", format!("{} numbers", memory.len()), "none for this policy"))
    }

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
