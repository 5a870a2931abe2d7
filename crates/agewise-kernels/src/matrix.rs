//! Large matrix products. Training needs none; they measure what the machine can do.

use crate::Aligned;
use crate::Backend;
use crate::backend::Kernel;
use crate::tile::{Apart, blocks, multiply_add, with_rows};
use crate::vector::{LANES, Vector, load_each, prefetch};

/// Numbers of a row of the left matrix that are multiplied before the next row's are: a panel of as many rows of the right
/// matrix stays in the first cache.
const DEPTH: usize = 256;

/// Rows of the left matrix that stay in the second cache, with their sums.
const ROWS: usize = 112;

/// From one of these rows to the next: a little more, so that they do not all fall into the same places of the cache.
const STRIDE: usize = DEPTH + LANES;

/// `target = left * right`, matrices row by row, `left` of rows by inner, `right` of inner by columns.
///
/// # Panics
/// If a slice is too short.
pub fn product(
    backend: Backend,
    (rows, inner, columns): (usize, usize, usize),
    left: &[f32],
    right: &[f32],
    target: &mut [f32],
) {
    let (left, right) = (&left[..rows * inner], &right[..inner * columns]);
    let target = &mut target[..rows * columns];
    if columns == 0 {
        return;
    }
    let padded = columns.next_multiple_of(LANES);
    let mut panels = Aligned::zeros(inner * padded);
    for begin in (0..inner).step_by(DEPTH) {
        let len = DEPTH.min(inner - begin);
        pack(&right[begin * columns..][..len * columns], columns, &mut panels[begin * padded..]);
    }
    let mut block = Aligned::zeros(ROWS.min(rows) * STRIDE);
    let stride = padded + LANES;
    let mut sums = Aligned::zeros(ROWS.min(rows) * stride);
    for (first, count) in blocks(rows, ROWS) {
        sums.fill(0.0);
        for begin in (0..inner).step_by(DEPTH) {
            let len = DEPTH.min(inner - begin);
            for row in 0..count {
                let from = &left[(first + row) * inner + begin..][..len];
                block[row * STRIDE..][..len].copy_from_slice(from);
            }
            let part = Part {
                shape: (count, len, padded),
                left: block.as_ptr(),
                panels: panels[begin * padded..].as_ptr(),
                sums: (sums.as_mut_ptr(), stride),
            };
            // SAFETY: the buffers have the lengths of the shape.
            unsafe { backend.run(part) }
        }
        let to = target[first * columns..].chunks_exact_mut(columns);
        for (row, sums) in to.zip(sums.chunks_exact(stride)).take(count) {
            row.copy_from_slice(&sums[..columns]);
        }
    }
}

/// Brings rows into panels of [`LANES`] columns that lie side by side for each row.
fn pack(rows: &[f32], columns: usize, panels: &mut [f32]) {
    let len = rows.len() / columns;
    for column in (0..columns).step_by(LANES) {
        let lanes = LANES.min(columns - column);
        let panel = panels[column * len..].chunks_exact_mut(LANES);
        for (row, vector) in rows.chunks_exact(columns).zip(panel) {
            if lanes == LANES {
                // A constant length is no call.
                vector[..LANES].copy_from_slice(&row[column..column + LANES]);
            } else {
                vector[..lanes].copy_from_slice(&row[column..]);
            }
        }
    }
}

/// `sums += left * right` for one block of rows and one part of the inner numbers.
struct Part {
    shape: (usize, usize, usize),
    /// The rows, [`STRIDE`] apart.
    left: *const f32,
    panels: *const f32,
    /// The sums, rows so many floats apart.
    sums: (*mut f32, usize),
}

impl Kernel for Part {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (rows, len, columns) = self.shape;
        for (panel, vectors) in blocks(columns / LANES, V::TILE.1) {
            // Each tile asks for a share of the panels that come next, which are far away.
            let next = self.panels.wrapping_add((panel + vectors) * LANES * len);
            let share = (vectors * len).div_ceil(rows.div_ceil(V::TILE.0));
            for (tile, (first, count)) in blocks(rows, V::TILE.0).enumerate() {
                for vector in tile * share..(tile + 1) * share {
                    prefetch(next.wrapping_add(vector * LANES));
                }
                with_rows!(count, V::TILE.0, |R| unsafe {
                    if const { V::TILE.1 == 2 } && vectors == 2 {
                        self.tile::<V, R, 2>(first, panel * LANES);
                    } else {
                        self.tile::<V, R, 1>(first, panel * LANES);
                    }
                });
            }
        }
    }
}

impl Part {
    #[inline(always)]
    unsafe fn tile<V: Vector, const R: usize, const C: usize>(&self, first: usize, column: usize) {
        let (_, len, _) = self.shape;
        let (to, stride) = self.sums;
        unsafe {
            let left = Apart::<STRIDE>(self.left.add(first * STRIDE));
            let to = to.add(first * stride + column);
            let mut sums = [[V::splat(0.0); C]; R];
            for r in 0..R {
                sums[r] = load_each(to.add(r * stride), LANES);
                // The sums of the next tile are in the second cache.
                for c in 0..C {
                    prefetch(to.wrapping_add((R + r) * stride + c * LANES));
                }
            }
            let right = (self.panels.add(column * len), LANES, len * LANES);
            multiply_add(&mut sums, len, &left, right);
            for r in 0..R {
                for c in 0..C {
                    sums[r][c].store(to.add(r * stride + c * LANES));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    #[test]
    fn is_the_chain_of_its_products_on_every_backend() {
        for shape in [(1, 1, 1), (3, 4, 5), (17, 300, 33), (200, 5, 16), (2, 513, 7), (3, 0, 2)] {
            let (rows, inner, columns) = shape;
            let (left, right) = (numbers(rows * inner, 0.7), numbers(inner * columns, 1.1));
            for backend in Backend::available() {
                let mut target = vec![f32::NAN; rows * columns];
                product(backend, shape, &left, &right, &mut target);
                for (index, value) in target.iter().enumerate() {
                    let (row, column) = (index / columns, index % columns);
                    let chain = (0..inner).fold(0.0f32, |sum, k| {
                        left[row * inner + k].mul_add(right[k * columns + column], sum)
                    });
                    assert_eq!(value.to_bits(), chain.to_bits(), "{backend}: {shape:?}");
                }
            }
        }
    }
}
