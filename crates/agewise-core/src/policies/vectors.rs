//! Sketches side by side in one list of numbers, their products and distances.

use super::simd::{self, dot, squared_distance};
use crate::math::square;
use crate::reports::Reports;

/// Vectors of one width.
#[derive(Debug)]
pub(super) struct Vectors {
    width: usize,
    numbers: Vec<f32>,
}

impl Vectors {
    /// The sketches of these clients; zeros for those of whom there is none.
    pub(super) fn of(reports: &Reports, clients: &[u32]) -> Self {
        let width = reports.sketch_width().unwrap_or(1);
        let mut numbers = vec![0.0; width * clients.len()];
        for (row, &client) in numbers.chunks_exact_mut(width).zip(clients) {
            if let Some(sketch) = reports.sketch(client) {
                row.copy_from_slice(sketch);
            }
        }
        Self { width, numbers }
    }

    /// Each scaled to unit length; zeros stay zeros.
    #[must_use]
    pub(super) fn at_unit_length(mut self) -> Self {
        for row in self.numbers.chunks_exact_mut(self.width) {
            simd::scale(row, inverse_length(row));
        }
        self
    }

    /// All divided by one number, so that no distance is too large for a float: which is nearer stays as it is.
    #[must_use]
    pub(super) fn scaled_by(mut self, largest: f32) -> Self {
        if largest > 0.0 {
            for number in &mut self.numbers {
                *number /= largest;
            }
        }
        self
    }

    /// The largest number, without its sign.
    pub(super) fn largest(&self) -> f32 {
        self.numbers.iter().fold(0.0, |largest, number| largest.max(number.abs()))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.numbers.len() / self.width
    }

    /// One of them.
    pub(super) fn row(&self, index: usize) -> &[f32] {
        &self.numbers[index * self.width..][..self.width]
    }

    /// The same, to be changed.
    pub(super) fn row_mut(&mut self, index: usize) -> &mut [f32] {
        &mut self.numbers[index * self.width..][..self.width]
    }

    /// The inner products of all pairs, row by row.
    pub(super) fn products(&self) -> Vec<f64> {
        simd::products(&self.numbers, self.width)
    }

    /// The square of the distance between two of them.
    pub(super) fn squared_distance(&self, one: usize, other: usize) -> f64 {
        squared_distance(self.row(one), self.row(other))
    }
}

/// One over the length of a vector, or 0 where that is 0.
pub(super) fn inverse_length(vector: &[f32]) -> f64 {
    let quick = dot(vector, vector);
    // As doubles the squares of all numbers that a float can be are finite and not 0.
    let exact = || vector.iter().map(|&number| square(f64::from(number))).sum();
    let square: f64 = if (1e-20..1e30).contains(&quick) { quick } else { exact() };
    if square > 0.0 { 1.0 / square.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::Report;

    fn reports(sketches: &[Option<&[f32]>]) -> Reports {
        let mut reports = Reports::default();
        for (client, &sketch) in (0..).zip(sketches) {
            reports.record(&Report { sketch, ..Report::plain(client) });
        }
        reports
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let rows: Vec<Vec<f32>> =
            (0..4).map(|row| (0..37).map(|i| ((row * 37 + i) as f32).sin()).collect()).collect();
        let sketches: Vec<Option<&[f32]>> = rows.iter().map(|row| Some(&row[..])).collect();
        let vectors = Vectors::of(&reports(&sketches), &[0, 1, 2, 3]);
        assert_eq!(vectors.count(), 4);
        for (a, b) in [(0, 1), (2, 3), (1, 1)] {
            let pairs = rows[a].iter().zip(&rows[b]);
            let exact: f64 = pairs.map(|(x, y)| f64::from(x - y).powi(2)).sum();
            assert!((vectors.squared_distance(a, b) - exact).abs() < 1e-4);
        }
    }

    #[test]
    fn extreme_numbers_are_scaled_and_unknown_ones_are_zero() {
        let (large, small): (&[f32], &[f32]) = (&[f32::MAX, -f32::MAX], &[1e-45, 0.0]);
        let reports = reports(&[Some(large), None, Some(small)]);
        let unit = Vectors::of(&reports, &[0, 1, 2, 9]).at_unit_length();
        assert!((unit.squared_distance(0, 1) - 1.0).abs() < 1e-6);
        assert!((unit.squared_distance(2, 1) - 1.0).abs() < 1e-6);
        assert_eq!(unit.squared_distance(1, 3), 0.0);
        let all = Vectors::of(&reports, &[0, 1, 2]);
        let largest = all.largest();
        assert_eq!(all.scaled_by(largest).squared_distance(0, 2), 2.0);
        assert_eq!(Vectors::of(&Reports::default(), &[0, 1]).squared_distance(0, 1), 0.0);
    }
}
