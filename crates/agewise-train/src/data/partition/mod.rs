//! Which client has which samples: a distribution for the labels and a distribution for the sizes, or the clients of the
//! data.
//!
//! Every sample goes to exactly one client, and the sizes come out as the distribution of sizes asks, except that no client has
//! fewer samples than `least`. With the clients of the data ([`PartitionDistribution::Clients`]) their samples are theirs,
//! and those of clients that were not drawn are left aside. Everything is a function of the labels, the owners, the
//! parameters and the seed.

mod distribution;
mod sizes;
mod split;
mod summary;

pub use distribution::PartitionDistribution;
pub use summary::{MinMedianMax, PartitionSummary};

use super::images::{Dataset, Images};
use super::set::{Data, NaturalClients};
use agewise_core::{Error, Result, Seed, SizeDistribution};
use std::sync::Arc;

/// How samples are to be shared; [`PartitionParams::check`] says whether that is possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionParams {
    /// How labels are spread, or whether the clients are those of the data.
    pub distribution: PartitionDistribution,
    /// How sizes are spread.
    pub sizes: SizeDistribution,
    /// The number of clients.
    pub clients: u64,
    /// The samples that each client has at least: one batch. Clients of the data have what they have.
    pub least: u64,
    /// What all draws depend on.
    pub seed: Seed,
}

impl Default for PartitionParams {
    /// 100 clients that share evenly, without regard to labels.
    fn default() -> Self {
        let (distribution, sizes) = (PartitionDistribution::default(), SizeDistribution::default());
        Self { distribution, sizes, clients: 100, least: 1, seed: Seed(0) }
    }
}

/// What a partition looks at: how many samples there are, their classes, and whose they are if that is known.
#[derive(Debug, Clone)]
pub struct Divisible {
    samples: usize,
    /// 0 where numbers are predicted.
    classes: u32,
    /// Empty then.
    labels: Arc<[u8]>,
    clients: Option<NaturalClients>,
}

impl Divisible {
    /// The number of samples.
    fn len(&self) -> usize {
        self.samples
    }

    /// The class of a sample.
    fn label(&self, sample: usize) -> u8 {
        self.labels[sample]
    }

    fn class_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.classes as usize];
        for &label in self.labels.iter() {
            counts[usize::from(label)] += 1;
        }
        counts
    }
}

impl From<&Images> for Divisible {
    fn from(images: &Images) -> Self {
        let (classes, labels) = (images.classes(), images.labels().into());
        Self { samples: images.len(), classes, labels, clients: None }
    }
}

impl From<&Dataset> for Divisible {
    fn from(dataset: &Dataset) -> Self {
        Self { clients: dataset.clients.clone(), ..Self::from(&dataset.train) }
    }
}

impl From<&Data> for Divisible {
    fn from(data: &Data) -> Self {
        Self {
            samples: data.train.len(),
            classes: data.train.classes(),
            labels: data.train.class_labels().unwrap_or_default().into(),
            clients: data.clients.clone(),
        }
    }
}

impl PartitionParams {
    /// Checks that these samples can be shared that way, and finds the size of each client.
    pub fn check(self, samples: impl Into<Divisible>) -> Result<CheckedPartition> {
        let samples = samples.into();
        if self.distribution == PartitionDistribution::Clients {
            return self.check_natural(samples);
        }
        if self.least == 0 {
            return Err(Error::new("batch", 0, "at least 1 sample for each client"));
        }
        let most = samples.len() as u64 / self.least;
        if most == 0 {
            let expected = format!("at most {}, the number of samples", samples.len());
            return Err(Error::new("batch", self.least, expected));
        }
        if !(1..=most).contains(&self.clients) {
            let expected = format!(
                "a whole number from 1 to {most}: {} samples, at least {} for each client",
                samples.len(),
                self.least
            );
            return Err(Error::new("clients", self.clients, expected));
        }
        self.distribution.check()?;
        if samples.classes == 0 && self.distribution != PartitionDistribution::Iid {
            let expected = "iid or clients, as the samples have no classes";
            return Err(Error::new("partition", self.distribution, expected));
        }
        // Samples are numbered with 32 bits, and there are no more clients than samples.
        let relative = self.sizes.draw(self.clients as u32, self.seed)?;
        let sizes = sizes::in_samples(&relative, samples.len(), self.least as usize);
        if let (PartitionDistribution::Shards(shards), Some(&smallest)) =
            (self.distribution, sizes.iter().min())
            && shards as usize > smallest
        {
            let expected = format!("at most {smallest}, the samples of the smallest client");
            return Err(Error::new("partition", self.distribution, expected));
        }
        Ok(CheckedPartition { params: self, samples, sizes })
    }

