//! When clients can be reached: what can be written, by rounds or by the seconds of a clock.

use agewise_core::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// When clients can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum AvailabilityModel {
    /// Always.
    #[default]
    Always,
    /// In each round with this probability, independently.
    Bernoulli(f64),
    /// For `up` rounds on average, then not for `down` rounds on average.
    OnOff {
        /// Mean rounds online.
        up: f64,
        /// Mean rounds offline.
        down: f64,
    },
    /// With a probability that follows the time of day: between 1 - depth and 1, each client with a time
    /// zone of its own.
    Diurnal {
        /// Rounds per day.
        period: f64,
        /// How deep the night is, from 0 to 1.
        depth: f64,
    },
    /// In each round with a probability that follows the client's data or speed, independently.
    Ranked(RankedChance),
    /// By the seconds of a clock, and not by rounds.
    InSeconds(TimedAvailability),
}

/// When clients can be reached, by the seconds of a clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimedAvailability {
    /// In each slot of so many seconds with this probability, independently.
    Bernoulli {
        /// The probability.
        chance: f64,
        /// The seconds of a slot.
        slot: f64,
    },
    /// For `up` seconds on average, then not for `down` seconds on average, both exponential.
    OnOff {
        /// Mean seconds online.
        up: f64,
        /// Mean seconds offline.
        down: f64,
    },
    /// In each twenty-fourth of a day with a probability that follows the time of day: between 1 - depth and 1, each
    /// client with a time zone of its own.
    Diurnal {
        /// Seconds per day.
        period: f64,
        /// How deep the night is, from 0 to 1.
        depth: f64,
    },
    /// In each slot of so many seconds with a probability that follows the client's data or speed, independently.
    Ranked {
        /// The probabilities.
        ranked: RankedChance,
        /// The seconds of a slot.
        slot: f64,
    },
}

/// Slots of a day: its hours.
pub(super) const SLOTS_OF_A_DAY: f64 = 24.0;

/// The lowest probability in a slot: with less, a clock could stand for ever where one client is left.
const LEAST_CHANCE: f64 = 0.01;

/// A probability of being reachable that rises with the rank of a client, from `least` for the last to 1 for the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedChance {
    /// By what clients are ranked.
    pub by: RankedBy,
    /// The probability of the client with the least data, or of the slowest.
    pub least: f64,
}

/// By what clients are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankedBy {
    /// Who has more data is there more often: `more-data-first`.
    Data,
    /// Who is slow is there less often: `slow-less`.
    Speed,
}

impl RankedChance {
    /// The probability of each client, in which it rises in a straight line with the rank of its value among all; those
    /// with equal values have the mean of their ranks.
    pub(crate) fn chances(self, values: &[f64]) -> Vec<f64> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1).max(1) as f64;
        let chance = |value: &f64| {
            let below = sorted.partition_point(|other| other < value);
            let behind = sorted.partition_point(|other| other <= value);
            let rank = (below + behind - 1) as f64 / 2.0;
            self.least + (1.0 - self.least) * rank / last
        };
        values.iter().map(chance).collect()
    }
}

impl AvailabilityModel {
    /// The probabilities that follow what clients are, where they do.
    pub(crate) fn ranked(self) -> Option<RankedChance> {
        match self {
            Self::Ranked(ranked) | Self::InSeconds(TimedAvailability::Ranked { ranked, .. }) => {
                Some(ranked)
            }
            _ => None,
        }
    }

    /// How clients are there by the seconds of a clock, where they are.
    pub(crate) fn timed(self) -> Option<TimedAvailability> {
        match self {
            Self::InSeconds(timed) => Some(timed),
            _ => None,
        }
    }
}

impl TimedAvailability {
    /// The seconds of a slot, where a client is there or away for whole slots.
    pub(crate) fn slot(self) -> Option<f64> {
        match self {
            Self::Bernoulli { slot, .. } | Self::Ranked { slot, .. } => Some(slot),
            Self::Diurnal { period, .. } => Some(period / SLOTS_OF_A_DAY),
            Self::OnOff { .. } => None,
        }
    }
}

/// A number as it is written: whether there is an `s` behind it.
#[derive(Clone, Copy)]
enum Written {
    Plain(f64),
    Seconds(f64),
}

impl Written {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix('s') {
            Some(seconds) => seconds.parse().ok().map(Self::Seconds),
            None => text.parse().ok().map(Self::Plain),
        }
    }
}

impl FromStr for AvailabilityModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const EXPECTED: &str = "always, bernoulli:P with P above 0 and at most 1, on-off:UP,DOWN with mean rounds of at \
             least 1, diurnal:PERIOD,DEPTH with a period of at least 1 and a depth from 0 to 1, more-data-first:LEAST or \
             slow-less:LEAST with a probability from 0.01 to 1; or in seconds bernoulli:P,600s (P at least 0.01), \
             on-off:3600s,600s, diurnal:86400s,0.8, more-data-first:LEAST,600s or slow-less:LEAST,600s";
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let numbers: Option<Vec<Written>> = if rest.is_empty() {
            Some(Vec::new())
        } else {
            rest.split(',').map(Written::parse).collect()
        };
        let found =
            numbers.and_then(|numbers| in_rounds(name, &numbers).or(in_seconds(name, &numbers)));
        found.ok_or_else(|| Error::new("availability", text, EXPECTED))
    }
}

