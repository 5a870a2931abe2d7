//! How fast clients are in simulated time.
//!
//! A client's duration is the number of samples that it trains in a round, divided by its speed. Nothing is waited for:
//! durations are what policies that look at them are told, the same for all policies of a seed.

use agewise_core::{Draws, Error, Result, Seed, SizeDistribution, Sizes, Stream};
use std::fmt;
use std::str::FromStr;

/// The speeds of the clients of a seed.
const SPEED: Stream = Stream::custom(21);

/// The median speed, in samples per second.
const MEDIAN: f64 = 1_000.0;

/// Beyond this the slowest client takes years, and durations leave the range of their numbers.
const LARGEST_SPREAD: f64 = 5.0;

const EXPECTED: &str = "equal, or lognormal:S with S from 0 to 5 (such as lognormal:1)";

/// How speeds are spread over clients: `equal` or `lognormal:S`. The median is 1,000 samples per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum SpeedDistribution {
    /// Everyone is equally fast.
    #[default]
    Equal,
    /// The median times exp(S z) with z standard normal.
    LogNormal(f64),
}

impl SpeedDistribution {
    /// The speeds of a population in samples per second; that of a client depends on the seed and on its number alone.
    pub(crate) fn draw(self, clients: u32, seed: Seed) -> Result<Vec<f64>> {
        // The distribution is that of sizes, under a seed of its own: clients with much data are not therefore fast.
        let seed = Seed(Draws::new(seed, SPEED, 0).of(0).bits());
        let relative = match self {
            Self::Equal => Sizes::equal(clients),
            Self::LogNormal(spread) => SizeDistribution::LogNormal(spread).draw(clients, seed)?,
        };
        Ok((0..clients).map(|client| MEDIAN * relative.of(client)).collect())
    }
}

impl FromStr for SpeedDistribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let law = match text.split_once(':') {
            None if text == "equal" => Some(Self::Equal),
            Some(("lognormal", spread)) => spread.parse().ok().map(Self::LogNormal),
            _ => None,
        };
        let sensible = |law: &Self| match law {
            Self::Equal => true,
            Self::LogNormal(spread) => (0.0..=LARGEST_SPREAD).contains(spread),
        };
        law.filter(sensible).ok_or_else(|| Error::new("speeds", text, EXPECTED))
    }
}

impl fmt::Display for SpeedDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::LogNormal(spread) => write!(f, "lognormal:{spread}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_parse_and_print_the_same_text() {
        for text in ["equal", "lognormal:0", "lognormal:0.5", "lognormal:5"] {
            assert_eq!(text.parse::<SpeedDistribution>().unwrap().to_string(), text);
        }
        let wrong = ["", "Equal", "equal:1", "lognormal", "lognormal:", "lognormal:-1"];
        for text in wrong.into_iter().chain(["lognormal:5.1", "lognormal:nan", "zipf:2"]) {
            let error = text.parse::<SpeedDistribution>().unwrap_err();
            assert_eq!((error.field(), error.value()), ("speeds", text));
        }
    }

    /// The logarithm over the median has mean 0 and deviation S. Of 20,000 draws with S = 0.5 the mean has the
    /// deviation 0.0035 and the deviation one of 0.0025; 5 of each are allowed.
    #[test]
    fn speeds_follow_their_law_and_are_those_of_the_client() {
        let speeds = SpeedDistribution::LogNormal(0.5).draw(20_000, Seed(4)).unwrap();
        let logs: Vec<f64> = speeds.iter().map(|speed| (speed / MEDIAN).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 20_000.0;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.0175 && (variance.sqrt() - 0.5).abs() < 0.0125);
        assert_eq!(SpeedDistribution::LogNormal(0.5).draw(9, Seed(4)).unwrap(), speeds[..9]);
        assert_eq!(SpeedDistribution::Equal.draw(3, Seed(4)).unwrap(), [MEDIAN; 3]);
        assert_eq!(SpeedDistribution::LogNormal(0.0).draw(3, Seed(4)).unwrap(), [MEDIAN; 3]);
        // A stream of its own: not the order of sizes drawn from the same law.
        let sizes = SizeDistribution::LogNormal(0.5).draw(20, Seed(4)).unwrap();
        let same = |client: u32| (sizes.of(client) - speeds[client as usize] / MEDIAN).abs() < 1e-9;
        assert!(!(0..20).any(same));
    }
}