    /// Checks that the data have that many clients.
    fn check_natural(self, samples: Divisible) -> Result<CheckedPartition> {
        let Some(clients) = &samples.clients else {
            let expected = "iid, dirichlet:ALPHA or shards:K: the data do not say whose the samples are (--client \
                            COLUMN names the column that does)";
            return Err(Error::new("partition", self.distribution, expected));
        };
        if self.sizes != SizeDistribution::Equal {
            let expected =
                "equal, which need not be said: the clients of the data have sizes of their own";
            return Err(Error::new("sizes", self.sizes, expected));
        }
        if !(1..=clients.len() as u64).contains(&self.clients) {
            let expected =
                format!("a whole number from 1 to {}, the clients of the data", clients.len());
            return Err(Error::new("clients", self.clients, expected));
        }
        let empty = clients.sizes().into_iter().position(|size| size == 0);
        if let Some(empty) = empty {
            let field = format!("samples of client {}", clients.names()[empty]);
            return Err(Error::new(field, 0, "at least one"));
        }
        Ok(CheckedPartition { params: self, samples, sizes: Vec::new() })
    }
}

/// Samples that can be shared as asked.
#[derive(Debug, Clone)]
pub struct CheckedPartition {
    params: PartitionParams,
    samples: Divisible,
    /// Empty for the clients of the data.
    sizes: Vec<usize>,
}

impl CheckedPartition {
    /// What was asked for.
    pub fn params(&self) -> &PartitionParams {
        &self.params
    }

    /// Shares the samples.
    pub fn split(&self) -> Partition {
        let PartitionParams { distribution, clients, seed, .. } = self.params;
        if let (PartitionDistribution::Clients, Some(all)) = (distribution, &self.samples.clients) {
            let drawn = split::draw_clients(all.len() as u32, clients as u32, seed);
            let names = drawn.iter().map(|&client| all.names()[client as usize].clone()).collect();
            let shared = split::natural(all, &drawn);
            return Partition { names, ..Partition::new(&self.samples, shared) };
        }
        let shared = split::split(distribution, &self.samples, &self.sizes, seed);
        Partition::new(&self.samples, shared)
    }
}

/// The samples of each client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    clients: Vec<Vec<u32>>,
    /// Empty where clients are only numbers.
    names: Vec<String>,
    histograms: Vec<Vec<u32>>,
    class_counts: Vec<u32>,
}

impl Partition {
    fn new(samples: &Divisible, mut clients: Vec<Vec<u32>>) -> Self {
        for indices in &mut clients {
            // The order carries no meaning; this one reads memory forwards.
            indices.sort_unstable();
        }
        let histogram = |indices: &Vec<u32>| {
            let mut counts = vec![0; samples.classes as usize];
            // Without classes there is nothing to count.
            for &index in indices.iter().filter(|_| samples.classes > 0) {
                counts[usize::from(samples.label(index as usize))] += 1;
            }
            counts
        };
        let histograms = clients.iter().map(histogram).collect();
        let class_counts = samples.class_counts();
        Self { clients, names: Vec::new(), histograms, class_counts }
    }

    /// The names of the clients, where the data have clients; empty where they are only numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The samples of one client, by their numbers, in increasing order.
    ///
    /// # Panics
    ///
    /// If there is no such client.
    pub fn of(&self, client: usize) -> &[u32] {
        &self.clients[client]
    }

    /// How many samples each client has.
    pub fn sizes(&self) -> Vec<usize> {
        self.clients.iter().map(Vec::len).collect()
    }

    /// How many samples of each class each client has; empty lists where there are no classes.
    pub fn histograms(&self) -> &[Vec<u32>] {
        &self.histograms
    }

    /// How many samples of each class there are in all.
    pub fn class_counts(&self) -> &[u32] {
        &self.class_counts
    }

    /// The partition in a few numbers.
    pub fn summary(&self) -> PartitionSummary {
        PartitionSummary::new(self)
    }
}
