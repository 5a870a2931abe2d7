//! The three products of a dense layer for small batches, straight from where the matrices lie.
//!
//! A general matrix product first copies its matrices into the order in which it reads them. With a batch of 50 that is
//! a good part of the work, and none of the three needs it: the weights lie output by output, so that scores are inner
//! products of rows, gradients of inputs are sums of rows, and gradients of weights are outer products that are added
//! to rows. Tiles of the result stay in registers.

use crate::Backend;
use crate::backend::Kernel;
use crate::tile::{Rows, Strided, blocks, multiply_add, with_rows};
use crate::vector::{LANES, Vector, prefetch};

/// A dense layer and a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dense {
    /// What computes it.
    pub backend: Backend,
    /// Samples of a batch.
    pub count: usize,
    /// Numbers that come in for each.
    pub inputs: usize,
    /// Numbers that come out for each.
    pub outputs: usize,
}

/// Inputs whose products are summed up before the sums leave the registers: four rows of weights fit into the first
/// cache. A part of the definition of a score.
const INNER_BLOCK: usize = 1024;

/// Outputs whose rows are summed up at once: as many pages as the processor finds quickly. A part of the definition of
/// an input's gradient.
const ROW_BLOCK: usize = 64;

/// The most targets whose sums are in registers at once: with two vectors across, no path is faster with more.
const TARGETS: usize = 6;

/// Columns whose part of all rows fits into the first cache.
const COLUMN_BLOCK: usize = 128;

impl Dense {
    fn batch(&self) -> usize {
        self.count * self.inputs
    }

    fn scores(&self) -> usize {
        self.count * self.outputs
    }

    fn weights(&self) -> usize {
        self.inputs * self.outputs
    }

    /// `scores += batch times weights`, a row for each sample.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn forward(&self, batch: &[f32], weights: &[f32], scores: &mut [f32]) {
        let (batch, weights) = (&batch[..self.batch()], &weights[..self.weights()]);
        let scores = &mut scores[..self.scores()];
        let (batch, weights) = (batch.as_ptr(), weights.as_ptr());
        let kernel = Scores { shape: *self, batch, weights, to: scores.as_mut_ptr() };
        // SAFETY: the slices have the lengths of the shape.
        unsafe { self.backend.run(kernel) }
    }

    /// `inputs = gradients times weights`, a row for each sample.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn input_gradient(&self, gradients: &[f32], weights: &[f32], inputs: &mut [f32]) {
        let (gradients, weights) = (&gradients[..self.scores()], &weights[..self.weights()]);
        let inputs = &mut inputs[..self.batch()];
        let (gradients, weights) = (gradients.as_ptr(), weights.as_ptr());
        let kernel = InputGradient { shape: *self, gradients, weights, to: inputs.as_mut_ptr() };
        // SAFETY: the slices have the lengths of the shape.
        unsafe { self.backend.run(kernel) }
    }

    /// `target = keep * target + scale * gradients (transposed) times batch`, a row for each output. What is kept by 0
    /// does not count, whatever it is.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn weight_gradient(
        &self,
        gradients: &[f32],
        batch: &[f32],
        (keep, scale): (f32, f32),
        target: &mut [f32],
    ) {
        let (gradients, batch) = (&gradients[..self.scores()], &batch[..self.batch()]);
        let target = &mut target[..self.weights()];
        let (gradients, batch, to) = (gradients.as_ptr(), batch.as_ptr(), target.as_mut_ptr());
        let kernel = WeightGradient { shape: *self, gradients, batch, factors: (keep, scale), to };
        // SAFETY: the slices have the lengths of the shape.
        unsafe { self.backend.run(kernel) }
    }
}

/// [`Dense::forward`]; the matrices have the lengths of the shape, as for the other two.
struct Scores {
    shape: Dense,
    batch: *const f32,
    weights: *const f32,
    to: *mut f32,
}

