//! What a selection problem consists of: how many clients, how many per round, with which data.

use crate::error::{Error, Result};
use crate::law::{self, Laws, MaxAge, MaxAgeCost};
use crate::sizes::{Sizes, check_clients};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What happens in a round in which no client takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmptyCohort {
    /// One available client, uniformly at random, has to take part (as in the paper).
    #[default]
    ForceOne,
    /// The round passes without training.
    Skip,
}

/// The ages at the beginning of round 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Each first age is drawn from the policy's steady state, as after infinitely many rounds.
    #[default]
    Stationary,
    /// All ages are 0, as in the paper: clients start in step and stay in bursts for a while.
    Cold,
}

/// A setting as it comes from outside; [`SettingParams::check`] makes it a [`Setting`].
#[derive(Debug, Clone, PartialEq)]
pub struct SettingParams {
    /// n: the number of clients.
    pub clients: u64,
    /// m: the target number of clients per round.
    pub cohort: u64,
    /// m': the age at which the age laws saturate.
    pub max_age: MaxAge,
    /// Data sizes; equal if absent.
    pub sizes: Option<Sizes>,
    /// A target rate for each client, instead of m/n for all; they must add up to m.
    pub rates: Option<Vec<f64>>,
    /// The target number of rounds between two selections, where it is not n/m.
    pub interval: Option<f64>,
    /// The rule for an empty cohort.
    pub empty_cohort: EmptyCohort,
    /// Whether clients that fail again and again are asked less often ([`Failures`](crate::Failures)).
    pub backoff: bool,
}

impl SettingParams {
    /// The smallest description: n, m and `max_age`, with equal sizes and one rate for all.
    pub fn new(clients: u64, cohort: u64, max_age: impl Into<MaxAge>) -> Self {
        Self {
            clients,
            cohort,
            max_age: max_age.into(),
            sizes: None,
            rates: None,
            interval: None,
            empty_cohort: EmptyCohort::default(),
            backoff: true,
        }
    }

    /// Checks every field.
    pub fn check(self) -> Result<Setting> {
        let clients = check_clients(self.clients)?;
        let cohort = match u32::try_from(self.cohort) {
            Ok(cohort) if (1..=clients).contains(&cohort) => cohort,
            _ => {
                let expected =
                    format!("a whole number from 1 to the number of clients, {}", self.clients);
                return Err(Error::new("cohort", self.cohort, expected));
            }
        };
        let max_age = self.max_age;
        max_age.at(1.0)?;
        let sizes = self.sizes.unwrap_or_else(|| Sizes::equal(clients));
        check_length("sizes", sizes.clients() as usize, clients)?;
        if let Some(rates) = &self.rates {
            check_rates(rates, clients, cohort)?;
        }
        let rates = self.rates.map(Arc::from);
        let (empty_cohort, backoff) = (self.empty_cohort, self.backoff);
        let mut setting =
            Setting { cohort, max_age, sizes, rates, interval: None, empty_cohort, backoff };
        setting.set_interval(self.interval)?;
        Ok(setting)
    }
}

/// A checked setting; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    cohort: u32,
    max_age: MaxAge,
    sizes: Sizes,
    rates: Option<Arc<[f64]>>,
    /// The target interval, where it is not n/m.
    interval: Option<f64>,
    empty_cohort: EmptyCohort,
    backoff: bool,
}

impl Setting {
    /// n: the number of clients.
    pub fn clients(&self) -> u32 {
        self.sizes.clients()
    }

    /// m: the target number of clients per round.
    pub fn cohort(&self) -> u32 {
        self.cohort
    }

    /// m': the age at which the age laws saturate.
    pub fn max_age(&self) -> MaxAge {
        self.max_age
    }

    /// The data sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The rule for an empty cohort.
    pub fn empty_cohort(&self) -> EmptyCohort {
        self.empty_cohort
    }

    /// Whether clients that fail again and again are asked less often.
    pub fn backoff(&self) -> bool {
        self.backoff
    }

    /// The target number of rounds between two selections of one client.
    pub fn interval_of(&self, client: u32) -> f64 {
        match &self.rates {
            Some(rates) => 1.0 / rates[client as usize],
            None => self.interval(),
        }
    }

    /// The target number of rounds between two selections: n/m unless it was set.
    pub fn interval(&self) -> f64 {
        self.interval.unwrap_or(f64::from(self.clients()) / f64::from(self.cohort))
    }

    /// The target interval, if it was set.
    pub fn own_interval(&self) -> Option<f64> {
        self.interval
    }

    /// The target rates, where they differ between clients.
    pub fn rates(&self) -> Option<&[f64]> {
        self.rates.as_deref()
    }

    /// The same, to be kept.
    pub(crate) fn shared_rates(&self) -> Option<Arc<[f64]>> {
        self.rates.clone()
    }

