//! Large matrix products. Training needs none; they measure what the machine can do.

use crate::Aligned;
use crate::Backend;
use crate::backend::Kernel;
use crate::tile::{Strided, blocks, multiply_add, pack_panels, with_rows};
use crate::vector::{LANES, Vector, load_each};

/// Numbers of a row of the left matrix that are multiplied before the next row's are: a panel of as many rows of the right
/// matrix stays in the first cache.
const DEPTH: usize = 256;

/// Rows of the left matrix that stay in the second cache.
const ROWS: usize = 168;

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
    let padded = columns.next_multiple_of(LANES);
    let mut panels = Aligned::zeros(DEPTH.min(inner) * padded);
    let mut sums = Aligned::zeros(rows * padded);
    // Rows of a block lie a little apart, so that they do not all fall into the same places of the cache.
    let stride = DEPTH + LANES;
    let mut block = Aligned::zeros(ROWS.min(rows) * stride);
    for begin in (0..inner).step_by(DEPTH) {
        let len = DEPTH.min(inner - begin);
        let element = |row, column| right[(begin + row) * columns + column];
        pack_panels(len, columns, element, &mut panels);
        for (first, count) in blocks(rows, ROWS) {
            for row in 0..count {
                let from = (first + row) * inner + begin;
                block[row * stride..][..len].copy_from_slice(&left[from..from + len]);
            }
            let part = Part {
                shape: (count, len, padded),
                left: (block.as_ptr(), stride),
                panels: panels.as_ptr(),
                sums: sums[first * padded..].as_mut_ptr(),
            };
            // SAFETY: the buffers have the lengths of the shape.
            unsafe { backend.run(part) }
        }
    }
    if columns > 0 {
        for (row, sums) in target.chunks_exact_mut(columns).zip(sums.chunks_exact(padded)) {
            row.copy_from_slice(&sums[..columns]);
        }
    }
}

/// `sums += left * right` for one block of rows and one part of the inner numbers.
struct Part {
    shape: (usize, usize, usize),
    /// The rows, so many floats apart.
    left: (*const f32, usize),
    panels: *const f32,
    sums: *mut f32,
}

impl Kernel for Part {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (rows, _, columns) = self.shape;
        for (panel, vectors) in blocks(columns / LANES, V::TILE.1) {
            for (first, count) in blocks(rows, V::TILE.0) {
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
        let (_, len, columns) = self.shape;
        let (left, stride) = self.left;
        unsafe {
            let left = Strided { from: left.add(first * stride), rows: stride, numbers: 1 };
            let mut sums = [[V::splat(0.0); C]; R];
            let to = self.sums.add(first * columns + column);
            for r in 0..R {
                sums[r] = load_each(to.add(r * columns), LANES);
            }
            let right = (self.panels.add(column * len), LANES, len * LANES);
            multiply_add(&mut sums, len, &left, right);
            for r in 0..R {
                for c in 0..C {
                    sums[r][c].store(to.add(r * columns + c * LANES));
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