impl Kernel for Scores {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense { count, inputs, outputs, .. } = self.shape;
        let (most_rows, most_columns) = V::INNER;
        for begin in (0..inputs).step_by(INNER_BLOCK) {
            let len = INNER_BLOCK.min(inputs - begin);
            for (output, rows) in blocks(outputs, most_rows) {
                for (sample, columns) in blocks(count, most_columns) {
                    unsafe {
                        let left = self.weights.add(output * inputs + begin);
                        let right = self.batch.add(sample * inputs + begin);
                        let to = self.to.add(sample * outputs + output);
                        // A share of the rows that come next, which are far away.
                        let share = (len * columns).div_ceil(count).next_multiple_of(LANES);
                        let ahead = sample / columns * share;
                        for row in rows..rows + most_rows {
                            for line in (ahead..len.min(ahead + share)).step_by(LANES) {
                                prefetch(left.wrapping_add(row * inputs + line));
                            }
                        }
                        let tile = InnerProducts { len, stride: inputs, left, right };
                        with_rows!(rows, V::INNER.0, [1 2 3 4], |R| {
                            with_rows!(columns, V::INNER.1, [1 2 3 4], |C| {
                                tile.add_to::<V, R, C>(outputs, to);
                            });
                        });
                    }
                }
            }
        }
    }
}

/// The inner products of some rows of the left with some rows of the right matrix, which all lie `stride` apart.
///
/// Lane i takes the products i, i + 16, i + 32, ... one after the other, and then the lanes are added up.
struct InnerProducts {
    len: usize,
    stride: usize,
    left: *const f32,
    right: *const f32,
}

impl InnerProducts {
    /// Adds the products of R rows of the left and C of the right matrix.
    #[inline(always)]
    unsafe fn add_to<V: Vector, const R: usize, const C: usize>(
        &self,
        to_stride: usize,
        to: *mut f32,
    ) {
        let Self { len, stride, left, right } = *self;
        let whole = len / LANES * LANES;
        unsafe {
            // Where a vector is two registers, all sums of one and then those of the other: so one register is enough for
            // the row.
            let mut parts = [[[V::zero_part(); 2]; C]; R];
            for k in (0..whole).step_by(LANES) {
                for part in 0..V::PARTS {
                    let begin = k + part * (LANES / V::PARTS);
                    let mut columns = [V::zero_part(); C];
                    for c in 0..C {
                        columns[c] = V::load_part(right.add(c * stride + begin));
                    }
                    for r in 0..R {
                        let row = V::load_part(left.add(r * stride + begin));
                        for c in 0..C {
                            parts[r][c][part] = V::mul_add_part(row, columns[c], parts[r][c][part]);
                        }
                    }
                }
            }
            let mut lanes = [[V::splat(0.0); R]; C];
            for c in 0..C {
                for r in 0..R {
                    lanes[c][r] = V::join(parts[r][c]);
                }
            }
            if whole < len {
                let mut rows = [V::splat(0.0); R];
                for r in 0..R {
                    rows[r] = V::load_first(left.add(r * stride + whole), len - whole);
                }
                for c in 0..C {
                    let column = V::load_first(right.add(c * stride + whole), len - whole);
                    for r in 0..R {
                        lanes[c][r] = rows[r].mul_add(column, lanes[c][r]);
                    }
                }
            }
            // Eight at once, column by column.
            let place = |at: usize| (at % R, at / R);
            for first in (0..R * C).step_by(8) {
                let mut eight = [V::splat(0.0); 8];
                for at in first..R * C {
                    if at < first + 8 {
                        let (r, c) = place(at);
                        eight[at - first] = lanes[c][r];
                    }
                }
                let sums = V::sums(eight);
                for at in first..R * C {
                    if at < first + 8 {
                        let (r, c) = place(at);
                        *to.add(c * to_stride + r) += sums[at - first];
                    }
                }
            }
        }
    }
}

/// [`Dense::input_gradient`].
struct InputGradient {
    shape: Dense,
    gradients: *const f32,
    weights: *const f32,
    to: *mut f32,
}

impl Kernel for InputGradient {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense { count, inputs, outputs, .. } = self.shape;
        for column in (0..inputs).step_by(COLUMN_BLOCK) {
            let columns = COLUMN_BLOCK.min(inputs - column);
            for begin in (0..outputs).step_by(ROW_BLOCK) {
                unsafe {
                    let sum = RowSum {
                        len: ROW_BLOCK.min(outputs - begin),
                        factors: self.gradients.add(begin),
                        factor_strides: (outputs, 1),
                        rows: self.weights.add(begin * inputs + column),
                        to: self.to.add(column),
                        stride: inputs,
                        // The first block begins with nothing, the others add to it.
                        keep: if begin == 0 { 0.0 } else { 1.0 },
                        scale: 1.0,
                    };
                    for (first, vectors) in blocks(columns.div_ceil(LANES), V::TILE.1) {
                        for (target, rows) in blocks(count, TARGETS) {
                            sum.tile_at::<V>((target, rows), (first * LANES, columns), vectors);
                        }
                    }
                }
            }
        }
    }
}

