//! The draws: from a distribution and sizes to the images of each client.

use super::Divisible;
use super::distribution::PartitionDistribution;
use crate::data::set::NaturalClients;
use agewise_core::distributions::gamma;
use agewise_core::{Draw, Draws, Seed, Sequence, Stream};
use rand_core::Rng;

/// The streams of data, of which agewise has the numbers 100 to 199.
const IMAGE_ORDER: Stream = Stream::custom(100);
/// The label distributions of the clients, drawn from a Dirichlet distribution.
const LABEL_SHARES: Stream = Stream::custom(101);
/// The order in which clients choose images or shards.
const TURNS: Stream = Stream::custom(102);
/// The labels that clients choose.
const LABEL_CHOICES: Stream = Stream::custom(103);
/// Which clients of the data take part.
const DRAWN_CLIENTS: Stream = Stream::custom(105);

/// Shares the images: every one goes to exactly one client, and each client gets its size.
pub(super) fn split(
    distribution: PartitionDistribution,
    samples: &Divisible,
    sizes: &[usize],
    seed: Seed,
) -> Vec<Vec<u32>> {
    // There are at most 2^32 - 1 images.
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    shuffle(&mut order, &mut sequence(seed, IMAGE_ORDER));
    match distribution {
        // The clients of the data are not divided by draws.
        PartitionDistribution::Iid | PartitionDistribution::Clients => {
            deal(&order, sizes.iter().copied().enumerate(), sizes.len())
        }
        PartitionDistribution::Shards(shards) => {
            order.sort_by_key(|&image| samples.label(image as usize));
            let mut turns = shards_of(sizes, shards as usize);
            shuffle(&mut turns, &mut sequence(seed, TURNS));
            deal(&order, turns.into_iter(), sizes.len())
        }
        PartitionDistribution::Dirichlet(alpha) => dirichlet(alpha, samples, &order, sizes, seed),
    }
}

/// Some of the clients of the data, in increasing order.
pub(super) fn draw_clients(all: u32, wanted: u32, seed: Seed) -> Vec<u32> {
    let mut order: Vec<u32> = (0..all).collect();
    if wanted < all {
        shuffle(&mut order, &mut sequence(seed, DRAWN_CLIENTS));
        order.truncate(wanted as usize);
        order.sort_unstable();
    }
    order
}

/// The samples of these clients of the data.
pub(super) fn natural(clients: &NaturalClients, drawn: &[u32]) -> Vec<Vec<u32>> {
    let mut places = vec![None; clients.len()];
    for (place, &client) in drawn.iter().enumerate() {
        places[client as usize] = Some(place);
    }
    let mut shared = vec![Vec::new(); drawn.len()];
    for (sample, &owner) in (0..).zip(clients.owners()) {
        if let Some(place) = places[owner as usize] {
            shared[place].push(sample);
        }
    }
    shared
}

fn sequence(seed: Seed, stream: Stream) -> Sequence {
    Draws::new(seed, stream, 0).sequence(0)
}

/// A random order (Fisher and Yates).
fn shuffle<T>(items: &mut [T], random: &mut Sequence) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, random));
    }
}

/// A whole number below `limit`. The long product is uneven by less than limit / 2^64: nothing that can be seen.
fn below(limit: usize, random: &mut Sequence) -> usize {
    ((u128::from(random.next_u64()) * limit as u128) >> 64) as usize
}

/// Gives the next images to each client of `turns` in order.
fn deal(
    order: &[u32],
    turns: impl Iterator<Item = (usize, usize)>,
    clients: usize,
) -> Vec<Vec<u32>> {
    let mut shared = vec![Vec::new(); clients];
    let mut rest = order;
    for (client, count) in turns {
        let (part, after) = rest.split_at(count.min(rest.len()));
        shared[client].extend_from_slice(part);
        rest = after;
    }
    shared
}

/// Each client so many times, with an even part of its size each time.
fn shards_of(sizes: &[usize], shards: usize) -> Vec<(usize, usize)> {
    let parts = |(client, &size): (usize, &usize)| {
        (0..shards).map(move |shard| (client, (size + shard) / shards))
    };
    sizes.iter().enumerate().flat_map(parts).collect()
}

/// Each client draws its distribution of labels; then, in a random order in which each comes as often as it has
/// images, clients choose a label from it and take an image of that class. A class that is used up is left out, so
/// near the end clients take what is there; the random order lets that happen to all alike.
fn dirichlet(
    alpha: f64,
    samples: &Divisible,
    order: &[u32],
    sizes: &[usize],
    seed: Seed,
) -> Vec<Vec<u32>> {
    let classes = samples.classes as usize;
    let mut pools = vec![Vec::new(); classes];
    for &image in order {
        pools[usize::from(samples.label(image as usize))].push(image);
    }
    let draws = Draws::new(seed, LABEL_SHARES, 0);
    let shares: Vec<Vec<f64>> = (0..sizes.len() as u64)
        .map(|client| label_shares(alpha, classes, &mut draws.sequence(client)))
        .collect();
    let mut turns: Vec<usize> =
        sizes.iter().enumerate().flat_map(|(client, &size)| vec![client; size]).collect();
    shuffle(&mut turns, &mut sequence(seed, TURNS));
    let choices = Draws::new(seed, LABEL_CHOICES, 0);
    let mut shared: Vec<Vec<u32>> = sizes.iter().map(|&size| Vec::with_capacity(size)).collect();
    for (turn, client) in (0..).zip(turns) {
        let class = choose_class(&shares[client], &pools, choices.of(turn));
        // There are as many turns as images, so some pool is not empty, and that is what is chosen.
        shared[client].extend(pools[class].pop());
    }
    shared
}

/// One draw from the symmetric Dirichlet distribution, up to a factor: the largest share is 1.
fn label_shares(alpha: f64, classes: usize, random: &mut Sequence) -> Vec<f64> {
    // Gamma(alpha) is Gamma(alpha + 1) U^(1/alpha); in logarithms, because for small alpha all of them would
    // be 0 as doubles.
    let logarithm = |_| {
        let scale = gamma(alpha + 1.0, random);
        // In the middle of its 2^-53, so never 0.
        let unit = Draw::from_bits(random.next_u64()).unit() + 0.25 * f64::EPSILON;
        libm::log(scale) + libm::log(unit) / alpha
    };
    let logarithms: Vec<f64> = (0..classes).map(logarithm).collect();
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logarithms.into_iter().map(|logarithm| libm::exp(logarithm - largest)).collect()
}

/// A class with images left, with the probabilities of `shares`; if none of those is left, by what there is.
fn choose_class(shares: &[f64], pools: &[Vec<u32>], draw: Draw) -> usize {
    let wanted = |class: usize| if pools[class].is_empty() { 0.0 } else { shares[class] };
    let there = |class: usize| pools[class].len() as f64;
    let total: f64 = (0..pools.len()).map(wanted).sum();
    if total > 0.0 {
        weighted_choice(pools.len(), wanted, total, draw)
    } else {
        weighted_choice(pools.len(), there, (0..pools.len()).map(there).sum(), draw)
    }
}

/// A number below `count`, with probabilities in proportion to the weights; never one of weight 0 if there is another.
fn weighted_choice(count: usize, weight: impl Fn(usize) -> f64, total: f64, draw: Draw) -> usize {
    let mut left = draw.unit() * total;
    let mut chosen = 0;
    for index in (0..count).filter(|&index| weight(index) > 0.0) {
        chosen = index;
        left -= weight(index);
        if left < 0.0 {
            break;
        }
    }
    chosen
}
