//! How a rate (a speed, a bandwidth) is spread over clients.
//!
//! Written `equal`, `lognormal:S`, `phones`, `phones-by-model` or `FILE.csv:COLUMN`; all but the last may be followed by
//! `@MEDIAN`.

use super::phones;
use agewise_core::{Draws, Error, Result, Seed, SizeDistribution, Sizes};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Beyond this the slowest client takes years, and durations leave the range of their numbers.
const LARGEST_SPREAD: f64 = 5.0;

/// The words for what can be written.
const SPREADS: &str = "equal, or lognormal:S with S from 0 to 5 (such as lognormal:1), or phones, or phones-by-model, \
                       each with @MEDIAN if wished";

/// The columns of files by what was written for them: `FILE.csv:COLUMN`.
pub(crate) type Columns = BTreeMap<String, Vec<f64>>;

/// How rates are spread around their median.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Spread {
    /// Every client has the median.
    #[default]
    Equal,
    /// The median times exp(S z) with z standard normal.
    LogNormal(f64),
    /// As phones that are in use, by the table of this crate.
    Phones,
    /// As models of phones, each counted once.
    PhonesByModel,
    /// The column of a file: a row for each client.
    Column(String),
}

/// A spread with its median, as far as that was written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RateDistribution {
    /// The shape.
    pub spread: Spread,
    /// The medians that were written behind `@`: one for a speed, two for a link.
    pub medians: Vec<f64>,
}

