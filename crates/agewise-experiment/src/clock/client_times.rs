//! How long each client takes for each part of a round.

use super::links::LinkDistribution;
use super::rates::{Columns, RateDistribution, Spread};
use agewise_core::{Draws, Error, Result, Seed, Stream};

/// The speeds of the clients of a seed.
const SPEED: Stream = Stream::custom(21);

/// The median speed, in samples per second, where no other is written.
const MEDIAN_SPEED: f64 = 1_000.0;

/// The seconds that each client of a seed takes to download the model, to train a round, and to upload its update.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientTimes {
    /// Of everyone who will ever join.
    speeds: Vec<f64>,
    training: Vec<f64>,
    /// Bytes per second, down and up; nothing where transfers take no time.
    links: Option<[Vec<f64>; 2]>,
    model_bytes: u64,
}

impl ClientTimes {
    /// The times of clients that train so many samples in a round of a model of so many bytes.
    pub(crate) fn draw(
        (speeds, links): (&RateDistribution, Option<&LinkDistribution>),
        columns: &Columns,
        seed: Seed,
        samples: &[u64],
        model_bytes: u64,
    ) -> Result<Self> {
        let clients = samples.len() as u32;
        let of_speeds = Seed(Draws::new(seed, SPEED, 0).of(0).bits());
        let relative = speeds.relative(clients, of_speeds, columns, 0)?;
        let median = match (&speeds.spread, speeds.medians.first()) {
            (Spread::Column(_), _) => 1.0,
            (_, Some(&median)) => median,
            (_, None) => MEDIAN_SPEED,
        };
        let speeds: Vec<f64> = relative.into_iter().map(|relative| median * relative).collect();
        let seconds = |(&samples, speed): (&u64, &f64)| samples as f64 / speed;
        let training = samples.iter().zip(&speeds).map(seconds).collect();
        let links = links.map(|links| links.draw(clients, seed, columns)).transpose()?;
        Ok(Self { speeds, training, links, model_bytes })
    }

    /// Seconds of training alone.
    pub fn training(&self, client: u32) -> f64 {
        self.training[client as usize]
    }

    /// Samples per second.
    pub(crate) fn speed(&self, client: u32) -> f64 {
        self.speeds[client as usize]
    }

    /// Seconds to download the model.
    pub fn download(&self, client: u32) -> f64 {
        self.transfer(client, 0)
    }

    /// Seconds to upload an update.
    pub fn upload(&self, client: u32) -> f64 {
        self.transfer(client, 1)
    }

    fn transfer(&self, client: u32, direction: usize) -> f64 {
        let bytes = self.model_bytes as f64;
        self.links.as_ref().map_or(0.0, |links| bytes / links[direction][client as usize])
    }

    /// Seconds from the announcement of a round until the update is there.
    pub fn turnaround(&self, client: u32) -> f64 {
        self.download(client) + self.training(client) + self.upload(client)
    }

    /// The bytes of a model, and of an update.
    pub(crate) fn model_bytes(&self) -> u64 {
        self.model_bytes
    }

    /// The turnaround in which this share of the first so many clients is done.
    pub(crate) fn quantile(&self, clients: u32, share: f64) -> f64 {
        let mut all: Vec<f64> = (0..clients).map(|client| self.turnaround(client)).collect();
        all.sort_by(f64::total_cmp);
        // A product that is more than a whole number by a rounding is that number.
        let place = (share * all.len() as f64 * (1.0 - 2.0 * f64::EPSILON)).ceil() as usize;
        all.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// The turnaround of the fastest of the first so many clients.
    pub(crate) fn fastest(&self, clients: u32) -> f64 {
        (0..clients).map(|client| self.turnaround(client)).fold(f64::INFINITY, f64::min)
    }

    /// The turnaround of the slowest client.
    pub(crate) fn longest(&self) -> f64 {
        let clients = 0..self.training.len() as u32;
        clients.map(|client| self.turnaround(client)).fold(0.0, f64::max)
    }

    /// Refuses times that leave the range of their numbers.
    pub(crate) fn check(&self) -> Result<()> {
        let longest = self.longest();
        if longest <= 1e12 {
            return Ok(());
        }
        let expected = "speeds and links with which every client is done within 1e12 seconds";
        Err(Error::new("turnaround", format!("{longest} s"), expected))
    }
}
