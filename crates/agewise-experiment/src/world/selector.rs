//! A policy at work in a world: which clients are there, are selected, and report.
//!
//! The population grows and shrinks as that of a deployment does. What clients decide at home follows from what was
//! published: the interval of the beginning, unless it is calibrated.

use super::{Presence, RoundWorld, World};
use crate::probes::Prober;
use agewise_core::{
    Ages, Availability, Calibrator, Cohort, Error, LawFamily, Pick, Policy, PolicyVariant,
    ProbeKind, Report, Result, Selector, Setting,
};
use agewise_train::sketch::Sketcher;
use std::collections::{BTreeMap, BTreeSet};

/// First ages above this count as this; sixty years of rounds of one second.
pub(crate) const OLDEST: u64 = 1 << 31;

/// A selector and the world around it.
#[derive(Debug)]
pub(crate) struct WorldSelector {
    selector: Selector,
    world: World,
    first_clients: u32,
    /// The sizes of the clients that join, in their order.
    newcomers: Vec<f64>,
    /// The target interval of the beginning.
    interval: f64,
    calibrator: Option<Calibrator>,
    /// Whether each client was online, in worlds with a memory; empty in others.
    online: Vec<bool>,
    /// The probability of each client to be online in a round, where it follows what clients are; empty elsewhere.
    chances: Vec<f64>,
    /// Who is online at which second, where availability follows a clock.
    presence: Option<Presence>,
    /// Whether each client can be reached in the present round; nothing where all can that have not left.
    mask: Option<Vec<bool>>,
    /// Clients that have left for good.
    departed: u32,
}

/// What learns the target interval of a policy from the number of reports, and the laws that are made for it; nothing for
/// policies without such laws.
pub(crate) fn calibration(
    calibrate: bool,
    policy: &dyn Policy,
    setting: &Setting,
) -> Result<Option<(Calibrator, LawFamily)>> {
    let Some(family) = policy.law_family().filter(|_| calibrate) else {
        return Ok(None);
    };
    Ok(Some((Calibrator::new(setting.cohort(), setting.interval())?, family)))
}

/// The clients that came and went before a round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Movements {
    pub(crate) joined: u64,
    /// The ages of those that left.
    pub(crate) left: Vec<u64>,
}

/// The cohort of a round in a world.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selected {
    /// The clients that report, with their weights.
    pub(crate) cohort: Cohort,
    /// The clients that were selected and never report, in increasing order.
    pub(crate) dropped: Vec<u32>,
    /// The clients that were selected and report too late to count.
    pub(crate) late: Vec<u32>,
}

/// Clients that would deliver, and whose updates the clock takes away; each in increasing order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Untimely {
    /// Those that are done too late to count.
    pub(crate) late: Vec<u32>,
    /// Those that went offline while they worked.
    pub(crate) offline: Vec<u32>,
}

impl WorldSelector {
    /// A policy in a world: `setting` at the beginning, and the sizes of the clients that will join.
    pub(crate) fn new(
        variant: &PolicyVariant,
        setting: Setting,
        newcomers: Vec<f64>,
        world: World,
        calibrate: bool,
    ) -> Result<Self> {
        let (first_clients, interval) = (setting.clients(), setting.interval());
        let mut selector = Selector::from_variant(variant, setting, world.seed)?;
        if selector.ages().iter().any(|age| age > OLDEST) {
            let mut state = selector.state();
            state.population.ages = Ages::new(selector.ages().iter().map(|age| age.min(OLDEST)));
            selector.restore(state)?;
        }
        let calibrator = calibration(calibrate, selector.policy(), selector.setting())?;
        let calibrator = calibrator.map(|(calibrator, _)| calibrator);
        if world.join > 0.0 && selector.policy().local_rule().is_some() {
            selector.set_interval(interval)?;
        }
        let online = if world.at(0).has_memory() {
            (0..first_clients).map(|client| world.starts_online(client)).collect()
        } else {
            Vec::new()
        };
        let (mask, departed) = (None, 0);
        let presence = world.availability.timed().map(|timed| Presence::new(timed, world.seed));
        Ok(Self {
            chances: Vec::new(),
            presence,
            selector,
            world,
            first_clients,
            newcomers,
            interval,
            calibrator,
            online,
            mask,
            departed,
        })
    }

