//! Data sizes of the clients: d_i, and the shares q_i = d_i / sum d that the objective gives them.

use crate::error::{Error, Result};
use crate::random::{Lots, Seed, Stream};
use rand_distr::{Distribution, LogNormal, Zeta};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most clients for which sizes are drawn one by one (8 bytes each).
const MOST_DRAWN_SIZES: u32 = 100_000_000;

/// A client with less than this share of all data has none, as far as a double can tell.
const SMALLEST_SHARE: f64 = 1e-200;

/// The data sizes of a population; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    clients: u32,
    /// One size per client, or `None` where all have the same.
    each: Option<Arc<[f64]>>,
    total: f64,
}

impl Sizes {
    /// All clients have the same amount of data; takes no memory.
    pub fn equal(clients: u32) -> Self {
        Self { clients, each: None, total: f64::from(clients) }
    }

    /// The given sizes: finite, none negative, not all zero, and none too small beside the largest.
    pub fn new(sizes: Vec<f64>) -> Result<Self> {
        if sizes.is_empty() {
            return Err(Error::new("sizes", "[]", "one size for each client"));
        }
        let clients = check_clients(sizes.len() as u64)?;
        for (client, &size) in sizes.iter().enumerate() {
            if !(size.is_finite() && size >= 0.0) {
                return Err(Error::new(
                    format!("sizes[{client}]"),
                    size,
                    "a finite number of samples, 0 or more",
                ));
            }
        }
        let total: f64 = sizes.iter().sum();
        if total <= 0.0 {
            return Err(Error::new("sizes", "all 0", "at least one client with data"));
        }
        if total.is_infinite() {
            return Err(Error::new("sizes", total, "sizes with a finite sum"));
        }
        let least = total * SMALLEST_SHARE;
        if let Some(client) = sizes.iter().position(|&size| size > 0.0 && size < least) {
            let expected = format!("0, or at least {SMALLEST_SHARE:e} of all data");
            let value = format!("{:e}", sizes[client]);
            return Err(Error::new(format!("sizes[{client}]"), value, expected));
        }
        Ok(Self { clients, each: Some(sizes.into()), total })
    }

    /// The number of clients.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// The size d_i of one client (1 where all are equal).
    pub fn of(&self, client: u32) -> f64 {
        self.each.as_ref().map_or(1.0, |each| each[client as usize])
    }

    /// The share q_i of one client in the objective.
    pub fn share(&self, client: u32) -> f64 {
        self.of(client) / self.total
    }

    /// The sum of all sizes.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Whether all clients have the same amount of data.
    pub fn are_equal(&self) -> bool {
        match &self.each {
            None => true,
            Some(each) => each.windows(2).all(|pair| pair[0] == pair[1]),
        }
    }

    /// The different sizes in increasing order, each with the number of clients that have it.
    pub fn classes(&self) -> Vec<(f64, u32)> {
        let Some(each) = &self.each else {
            return vec![(1.0, self.clients)];
        };
        let mut sorted = each.to_vec();
        sorted.sort_by(f64::total_cmp);
        let chunks = sorted.chunk_by(|a, b| a == b);
        chunks.map(|chunk| (chunk[0], chunk.len() as u32)).collect()
    }
}

/// Checks a number of clients given from outside.
pub(crate) fn check_clients(clients: u64) -> Result<u32> {
    match u32::try_from(clients) {
        Ok(count @ 1..) => Ok(count),
        _ => Err(Error::new("clients", clients, format!("a whole number from 1 to {}", u32::MAX))),
    }
}

/// A law from which data sizes are drawn: `equal`, `zipf:A` or `lognormal:S`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum SizeLaw {
    /// Everyone has the same.
    #[default]
    Equal,
    /// P(d = k) proportional to k^-A, A > 1: the paper's sizes, with A = 2.
    Zipf(f64),
    /// exp(S z) with z standard normal, S >= 0: median 1.
    LogNormal(f64),
}

impl SizeLaw {
    /// Draws the sizes of a population; client i depends on the seed and on i alone.
    pub fn draw(self, clients: u32, seed: Seed) -> Result<Sizes> {
        // A Zipf draw can be astronomically large when A is near 1; beyond this the total stops
        // being a number, and it is more data than anyone has.
        const LARGEST_SIZE: f64 = 1e15;
        if self == Self::Equal {
            return Ok(Sizes::equal(clients));
        }
        if clients > MOST_DRAWN_SIZES {
            let expected = format!("at most {MOST_DRAWN_SIZES} with sizes {self}, or sizes equal");
            return Err(Error::new("clients", clients, expected));
        }
        let lots = Lots::new(seed, Stream::SIZE, 0);
        let wrong = |error: &dyn fmt::Display| Error::new("sizes", self, error.to_string());
        let draw = |sample: &dyn Fn(u32) -> f64| {
            Sizes::new((0..clients).map(|c| sample(c).min(LARGEST_SIZE)).collect())
        };
        match self {
            Self::Equal => Ok(Sizes::equal(clients)),
            Self::Zipf(a) => {
                let law = Zeta::new(a).map_err(|e| wrong(&e))?;
                draw(&|client| law.sample(&mut lots.sequence(u64::from(client))))
            }
            Self::LogNormal(s) => {
                let law = LogNormal::new(0.0, s).map_err(|e| wrong(&e))?;
                draw(&|client| law.sample(&mut lots.sequence(u64::from(client))))
            }
        }
    }
}

