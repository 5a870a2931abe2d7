//! Data sizes of the clients: d_i, and the shares q_i = d_i / sum d that the objective gives them.

use crate::distributions::{standard_normal, zeta};
use crate::error::{Error, Result};
use crate::random::{Draws, Seed, Sequence, Stream};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// The most clients for which sizes are drawn one by one (8 bytes each).
const MOST_DRAWN_SIZES: u32 = 100_000_000;

/// A client with less than this share of all data has none, as far as a double can tell.
const SMALLEST_SHARE: f64 = 1e-200;

/// Whole numbers of which a sum is exact in any order, as long as it is at most this.
const EXACT: f64 = (1u64 << 53) as f64;

/// The data sizes of a population; cheap to clone, and to be added to or changed one by one.
#[derive(Debug, Clone)]
pub struct Sizes {
    clients: u32,
    /// One size per client, or `None` where all have the size 1.
    each: Option<Arc<Vec<f64>>>,
    /// The sum of all sizes in the order of clients; found when it is asked for.
    total: OnceLock<f64>,
    bounds: Bounds,
}

/// What is known of sizes without looking at all of them.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Clients with data.
    with_data: u32,
    /// No size above 0 is or was less, and none is or was more.
    least: f64,
    most: f64,
    /// Whether all sizes are and always were whole numbers.
    whole: bool,
}

impl Bounds {
    const EMPTY: Self = Self { with_data: 0, least: f64::INFINITY, most: 0.0, whole: true };

    fn with(self, size: f64) -> Self {
        Self {
            with_data: self.with_data + u32::from(size > 0.0),
            least: if size > 0.0 { self.least.min(size) } else { self.least },
            most: self.most.max(size),
            whole: self.whole && size.fract() == 0.0,
        }
    }

    /// An upper bound of the sum of the sizes of so many clients.
    fn highest_total(&self, clients: u32) -> f64 {
        f64::from(clients) * self.most
    }
}

impl PartialEq for Sizes {
    fn eq(&self, other: &Self) -> bool {
        self.clients == other.clients && self.each == other.each
    }
}

impl Sizes {
    /// All clients have the same amount of data; takes no memory.
    pub fn equal(clients: u32) -> Self {
        let bounds = Bounds { with_data: clients, least: 1.0, most: 1.0, whole: true };
        Self { clients, each: None, total: OnceLock::from(f64::from(clients)), bounds }
    }

    /// The given sizes: finite, none negative, not all zero, and none too small beside the largest.
    pub fn new(sizes: Vec<f64>) -> Result<Self> {
        if sizes.is_empty() {
            return Err(Error::new("sizes", "[]", "one size for each client"));
        }
        let clients = check_clients(sizes.len() as u64)?;
        for (client, &size) in sizes.iter().enumerate() {
            check_size(client, size)?;
        }
        let bounds = sizes.iter().fold(Bounds::EMPTY, |bounds, &size| bounds.with(size));
        let total: f64 = sizes.iter().sum();
        if total <= 0.0 {
            return Err(Error::new("sizes", "all 0", "at least one client with data"));
        }
        if total.is_infinite() {
            return Err(Error::new("sizes", total, "sizes with a finite sum"));
        }
        if bounds.least < total * SMALLEST_SHARE {
            let client = sizes.iter().position(|&size| size == bounds.least).unwrap_or(0);
            return Err(too_small(client, bounds.least));
        }
        Ok(Self { clients, each: Some(Arc::new(sizes)), total: OnceLock::from(total), bounds })
    }

    /// One more client. The sum stays the one of [`Sizes::new`], as it is added up in the order of clients.
    pub(crate) fn push(&mut self, size: f64) -> Result<()> {
        let clients = check_clients(u64::from(self.clients) + 1)?;
        let bounds = self.checked(self.clients, size, self.bounds)?;
        if self.each.is_some() || size != 1.0 {
            self.own().push(size);
        }
        if let Some(total) = self.total.get_mut() {
            *total += size;
        }
        (self.clients, self.bounds) = (clients, bounds);
        Ok(())
    }

    /// Takes the last client back.
    pub(crate) fn pop(&mut self) {
        let last = self.of(self.clients - 1);
        if let Some(each) = &mut self.each {
            Arc::make_mut(each).pop();
        }
        self.clients -= 1;
        self.bounds.with_data -= u32::from(last > 0.0);
        self.total = OnceLock::new();
    }

