//! The one interface of all selection policies, on the coordinator's side and on the client's.
//!
//! A policy sees a [`Round`] and names a cohort. A decentralised policy also has a [`LocalRule`]: the
//! decision that a client can take at home. Such a policy's `select` is nothing but that rule asked for
//! every available client, so both sides agree by construction.

mod needs;
mod ranking;
mod registry;
mod spec;
mod variant;

pub use needs::{LossNeed, Needs, Probe, ProbeKind};
pub use ranking::Ranking;
pub use registry::PolicyEntry;
pub use spec::{OptionValue, PolicySpec};
pub use variant::PolicyVariant;

use crate::error::{Error, Result};
use crate::law::{AgeLaw, LawFamily, Laws};
use crate::random::{Draw, Seed, Stream};
use crate::reports::Report;
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::theory::PolicyTheory;
use crate::weighting::Weighting;
use std::fmt::Debug;

/// A way to choose who trains next.
///
/// A built-in policy is one file in `policies/` and one line of registration; one of your own can
/// live anywhere:
///
/// ```
/// use agewise_core::{
///     Availability, Error, Pick, Policy, PolicyVariant, Report, Round, Seed, Selector, Setting,
///     SettingParams, Start,
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
///     fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
///         vec![0; setting.clients() as usize]
///     }
/// }
///
/// let setting = SettingParams::new(4, 2, 5).check()?;
/// let variant = PolicyVariant::new("highest-loss", |_| Ok(Box::new(HighestLoss)));
/// let mut selector = Selector::from_variant(&variant.with_start(Start::Cold), setting, Seed(1))?;
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
    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64>;

    /// The ages of its steady state, if they depend on what it asked before the first round and that is known now.
    fn initial_ages_from_probes(&self, _round: &Round<'_>) -> Option<Vec<u64>> {
        None
    }

    /// What is known in closed form, with these weights; nothing unless a policy says so.
    fn theory(&self, _setting: &Setting, _weighting: Weighting) -> Result<Option<PolicyTheory>> {
        Ok(None)
    }

    /// What reports should bring.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What it wants to know of which clients before it chooses, in increasing order of client. It is a wish: an engine
    /// that can find it out tells [`Selector::observe`](crate::Selector::observe); otherwise the last reports have to do.
    fn probes(&self, _round: &Round<'_>) -> Vec<Probe> {
        Vec::new()
    }

    /// Hears that clients were admitted, or that sizes or the target interval have changed. A policy that keeps anything
    /// that follows from the setting brings it up to date: it has to choose as one that is built anew for this setting and
    /// has the same state. It may refuse a setting for which it could not be built, and stays as it was then.
    ///
    /// It is called once for each change, so what costs a look at all clients is better put off to the next choice.
    fn population_changed(&mut self, _setting: &Setting) -> Result<()> {
        Ok(())
    }

    /// Hears who was credited at the end of a round; for policies with a state beyond ages and last reports.
    fn finished(&mut self, _setting: &Setting, _accepted: &[Report<'_>]) {}

    /// That state, as numbers.
    fn state(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Takes such a state back; after an error it is as it was.
    fn load_state(&mut self, state: &[f64]) -> Result<()> {
        if state.is_empty() {
            return Ok(());
        }
        Err(Error::new("state", format!("{} numbers", state.len()), "none for this policy"))
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
    /// Each available client takes part iff its draw wins against its law.
    Laws(&'a Laws),
    /// The first m available clients by this order.
    Ranked(Ranking),
    /// By nothing simpler than asking [`Policy::select`].
    Select,
}

/// The inclusion probabilities where m of the available clients are chosen and all are treated alike.
pub(crate) fn uniform_inclusion(round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
    let available = round.available().count() as f64;
    vec![(f64::from(round.setting().cohort()) / available).min(1.0); clients.len()]
}

/// The client's side of a decentralised policy: one client decides alone.
pub trait LocalRule: Send + Sync {
    /// Whether the client takes part, given its age and its own random number of the round.
    fn takes_part(&self, round: u64, client: u32, age: u64, draw: Draw) -> bool;
}

/// The coordinator's form of a local rule: asks it for every available client.
pub(crate) fn ask_everyone(rule: &dyn LocalRule, round: &Round<'_>) -> Vec<Pick> {
    let draws = round.draws(Stream::DRAW);
    let number = round.number();
    let takes_part = |&client: &u32| {
        rule.takes_part(number, client, round.ages().of(client), draws.of(u64::from(client)))
    };
    round.available().filter(takes_part).map(Pick::once).collect()
}
