//! Vectors of 16 floats behind one interface, so that each kernel is written once.
//!
//! A vector has 16 lanes on every path: one register with AVX-512, two with AVX2, an array without either. Every path
//! does the same operations in the same order and rounds each of them once, so a kernel gives the same bits on all.
//! What differs between paths is only how many sums fit into the registers.
//!
//! All methods are inlined into a function that enables the instructions; outside of one they must not be called,
//! which is why they are unsafe.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

/// Floats of a vector.
pub(crate) const LANES: usize = 16;

/// A vector of [`LANES`] floats.
pub(crate) trait Vector: Copy {
    /// The most rows of a tile, and the vectors across it: as many sums as there are registers for.
    const TILE: (usize, usize);
    /// The most vectors that are added to at once where each has a source of its own.
    const GROUP: usize;
    /// The most rows and columns whose inner products are summed up at once.
    const INNER: (usize, usize);
    /// In how many parts the lanes of an inner product are summed up one after the other: each is a register.
    const PARTS: usize;
    /// A register.
    type Part: Copy;

    /// The same number in every lane.
    unsafe fn splat(value: f32) -> Self;
    /// Reads [`LANES`] floats.
    unsafe fn load(from: *const f32) -> Self;
    /// Reads only so many floats; the other lanes are zero, whatever lies there.
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self;
    /// Writes [`LANES`] floats.
    unsafe fn store(self, to: *mut f32);
    /// `self * factor`.
    unsafe fn mul(self, factor: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once.
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
    /// The sums of the lanes of eight vectors. Each adds lane i to lane i + 8 (i below 8), then i to i + 4 (below 4), to
    /// i + 2 (below 2), and at last lane 0 to lane 1.
    unsafe fn sums(of: [Self; 8]) -> [f32; 8];

    /// A bit for each of [`LANES`] numbers that is not `none` and whose float is not zero.
    unsafe fn alive(numbers: *const u32, none: u32, floats: *const f32) -> u16;

    /// Reads one part of a vector.
    unsafe fn load_part(from: *const f32) -> Self::Part;
    /// Zero in every lane of a part.
    unsafe fn zero_part() -> Self::Part;
    /// `left * right + sum` in every lane of a part, rounded once.
    unsafe fn mul_add_part(left: Self::Part, right: Self::Part, sum: Self::Part) -> Self::Part;
    /// A vector of its parts: of the first only, where it has one.
    unsafe fn join(parts: [Self::Part; 2]) -> Self;

    /// Writes only so many floats.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, lanes: usize) {
        let mut values = [0.0f32; LANES];
        unsafe {
            self.store(values.as_mut_ptr());
            for (lane, value) in values.iter().enumerate().take(lanes) {
                *to.add(lane) = *value;
            }
        }
    }
}

/// Reads vectors that begin so many floats apart. A loop and not `array::from_fn`: whether a closure is inlined is up to
/// the compiler, and outside the function that enables the instructions each load is a call, which made training in the
/// dense kernels seven times slower.
///
/// # Safety
/// Within a function that enables the instructions, and each vector must be readable.
#[inline(always)]
pub(crate) unsafe fn load_each<V: Vector, const N: usize>(
    from: *const f32,
    apart: usize,
) -> [V; N] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut vectors = [V::splat(0.0); N];
        for (index, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(from.add(index * apart));
        }
        vectors
    }
}

/// Asks for the cache line at an address, which may be anywhere: nothing happens if nothing is there.
#[inline(always)]
pub(crate) fn prefetch(from: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}