    /// Another size of one client.
    pub(crate) fn set(&mut self, client: u32, size: f64) -> Result<()> {
        let old = self.of(client);
        if old == size {
            return Ok(());
        }
        let mut others = self.bounds;
        others.with_data -= u32::from(old > 0.0);
        let bounds = self.checked(client, size, others)?;
        self.own()[client as usize] = size;
        // Sums of whole numbers are exact in any order; other sums have to be made anew.
        match self.total.get_mut() {
            Some(total) if bounds.whole && bounds.highest_total(self.clients) <= EXACT => {
                *total += size - old;
            }
            _ => self.total = OnceLock::new(),
        }
        self.bounds = bounds;
        Ok(())
    }

    /// The bounds with one more size. They do not get narrower when sizes go, so a size is refused that is out of all
    /// proportion to any that was ever there.
    fn checked(&self, client: u32, size: f64, others: Bounds) -> Result<Bounds> {
        check_size(client as usize, size)?;
        let bounds = others.with(size);
        if bounds.with_data == 0 {
            return Err(Error::new("sizes", "all 0", "at least one client with data"));
        }
        let total = bounds.highest_total(self.clients.saturating_add(1));
        if total.is_infinite() {
            return Err(Error::new(format!("sizes[{client}]"), size, "sizes with a finite sum"));
        }
        if bounds.least < total * SMALLEST_SHARE {
            return Err(too_small(client as usize, size));
        }
        Ok(bounds)
    }

    /// The list of sizes, of which there is one from now on.
    fn own(&mut self) -> &mut Vec<f64> {
        let clients = self.clients as usize;
        Arc::make_mut(self.each.get_or_insert_with(|| Arc::new(vec![1.0; clients])))
    }

    /// The number of clients.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// The size d_i of one client (1 where all are equal).
    pub fn of(&self, client: u32) -> f64 {
        self.each.as_ref().map_or(1.0, |each| each[client as usize])
    }

    /// One size for each client, unless all are 1.
    pub fn each(&self) -> Option<&[f64]> {
        self.each.as_ref().map(|each| &each[..])
    }

    /// The share q_i of one client in the objective.
    pub fn share(&self, client: u32) -> f64 {
        self.of(client) / self.total()
    }

    /// The sum of all sizes.
    pub fn total(&self) -> f64 {
        *self.total.get_or_init(|| match &self.each {
            None => f64::from(self.clients),
            Some(each) => each.iter().sum(),
        })
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

fn check_size(client: usize, size: f64) -> Result<()> {
    if size.is_finite() && size >= 0.0 {
        return Ok(());
    }
    let field = format!("sizes[{client}]");
    Err(Error::new(field, size, "a finite number of samples, 0 or more"))
}

fn too_small(client: usize, size: f64) -> Error {
    let expected = format!("0, or at least {SMALLEST_SHARE:e} of all data");
    Error::new(format!("sizes[{client}]"), format!("{size:e}"), expected)
}

/// Checks a number of clients given from outside.
pub(crate) fn check_clients(clients: u64) -> Result<u32> {
    match u32::try_from(clients) {
        Ok(count @ 1..) => Ok(count),
        _ => Err(Error::new("clients", clients, format!("a whole number from 1 to {}", u32::MAX))),
    }
}

/// A distribution from which data sizes are drawn: `equal`, `zipf:A` or `lognormal:S`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum SizeDistribution {
    /// Everyone has the same.
    #[default]
    Equal,
    /// P(d = k) proportional to k^-A, A > 1: the paper's sizes, with A = 2.
    Zipf(f64),
    /// exp(S z) with z standard normal, S >= 0: median 1.
    LogNormal(f64),
}

impl SizeDistribution {
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
        let draws = Draws::new(seed, Stream::SIZE, 0);
        let draw = |sample: &dyn Fn(&mut Sequence) -> f64| {
            let each = (0..clients).map(|client| sample(&mut draws.sequence(u64::from(client))));
            Sizes::new(each.map(|size| size.min(LARGEST_SIZE)).collect())
        };
        match self {
            Self::Equal => Ok(Sizes::equal(clients)),
            Self::Zipf(a) if a > 1.0 => draw(&|random| zeta(a, random)),
            Self::Zipf(_) => Err(Error::new("sizes", self, "zipf:A with A above 1")),
            Self::LogNormal(s) if s.is_finite() && s >= 0.0 => {
                draw(&|random| libm::exp(s * standard_normal(random)))
            }
            Self::LogNormal(_) => Err(Error::new("sizes", self, "lognormal:S with S from 0 on")),
        }
    }
}

