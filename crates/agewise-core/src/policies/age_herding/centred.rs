//! Sketches about the mean of all, each with its weight.

use super::super::simd::{add_scaled, dot};
use super::super::vectors::{Vectors, inverse_length};
use crate::round::Round;

/// How many sketches are added up in floats.
const BLOCK: u32 = 64;

/// The centred sketches of some clients.
#[derive(Debug)]
pub(super) struct Centred {
    vectors: Vectors,
    squares: Vec<f64>,
}

impl Centred {
    /// The mean of all sketches at unit length.
    pub(super) fn mean(round: &Round<'_>, weight: impl Fn(u32) -> f64) -> Vec<f32> {
        let reports = round.reports();
        let width = reports.sketch_width().unwrap_or(1);
        let heaviest = reports.sketches().map(|(client, _)| weight(client)).fold(0.0, f64::max);
        if heaviest <= 0.0 {
            return vec![0.0; width];
        }
        let (mut sums, mut total) = (vec![0.0f64; width], 0.0);
        // A block is added up in floats, which is fast, and blocks in doubles, which is exact enough for any number.
        let (mut block, mut in_block) = (vec![0.0f32; width], 0);
        let mut empty = |block: &mut [f32]| {
            for (sum, number) in sums.iter_mut().zip(block) {
                *sum += f64::from(std::mem::take(number));
            }
        };
        for (client, sketch) in reports.sketches() {
            let weight = weight(client) / heaviest;
            total += weight;
            let scale = (weight * inverse_length(sketch)) as f32;
            // A sketch of next to nothing says next to nothing.
            if scale.is_finite() {
                add_scaled(&mut block, scale, sketch);
            }
            in_block += 1;
            if in_block == BLOCK {
                empty(&mut block);
                in_block = 0;
            }
        }
        empty(&mut block);
        sums.into_iter().map(|sum| (sum / total) as f32).collect()
    }

    /// The sketches of these clients. A client without one counts as the mean, which is the origin here.
    pub(super) fn new(
        round: &Round<'_>,
        clients: &[u32],
        mean: &[f32],
        weight: impl Fn(u32) -> f64,
    ) -> Self {
        let reports = round.reports();
        let mut vectors = Vectors::of(reports, clients).at_unit_length();
        let heaviest = clients.iter().map(|&client| weight(client)).fold(0.0, f64::max);
        for (place, &client) in clients.iter().enumerate() {
            // Relative weights: sizes can be larger than a float.
            let known = reports.sketch(client).is_some() && heaviest > 0.0;
            let scale = if known { (weight(client) / heaviest) as f32 } else { 0.0 };
            for (number, mean) in vectors.row_mut(place).iter_mut().zip(mean) {
                *number = scale * (*number - mean);
            }
        }
        let square = |place| dot(vectors.row(place), vectors.row(place));
        let squares = (0..clients.len()).map(square).collect();
        Self { vectors, squares }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.squares.len()
    }

    /// The square of the length of one.
    pub(super) fn square(&self, place: usize) -> f64 {
        self.squares[place]
    }

    /// The inner products of all pairs, row by row.
    pub(super) fn products(&self) -> Vec<f64> {
        self.vectors.products()
    }

    /// The inner product of two.
    pub(super) fn product(&self, one: usize, other: usize) -> f64 {
        dot(self.vectors.row(one), self.vectors.row(other))
    }
}
