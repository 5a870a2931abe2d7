//! How fast models go to clients and back.

use super::rates::{Columns, RateDistribution, Spread};
use agewise_core::{Draws, Result, Seed, Stream};
use std::fmt;

/// The links of the clients of a seed.
const LINK: Stream = Stream::custom(23);

/// The median bandwidths in Mbit/s where none are written: down and up.
const MEDIANS: [f64; 2] = [20.0, 5.0];

/// Bits of a megabit per second, as bytes.
const BYTES_PER_MEGABIT: f64 = 125_000.0;

/// How bandwidths are spread over clients. A client's link is as much faster or slower than the median in both
/// directions, unless a file says both.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkDistribution(RateDistribution);

impl LinkDistribution {
    /// Reads `DISTRIBUTION[@DOWN,UP]` or `FILE.csv:DOWN,UP`, in Mbit/s.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Ok(Self(RateDistribution::parse("links", text, 2)?))
    }

    /// The bytes per second of each client, down and up.
    pub(crate) fn draw(
        &self,
        clients: u32,
        seed: Seed,
        columns: &Columns,
    ) -> Result<[Vec<f64>; 2]> {
        let seed = Seed(Draws::new(seed, LINK, 0).of(0).bits());
        let from_file = matches!(self.0.spread, Spread::Column(_));
        let medians = match (from_file, &self.0.medians[..]) {
            (true, _) => [1.0; 2],
            (false, &[down, up]) => [down, up],
            (false, _) => MEDIANS,
        };
        let direction = |place: usize| {
            let relative = self.0.relative(clients, seed, columns, place)?;
            let scale = BYTES_PER_MEGABIT * medians[place];
            Ok(relative.into_iter().map(|rate| scale * rate).collect())
        };
        Ok([direction(0)?, direction(1)?])
    }
}

impl fmt::Display for LinkDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_megabits() {
        let draw = |text: &str| {
            let links = LinkDistribution::parse(text).unwrap();
            links.draw(3, Seed(1), &Columns::new()).unwrap()
        };
        assert_eq!(draw("equal"), [vec![2.5e6; 3], vec![6.25e5; 3]]);
        assert_eq!(draw("equal@8,4"), [vec![1e6; 3], vec![5e5; 3]]);
        // One draw for both directions.
        let [down, up] = draw("lognormal:1@8,4");
        assert!(down.iter().zip(&up).all(|(down, up)| (down / up - 2.0).abs() < 1e-12));
        assert_ne!(down[0], down[1]);
        let error = LinkDistribution::parse("equal@3").unwrap_err();
        assert_eq!((error.field(), error.value()), ("links", "equal@3"));
    }
}