fn ranked_by(name: &str) -> Option<RankedBy> {
    match name {
        "more-data-first" => Some(RankedBy::Data),
        "slow-less" => Some(RankedBy::Speed),
        _ => None,
    }
}

fn in_rounds(name: &str, numbers: &[Written]) -> Option<AvailabilityModel> {
    use Written::Plain;
    let rounds = |mean: f64| mean.is_finite() && mean >= 1.0;
    match *numbers {
        [] if name == "always" => Some(AvailabilityModel::Always),
        [Plain(p)] if name == "bernoulli" && p > 0.0 && p <= 1.0 => {
            Some(AvailabilityModel::Bernoulli(p))
        }
        [Plain(least)] if (LEAST_CHANCE..=1.0).contains(&least) => {
            let by = ranked_by(name)?;
            Some(AvailabilityModel::Ranked(RankedChance { by, least }))
        }
        [Plain(up), Plain(down)] if name == "on-off" && rounds(up) && rounds(down) => {
            Some(AvailabilityModel::OnOff { up, down })
        }
        [Plain(period), Plain(depth)]
            if name == "diurnal" && rounds(period) && (0.0..=1.0).contains(&depth) =>
        {
            Some(AvailabilityModel::Diurnal { period, depth })
        }
        _ => None,
    }
}

fn in_seconds(name: &str, numbers: &[Written]) -> Option<AvailabilityModel> {
    use Written::{Plain, Seconds};
    let sensible = |seconds: f64| (1e-3..=1e12).contains(&seconds);
    let is_chance = |chance: f64| (LEAST_CHANCE..=1.0).contains(&chance);
    let timed = match *numbers {
        [Plain(chance), Seconds(slot)] if sensible(slot) && is_chance(chance) => {
            if name == "bernoulli" {
                TimedAvailability::Bernoulli { chance, slot }
            } else {
                let ranked = RankedChance { by: ranked_by(name)?, least: chance };
                TimedAvailability::Ranked { ranked, slot }
            }
        }
        [Seconds(up), Seconds(down)] if name == "on-off" && sensible(up) && sensible(down) => {
            TimedAvailability::OnOff { up, down }
        }
        [Seconds(period), Plain(depth)]
            if name == "diurnal" && sensible(period) && (0.0..=1.0).contains(&depth) =>
        {
            TimedAvailability::Diurnal { period, depth }
        }
        _ => return None,
    };
    Some(AvailabilityModel::InSeconds(timed))
}

impl fmt::Display for AvailabilityModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => write!(f, "always"),
            Self::Bernoulli(p) => write!(f, "bernoulli:{p}"),
            Self::OnOff { up, down } => write!(f, "on-off:{up},{down}"),
            Self::Diurnal { period, depth } => write!(f, "diurnal:{period},{depth}"),
            Self::Ranked(ranked) => ranked.fmt(f),
            Self::InSeconds(timed) => timed.fmt(f),
        }
    }
}

impl fmt::Display for TimedAvailability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bernoulli { chance, slot } => write!(f, "bernoulli:{chance},{slot}s"),
            Self::OnOff { up, down } => write!(f, "on-off:{up}s,{down}s"),
            Self::Diurnal { period, depth } => write!(f, "diurnal:{period}s,{depth}"),
            Self::Ranked { ranked, slot } => write!(f, "{ranked},{slot}s"),
        }
    }
}

impl fmt::Display for RankedChance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.by {
            RankedBy::Data => "more-data-first",
            RankedBy::Speed => "slow-less",
        };
        write!(f, "{name}:{}", self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_nonsense_is_named() {
        let rounds = ["always", "bernoulli:0.7", "on-off:20,5", "diurnal:24,0.8", "slow-less:0.2"];
        let seconds = ["bernoulli:0.7,600s", "on-off:3600s,600s", "diurnal:86400s,0.8"];
        let ranked = ["more-data-first:0.1,60s", "slow-less:1,0.5s"];
        let in_seconds = seconds.into_iter().chain(ranked).map(|text| (text, true));
        for (text, is_timed) in rounds.map(|text| (text, false)).into_iter().chain(in_seconds) {
            let model: AvailabilityModel = text.parse().unwrap();
            assert_eq!((model.to_string(), model.timed().is_some()), (text.to_string(), is_timed));
        }
        let wrong = ["", "bernoulli", "bernoulli:0", "bernoulli:1.1", "on-off:1", "diurnal:0.5,1"];
        let more =
            ["x:1", "bernoulli:0.001,600s", "bernoulli:0.7s", "on-off:3600s,600", "slow-less"];
        let last = ["diurnal:86400s,0.8s", "more-data-first:0", "x:0.5,60s", "on-off:0s,1s"];
        for text in wrong.into_iter().chain(more).chain(last) {
            let error = text.parse::<AvailabilityModel>().unwrap_err();
            assert_eq!((error.field(), error.value()), ("availability", text));
        }
    }

    #[test]
    fn chances_rise_with_the_rank() {
        let ranked = RankedChance { by: RankedBy::Data, least: 0.2 };
        let is_near = |values: &[f64], expected: &[f64]| {
            let chances = ranked.chances(values);
            let near = chances.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12);
            chances.len() == expected.len() && near
        };
        assert!(is_near(&[30.0, 10.0, 20.0], &[1.0, 0.2, 0.6]));
        // Those that are equal share the mean of their ranks.
        assert!(is_near(&[5.0, 5.0, 9.0], &[0.4, 0.4, 1.0]));
        assert!(is_near(&[7.0], &[0.2]));
    }
}