impl FromStr for SizeLaw {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const EXPECTED: &str =
            "equal, zipf:A with A above 1 (such as zipf:2.0), or lognormal:S with S from 0 to 30";
        let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
        let law = match (name, parameter.parse::<f64>()) {
            ("equal", Err(_)) if parameter.is_empty() => Some(Self::Equal),
            ("zipf", Ok(a)) if a > 1.0 && a.is_finite() => Some(Self::Zipf(a)),
            ("lognormal", Ok(s)) if (0.0..=30.0).contains(&s) => Some(Self::LogNormal(s)),
            _ => None,
        };
        law.ok_or_else(|| Error::new("sizes", text, EXPECTED))
    }
}

impl fmt::Display for SizeLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => write!(f, "equal"),
            Self::Zipf(a) => write!(f, "zipf:{a}"),
            Self::LogNormal(s) => write!(f, "lognormal:{s}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_sizes_that_are_none() {
        let field = |sizes: Vec<f64>| Sizes::new(sizes).unwrap_err().field().to_string();
        assert_eq!(field(vec![]), "sizes");
        assert_eq!(field(vec![1e-210, 1.0]), "sizes[0]");
        assert_eq!(field(vec![1.0, f64::NAN]), "sizes[1]");
        assert_eq!(field(vec![-1.0]), "sizes[0]");
        assert_eq!(field(vec![f64::INFINITY]), "sizes[0]");
        assert_eq!(field(vec![0.0, 0.0]), "sizes");
        assert_eq!(field(vec![f64::MAX, f64::MAX]), "sizes");
    }

    #[test]
    fn classes_count_every_client_once() {
        let sizes = Sizes::new(vec![2.0, 1.0, 2.0, 0.0]).unwrap();
        assert_eq!(sizes.classes(), [(0.0, 1), (1.0, 1), (2.0, 2)]);
        assert_eq!(sizes.share(0), 0.4);
        assert!(!sizes.are_equal() && Sizes::equal(9).are_equal());
        assert_eq!(Sizes::equal(9).classes(), [(1.0, 9)]);
        assert_eq!(Sizes::equal(4).share(2), 0.25);
    }

    #[test]
    fn laws_parse_and_print_the_same_text() {
        for text in ["equal", "zipf:2", "zipf:1.5", "lognormal:0.5"] {
            assert_eq!(text.parse::<SizeLaw>().unwrap().to_string(), text);
        }
        for text in
            ["", "equal:1", "zipf", "zipf:1", "zipf:nan", "zipf:inf", "lognormal:-1", "lognormal:x"]
        {
            let error = text.parse::<SizeLaw>().unwrap_err();
            assert_eq!((error.field(), error.value()), ("sizes", text));
        }
    }

    /// P(d = 1) = 6/pi^2 for Zipf(2): the share among 20,000 draws has sd 0.0035, 5 sd allowed. The
    /// log of a log-normal draw has mean 0 and sd S.
    #[test]
    fn draws_follow_their_law_and_depend_on_the_client_alone() {
        let zipf = SizeLaw::Zipf(2.0).draw(20_000, Seed(4)).unwrap();
        let ones = (0..20_000).filter(|&c| zipf.of(c) == 1.0).count() as f64 / 20_000.0;
        assert!((ones - 6.0 / std::f64::consts::PI.powi(2)).abs() < 0.018, "{ones}");
        let fewer = SizeLaw::Zipf(2.0).draw(10, Seed(4)).unwrap();
        assert!((0..10).all(|c| fewer.of(c) == zipf.of(c)));

        let normal = SizeLaw::LogNormal(0.5).draw(20_000, Seed(4)).unwrap();
        let logs: Vec<f64> = (0..20_000).map(|c| normal.of(c).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 20_000.0;
        let variance = logs.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.018 && (variance - 0.25).abs() < 0.0125, "{mean}, {variance}");
    }

    #[test]
    fn wild_parameters_stay_finite() {
        let sizes = SizeLaw::Zipf(1.0001).draw(1_000, Seed(1)).unwrap();
        assert!(sizes.total().is_finite());
        assert!(SizeLaw::LogNormal(30.0).draw(1_000, Seed(1)).is_ok());
        assert_eq!(SizeLaw::Zipf(2.0).draw(u32::MAX, Seed(1)).unwrap_err().field(), "clients");
    }
}
