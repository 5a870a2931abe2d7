//! Vectors of AVX2 and AVX-512.

use super::Vector;
use std::arch::x86_64::{
    __m256, __m512, _CMP_NEQ_UQ, _mm256_add_ps, _mm256_andnot_ps, _mm256_castsi256_ps,
    _mm256_cmp_ps, _mm256_cmpeq_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_maskload_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_permute2f128_ps,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
    _mm512_add_ps, _mm512_castps512_ps256, _mm512_cmp_ps_mask, _mm512_cmpneq_epi32_mask,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_permute_ps, _mm512_permutexvar_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_shuffle_f32x4,
    _mm512_shuffle_ps, _mm512_storeu_ps,
};

/// Two registers of eight floats.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256, __m256);

/// One register of sixteen floats.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

impl Vector for Avx2 {
    // 12 of 16 registers are sums.
    const TILE: (usize, usize) = (6, 1);
    const GROUP: usize = 5;
    const INNER: (usize, usize) = (3, 2);
    const PARTS: usize = 2;
    type Part = __m256;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
        /// A load that begins before the zeros ends in so many of them as there are lanes to leave out.
        const MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        unsafe {
            let low = _mm256_loadu_si256(MASK.as_ptr().add(8 - lanes.min(8)).cast());
            let high = _mm256_loadu_si256(MASK.as_ptr().add(16 - lanes.max(8)).cast());
            Self(_mm256_maskload_ps(from, low), _mm256_maskload_ps(from.wrapping_add(8), high))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self) -> Self {
        unsafe { Self(_mm256_mul_ps(self.0, factor.0), _mm256_mul_ps(self.1, factor.1)) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
        unsafe {
            Self(_mm256_fmadd_ps(self.0, factor.0, sum.0), _mm256_fmadd_ps(self.1, factor.1, sum.1))
        }
    }

    #[inline(always)]
    unsafe fn sums(of: [Self; 8]) -> [f32; 8] {
        unsafe {
            let mut eights = [_mm256_setzero_ps(); 8];
            for (eight, Self(low, high)) in eights.iter_mut().zip(of) {
                *eight = _mm256_add_ps(low, high);
            }
            // Two vectors in the halves of a register: 0 and 4, 1 and 5, 2 and 6, 3 and 7.
            let mut fours = [_mm256_setzero_ps(); 4];
            for k in 0..4 {
                let low = _mm256_permute2f128_ps::<0x20>(eights[k], eights[k + 4]);
                let high = _mm256_permute2f128_ps::<0x31>(eights[k], eights[k + 4]);
                fours[k] = _mm256_add_ps(low, high);
            }
            // Two in each half: 0 and 1 with 4 and 5, 2 and 3 with 6 and 7.
            let mut pairs = [_mm256_setzero_ps(); 2];
            for k in 0..2 {
                let low = _mm256_shuffle_ps::<0b01_00_01_00>(fours[2 * k], fours[2 * k + 1]);
                let high = _mm256_shuffle_ps::<0b11_10_11_10>(fours[2 * k], fours[2 * k + 1]);
                pairs[k] = _mm256_add_ps(low, high);
            }
            let even = _mm256_shuffle_ps::<0b10_00_10_00>(pairs[0], pairs[1]);
            let odd = _mm256_shuffle_ps::<0b11_01_11_01>(pairs[0], pairs[1]);
            let mut sums = [0.0; 8];
            _mm256_storeu_ps(sums.as_mut_ptr(), _mm256_add_ps(even, odd));
            sums
        }
    }

    #[inline(always)]
    unsafe fn alive(numbers: *const u32, none: u32, floats: *const f32) -> u16 {
        unsafe {
            let none = _mm256_set1_epi32(none.cast_signed());
            let zero = _mm256_setzero_ps();
            let mut bits = 0;
            for half in [0, 8] {
                let numbers = _mm256_loadu_si256(numbers.add(half).cast());
                let dead = _mm256_castsi256_ps(_mm256_cmpeq_epi32(numbers, none));
                // What is not a number is not zero either.
                let other = _mm256_cmp_ps::<_CMP_NEQ_UQ>(_mm256_loadu_ps(floats.add(half)), zero);
                let alive = _mm256_movemask_ps(_mm256_andnot_ps(dead, other)) as u16;
                bits |= alive << half;
            }
            bits
        }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn zero_part() -> __m256 {
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn mul_add_part(left: __m256, right: __m256, sum: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(left, right, sum) }
    }

    #[inline(always)]
    unsafe fn join(parts: [__m256; 2]) -> Self {
        Self(parts[0], parts[1])
    }
}

/// A bit for each of the first lanes.
#[inline(always)]
fn first_lanes(lanes: usize) -> u16 {
    ((1u32 << lanes) - 1) as u16
}

impl Vector for Avx512 {
    // 28 of 32 registers are sums.
    const TILE: (usize, usize) = (14, 2);
    const GROUP: usize = 10;
    const INNER: (usize, usize) = (4, 4);
    const PARTS: usize = 1;
    type Part = __m512;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { Self(_mm512_set1_ps(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(_mm512_loadu_ps(from)) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
        unsafe { Self(_mm512_maskz_loadu_ps(first_lanes(lanes), from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, lanes: usize) {
        unsafe { _mm512_mask_storeu_ps(to, first_lanes(lanes), self.0) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self) -> Self {
        unsafe { Self(_mm512_mul_ps(self.0, factor.0)) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
        unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, sum.0)) }
    }

    #[inline(always)]
    unsafe fn sums(of: [Self; 8]) -> [f32; 8] {
        unsafe {
            // Two vectors in the halves of a register: 0 and 1, 2 and 3, 4 and 5, 6 and 7.
            let mut eights = [_mm512_setzero_ps(); 4];
            for k in 0..4 {
                let [Self(left), Self(right)] = [of[2 * k], of[2 * k + 1]];
                let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(left, right);
                let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(left, right);
                eights[k] = _mm512_add_ps(low, high);
            }
            // Four in the quarters: 0 to 3, 4 to 7.
            let mut fours = [_mm512_setzero_ps(); 2];
            for k in 0..2 {
                let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(eights[2 * k], eights[2 * k + 1]);
                let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(eights[2 * k], eights[2 * k + 1]);
                fours[k] = _mm512_add_ps(low, high);
            }
            // Two in each quarter: k and k + 4.
            let low = _mm512_shuffle_ps::<0b01_00_01_00>(fours[0], fours[1]);
            let high = _mm512_shuffle_ps::<0b11_10_11_10>(fours[0], fours[1]);
            let pairs = _mm512_add_ps(low, high);
            let ones = _mm512_add_ps(pairs, _mm512_permute_ps::<0b10_11_00_01>(pairs));
            let order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 8, 12, 2, 6, 10, 14);
            let mut sums = [0.0; 8];
            let ordered = _mm512_castps512_ps256(_mm512_permutexvar_ps(order, ones));
            _mm256_storeu_ps(sums.as_mut_ptr(), ordered);
            sums
        }
    }

    #[inline(always)]
    unsafe fn alive(numbers: *const u32, none: u32, floats: *const f32) -> u16 {
        unsafe {
            let none = _mm512_set1_epi32(none.cast_signed());
            let wins = _mm512_cmpneq_epi32_mask(_mm512_loadu_si512(numbers.cast()), none);
            let floats = _mm512_loadu_ps(floats);
            wins & _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(floats, _mm512_setzero_ps())
        }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn zero_part() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn mul_add_part(left: __m512, right: __m512, sum: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(left, right, sum) }
    }

    #[inline(always)]
    unsafe fn join(parts: [__m512; 2]) -> Self {
        Self(parts[0])
    }
}
