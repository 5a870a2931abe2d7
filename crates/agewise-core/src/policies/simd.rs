//! Loops over numbers, with the widest vector instructions that the machine has.
//!
//! Sums are added up in [`LANES`] side by side and in the same order everywhere, and no product is fused with a sum, so every
//! machine gives the same bits.

#![expect(
    clippy::inline_always,
    reason = "a loop gets wide instructions only inside the function that enables them"
)]

use pulp::{Arch, Simd, WithSimd};

/// How many numbers are added up side by side: as many as fill the registers of any machine.
const LANES: usize = 16;

/// Work that gains from wide instructions.
pub(super) trait Work {
    /// What it gives.
    type Output;

    /// Does it. Must be marked `#[inline(always)]`, and so must all that it calls in its loops.
    fn run(self) -> Self::Output;
}

/// Does it with the widest instructions there are.
pub(super) fn run<W: Work>(work: W) -> W::Output {
    struct Anywhere<W>(W);
    impl<W: Work> WithSimd for Anywhere<W> {
        type Output = W::Output;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> W::Output {
            self.0.run()
        }
    }
    Arch::new().dispatch(Anywhere(work))
}

/// The inner product of two vectors.
pub(super) fn dot(one: &[f32], other: &[f32]) -> f64 {
    struct Dot<'a>(&'a [f32], &'a [f32]);
    impl Work for Dot<'_> {
        type Output = f64;
        #[inline(always)]
        fn run(self) -> f64 {
            product(self.0, self.1)
        }
    }
    run(Dot(one, other))
}

/// The square of the distance between two vectors.
pub(super) fn squared_distance(one: &[f32], other: &[f32]) -> f64 {
    struct Distance<'a>(&'a [f32], &'a [f32]);
    impl Work for Distance<'_> {
        type Output = f64;
        #[inline(always)]
        fn run(self) -> f64 {
            let mut lanes = [0.0f32; LANES];
            let (ones, rest) = self.0.as_chunks::<LANES>();
            let (others, other_rest) = self.1.as_chunks::<LANES>();
            for (ones, others) in ones.iter().zip(others) {
                for lane in 0..LANES {
                    let difference = ones[lane] - others[lane];
                    lanes[lane] += difference * difference;
                }
            }
            let rest: f32 = rest.iter().zip(other_rest).map(|(a, b)| (a - b) * (a - b)).sum();
            f64::from(lanes.iter().sum::<f32>() + rest)
        }
    }
    run(Distance(one, other))
}

/// Multiplies all numbers by one.
pub(super) fn scale(numbers: &mut [f32], factor: f64) {
    struct Scale<'a>(&'a mut [f32], f64);
    impl Work for Scale<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for number in self.0 {
                *number = (f64::from(*number) * self.1) as f32;
            }
        }
    }
    run(Scale(numbers, factor));
}

/// Adds a multiple of one vector to another.
pub(super) fn add_scaled(sums: &mut [f32], factor: f32, numbers: &[f32]) {
    struct Add<'a>(&'a mut [f32], f32, &'a [f32]);
    impl Work for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for (sum, &number) in self.0.iter_mut().zip(self.2) {
                *sum += self.1 * number;
            }
        }
    }
    run(Add(sums, factor, numbers));
}

/// The inner products of all pairs of rows, row by row.
pub(super) fn products(numbers: &[f32], width: usize) -> Vec<f64> {
    struct Products<'a>(&'a [f32], usize);
    impl Work for Products<'_> {
        type Output = Vec<f64>;
        #[inline(always)]
        fn run(self) -> Vec<f64> {
            let Self(numbers, width) = self;
            let count = numbers.len() / width;
            let row = |place: usize| &numbers[place * width..][..width];
            let mut products = vec![0.0; count * count];
            for one in 0..count {
                for other in 0..=one {
                    let product = product(row(one), row(other));
                    products[one * count + other] = product;
                    products[other * count + one] = product;
                }
            }
            products
        }
    }
    run(Products(numbers, width))
}

/// The inner product of two vectors.
#[inline(always)]
fn product(one: &[f32], other: &[f32]) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let (ones, rest) = one.as_chunks::<LANES>();
    let (others, other_rest) = other.as_chunks::<LANES>();
    for (ones, others) in ones.iter().zip(others) {
        for lane in 0..LANES {
            lanes[lane] += ones[lane] * others[lane];
        }
    }
    let rest: f32 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    f64::from(lanes.iter().sum::<f32>() + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(length: usize, shift: u32) -> Vec<f32> {
        (0..length).map(|index| ((index as u32 * 7 + shift) as f32).sin()).collect()
    }

    /// With and without wide instructions, for lengths that fill the lanes and others.
    #[test]
    fn the_same_bits_with_any_instructions() {
        for length in [0, 1, 15, 16, 17, 100, 512] {
            let (one, other) = (vector(length, 1), vector(length, 2));
            assert_eq!(dot(&one, &other).to_bits(), product(&one, &other).to_bits(), "{length}");
            let exact: f64 =
                one.iter().zip(&other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((dot(&one, &other) - exact).abs() < 1e-4, "{length}");
        }
    }

    #[test]
    fn products_are_those_of_all_pairs() {
        for (count, width) in [(0, 3), (1, 3), (5, 37), (6, 16)] {
            let numbers = vector(count * width, 3);
            let products = products(&numbers, width);
            assert_eq!(products.len(), count * count);
            for one in 0..count {
                for other in 0..count {
                    let row = |place: usize| &numbers[place * width..][..width];
                    let expected = product(row(one), row(other));
                    assert_eq!(products[one * count + other], expected, "{one}, {other}");
                }
            }
        }
    }

    #[test]
    fn sums_and_scales() {
        let mut sums = vec![1.0, 2.0, 3.0];
        add_scaled(&mut sums, 2.0, &[1.0, 0.0, -1.0]);
        assert_eq!(sums, [3.0, 2.0, 1.0]);
        scale(&mut sums, 0.5);
        assert_eq!(sums, [1.5, 1.0, 0.5]);
        assert_eq!(squared_distance(&[1.0, 2.0], &[4.0, -2.0]), 25.0);
    }
}
