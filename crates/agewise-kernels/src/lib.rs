//! The arithmetic that training spends its time on: dense products, convolutions, pooling, and loops over slices.
//!
//! Each kernel is written once over vectors of 16 floats, and compiled for every [`Backend`]: portable code, AVX2 and
//! AVX-512, chosen at run time. All of them do the same operations in the same order, so they give the same bits; tests
//! compare all that a machine has. Which form of a kernel computes (a convolution directly or by tiles) follows from
//! the shape, never from the processor.
//!
//! The order of every sum is fixed:
//!
//! - An output of a convolution or of a matrix product, and a gradient, is a chain: it begins with a number (a bias, what
//!   was there before, or zero) and takes one product after the other, each by a fused multiply-add. Outputs lie in
//!   lanes, so the width of the registers cannot matter.
//! - A score of a dense layer is an inner product: 1,024 inputs at a time, 16 chains side by side, of which the lanes are
//!   added up in a fixed tree.
//!
//! This is the only crate with `unsafe`: vector instructions and raw pointers. The argument for its safety has two
//! parts. The functions with vector instructions are called through [`Backend`], and a backend other than the portable
//! one is only ever made after the processor was asked for it. And every pointer comes from a slice whose length is
//! checked against the geometry of the call, at the entry of the safe function around it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tolerances"))]
#![expect(unsafe_code, reason = "vector instructions and the tiles that they work on")]
#![expect(
    clippy::inline_always,
    reason = "vector instructions are only fast inside the function that enables them"
)]
#![expect(clippy::needless_range_loop, reason = "tiles are indexed by row and column")]

mod aligned;
mod backend;
mod bytes;
mod convolution;
mod dense;
mod direct;
mod elementwise;
mod matrix;
mod pooling;
#[cfg(test)]
mod testing;
mod tile;
mod vector;
mod winograd;

pub use aligned::Aligned;
pub use backend::{Backend, UnknownBackend, VARIABLE};
pub use bytes::scale_bytes;
pub use convolution::{Convolution, Entry, EntryLists};
pub use dense::Dense;
pub use elementwise::{add_scaled, all_finite, blend};
pub use matrix::product;
pub use pooling::{NO_WINNER, Plane, Pooled, Windows, alive};
pub use winograd::{Tiles, Winograd, WinogradScratch};
