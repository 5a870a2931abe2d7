//! The kernels of direct convolutions.
//!
//! **Forward.** A convolution over channels-last images is a matrix product whose left rows are not gathered: for one
//! row of the kernel, the inputs that a pixel sees lie side by side in memory, and neighbouring pixels see the same
//! ones a few floats further on. A tile of pixels by channels stays in registers for the whole sum. An output begins with
//! its bias and takes its products tap by tap.
//!
//! **Backward.** Behind a pool and a ReLU most gradients of a convolution's outputs are zero, so both gradients
//! are sums over lists of those that are not: a patch of the input for the weights, the weights of a channel for the
//! input. Both are the same kernel, [`Accumulate`]. A gradient takes its products in the order of its list.

use crate::backend::Kernel;
use crate::convolution::{Convolution, EntryLists};
use crate::tile::{Scattered, blocks, multiply_add, with_rows};
use crate::vector::{LANES, Vector, load_each};

/// Computes all outputs of one image into `out`, `positions` by padded channels.
///
/// `image` has all floats that a position can see, `packed` comes from [`Convolution::pack`], and `out` has room for every
/// position and padded channel.
pub(crate) struct Forward<'a> {
    pub(crate) shape: &'a Convolution,
    pub(crate) image: *const f32,
    pub(crate) packed: *const f32,
    pub(crate) out: *mut f32,
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (most, across) = V::TILE;
        let positions = self.shape.positions.len();
        for (channel, vectors) in blocks(self.shape.padded_channels / LANES, across) {
            for (first, rows) in blocks(positions, most) {
                with_rows!(rows, V::TILE.0, |R| unsafe {
                    if const { V::TILE.1 == 2 } && vectors == 2 {
                        self.tile::<V, R, 2>(first, channel * LANES);
                    } else {
                        self.tile::<V, R, 1>(first, channel * LANES);
                    }
                });
            }
        }
    }
}

impl Forward<'_> {
    #[inline(always)]
    unsafe fn tile<V: Vector, const R: usize, const C: usize>(&self, first: usize, channel: usize) {
        let Self { shape, image, packed, out } = *self;
        let (taps, channels) = (shape.taps(), shape.padded_channels);
        unsafe {
            let mut pixels = [image; R];
            for (pixel, &position) in pixels.iter_mut().zip(&shape.positions[first..]) {
                *pixel = image.add(position as usize);
            }
            let bias: [V; C] = load_each(packed.add(taps * channels + channel), LANES);
            let mut sums = [bias; R];
            let mut weights = packed.add(channel * taps);
            for row in 0..shape.kernel_rows {
                let left = Scattered { rows: pixels, offset: row * shape.row_stride };
                let right = (weights, LANES, taps * LANES);
                multiply_add(&mut sums, shape.row_len, &left, right);
                weights = weights.add(shape.row_len * LANES);
            }
            for r in 0..R {
                let to = out.add((first + r) * channels + channel);
                for c in 0..C {
                    sums[r][c].store(to.add(c * LANES));
                }
            }
        }
    }
}

/// Where [`Accumulate`] reads and writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strides {
    pub(crate) target: usize,
    pub(crate) source: usize,
}

/// For all rows of the kernel and all lists: `target += sum over entries of factor * source[offset..]`, where the targets of
/// the lists begin at their origins.
///
/// A row of the kernel can be read at `source` plus any entry's offset, and read and written at `target` plus any
/// origin; the next row lies a stride further on.
///
/// The targets of lists may overlap, as patches do. Rows are cut into parts: the longest that is a multiple of 16 floats, if
/// that is 64 at least, and single vectors. The parts come from the last to the first, and in each of them a target
/// takes its products list by list. A path may cut a part into groups of any size and take each for all lists,
/// because it begins with the last: if two lists meet at one place, the first of them begins further up or
/// further left, so that it has that place in a later row or column.
pub(crate) struct Accumulate<'a> {
    pub(crate) rows: usize,
    pub(crate) row_len: usize,
    pub(crate) strides: Strides,
    pub(crate) origins: &'a [u32],
    pub(crate) target: *mut f32,
    pub(crate) source: *const f32,
    pub(crate) lists: &'a EntryLists,
}

/// Vectors of a patch, and of the weights of a channel, that are summed up together.
#[derive(Clone, Copy)]
struct Group {
    target: *mut f32,
    source: *const f32,
    /// From each vector to the next.
    strides: Strides,
    /// Lanes that count, where the row ends inside the vector.
    lanes: usize,
}

impl Kernel for Accumulate<'_> {
    /// One group of all lists after the other: its part of the source stays in the first cache. Vectors lie side by
    /// side where a row is long, below each other where it is short.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let long = long_part(self.row_len);
        unsafe {
            for column in (long..self.row_len).step_by(LANES).rev() {
                for (row, vectors) in blocks(self.rows, V::GROUP).rev() {
                    let group = self.group(row, column, self.strides);
                    if group.lanes == LANES {
                        self.add::<V, false>(group, vectors);
                    } else {
                        self.add::<V, true>(group, vectors);
                    }
                }
            }
            for row in (0..self.rows).rev() {
                for (first, vectors) in blocks(long / LANES, V::GROUP).rev() {
                    let side_by_side = Strides { target: LANES, source: LANES };
                    let group = self.group(row, first * LANES, side_by_side);
                    self.add::<V, false>(group, vectors);
                }
            }
        }
    }
}

/// Floats of a row of the kernel that are one part: see [`Accumulate`].
pub(crate) fn long_part(row_len: usize) -> usize {
    let whole = row_len / LANES * LANES;
    if whole >= 4 * LANES { whole } else { 0 }
}

impl Accumulate<'_> {
    #[inline(always)]
    unsafe fn group(&self, row: usize, column: usize, strides: Strides) -> Group {
        unsafe {
            Group {
                target: self.target.add(row * self.strides.target + column),
                source: self.source.add(row * self.strides.source + column),
                strides,
                lanes: LANES.min(self.row_len - column),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<V: Vector, const MASKED: bool>(&self, group: Group, vectors: usize) {
        with_rows!(vectors, V::GROUP, |N| unsafe { self.add_vectors::<V, N, MASKED>(group) });
    }

    #[inline(always)]
    unsafe fn add_vectors<V: Vector, const N: usize, const MASKED: bool>(&self, group: Group) {
        let Group { strides, lanes, .. } = group;
        for (list, &origin) in self.origins.iter().enumerate() {
            let entries = self.lists.list(list);
            if entries.is_empty() {
                continue;
            }
            unsafe {
                let target = group.target.add(origin as usize);
                let mut sums = [V::splat(0.0); N];
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = load::<V, MASKED>(target.add(j * strides.target), lanes);
                }
                for entry in entries {
                    let factor = V::splat(entry.factor);
                    let values = group.source.add(entry.offset as usize);
                    for (j, sum) in sums.iter_mut().enumerate() {
                        let value = load::<V, MASKED>(values.add(j * strides.source), lanes);
                        *sum = factor.mul_add(value, *sum);
                    }
                }
                for (j, sum) in sums.iter().enumerate() {
                    let to = target.add(j * strides.target);
                    if MASKED {
                        sum.store_first(to, lanes);
                    } else {
                        sum.store(to);
                    }
                }
            }
        }
    }
}

/// A vector, or the lanes of it that count: what lies behind a row belongs to others, and may be no number.
#[inline(always)]
unsafe fn load<V: Vector, const MASKED: bool>(from: *const f32, lanes: usize) -> V {
    unsafe { if MASKED { V::load_first(from, lanes) } else { V::load(from) } }
}