impl FromStr for SizeDistribution {
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

impl fmt::Display for SizeDistribution {
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

    /// However sizes came about, their sum has the bits of adding them up in order.
    #[test]
    fn sizes_that_grow_and_change_are_those_that_were_given_at_once() {
        for scale in [1.0, 0.1] {
            let mut sizes = Sizes::equal(3);
            let mut list = vec![1.0; 3];
            for step in 0..400u32 {
                let size = f64::from(step * 7 % 23) * scale;
                if step % 3 == 0 {
                    sizes.push(size).unwrap();
                    list.push(size);
                } else {
                    let client = step * 5 % sizes.clients();
                    sizes.set(client, size).unwrap();
                    list[client as usize] = size;
                }
                if step % 4 != 1 {
                    let fresh = Sizes::new(list.clone()).unwrap();
                    assert_eq!(sizes.total().to_bits(), fresh.total().to_bits());
                    assert_eq!(sizes, fresh);
                }
            }
        }
        let mut equal = Sizes::equal(5);
        equal.push(1.0).unwrap();
        assert_eq!((equal.each(), equal.total()), (None, 6.0));
        equal.push(2.0).unwrap();
        equal.pop();
        assert_eq!((equal.clients(), equal.total()), (6, 6.0));
    }

    #[test]
    fn a_size_that_cannot_be_is_refused_and_changes_nothing() {
        let mut sizes = Sizes::new(vec![1.0, 0.0]).unwrap();
        let before = sizes.clone();
        for bad in [f64::NAN, -1.0, f64::INFINITY, f64::MAX, 1e-250] {
            assert_eq!(sizes.push(bad).unwrap_err().field(), "sizes[2]", "{bad}");
            assert_eq!(sizes.set(1, bad).unwrap_err().field(), "sizes[1]", "{bad}");
        }
        assert_eq!(sizes.set(0, 0.0).unwrap_err().field(), "sizes");
        assert_eq!((&sizes, sizes.total()), (&before, 1.0));
        let mut full = Sizes::equal(u32::MAX);
        assert_eq!(full.push(1.0).unwrap_err().field(), "clients");
    }

    #[test]
    fn distributions_parse_and_print_the_same_text() {
        for text in ["equal", "zipf:2", "zipf:1.5", "lognormal:0.5"] {
            assert_eq!(text.parse::<SizeDistribution>().unwrap().to_string(), text);
        }
        for text in
            ["", "equal:1", "zipf", "zipf:1", "zipf:nan", "zipf:inf", "lognormal:-1", "lognormal:x"]
        {
            let error = text.parse::<SizeDistribution>().unwrap_err();
            assert_eq!((error.field(), error.value()), ("sizes", text));
        }
    }

    /// P(d = 1) = 6/pi^2 for Zipf(2): the share among 20,000 draws has sd 0.0035, 5 sd allowed. The
    /// log of a log-normal draw has mean 0 and sd S.
    #[test]
    fn draws_follow_their_law_and_depend_on_the_client_alone() {
        let zipf = SizeDistribution::Zipf(2.0).draw(20_000, Seed(4)).unwrap();
        let ones = (0..20_000).filter(|&c| zipf.of(c) == 1.0).count() as f64 / 20_000.0;
        assert!((ones - 6.0 / std::f64::consts::PI.powi(2)).abs() < 0.018, "{ones}");
        let fewer = SizeDistribution::Zipf(2.0).draw(10, Seed(4)).unwrap();
        assert!((0..10).all(|c| fewer.of(c) == zipf.of(c)));

        let normal = SizeDistribution::LogNormal(0.5).draw(20_000, Seed(4)).unwrap();
        let logs: Vec<f64> = (0..20_000).map(|c| normal.of(c).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 20_000.0;
        let variance = logs.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.018 && (variance - 0.25).abs() < 0.0125, "{mean}, {variance}");
    }

    #[test]
    fn wild_parameters_stay_finite() {
        let sizes = SizeDistribution::Zipf(1.0001).draw(1_000, Seed(1)).unwrap();
        assert!(sizes.total().is_finite());
        assert!(SizeDistribution::LogNormal(30.0).draw(1_000, Seed(1)).is_ok());
        assert_eq!(
            SizeDistribution::Zipf(2.0).draw(u32::MAX, Seed(1)).unwrap_err().field(),
            "clients"
        );
    }
}