    /// The same with the probability of everyone who will ever join to be online, where that follows what clients are.
    pub(crate) fn with_chances(mut self, chances: &[f64]) -> Self {
        self.presence = self.presence.map(|presence| presence.with_chances(chances.to_vec()));
        if self.presence.is_none() {
            self.chances = chances.to_vec();
        }
        self
    }

    /// The same without rounds: free places are filled one by one, and each client's turn comes once in as many steps of
    /// so many updates as there are clients. Ages are counted in steps.
    pub(crate) fn without_rounds(mut self, updates: u32) -> Result<Self> {
        self.interval = f64::from(self.first_clients) / f64::from(updates);
        self.selector.set_interval(self.interval)?;
        if updates > 1 {
            // First ages were those of cohorts of one client.
            let ages = self.selector.ages().iter().map(|age| age / u64::from(updates));
            let ages = Ages::new(ages.collect::<Vec<_>>());
            let mut state = self.selector.state();
            state.population.ages = ages;
            self.selector.restore(state)?;
        }
        Ok(self)
    }

    /// The world in the present round.
    pub(crate) fn now(&self) -> RoundWorld {
        self.world.at(self.selector.round())
    }

    /// Names clients for so many free places, one after the other, of those that are there and not busy; each time the
    /// probes of the policy are answered. Returns the clients in the order in which they were named, and those that were
    /// sent the model for a probe.
    pub(crate) fn fill(
        &mut self,
        free: usize,
        busy: &BTreeSet<u32>,
        (prober, sketcher): (&Prober<'_>, Option<&Sketcher>),
    ) -> Result<(Vec<u32>, BTreeMap<u32, ProbeKind>)> {
        let clients = self.selector.population().clients() as usize;
        let mut mask = self.mask.clone().unwrap_or_else(|| vec![true; clients]);
        for &client in busy {
            mask[client as usize] = false;
        }
        let (mut named, mut probed) = (Vec::new(), BTreeMap::new());
        for _ in 0..free {
            let availability = Availability::Only(&mask);
            probed.extend(prober.answer(&mut self.selector, availability, sketcher)?);
            let cohort = self.selector.select(availability)?;
            let Some(&client) = cohort.clients.first() else {
                break;
            };
            if cohort.clients.len() > 1 {
                let field = format!("cohort of {}", self.selector.name());
                let value = format!("{} clients", cohort.clients.len());
                return Err(Error::new(field, value, "one client for one free place"));
            }
            mask[client as usize] = false;
            named.push(client);
        }
        Ok((named, probed))
    }

    /// The weights of clients whose updates make a step.
    pub(crate) fn weigh(&self, picks: &[Pick]) -> Result<Vec<f64>> {
        self.selector.weigh(picks, Availability::Everyone)
    }

    /// Begins the present round: clients join, some leave for good, some go offline or come back.
    pub(crate) fn begin(&mut self) -> Result<Movements> {
        let now = self.world.at(self.selector.round());
        let joined = self.admit()?;
        let mut movements = Movements { joined, left: Vec::new() };
        if now.clients_may_leave() {
            for client in 0..self.selector.population().clients() {
                if now.leaves(client) && !self.selector.population().has_left(client) {
                    self.selector.leave(client)?;
                    self.departed += 1;
                    movements.left.push(self.selector.ages().of(client));
                }
            }
        }
        if let Some(calibrator) = &self.calibrator {
            self.selector.set_interval(calibrator.interval())?;
        }
        if let Some(presence) = &mut self.presence {
            presence.admit(self.selector.population().clients());
        }
        self.mask = self.reachable(&now);
        Ok(movements)
    }

    /// Who is online at which second, where availability follows a clock.
    pub(crate) fn presence(&self) -> Option<&Presence> {
        self.presence.as_ref()
    }

    /// Time goes on to this second, where availability follows a clock.
    pub(crate) fn go_on(&mut self, now: f64) {
        let Some(presence) = &mut self.presence else {
            return;
        };
        let changes = presence.next_change() <= now;
        presence.advance(now);
        if changes {
            self.mask = self.reachable(&self.now());
        }
    }

    /// Where availability follows a clock and no client is there, time goes on until one is; returns the seconds of
    /// that.
    pub(crate) fn wait(&mut self) -> f64 {
        let Some(begin) = self.presence.as_ref().map(Presence::now) else {
            return 0.0;
        };
        while self.available() == 0 {
            let Some(change) = self.next_change(&BTreeSet::new()) else {
                break;
            };
            self.go_on(change);
        }
        self.presence.as_ref().map_or(0.0, |presence| presence.now() - begin)
    }

    /// The next second at which a client may come that is not busy; nothing where availability does not follow a clock,
    /// or no such client is left.
    pub(crate) fn next_change(&self, busy: &BTreeSet<u32>) -> Option<f64> {
        let presence = self.presence.as_ref()?;
        let population = self.selector.population();
        let at_work = busy.iter().filter(|&&client| !population.has_left(client)).count();
        let left = (population.clients() - self.departed) as usize;
        (left > at_work).then(|| presence.next_change())
    }

    /// Whether a client is there that is not busy; where availability follows rounds, that is left to the policy.
    pub(crate) fn is_anyone_free(&self, busy: &BTreeSet<u32>) -> bool {
        let Some(mask) = self.mask.as_ref().filter(|_| self.presence.is_some()) else {
            return true;
        };
        let population = self.selector.population();
        let mut clients = (0..).zip(mask);
        clients.any(|(client, &online)| {
            online && !population.has_left(client) && !busy.contains(&client)
        })
    }

    /// Clients that joined since the last round come in, with age 0.
    fn admit(&mut self) -> Result<u64> {
        let population = self.selector.population();
        let (have, known) = (population.clients(), population.admitted() as usize);
        let total = self.world.joined(self.first_clients, self.selector.round());
        let count = (total.saturating_sub(have) as usize).min(self.newcomers.len() - known);
        if count == 0 {
            return Ok(0);
        }
        let sizes = self.newcomers[known..known + count].iter();
        self.selector.admit_all(sizes.map(|&size| (size, 0)))?;
        if !self.online.is_empty() {
            let world = self.world;
            self.online.extend((have..have + count as u32).map(|c| world.starts_online(c)));
        }
        Ok(count as u64)
    }

    /// Whether each client is online; `None` if all are.
    fn reachable(&mut self, now: &RoundWorld) -> Option<Vec<bool>> {
        for (client, online) in (0..).zip(&mut self.online) {
            *online = now.switched(client, *online);
        }
        let clients = 0..self.selector.population().clients();
        if let Some(presence) = &self.presence {
            return Some(clients.map(|client| presence.is_online(client)).collect());
        }
        if !self.chances.is_empty() {
            let is_online =
                |client: u32| now.is_online_by_chance(client, self.chances[client as usize]);
            return Some(clients.map(is_online).collect());
        }
        let is_online = |client: u32| {
            let remembered = self.online.get(client as usize).copied().unwrap_or(false);
            now.is_online(client, remembered)
        };
        (!now.everyone_is_online()).then(|| clients.map(is_online).collect())
    }

    /// How many clients can be selected in the present round.
    pub(crate) fn available(&self) -> u32 {
        let population = self.selector.population();
        let Some(mask) = &self.mask else {
            return population.clients() - self.departed;
        };
        let here = |(client, online): (u32, &bool)| *online && !population.has_left(client);
        (0..).zip(mask).filter(|&place| here(place)).count() as u32
    }

    /// The target interval of the present round.
    pub(crate) fn interval(&self) -> f64 {
        self.calibrator.as_ref().map_or(self.interval, Calibrator::interval)
    }

    /// Selects the cohort of the present round. Weights are those of the clients that report.
    pub(crate) fn select(&mut self) -> Result<Selected> {
        self.select_in_time(|_, _, _| Untimely::default())
    }

    /// The same where clients can be late: `untimely` names those of the clients that deliver whose updates do not count;
    /// it is told who delivers, who drops out, and who is online when.
    pub(crate) fn select_in_time(
        &mut self,
        untimely: impl FnOnce(&[u32], &[u32], Option<&Presence>) -> Untimely,
    ) -> Result<Selected> {
        let now = self.world.at(self.selector.round());
        let mask = self.mask.as_deref();
        let availability = mask.map_or(Availability::Everyone, Availability::Only);
        let mut cohort = self.selector.select(availability)?;
        let (mut dropped, delivering): (Vec<u32>, Vec<u32>) = if now.all_report() {
            (Vec::new(), cohort.clients.clone())
        } else {
            cohort.clients.iter().copied().partition(|&client| now.drops_out(client))
        };
        let Untimely { late, offline } = untimely(&delivering, &dropped, self.presence.as_ref());
        dropped.extend(offline);
        dropped.sort_unstable();
        if dropped.len() + late.len() > 0 {
            let counts = |client: &u32| {
                dropped.binary_search(client).is_err() && late.binary_search(client).is_err()
            };
            let picks: Vec<Pick> = cohort.picks().filter(|pick| counts(&pick.client)).collect();
            cohort.weights = self.selector.weigh(&picks, availability)?;
            cohort.clients = picks.iter().map(|pick| pick.client).collect();
            cohort.draws = picks.iter().map(|pick| pick.draws).collect();
        }
        Ok(Selected { cohort, dropped, late })
    }

    /// Ends the round: so many clients reported, in time or not where more were asked than are needed; these reports were
    /// accepted, and these clients did not deliver.
    pub(crate) fn finish(
        &mut self,
        reported: u64,
        accepted: &[Report<'_>],
        failed: &[u32],
    ) -> Result<()> {
        self.selector.finish_with_failures(accepted, failed)?;
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.observe(reported);
        }
        Ok(())
    }

    /// Answers the probes of the policy in the present round; returns the clients that were sent the model for them, and
    /// what they were asked.
    pub(crate) fn answer_probes(
        &mut self,
        prober: &Prober<'_>,
        sketcher: Option<&Sketcher>,
    ) -> Result<BTreeMap<u32, ProbeKind>> {
        let mask = self.mask.as_deref();
        let availability = mask.map_or(Availability::Everyone, Availability::Only);
        prober.answer(&mut self.selector, availability, sketcher)
    }

    /// The ages of all clients that have joined and not left.
    pub(crate) fn ages_here(&self) -> impl Iterator<Item = u64> {
        let population = self.selector.population();
        let ages = (0..).zip(population.ages().iter());
        ages.filter(|&(client, _)| !population.has_left(client)).map(|(_, age)| age)
    }

    /// The selector.
    pub(crate) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The selector, for probes and states.
    pub(crate) fn selector_mut(&mut self) -> &mut Selector {
        &mut self.selector
    }

    /// The mean weight of each client over cohorts of the present round that are drawn again.
    pub(crate) fn expected_weights(&mut self, redraws: u32) -> Result<Vec<f64>> {
        let mask = self.mask.as_deref();
        let availability = mask.map_or(Availability::Everyone, Availability::Only);
        self.selector.expected_weights(availability, redraws)
    }
}