/// [`Dense::weight_gradient`].
struct WeightGradient {
    shape: Dense,
    gradients: *const f32,
    batch: *const f32,
    factors: (f32, f32),
    to: *mut f32,
}

impl Kernel for WeightGradient {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense { count, inputs, outputs, .. } = self.shape;
        for column in (0..inputs).step_by(COLUMN_BLOCK) {
            let columns = COLUMN_BLOCK.min(inputs - column);
            unsafe {
                let sum = RowSum {
                    len: count,
                    factors: self.gradients,
                    factor_strides: (1, outputs),
                    rows: self.batch.add(column),
                    to: self.to.add(column),
                    stride: inputs,
                    keep: self.factors.0,
                    scale: self.factors.1,
                };
                for (target, rows) in blocks(outputs, TARGETS) {
                    for (first, vectors) in blocks(columns.div_ceil(LANES), V::TILE.1) {
                        // The targets that come next are far away.
                        for row in target + rows..target + 2 * rows {
                            for vector in first..first + vectors {
                                prefetch(sum.to.wrapping_add(row * inputs + vector * LANES));
                            }
                        }
                        sum.tile_at::<V>((target, rows), (first * LANES, columns), vectors);
                    }
                }
            }
        }
    }
}

/// `to[i] = keep * to[i] + scale * sum over k of factor(i, k) * row[k]`, for several i.
#[derive(Debug, Clone, Copy)]
struct RowSum {
    /// How many rows are summed up.
    len: usize,
    factors: *const f32,
    /// From the factors of one target to those of the next, and from one row to the next.
    factor_strides: (usize, usize),
    rows: *const f32,
    to: *mut f32,
    /// From one row to the next, and from one target to the next.
    stride: usize,
    keep: f32,
    scale: f32,
}

impl RowSum {
    /// The tile of so many targets and vectors; where the columns end inside of the last vector, that one is a tile of
    /// its own.
    #[inline(always)]
    unsafe fn tile_at<V: Vector>(
        &self,
        (target, count): (usize, usize),
        (column, columns): (usize, usize),
        vectors: usize,
    ) {
        with_rows!(count, TARGETS, [1 2 3 4 5 6], |R| unsafe {
            if const { V::TILE.1 == 2 } && vectors == 2 && column + 2 * LANES <= columns {
                self.tile::<V, R, 2>(target, column);
            } else {
                for column in (column..column + vectors * LANES).step_by(LANES) {
                    let lanes = columns - column;
                    if lanes >= LANES {
                        self.tile::<V, R, 1>(target, column);
                    } else {
                        self.narrow_tile::<V, R>(target, column, lanes);
                    }
                }
            }
        });
    }

    #[inline(always)]
    unsafe fn factors_of(&self, target: usize) -> Strided {
        let (rows, numbers) = self.factor_strides;
        // SAFETY: as the caller promises, the target is there.
        Strided { from: unsafe { self.factors.add(target * rows) }, rows, numbers }
    }

    #[inline(always)]
    unsafe fn tile<V: Vector, const R: usize, const C: usize>(&self, target: usize, column: usize) {
        unsafe {
            let mut sums = [[V::splat(0.0); C]; R];
            let factors = self.factors_of(target);
            let right = (self.rows.add(column), self.stride, LANES);
            multiply_add(&mut sums, self.len, &factors, right);
            for r in 0..R {
                for c in 0..C {
                    let to = self.to.add((target + r) * self.stride + column + c * LANES);
                    let kept = if self.keep == 0.0 { V::splat(0.0) } else { V::load(to) };
                    self.blend(sums[r][c], kept).store(to);
                }
            }
        }
    }