    /// The target rate of one client: its own, or one over the target interval.
    pub fn rate(&self, client: u32) -> f64 {
        match &self.rates {
            Some(rates) => rates[client as usize],
            None => self.common_rate(),
        }
    }

    /// The target rate of a client that has none of its own.
    pub(crate) fn common_rate(&self) -> f64 {
        match self.interval {
            Some(interval) => 1.0 / interval,
            None => f64::from(self.cohort) / f64::from(self.clients()),
        }
    }

    /// The laws that a family gives for this setting.
    pub fn laws(&self, family: law::LawFamily) -> Result<Laws> {
        match &self.rates {
            Some(rates) => Laws::from_rates(family, rates, self.max_age),
            None => Ok(Laws::shared(family.law(self.interval(), self.max_age)?)),
        }
    }

    /// What the maximum age costs a family of laws here, if it costs anything; where clients have rates of their own, for
    /// the client that waits longest.
    pub fn max_age_cost(&self, family: law::LawFamily) -> Result<Option<MaxAgeCost>> {
        let rates = self.rates.iter().flat_map(|rates| rates.iter());
        let longest = rates.map(|rate| 1.0 / rate).fold(self.interval(), f64::max);
        self.max_age.cost(family, longest)
    }

    /// One more client.
    pub(crate) fn admit(&mut self, size: f64) -> Result<()> {
        if self.rates.is_some() {
            let expected = "none: a population whose clients have rates of their own cannot grow";
            return Err(Error::new("rates", "one for each client", expected));
        }
        self.sizes.push(size)
    }

    /// The sizes, to be changed.
    pub(crate) fn sizes_mut(&mut self) -> &mut Sizes {
        &mut self.sizes
    }

    /// Another target interval, or n/m again.
    pub(crate) fn set_interval(&mut self, interval: Option<f64>) -> Result<()> {
        if let Some(interval) = interval {
            law::check_interval(interval)?;
            if self.rates.is_some() {
                let expected = "none, as clients have rates of their own";
                return Err(Error::new("interval", interval, expected));
            }
        }
        self.interval = interval;
        Ok(())
    }
}

/// Checks that a per-client list has one entry for each client.
pub(crate) fn check_length(field: &str, length: usize, clients: u32) -> Result<()> {
    if length == clients as usize {
        Ok(())
    } else {
        let value = format!("a list of {length}");
        Err(Error::new(field, value, format!("one entry for each of the {clients} clients")))
    }
}

fn check_rates(rates: &[f64], clients: u32, cohort: u32) -> Result<()> {
    check_length("rates", rates.len(), clients)?;
    for (client, &rate) in rates.iter().enumerate() {
        law::check_rate(client, rate)?;
    }
    let sum: f64 = rates.iter().sum();
    if (sum - f64::from(cohort)).abs() > 1e-6 * f64::from(cohort) {
        let expected = format!(
            "rates that add up to the cohort, {cohort} (proportional_rates makes such rates)"
        );
        return Err(Error::new("rates", format!("a sum of {sum}"), expected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_wrong() {
        let field = |params: SettingParams| {
            let error = params.check().unwrap_err();
            (error.field().to_string(), error.value().to_string())
        };
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        let new = SettingParams::new;
        assert_eq!(field(new(0, 1, 1)), pair("clients", "0"));
        assert_eq!(field(new(1 << 32, 1, 1)), pair("clients", "4294967296"));
        assert_eq!(field(new(10, 0, 1)), pair("cohort", "0"));
        assert_eq!(field(new(10, 11, 1)), pair("cohort", "11"));
        assert_eq!(field(new(10, 1 << 40, 1)), pair("cohort", "1099511627776"));
        assert_eq!(field(new(10, 1, 0)), pair("max_age", "0"));
        let sizes = Some(Sizes::equal(9));
        assert_eq!(field(SettingParams { sizes, ..new(10, 1, 1) }), pair("sizes", "a list of 9"));
        let rates = Some(vec![0.5; 10]);
        assert_eq!(field(SettingParams { rates, ..new(10, 1, 1) }), pair("rates", "a sum of 5"));
        let rates = Some(vec![0.5; 9]);
        assert_eq!(field(SettingParams { rates, ..new(10, 1, 1) }), pair("rates", "a list of 9"));
        let rates = Some(vec![2.0, 0.0]);
        assert_eq!(field(SettingParams { rates, ..new(2, 2, 1) }), pair("rates[0]", "2"));
    }

    #[test]
    fn the_largest_population_is_fine() {
        let setting = SettingParams::new(u64::from(u32::MAX), 1_000_000, 5_000).check().unwrap();
        assert_eq!(setting.clients(), u32::MAX);
    }
}
