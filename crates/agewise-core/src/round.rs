//! One round as a policy sees it, and the checks of what a policy answers.

use crate::ages::Ages;
use crate::backoff::FailureTable;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::random::{Draws, Seed, Stream};
use crate::reports::Reports;
use crate::setting::{EmptyCohort, Setting, check_length};
use crate::sizes::Sizes;
use crate::weighting::{CohortMember, Weighting};

/// Who can take part in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability<'a> {
    /// Every client.
    Everyone,
    /// Those whose entry is `true`.
    Only(&'a [bool]),
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

/// Everything that a policy may look at in one round.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    seed: Seed,
    ages: &'a Ages,
    setting: &'a Setting,
    availability: Availability<'a>,
    reports: &'a Reports,
    /// Whether each client has left for good; clients beyond the end of the list have not.
    left: &'a [bool],
    /// The failures of clients, where those that failed again and again are asked less often.
    backoff: Option<Backoff<'a>>,
}

/// Which clients may not be asked yet.
#[derive(Debug, Clone, Copy)]
struct Backoff<'a> {
    failures: &'a FailureTable,
    /// Clients up to this place in the order of their first eligible rounds, and then of their numbers, may be asked.
    last: (u64, u32),
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
        Ok(Self { seed, ages, setting, availability, reports, left: &[], backoff: None })
    }

    /// The same without the clients that have left.
    pub(crate) fn without(self, left: &'a [bool]) -> Self {
        Self { left, ..self }
    }

    /// The same without the clients that have failed and may not be asked yet.
    ///
    /// With `fill`, places for which there is no eligible client go to the first of those that wait, because a
    /// place that is left empty delivers nothing for sure.
    pub(crate) fn eligible_only(self, failures: &'a FailureTable, fill: bool) -> Self {
        let now = self.number();
        let with = |last| Self { backoff: Some(Backoff { failures, last }), ..self };
        let mut waiting: Vec<(u64, u32)> = failures.waiting(now).collect();
        if waiting.is_empty() {
            return self;
        }
        let eligible = with((now, u32::MAX));
        waiting.retain(|&(_, client)| self.is_available(client));
        if !fill || waiting.is_empty() {
            return eligible;
        }
        let places = self.setting.cohort() as usize;
        let missing = places - eligible.available().take(places).count();
        if missing == 0 {
            return eligible;
        }
        let last = missing.min(waiting.len()) - 1;
        with(*waiting.select_nth_unstable(last).1)
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
        let nobody_left = !self.left.contains(&true);
        nobody_left
            && self.backoff.is_none()
            && match self.availability {
                Availability::Everyone => true,
                Availability::Only(mask) => mask.iter().all(|&available| available),
            }
    }

    /// The available clients, in increasing order: those that are there, have not left, and do not have to wait because
    /// they failed.
    pub fn available(&self) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let round = *self;
        (0..self.setting.clients()).filter(move |&client| round.is_available(client))
    }

    /// Whether a client of the setting is there, has not left and may be asked.
    fn is_available(&self, client: u32) -> bool {
        self.is_there(client) && self.may_be_asked(client)
    }

    fn is_there(&self, client: u32) -> bool {
        let there = match self.availability {
            Availability::Everyone => true,
            Availability::Only(mask) => mask[client as usize],
        };
        there && !self.has_left(client)
    }

    /// Whether a client does not have to wait because it failed.
    fn may_be_asked(&self, client: u32) -> bool {
        let may = |backoff: Backoff<'_>| {
            (backoff.failures.of(client).eligible_from(), client) <= backoff.last
        };
        self.backoff.is_none_or(may)
    }

    fn has_left(&self, client: u32) -> bool {
        self.left.get(client as usize) == Some(&true)
    }

    /// The random numbers of this round in one stream.
    pub fn draws(&self, stream: Stream) -> Draws {
        Draws::new(self.seed, stream, self.number())
    }

    /// The seed of the run, for randomness that does not belong to one round.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The clients that a policy chooses, with the rule for an empty cohort applied; and whether one was
    /// forced. An answer that is no cohort of this round is an error that names the policy.
    pub fn choose(&self, policy: &mut dyn Policy, name: &str) -> Result<(Vec<Pick>, bool)> {
        let picks = policy.select(self);
        self.check(&picks, name)?;
        if !picks.is_empty() || self.setting.empty_cohort() == EmptyCohort::Skip {
            return Ok((picks, false));
        }
        let forced = self.forced_client();
        Ok((forced.map(Pick::once).into_iter().collect(), forced.is_some()))
    }

    /// Checks that these are clients of this round, in increasing order, each of them once.
    fn check(&self, picks: &[Pick], name: &str) -> Result<()> {
        let clients = self.setting.clients();
        let mut before = None;
        for &Pick { client, draws } in picks {
            let expected = if client >= clients {
                format!("a client from 0 to {}", clients - 1)
            } else if before == Some(client) {
                "each client at most once".to_string()
            } else if before > Some(client) {
                "clients in increasing order".to_string()
            } else if self.has_left(client) {
                "a client that has not left".to_string()
            } else if !self.is_there(client) {
                "an available client".to_string()
            } else if !self.may_be_asked(client) {
                "a client that does not have to wait after its failures".to_string()
            } else if draws == 0 {
                "clients that were drawn once or more".to_string()
            } else {
                before = Some(client);
                continue;
            };
            return Err(Error::new(
                format!("cohort of {name}"),
                format!("client {client}"),
                expected,
            ));
        }
        Ok(())
    }

    /// The client that has to take part if no client takes part: a random one of those that are available, or, if all
    /// have to wait because they failed, of those.
    pub fn forced_client(&self) -> Option<u32> {
        let draws = self.draws(Stream::FORCED);
        let draw = |client: &u32| draws.of(u64::from(*client));
        let there = || (0..self.setting.clients()).filter(|&client| self.is_there(client));
        self.available().min_by_key(draw).or_else(|| there().min_by_key(draw))
    }

    /// The weights of a cohort, or of those of its members that reported.
    pub fn weigh(&self, policy: &dyn Policy, weighting: Weighting, picks: &[Pick]) -> Vec<f64> {
        // Asking costs a look at all clients for some policies, and only one weighting needs it.
        let inclusion = if weighting == Weighting::Unbiased {
            let clients: Vec<u32> = picks.iter().map(|pick| pick.client).collect();
            policy.inclusion(self, &clients)
        } else {
            Vec::new()
        };
        let member = |(index, pick): (usize, &Pick)| CohortMember {
            draws: pick.draws,
            size: self.sizes().of(pick.client),
            share: self.sizes().share(pick.client),
            inclusion: inclusion.get(index).copied().unwrap_or(1.0),
        };
        weighting.weights(picks.iter().enumerate().map(member))
    }
}