    /// Of columns that do not fill a vector.
    #[inline(always)]
    unsafe fn narrow_tile<V: Vector, const R: usize>(
        &self,
        target: usize,
        column: usize,
        lanes: usize,
    ) {
        unsafe {
            let mut sums = [V::splat(0.0); R];
            let factors = self.factors_of(target);
            for k in 0..self.len {
                let row = V::load_first(self.rows.add(column + k * self.stride), lanes);
                for r in 0..R {
                    let factor = V::splat(factors.number(r, k));
                    sums[r] = factor.mul_add(row, sums[r]);
                }
            }
            for r in 0..R {
                let to = self.to.add((target + r) * self.stride + column);
                let kept = if self.keep == 0.0 { V::splat(0.0) } else { V::load_first(to, lanes) };
                self.blend(sums[r], kept).store_first(to, lanes);
            }
        }
    }

    #[inline(always)]
    unsafe fn blend<V: Vector>(&self, sum: V, kept: V) -> V {
        unsafe {
            let total = V::splat(self.scale).mul(sum);
            if self.keep == 0.0 { total } else { V::splat(self.keep).mul_add(kept, total) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_same_bits, numbers};

    /// A score as the module says.
    fn score(before: f32, row: &[f32], column: &[f32]) -> f32 {
        row.chunks(INNER_BLOCK).zip(column.chunks(INNER_BLOCK)).fold(
            before,
            |score, (row, column)| {
                let mut lanes = [0.0f32; LANES];
                for (k, (a, b)) in row.iter().zip(column).enumerate() {
                    lanes[k % LANES] = a.mul_add(*b, lanes[k % LANES]);
                }
                for half in [8, 4, 2, 1] {
                    for lane in 0..half {
                        lanes[lane] += lanes[lane + half];
                    }
                }
                score + lanes[0]
            },
        )
    }

    /// The three products as they are defined, with all remainders of tiles, vectors and blocks.
    #[test]
    fn every_backend_gives_the_bits_of_the_definition() {
        let shapes =
            [(1, 1, 1), (2, 17, 3), (5, 40, 15), (50, 128, 10), (7, 130, 70), (3, 2100, 9)];
        for (count, inputs, outputs) in shapes {
            let batch = numbers(count * inputs, 0.37);
            let weights = numbers(inputs * outputs, 0.71);
            let gradients = numbers(count * outputs, 1.3);
            let row = |sample: usize| &batch[sample * inputs..][..inputs];
            let scores: Vec<f32> = (0..count * outputs)
                .map(|at| {
                    score(0.5, row(at / outputs), &weights[at % outputs * inputs..][..inputs])
                })
                .collect();
            let input_gradients: Vec<f32> = (0..count * inputs)
                .map(|at| {
                    let gradients = gradients[at / inputs * outputs..][..outputs].chunks(ROW_BLOCK);
                    gradients.enumerate().fold(0.0, |sum, (block, gradients)| {
                        let first = block * ROW_BLOCK;
                        let chain =
                            (first..).zip(gradients).fold(0.0f32, |sum, (output, factor)| {
                                factor.mul_add(weights[output * inputs + at % inputs], sum)
                            });
                        sum + chain
                    })
                })
                .collect();
            let weight_gradients: Vec<f32> = (0..inputs * outputs)
                .map(|at| {
                    let sum = (0..count).fold(0.0f32, |sum, k| {
                        gradients[k * outputs + at / inputs].mul_add(row(k)[at % inputs], sum)
                    });
                    0.5f32.mul_add(sum, -2.0 * sum)
                })
                .collect();
            for backend in Backend::available() {
                let dense = Dense { backend, count, inputs, outputs };
                let mut out = vec![0.5; count * outputs];
                dense.forward(&batch, &weights, &mut out);
                assert_same_bits(&out, &scores, &format!("{dense:?}: scores"));
                let mut out = vec![f32::NAN; count * inputs];
                dense.input_gradient(&gradients, &weights, &mut out);
                assert_same_bits(&out, &input_gradients, &format!("{dense:?}: inputs"));
                let mut out = vec![f32::NAN; inputs * outputs];
                dense.weight_gradient(&gradients, &batch, (0.0, 1.0), &mut out);
                dense.weight_gradient(&gradients, &batch, (0.5, -2.0), &mut out);
                assert_same_bits(&out, &weight_gradients, &format!("{dense:?}: weights"));
            }
        }
    }
}
