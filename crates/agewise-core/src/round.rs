//! One round as a policy sees it, and the checks of what a policy answers.

use crate::ages::Ages;
use crate::backoff::{FailureTable, Failures, RetryTurns};
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
    /// Whether clients at the last step take turns.
    takes_turns: bool,
    /// Of the clients that are held back, those up to this place in the order of the rounds in which their waits end, and
    /// then of their numbers, may be asked all the same: it is their turn, or there are places for them.
    last: Option<(u64, u32)>,
}

impl Backoff<'_> {
    /// Whether a client has to wait, or takes turns.
    fn holds_back(&self, failures: Failures, round: u64) -> bool {
        !failures.is_eligible(round) || self.takes_turns && failures.is_at_the_last_step()
    }

    fn may_be_asked(&self, client: u32, round: u64) -> bool {
        let failures = self.failures.of(client);
        !self.holds_back(failures, round) || Some((failures.eligible_from(), client)) <= self.last
    }
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
    /// Where the coordinator selects, clients at the last step take turns, and places for which there is no eligible
    /// client go to the first of those that are held back, because a place that is left empty delivers nothing for sure.
    pub(crate) fn eligible_only(
        self,
        failures: &'a FailureTable,
        coordinator_selects: bool,
    ) -> Self {
        let now = self.number();
        let backoff = Backoff { failures, takes_turns: coordinator_selects, last: None };
        let with = |last| Self { backoff: Some(Backoff { last, ..backoff }), ..self };
        let held_back =
            failures.failed().filter(|&(_, failures)| backoff.holds_back(failures, now));
        let mut held_back: Vec<(u32, Failures)> = held_back.collect();
        if held_back.is_empty() {
            return self;
        }
        held_back.retain(|&(client, _)| self.is_available(client));
        if !coordinator_selects || held_back.is_empty() {
            return with(None);
        }
        let mut turns = RetryTurns::default();
        for &(client, failures) in &held_back {
            turns.add(client, failures, self.setting.interval_of(client));
        }
        let places = self.setting.cohort() as usize;
        let missing = places - with(None).available().take(places).count();
        let asked = missing.max(turns.places(now).len()).min(held_back.len());
        let Some(last) = asked.checked_sub(1) else {
            return with(None);
        };
        // Those whose turn it is do not wait any more, so they are the first in this order.
        let key = |&(client, failures): &(u32, Failures)| (failures.eligible_from(), client);
        let (_, last, _) = held_back.select_nth_unstable_by_key(last, key);
        with(Some(key(last)))
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
        let round = self.number();
        self.backoff.is_none_or(|backoff| backoff.may_be_asked(client, round))
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
