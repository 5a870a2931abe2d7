//! The clients of a run as selection sees them: sizes, ages, reports, departures and failures.
//!
//! Clients are numbered in the order in which they are admitted, and a number is never used again. Admitting a client,
//! a departure and another size cost a constant time, however many clients there are.

use crate::ages::Ages;
use crate::backoff::{FailedClient, FailureTable, Failures};
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::random::Seed;
use crate::reports::{Report, Reports};
use crate::round::{Availability, Round};
use crate::setting::{Setting, check_length};
use crate::sizes::Sizes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The clients of a run: sizes, ages, reports, departures and failures.
///
/// ```
/// use agewise_core::{Ages, Population, SettingParams};
///
/// let setting = SettingParams::new(4, 2, 10).check()?;
/// let mut population = Population::new(setting, Ages::cold(4))?;
/// let client = population.admit(1.0, 7)?;
/// assert_eq!((client, population.ages().of(client)), (4, 7));
/// assert_eq!(population.setting().interval(), 2.5);
/// population.leave(client)?;
/// assert!(population.has_left(client) && population.clients() == 5);
/// # Ok::<(), agewise_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Population {
    setting: Setting,
    ages: Ages,
    reports: Reports,
    /// Whether each client has left; as long as the highest number of those that have.
    left: Vec<bool>,
    failures: FailureTable,
    /// The clients with which the run began.
    first_clients: u32,
}

impl Population {
    /// The clients of a setting, of these ages. No client has reported or left.
    pub fn new(setting: Setting, ages: Ages) -> Result<Self> {
        check_length("ages", ages.clients() as usize, setting.clients())?;
        let (reports, left, failures) = Default::default();
        Ok(Self { first_clients: setting.clients(), setting, ages, reports, left, failures })
    }

    /// One more client, with this size and this age in the present round; returns its number, which is the number of
    /// clients before.
    pub fn admit(&mut self, size: f64, age: u64) -> Result<u32> {
        let client = self.clients();
        self.setting.admit(size)?;
        self.ages.admit(age);
        Ok(client)
    }

    /// Undoes the admission of the clients from this number on, which have not taken part yet.
    pub(crate) fn dismiss(&mut self, from: u32) {
        while self.clients() > from {
            self.setting.sizes_mut().pop();
        }
        self.ages.truncate(from);
    }

    /// A client that is never available again. Its number, its size and its age stay.
    pub fn leave(&mut self, client: u32) -> Result<()> {
        self.check_client(client)?;
        let place = client as usize;
        if self.left.len() <= place {
            self.left.resize(place + 1, false);
        }
        self.left[place] = true;
        Ok(())
    }

    /// Another amount of data of one client.
    pub fn set_size(&mut self, client: u32, size: f64) -> Result<()> {
        self.check_client(client)?;
        self.setting.sizes_mut().set(client, size)
    }

    /// Other amounts of data of all clients.
    pub fn set_sizes(&mut self, sizes: Sizes) -> Result<()> {
        check_length("sizes", sizes.clients() as usize, self.clients())?;
        *self.setting.sizes_mut() = sizes;
        Ok(())
    }

    /// The target number of rounds between two selections from now on, instead of n/m.
    pub fn set_interval(&mut self, interval: f64) -> Result<()> {
        self.setting.set_interval(Some(interval))
    }

    pub(crate) fn setting_mut(&mut self) -> &mut Setting {
        &mut self.setting
    }

    /// n, m, sizes, and what else selection has to know.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The ages at the beginning of the present round.
    pub fn ages(&self) -> &Ages {
        &self.ages
    }

    /// What clients reported so far.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// The round that is about to be played.
    pub fn round(&self) -> u64 {
        self.ages.round()
    }

    /// The number of clients, with those who have left.
    pub fn clients(&self) -> u32 {
        self.setting.clients()
    }

    /// How many of them were admitted after the beginning.
    pub fn admitted(&self) -> u32 {
        self.clients() - self.first_clients
    }

    /// Whether a client has left.
    pub fn has_left(&self, client: u32) -> bool {
        self.left.get(client as usize) == Some(&true)
    }

