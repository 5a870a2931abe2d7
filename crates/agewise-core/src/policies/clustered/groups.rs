//! Groups of clients with similar sketches, none of which holds more than one distribution can take.

use super::super::sampling::{streams::UNIFORM, uniform_sample};
use super::super::simd::squared_distance;
use super::super::vectors::Vectors;
use super::super::ward_clustering::ward;
use super::allocation::Part;
use crate::round::Round;

/// The most clients between whom all distances are looked at.
pub(super) const MOST_LEAVES: usize = 500;

/// Cuts the tree of Ward where a branch would hold more than `capacity` units.
pub(super) fn by_similarity(round: &Round<'_>, parts: &[Part], capacity: u64) -> Vec<Vec<Part>> {
    let mut groups = Vec::new();
    let clients: Vec<u32> = parts.iter().map(|part| part.client).collect();
    let mut leaves_of = clients.clone();
    if clients.len() > MOST_LEAVES {
        leaves_of = uniform_sample(clients, MOST_LEAVES, &round.draws(UNIFORM));
        leaves_of.sort_unstable();
    }
    let vectors = Vectors::of(round.reports(), &leaves_of).at_unit_length();
    let mut leaves: Vec<Vec<Part>> = vec![Vec::new(); leaves_of.len()];
    for &part in parts {
        let leaf = leaves_of
            .binary_search(&part.client)
            .unwrap_or_else(|_| nearest(&vectors, round, part.client));
        let full = units(&leaves[leaf]) + part.units > capacity;
        if full {
            groups.push(std::mem::take(&mut leaves[leaf]));
        }
        leaves[leaf].push(part);
    }
    let unions = ward(leaves.len(), |one, other| vectors.squared_distance(one, other));
    groups.extend(cut(leaves, &unions, capacity));
    groups
}

fn units(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.units).sum()
}

/// The vector that is nearest to the sketch of a client.
fn nearest(vectors: &Vectors, round: &Round<'_>, client: u32) -> usize {
    let sketch = Vectors::of(round.reports(), &[client]).at_unit_length();
    let distance = |index: usize| squared_distance(vectors.row(index), sketch.row(0));
    let all = (0..vectors.count()).map(|index| (distance(index), index));
    all.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, index)| index)
}

/// The largest branches that hold at most `capacity` units.
fn cut(leaves: Vec<Vec<Part>>, unions: &[(usize, usize)], capacity: u64) -> Vec<Vec<Part>> {
    let mut totals: Vec<u64> = leaves.iter().map(|leaf| units(leaf)).collect();
    let mut nodes = leaves;
    for &(one, other) in unions {
        // What holds too much has no parts of its own, and what lies above it holds too much as well.
        let total = totals[one] + totals[other];
        totals.push(total);
        let mut union = Vec::new();
        if total <= capacity {
            union = std::mem::take(&mut nodes[one]);
            union.append(&mut nodes[other]);
        }
        nodes.push(union);
    }
    nodes.retain(|group| !group.is_empty());
    nodes
}
