//! The product of a tile, from which all products of matrices are made.
//!
//! A result is a chain: its sum begins somewhere and takes one product after the other, each rounded once. Which
//! results are summed up side by side, and on how many rows, changes no chain, so each path uses tiles that fit its
//! registers.

use crate::vector::{LANES, Vector, load_each};

/// Cuts so many rows into as few blocks as possible of at most `most`, which differ by one row at most. The divisions are
/// seen only in the smallest products; a form without them made the compiler run out of registers in the tiles.
pub(crate) fn blocks(rows: usize, most: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> {
    let count = rows.div_ceil(most);
    (0..count).map(move |block| {
        let (begin, end) = (block * rows / count, (block + 1) * rows / count);
        (begin, end - begin)
    })
}

/// Runs a function with a constant number of rows, of which there are at most 14, or with another one that has a list of
/// its own: each number has its own code.
macro_rules! with_rows {
    ($rows:expr, $most:expr, |$r:ident| $call:expr) => {
        with_rows!($rows, $most, [1 2 3 4 5 6 7 8 9 10 11 12 13 14], |$r| $call)
    };
    ($rows:expr, $most:expr, [$($row:literal)*], |$r:ident| $call:expr) => {
        match $rows {
            $($row => {
                const $r: usize = $row;
                // The condition is a constant, so that more rows than this path can have are not compiled.
                if const { $row <= $most } { $call } else { unreachable!() }
            })*
            _ => unreachable!("tiles have few rows"),
        }
    };
}
pub(crate) use with_rows;

/// The rows of a tile, of which single numbers are read.
pub(crate) trait Rows {
    /// Number k of a row.
    ///
    /// # Safety
    /// It can be read.
    unsafe fn number(&self, row: usize, k: usize) -> f32;
}

/// Rows that begin so far apart, with their numbers so far apart.
#[derive(Clone, Copy)]
pub(crate) struct Strided {
    pub(crate) from: *const f32,
    pub(crate) rows: usize,
    pub(crate) numbers: usize,
}

impl Rows for Strided {
    #[inline(always)]
    unsafe fn number(&self, row: usize, k: usize) -> f32 {
        unsafe { *self.from.add(row * self.rows + k * self.numbers) }
    }
}

/// Rows that begin a constant number of floats apart, with their numbers side by side.
#[derive(Clone, Copy)]
pub(crate) struct Apart<const STRIDE: usize>(pub(crate) *const f32);

impl<const STRIDE: usize> Rows for Apart<STRIDE> {
    #[inline(always)]
    unsafe fn number(&self, row: usize, k: usize) -> f32 {
        unsafe { *self.0.add(row * STRIDE + k) }
    }
}

/// Rows that begin anywhere, so far behind their pointers, with their numbers side by side.
#[derive(Clone, Copy)]
pub(crate) struct Scattered<const R: usize> {
    pub(crate) rows: [*const f32; R],
    pub(crate) offset: usize,
}

impl<const R: usize> Rows for Scattered<R> {
    #[inline(always)]
    unsafe fn number(&self, row: usize, k: usize) -> f32 {
        unsafe { *self.rows[row].add(self.offset + k) }
    }
}

/// Adds the products of so many numbers of each row. The vectors that they are multiplied with begin at `right` and lie
/// `width` apart, C side by side `apart` from each other.
///
/// # Safety
/// The instructions of `V` are available, and all of these numbers can be read.
#[inline(always)]
pub(crate) unsafe fn multiply_add<V: Vector, const R: usize, const C: usize>(
    sums: &mut [[V; C]; R],
    len: usize,
    left: &impl Rows,
    (right, width, apart): (*const f32, usize, usize),
) {
    unsafe {
        for k in 0..len {
            let right: [V; C] = load_each(right.add(k * width), apart);
            for r in 0..R {
                let value = V::splat(left.number(r, k));
                for c in 0..C {
                    sums[r][c] = value.mul_add(right[c], sums[r][c]);
                }
            }
        }
    }
}

/// Brings a matrix into panels of [`LANES`] columns that lie side by side for each row. `at(row, column)` is an element; the
/// last panel is filled up with zeros.
pub(crate) fn pack_panels(
    rows: usize,
    columns: usize,
    at: impl Fn(usize, usize) -> f32,
    panels: &mut [f32],
) {
    for column in 0..columns {
        let panel = &mut panels[column / LANES * LANES * rows..];
        for row in 0..rows {
            panel[row * LANES + column % LANES] = at(row, column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_rows_evenly() {
        for rows in 0..60 {
            for most in 1..15 {
                let mut next = 0;
                let lens: Vec<usize> = blocks(rows, most)
                    .map(|(begin, len)| {
                        assert_eq!(begin, next);
                        next += len;
                        len
                    })
                    .collect();
                assert_eq!((next, lens.len()), (rows, rows.div_ceil(most)));
                let least = lens.iter().min().copied().unwrap_or(1);
                assert!(lens.iter().all(|&len| len <= most && len <= least + 1 && least > 0));
            }
        }
    }
}