    /// The clients that have left, in increasing order.
    pub fn left(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.left).filter(|(_, left)| **left).map(|(client, _)| client)
    }

    /// The failures of a client since it was last credited.
    pub fn failures(&self, client: u32) -> Failures {
        self.failures.of(client)
    }

    /// The clients that have failed since they were last credited, in increasing order.
    pub fn failed(&self) -> impl Iterator<Item = (u32, Failures)> {
        self.failures.failed()
    }

    /// The present round with the clients that are there, whether they have to wait because they failed or not.
    pub fn view<'a>(&'a self, seed: Seed, availability: Availability<'a>) -> Result<Round<'a>> {
        let Self { setting, ages, reports, .. } = self;
        Ok(Round::new(setting, seed, ages, availability, reports)?.without(&self.left))
    }

    /// The present round as a policy sees it: without the clients that have to wait because they failed.
    ///
    /// Unless clients decide locally, those that have failed five times in a row or more take turns
    /// ([`RetryTurns`](crate::RetryTurns)), and if fewer than m clients are eligible, the remaining slots go to the clients
    /// in back-off whose wait ends first. A policy with independent rounds does not select a failed client more often than others, so
    /// it needs no back-off.
    pub fn view_for<'a>(
        &'a self,
        policy: &dyn Policy,
        seed: Seed,
        availability: Availability<'a>,
    ) -> Result<Round<'a>> {
        let round = self.view(seed, availability)?;
        if !self.setting.backoff() || policy.rounds_are_independent() {
            return Ok(round);
        }
        Ok(round.eligible_only(&self.failures, policy.local_rule().is_none()))
    }

    /// Ends the round: these clients are credited, so their age is 0; all others grow older. What they report is kept.
    /// The failed were asked and did not deliver: each of them has one more failure in a row.
    ///
    /// An unknown client, one that reports or fails twice, one that did both, and a figure that is not finite are errors;
    /// nothing is changed then.
    pub fn finish(&mut self, accepted: &[Report<'_>], failed: &[u32]) -> Result<()> {
        self.check_failed(accepted, failed)?;
        // Those of a simulation that does not train have no figures, and there are many of them.
        let plain = accepted.iter().all(Report::is_plain);
        if !plain {
            self.reports.check_new(accepted)?;
        }
        let round = self.round();
        let credited: Vec<u32> = accepted.iter().map(|report| report.client).collect();
        self.ages.advance(&credited)?;
        if !plain {
            self.reports.record_all(accepted);
        }
        for client in credited {
            self.failures.set(client, Failures::NONE);
        }
        for &client in failed {
            let interval = self.setting.interval_of(client);
            self.failures.set(client, self.failures.of(client).and_one_more(round, interval));
        }
        Ok(())
    }

    /// Checks that the failed are clients that did not report, each of them once.
    fn check_failed(&self, accepted: &[Report<'_>], failed: &[u32]) -> Result<()> {
        if failed.is_empty() {
            return Ok(());
        }
        let mut seen: BTreeSet<u32> = accepted.iter().map(|report| report.client).collect();
        for &client in failed {
            let expected = if client >= self.clients() {
                format!("clients from 0 to {}", self.clients() - 1)
            } else if seen.insert(client) {
                continue;
            } else {
                "each client at most once, and none that was accepted".to_string()
            };
            return Err(Error::new("failed", client, expected));
        }
        Ok(())
    }

    /// Keeps what clients said about themselves without ending the round: no client is credited.
    ///
    /// An unknown client and a figure that is not finite are errors; nothing is kept then.
    pub fn observe(&mut self, said: &[Report<'_>]) -> Result<()> {
        self.reports.check_new(said)?;
        for report in said {
            self.check_client(report.client)?;
        }
        self.reports.record_all(said);
        Ok(())
    }

    /// Other ages for all clients.
    pub(crate) fn set_ages(&mut self, ages: Ages) -> Result<()> {
        check_length("ages", ages.clients() as usize, self.clients())?;
        self.ages = ages;
        Ok(())
    }

    pub(crate) fn check_client(&self, client: u32) -> Result<()> {
        if client < self.clients() {
            return Ok(());
        }
        let expected = format!("clients from 0 to {}", self.clients() - 1);
        Err(Error::new("client", client, expected))
    }
}

/// What has to be kept of a population to go on with it, beside the setting with which it began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PopulationState {
    /// The round and the ages.
    pub ages: Ages,
    /// What clients reported.
    pub reports: Reports,
    /// How many clients were admitted after the beginning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub admitted: u32,
    /// The clients that have left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<u32>,
    /// The sizes of all clients, unless all are 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<f64>>,
    /// The target interval, where it is not n/m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
    /// The clients that have failed since they were last credited, in increasing order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedClient>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Population {
    /// What has to be kept to go on later.
    pub fn state(&self) -> PopulationState {
        PopulationState {
            ages: self.ages.clone(),
            reports: self.reports.clone(),
            admitted: self.admitted(),
            left: self.left().collect(),
            sizes: self.setting.sizes().each().map(<[f64]>::to_vec),
            interval: self.setting.own_interval(),
            failed: self.failures.state(),
        }
    }

    /// The same population at the time of a state, which must be one of a run that began as this one.
    pub fn restored(&self, state: PopulationState) -> Result<Self> {
        let PopulationState { ages, reports, admitted, left, sizes, interval, failed } = state;
        let clients = self.first_clients.saturating_add(admitted);
        check_length("ages", ages.clients() as usize, clients)?;
        if reports.longest() > clients as usize {
            let value = format!("a list of {}", reports.longest());
            return Err(Error::new("reports", value, format!("at most {clients} clients")));
        }
        reports.check()?;
        let mut setting = self.setting.clone();
        if admitted > 0 && setting.rates().is_some() {
            let expected = "0, as clients have rates of their own";
            return Err(Error::new("admitted", admitted, expected));
        }
        *setting.sizes_mut() = sizes.map_or(Ok(Sizes::equal(clients)), Sizes::new)?;
        check_length("sizes", setting.clients() as usize, clients)?;
        setting.set_interval(interval)?;
        let first_clients = self.first_clients;
        let (none_left, failures) = Default::default();
        let mut population =
            Self { setting, ages, reports, left: none_left, failures, first_clients };
        left.into_iter().try_for_each(|client| population.leave(client))?;
        let clients: Vec<u32> = failed.iter().map(|failed| failed.client).collect();
        population.check_failed(&[], &clients)?;
        for failed in failed {
            if failed.in_a_row == 0 {
                return Err(Error::new("failed", "0 failures in a row", "1 or more"));
            }
            population.failures.set(failed.client, failed.into());
        }
        Ok(population)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::SettingParams;

    fn population(clients: u32) -> Population {
        let setting = SettingParams::new(u64::from(clients), 2, 5).check().unwrap();
        Population::new(setting, Ages::cold(clients)).unwrap()
    }

    #[test]
    fn who_has_left_is_never_available() {
        let mut population = population(4);
        population.leave(1).unwrap();
        population.admit(1.0, 0).unwrap();
        let there = |population: &Population, mask| -> Vec<u32> {
            population.view(Seed(1), mask).unwrap().available().collect()
        };
        assert_eq!(there(&population, Availability::Everyone), [0, 2, 3, 4]);
        let mask = [true, true, false, false, true];
        assert_eq!(there(&population, Availability::Only(&mask)), [0, 4]);
        assert!(!population.view(Seed(1), Availability::Everyone).unwrap().everyone_is_available());
        assert_eq!(population.left().collect::<Vec<_>>(), [1]);
        population.finish(&[Report::plain(3)], &[]).unwrap();
        assert_eq!(population.ages().iter().collect::<Vec<_>>(), [1, 1, 1, 0, 1]);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let mut population = population(3);
        let before = population.clone();
        assert_eq!(population.leave(3).unwrap_err().field(), "client");
        assert_eq!(population.set_size(3, 1.0).unwrap_err().field(), "client");
        assert_eq!(population.admit(f64::NAN, 1).unwrap_err().field(), "sizes[3]");
        assert_eq!(population.set_sizes(Sizes::equal(2)).unwrap_err().field(), "sizes");
        for interval in [0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(population.set_interval(interval).unwrap_err().field(), "interval");
        }
        assert_eq!(population, before);
        let rates = Some(vec![0.5, 0.5, 1.0]);
        let setting = SettingParams { rates, ..SettingParams::new(3, 2, 5) }.check().unwrap();
        let mut own = Population::new(setting.clone(), Ages::cold(3)).unwrap();
        assert_eq!(own.admit(1.0, 0).unwrap_err().field(), "rates");
        assert_eq!(own.set_interval(2.0).unwrap_err().field(), "interval");
        assert!(Population::new(setting, Ages::cold(4)).is_err());
    }

    #[test]
    fn growing_costs_no_copies() {
        let mut population = population(2);
        for client in 2..200_000u32 {
            assert_eq!(population.admit(f64::from(client % 9), 3).unwrap(), client);
            population.set_size(client / 2, 4.0).unwrap();
            population.leave(client - 1).unwrap();
        }
        assert_eq!(population.admitted(), 199_998);
    }
}
