//! Which client has which images: a distribution for the labels and a distribution for the sizes.
//!
//! Every image goes to exactly one client, and the sizes come out as the distribution of sizes asks, except that no client has
//! fewer images than `least`. Everything is a function of the images' labels, the parameters and the seed.

mod distribution;
mod sizes;
mod split;
mod summary;

pub use distribution::PartitionDistribution;
pub use summary::{PartitionSummary, Spread};

use super::images::Images;
use agewise_core::{Error, Result, Seed, SizeDistribution};

/// How images are to be shared; [`PartitionParams::check`] says whether that is possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionParams {
    /// How labels are spread.
    pub distribution: PartitionDistribution,
    /// How sizes are spread.
    pub sizes: SizeDistribution,
    /// The number of clients.
    pub clients: u64,
    /// The images that each client has at least: one batch.
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

impl PartitionParams {
    /// Checks that these images can be shared that way, and finds the size of each client.
    pub fn check(self, images: &Images) -> Result<CheckedPartition> {
        if self.least == 0 {
            return Err(Error::new("batch", 0, "at least 1 image for each client"));
        }
        let most = images.len() as u64 / self.least;
        if most == 0 {
            let expected = format!("at most {}, the number of images", images.len());
            return Err(Error::new("batch", self.least, expected));
        }
        if !(1..=most).contains(&self.clients) {
            let expected = format!(
                "a whole number from 1 to {most}: {} images, at least {} for each client",
                images.len(),
                self.least
            );
            return Err(Error::new("clients", self.clients, expected));
        }
        self.distribution.check()?;
        // Images are numbered with 32 bits, and there are no more clients than images.
        let relative = self.sizes.draw(self.clients as u32, self.seed)?;
        let sizes = sizes::in_images(&relative, images.len(), self.least as usize);
        if let (PartitionDistribution::Shards(shards), Some(&smallest)) =
            (self.distribution, sizes.iter().min())
            && shards as usize > smallest
        {
            let expected = format!("at most {smallest}, the images of the smallest client");
            return Err(Error::new("partition", self.distribution, expected));
        }
        Ok(CheckedPartition { params: self, images: images.clone(), sizes })
    }
}

/// Images that can be shared as asked.
#[derive(Debug, Clone)]
pub struct CheckedPartition {
    params: PartitionParams,
    images: Images,
    sizes: Vec<usize>,
}

impl CheckedPartition {
    /// What was asked for.
    pub fn params(&self) -> &PartitionParams {
        &self.params
    }

    /// Shares the images.
    pub fn split(&self) -> Partition {
        let shared =
            split::split(self.params.distribution, &self.images, &self.sizes, self.params.seed);
        Partition::new(&self.images, shared)
    }
}

/// The images of each client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    clients: Vec<Vec<u32>>,
    histograms: Vec<Vec<u32>>,
    class_counts: Vec<u32>,
}

impl Partition {
    fn new(images: &Images, mut clients: Vec<Vec<u32>>) -> Self {
        for indices in &mut clients {
            // The order carries no meaning; this one reads memory forwards.
            indices.sort_unstable();
        }
        let histogram = |indices: &Vec<u32>| {
            let mut counts = vec![0; images.classes() as usize];
            for &index in indices {
                counts[usize::from(images.label(index as usize))] += 1;
            }
            counts
        };
        let histograms = clients.iter().map(histogram).collect();
        Self { clients, histograms, class_counts: images.class_counts() }
    }

    /// The number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The images of one client, by their numbers, in increasing order.
    ///
    /// # Panics
    ///
    /// If there is no such client.
    pub fn of(&self, client: usize) -> &[u32] {
        &self.clients[client]
    }

    /// How many images each client has.
    pub fn sizes(&self) -> Vec<usize> {
        self.clients.iter().map(Vec::len).collect()
    }

    /// How many images of each class each client has.
    pub fn histograms(&self) -> &[Vec<u32>] {
        &self.histograms
    }

    /// How many images of each class there are in all.
    pub fn class_counts(&self) -> &[u32] {
        &self.class_counts
    }

    /// The partition in a few numbers.
    pub fn summary(&self) -> PartitionSummary {
        PartitionSummary::new(self)
    }
}
