//! Vectors in plain code: what the other paths have to agree with.

use super::{LANES, Vector};

/// A vector as an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable([f32; LANES]);

impl Vector for Portable {
    const TILE: (usize, usize) = (4, 1);
    const GROUP: usize = 5;
    const INNER: (usize, usize) = (2, 2);
    const PARTS: usize = 1;
    type Part = Self;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(from.cast::<[f32; LANES]>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
        let mut values = [0.0; LANES];
        for (lane, value) in values.iter_mut().enumerate().take(lanes) {
            unsafe { *value = *from.add(lane) };
        }
        Self(values)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn mul(mut self, factor: Self) -> Self {
        for (value, factor) in self.0.iter_mut().zip(factor.0) {
            *value *= factor;
        }
        self
    }

    #[inline(always)]
    unsafe fn add(mut self, other: Self) -> Self {
        for (value, other) in self.0.iter_mut().zip(other.0) {
            *value += other;
        }
        self
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, mut sum: Self) -> Self {
        mul_add_lanes(&self.0, &factor.0, &mut sum.0);
        sum
    }

    #[inline(always)]
    unsafe fn sums(of: [Self; 8]) -> [f32; 8] {
        of.map(|Self(mut lanes)| {
            for half in [8, 4, 2, 1] {
                for lane in 0..half {
                    lanes[lane] += lanes[lane + half];
                }
            }
            lanes[0]
        })
    }

    #[inline(always)]
    unsafe fn alive(numbers: *const u32, none: u32, floats: *const f32) -> u16 {
        let mut bits = 0;
        for lane in 0..LANES {
            let alive = unsafe { *numbers.add(lane) != none && *floats.add(lane) != 0.0 };
            bits |= u16::from(alive) << lane;
        }
        bits
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32) -> Self {
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn zero_part() -> Self {
        Self([0.0; LANES])
    }

    #[inline(always)]
    unsafe fn mul_add_part(left: Self, right: Self, sum: Self) -> Self {
        unsafe { left.mul_add(right, sum) }
    }

    #[inline(always)]
    unsafe fn join(parts: [Self; 2]) -> Self {
        parts[0]
    }
}

/// A function of its own where it is long: with a copy for each product in a tile the compiler is busy for a minute.
#[cfg_attr(any(target_feature = "fma", target_arch = "aarch64"), inline(always))]
#[cfg_attr(not(any(target_feature = "fma", target_arch = "aarch64")), inline(never))]
fn mul_add_lanes(left: &[f32; LANES], right: &[f32; LANES], sums: &mut [f32; LANES]) {
    for lane in 0..LANES {
        sums[lane] = mul_add(left[lane], right[lane], sums[lane]);
    }
}

/// `left * right + sum`, rounded once. Where the target has no instruction for it, the standard library calls a
/// function for every number; this form has no branches, so that the compiler makes vectors of it.
#[inline(always)]
fn mul_add(left: f32, right: f32, sum: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        left.mul_add(right, sum)
    } else {
        mul_add_in_doubles(left, right, sum)
    }
}

/// The product of two floats is exact as a double. Its sum with the third is rounded to odd (Boldo and Melquiond, 2008):
/// if it is not exact, then to the neighbour with an odd last digit, and so the second rounding, to a float, sees on
/// which side of a tie the exact value lies.
#[inline(always)]
fn mul_add_in_doubles(left: f32, right: f32, sum: f32) -> f32 {
    let product = f64::from(left) * f64::from(right);
    let term = f64::from(sum);
    let rounded = product + term;
    // What the rounding lost, exactly (Knuth's two-sum). Not a number if the sum is none or infinite.
    let other = rounded - product;
    let lost = (product - (rounded - other)) + (term - other);
    let bits = rounded.to_bits();
    let away = (lost > 0.0) == (rounded > 0.0);
    let step = if away { 1 } else { u64::MAX };
    let moves = lost.abs() > 0.0 && bits & 1 == 0;
    f64::from_bits(bits.wrapping_add(if moves { step } else { 0 })) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the standard library, for numbers whose products and sums meet in all ways: near ties, cancelling,
    /// too small and too large.
    #[test]
    fn rounds_once() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        };
        let same = |a: f32, b: f32, c: f32| {
            let (ours, expected) = (mul_add_in_doubles(a, b, c), a.mul_add(b, c));
            let equal = ours.to_bits() == expected.to_bits() || ours.is_nan() && expected.is_nan();
            assert!(equal, "{a:e} * {b:e} + {c:e}: {ours:e}, not {expected:e}");
        };
        for _ in 0..300_000 {
            // Few digits, so that sums are ties now and then, and exponents near each other.
            let mut near = |exponent: u32| {
                let digits = next() & [0x7F_FFFF, 0x7F_0000, 0x00_000F][next() as usize % 3];
                f32::from_bits((next() << 31) | ((exponent + next() % 56) << 23) | digits)
            };
            let (a, b, c) = (near(100), near(100), near(100));
            same(a, b, c);
            same(a, b, -a * b);
            same(f32::from_bits(next()), f32::from_bits(next()), f32::from_bits(next()));
            let small = f32::from_bits(next() >> 8);
            same(small, f32::from_bits(next() % 0x4000_0000), f32::from_bits(next() >> 9));
        }
        for c in [0.0, -0.0, 1.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE] {
            for a in [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::MAX, f32::from_bits(1)] {
                for b in [0.0, -0.0, 1.0, -1.0, f32::NEG_INFINITY, f32::MAX, 0.5] {
                    same(a, b, c);
                    same(a, b, -c);
                }
            }
        }
    }
}
