//! A partition in a few numbers.

use super::Partition;
use serde::Serialize;

/// The smallest, the middle and the largest of several numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MinMedianMax {
    /// The smallest.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl MinMedianMax {
    /// Of at least one number; of none it is 0.
    fn new(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (numbers.first(), numbers.last()) else {
            return Self { min: 0.0, median: 0.0, max: 0.0 };
        };
        let (low, high) = (numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2]);
        Self { min, median: f64::midpoint(low, high), max }
    }
}

/// A partition in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionSummary {
    /// The number of clients.
    pub clients: usize,
    /// The samples of all clients together.
    pub images: usize,
    /// The samples of a client.
    pub sizes: MinMedianMax,
    /// The classes of which a client has samples.
    pub classes: MinMedianMax,
    /// The total variation distance between the labels of a client and all labels, on average over clients: 0 if
    /// everyone has the same mixture, near 1 if everyone has a class of its own.
    pub mean_distance: f64,
}

impl PartitionSummary {
    pub(super) fn new(partition: &Partition) -> Self {
        let sizes = partition.sizes();
        let all = MinMedianMax::new(sizes.iter().map(|&size| size as f64).collect());
        let classes = partition.histograms().iter().map(|histogram| {
            let present = histogram.iter().filter(|&&count| count > 0);
            present.count() as f64
        });
        let distances =
            partition.histograms().iter().map(|own| distance(own, partition.class_counts()));
        Self {
            clients: sizes.len(),
            images: sizes.iter().sum(),
            sizes: all,
            classes: MinMedianMax::new(classes.collect()),
            mean_distance: distances.sum::<f64>() / sizes.len() as f64,
        }
    }
}

/// The total variation distance of two histograms, as distributions.
fn distance(a: &[u32], b: &[u32]) -> f64 {
    let total = |counts: &[u32]| counts.iter().map(|&count| f64::from(count)).sum::<f64>();
    let (total_a, total_b) = (total(a), total(b));
    let apart =
        a.iter().zip(b).map(|(&a, &b)| (f64::from(a) / total_a - f64::from(b) / total_b).abs());
    apart.sum::<f64>() / 2.0
}