impl RateDistribution {
    /// Reads a distribution with so many medians if it has any; errors name the field.
    pub(crate) fn parse(field: &str, text: &str, medians: usize) -> Result<Self> {
        let wrong = || {
            let columns = if medians == 1 { "COLUMN" } else { "DOWN,UP" };
            Error::new(field, text, format!("{SPREADS}, or FILE.csv:{columns}"))
        };
        if is_column(text) {
            return Ok(Self { spread: Spread::Column(text.to_string()), medians: Vec::new() });
        }
        let (shape, numbers) =
            text.split_once('@').map_or((text, None), |(shape, rest)| (shape, Some(rest)));
        let spread = match shape.split_once(':') {
            None if shape == "equal" => Spread::Equal,
            None if shape == "phones" => Spread::Phones,
            None if shape == "phones-by-model" => Spread::PhonesByModel,
            Some(("lognormal", spread)) => {
                Spread::LogNormal(spread.parse().ok().ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        if matches!(spread, Spread::LogNormal(spread) if !(0.0..=LARGEST_SPREAD).contains(&spread))
        {
            return Err(wrong());
        }
        let Some(numbers) = numbers else {
            return Ok(Self { spread, medians: Vec::new() });
        };
        let each: Option<Vec<f64>> =
            numbers.split(',').map(|number| number.trim().parse().ok()).collect();
        let sensible = |median: &f64| median.is_finite() && *median >= 1e-6 && *median <= 1e12;
        let fits = |each: &Vec<f64>| each.len() == medians && each.iter().all(sensible);
        let medians = each.filter(fits).ok_or_else(|| {
            let what = if medians == 1 { "one median" } else { "two medians, down and up," };
            Error::new(field, text, format!("{what} from 1e-6 to 1e12 behind the @"))
        })?;
        Ok(Self { spread, medians })
    }

    /// Whether all clients are alike, with the usual median.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Each client's rate over the median; that of a client depends on the seed and on its number alone. For columns of a
    /// file these are the rates themselves, of the column with this place.
    pub(crate) fn relative(
        &self,
        clients: u32,
        seed: Seed,
        columns: &Columns,
        place: usize,
    ) -> Result<Vec<f64>> {
        let phones = |scale| {
            let draws = Draws::new(seed, phones::PHONE, 0);
            let one = |client| phones::relative_speed(draws.of(u64::from(client)).unit(), scale);
            Ok((0..clients).map(one).collect())
        };
        let sizes = match &self.spread {
            Spread::Equal => Sizes::equal(clients),
            // The distribution is that of sizes, under a seed of its own: clients with much data are not therefore fast.
            Spread::LogNormal(spread) => {
                SizeDistribution::LogNormal(*spread).draw(clients, seed)?
            }
            Spread::Phones => return phones(phones::BY_USER),
            Spread::PhonesByModel => return phones(phones::BY_MODEL),
            Spread::Column(text) => return column(columns, text, clients, place),
        };
        Ok((0..clients).map(|client| sizes.of(client)).collect())
    }
}

/// Whether the text names a column of a file.
pub(crate) fn is_column(text: &str) -> bool {
    text.to_ascii_lowercase().contains(".csv:")
}

/// What was read from a file.
fn column(columns: &Columns, text: &str, clients: u32, place: usize) -> Result<Vec<f64>> {
    let names = super::rate_file::names(text);
    let name = names.get(place).or(names.first()).cloned().unwrap_or_default();
    let unread = || Error::new("columns", text, "a column that was read from its file");
    let values = columns.get(&name).ok_or_else(unread)?;
    if values.len() as u64 != u64::from(clients) {
        let expected = format!("a row for each of the {clients} clients");
        return Err(Error::new(name, format!("{} rows", values.len()), expected));
    }
    Ok(values.clone())
}

impl FromStr for RateDistribution {
    type Err = Error;

    /// Reads the speeds of clients.
    fn from_str(text: &str) -> Result<Self> {
        Self::parse("speeds", text, 1)
    }
}

impl fmt::Display for RateDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spread {
            Spread::Equal => f.write_str("equal")?,
            Spread::LogNormal(spread) => write!(f, "lognormal:{spread}")?,
            Spread::Phones => f.write_str("phones")?,
            Spread::PhonesByModel => f.write_str("phones-by-model")?,
            Spread::Column(text) => f.write_str(text)?,
        }
        for (place, median) in self.medians.iter().enumerate() {
            write!(f, "{}{median}", if place == 0 { '@' } else { ',' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_parse_and_print_the_same_text() {
        let texts = ["equal", "lognormal:0", "lognormal:0.5", "lognormal:5", "phones"];
        for text in texts.into_iter().chain(["phones-by-model@50", "equal@0.5", "a.csv:speed"]) {
            assert_eq!(text.parse::<RateDistribution>().unwrap().to_string(), text);
        }
        let links = RateDistribution::parse("links", "lognormal:1@20,5", 2).unwrap();
        assert_eq!(
            (links.to_string(), links.medians),
            ("lognormal:1@20,5".into(), vec![20.0, 5.0])
        );
        let wrong = ["", "Equal", "equal:1", "lognormal", "lognormal:", "lognormal:-1"];
        let more = ["lognormal:5.1", "lognormal:nan", "zipf:2", "equal@", "equal@0", "equal@1,2"];
        for text in wrong.into_iter().chain(more) {
            let error = text.parse::<RateDistribution>().unwrap_err();
            assert_eq!((error.field(), error.value()), ("speeds", text));
        }
    }

    /// The logarithm has mean 0 and deviation S. Of 20,000 draws with S = 0.5 the mean has the deviation 0.0035 and the
    /// deviation one of 0.0025; 5 of each are allowed. For phones the table has the deviation 0.99 (1.36 by model).
    #[test]
    fn rates_follow_their_law_and_are_those_of_the_client() {
        for (text, deviation) in
            [("lognormal:0.5", 0.5), ("phones", 0.99), ("phones-by-model", 1.36)]
        {
            let distribution: RateDistribution = text.parse().unwrap();
            let draw = |n| distribution.relative(n, Seed(4), &Columns::new(), 0).unwrap();
            let rates = draw(20_000);
            let logs: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
            let mean = logs.iter().sum::<f64>() / 20_000.0;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 20_000.0;
            assert!(mean.abs() < 0.0355 * deviation, "{text}: {mean}");
            assert!((variance.sqrt() / deviation - 1.0).abs() < 0.025, "{text}: {variance}");
            assert_eq!(draw(9), rates[..9]);
        }
        for text in ["equal", "lognormal:0"] {
            let distribution: RateDistribution = text.parse().unwrap();
            let rates = distribution.relative(3, Seed(4), &Columns::new(), 0).unwrap();
            assert_eq!(rates, [1.0; 3]);
        }
    }
}
