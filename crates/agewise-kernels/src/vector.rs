//! Vector registers behind one interface, so that each kernel is written once.
//!
//! All methods are inlined into a function that enables the instructions; outside of one they must not be called,
//! which is why they are unsafe.

/// A register of floats.
pub(crate) trait Vector: Copy {
    /// Floats in a register.
    const LANES: usize;

    /// The same number in every lane.
    unsafe fn splat(value: f32) -> Self;
    /// Reads [`Self::LANES`] floats.
    unsafe fn load(from: *const f32) -> Self;
    /// Reads only so many floats; the other lanes are zero, whatever lies there.
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self;
    /// Writes [`Self::LANES`] floats.
    unsafe fn store(self, to: *mut f32);
    /// `self * factor`.
    unsafe fn mul(self, factor: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
    /// `self * factor + sum`, rounded once.
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
}

/// Reads registers that begin so many floats apart. A loop and not `array::from_fn`: whether a closure is inlined is up to
/// the compiler, and outside the function that enables the instructions each load is a call, which made training in the
/// dense kernels seven times slower.
///
/// # Safety
/// Within a function that enables the instructions, and each register must be readable.
#[inline(always)]
pub(crate) unsafe fn load_each<V: Vector, const N: usize>(
    from: *const f32,
    apart: usize,
) -> [V; N] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut registers = [V::splat(0.0); N];
        for (index, register) in registers.iter_mut().enumerate() {
            *register = V::load(from.add(index * apart));
        }
        registers
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::{
        __m256, __m512, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehl_ps, _mm_shuffle_ps,
        _mm256_add_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_fmadd_ps,
        _mm256_loadu_ps, _mm256_loadu_si256, _mm256_maskload_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_maskz_loadu_ps,
        _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };

    impl Vector for __m256 {
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { _mm256_set1_ps(value) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm256_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
            /// A load that begins before the zeros ends in so many of them as there are lanes to leave out.
            const MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
            unsafe {
                let mask = _mm256_loadu_si256(MASK.as_ptr().add(8 - lanes).cast());
                _mm256_maskload_ps(from, mask)
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self) }
        }

        #[inline(always)]
        unsafe fn mul(self, factor: Self) -> Self {
            unsafe { _mm256_mul_ps(self, factor) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { _mm256_add_ps(self, other) }
        }

        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let halves =
                    _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps(self, 1));
                let pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
                _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)))
            }
        }

        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            unsafe { _mm256_fmadd_ps(self, factor, sum) }
        }
    }

    impl Vector for __m512 {
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { _mm512_set1_ps(value) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
            unsafe { _mm512_maskz_loadu_ps(((1u32 << lanes) - 1) as u16, from) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self) }
        }

        #[inline(always)]
        unsafe fn mul(self, factor: Self) -> Self {
            unsafe { _mm512_mul_ps(self, factor) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { _mm512_add_ps(self, other) }
        }

        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { _mm512_reduce_add_ps(self) }
        }

        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            unsafe { _mm512_fmadd_ps(self, factor, sum) }
        }
    }
}
