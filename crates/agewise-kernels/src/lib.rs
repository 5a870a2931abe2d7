//! The arithmetic that training spends its time on: dense products, convolutions, pooling, and loops over slices.
//!
//! Three backends compute the same things: [`Backend::PORTABLE`] over the `gemm` crate, for every machine and every shape, and
//! kernels for AVX2 and AVX-512 that are chosen at run time (direct convolutions, convolutions by tiles, dense products). This is the only crate with `unsafe`:
//! vector instructions and raw pointers. The argument for its safety has two parts. The functions with vector
//! instructions are called through [`Backend`], and a backend other than the portable one is only ever made after the
//! processor was asked for it. And every pointer comes from a slice whose length is checked against the geometry of
//! the call, at the entry of the safe function around it.

#![expect(unsafe_code, reason = "vector instructions and the tiles that they work on")]
#![expect(
    clippy::inline_always,
    reason = "vector instructions are only fast inside the function that enables them"
)]
#![expect(clippy::needless_range_loop, reason = "tiles are indexed by row and column")]

mod aligned;
mod convolution;
mod dense;
mod direct;
mod elementwise;
mod matrix;
mod pooling;
mod vector;
mod winograd;

pub use aligned::Aligned;
pub use convolution::{Convolution, Entry, EntryLists};
pub use dense::Dense;
pub use elementwise::{add_scaled, all_finite, blend};
pub use matrix::{Matrix, MatrixMut, product};
pub use pooling::{NO_WINNER, Plane, Pooled, Windows};
pub use winograd::{Tiles, Winograd, WinogradScratch};

use std::fmt;

/// A way to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Backend {
    /// The backend for every machine.
    pub const PORTABLE: Self = Self(Instructions::Portable);

    /// All backends of this machine, the fastest first.
    pub fn available() -> Vec<Self> {
        let mut backends = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("avx512f") {
                backends.push(Self(Instructions::Avx512));
            }
            if avx2 {
                backends.push(Self(Instructions::Avx2));
            }
        }
        backends.push(Self::PORTABLE);
        backends
    }

    /// The fastest backend of this machine.
    pub fn fastest() -> Self {
        Self::available()[0]
    }

    /// The name, as it is shown and recorded.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "avx512",
        }
    }

    /// Floats in a vector register, as far as tables are concerned that depend on it.
    fn lanes(self) -> usize {
        match self.0 {
            Instructions::Portable => 8,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => 16,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
