//! The three products of a dense layer for small batches, straight from where the matrices lie.
//!
//! A general matrix product first copies its matrices into the order in which it reads them. With a batch of 50 that is
//! a good part of the work, and none of the three needs it: the weights lie output by output, so that scores are inner
//! products of rows, gradients of inputs are sums of rows, and gradients of weights are outer products that are added
//! to rows. Tiles of the result stay in registers.

use crate::matrix::{Matrix, MatrixMut, product};
use crate::vector::{Vector, load_each, prefetch};
use crate::{Backend, Instructions};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

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
/// cache.
const INNER_BLOCK: usize = 1024;

/// Outputs whose rows are summed up at once: as many pages as the processor finds quickly.
const ROW_BLOCK: usize = 64;

/// Columns whose part of all rows fits into the first cache.
const COLUMN_BLOCK: usize = 128;

/// Floats in a cache line.
const LINE: usize = 16;

/// Runs a tile function with as many rows as there are: all numbers of rows and columns have their own code.
macro_rules! tile {
    ($rows:expr, [$($row:literal)*], |$r:ident| $call:expr) => {
        match $rows {
            $($row => { const $r: usize = $row; $call })*
            _ => unreachable!("tiles have few rows"),
        }
    };
}

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
        match self.backend.0 {
            // SAFETY of both: the backend says that the processor has the instructions, and the slices have the lengths
            // of the shape.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe {
                forward_avx2(self, batch.as_ptr(), weights.as_ptr(), scores.as_mut_ptr());
            },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                forward_avx512(self, batch.as_ptr(), weights.as_ptr(), scores.as_mut_ptr());
            },
            Instructions::Portable => {
                let left = Matrix::new(batch, self.count, self.inputs);
                let right = Matrix::new(weights, self.outputs, self.inputs).transposed();
                let mut target = MatrixMut::new(scores, self.count, self.outputs);
                product(&mut target, 1.0, 1.0, left, right);
            }
        }
    }

    /// `inputs = gradients times weights`, a row for each sample.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn input_gradient(&self, gradients: &[f32], weights: &[f32], inputs: &mut [f32]) {
        let (gradients, weights) = (&gradients[..self.scores()], &weights[..self.weights()]);
        let inputs = &mut inputs[..self.batch()];
        match self.backend.0 {
            // SAFETY of both: as in `forward`.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe {
                let (gradients, weights) = (gradients.as_ptr(), weights.as_ptr());
                input_gradient_avx2(self, gradients, weights, inputs.as_mut_ptr());
            },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                let (gradients, weights) = (gradients.as_ptr(), weights.as_ptr());
                input_gradient_avx512(self, gradients, weights, inputs.as_mut_ptr());
            },
            Instructions::Portable => {
                let left = Matrix::new(gradients, self.count, self.outputs);
                let right = Matrix::new(weights, self.outputs, self.inputs);
                let mut target = MatrixMut::new(inputs, self.count, self.inputs);
                product(&mut target, 0.0, 1.0, left, right);
            }
        }
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
        match self.backend.0 {
            // SAFETY of both: as in `forward`.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe {
                let (gradients, batch) = (gradients.as_ptr(), batch.as_ptr());
                weight_gradient_avx2(self, gradients, batch, (keep, scale), target.as_mut_ptr());
            },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                let (gradients, batch) = (gradients.as_ptr(), batch.as_ptr());
                weight_gradient_avx512(self, gradients, batch, (keep, scale), target.as_mut_ptr());
            },
            Instructions::Portable => {
                let left = Matrix::new(gradients, self.count, self.outputs).transposed();
                let right = Matrix::new(batch, self.count, self.inputs);
                let mut target = MatrixMut::new(target, self.outputs, self.inputs);
                product(&mut target, keep, scale, left, right);
            }
        }
    }
}

/// # Safety
/// The instructions of `V` are available, and the matrices have the lengths of the shape.
#[inline(always)]
unsafe fn forward<V: Vector>(
    shape: &Dense,
    batch: *const f32,
    weights: *const f32,
    scores: *mut f32,
) {
    let Dense { count, inputs, outputs, .. } = *shape;
    for begin in (0..inputs).step_by(INNER_BLOCK) {
        let len = INNER_BLOCK.min(inputs - begin);
        for output in (0..outputs).step_by(4) {
            for sample in (0..count).step_by(3) {
                let (rows, columns) = (4.min(outputs - output), 3.min(count - sample));
                unsafe {
                    let left = weights.add(output * inputs + begin);
                    let right = batch.add(sample * inputs + begin);
                    let to = scores.add(sample * outputs + output);
                    // A share of the rows that come next, which are far away.
                    let share = len.div_ceil(count.div_ceil(3)).next_multiple_of(LINE);
                    let ahead = sample / 3 * share;
                    for row in 4..8 {
                        for line in (ahead..len.min(ahead + share)).step_by(LINE) {
                            prefetch(left.wrapping_add(row * inputs + line));
                        }
                    }
                    tile!(rows, [4 1 2 3], |R| tile!(columns, [3 1 2], |C| {
                        inner_products::<V, R, C>(len, inputs, left, right, outputs, to);
                    }));
                }
            }
        }
    }
}

/// Adds the inner products of R rows of the left with C rows of the right matrix.
#[inline(always)]
unsafe fn inner_products<V: Vector, const R: usize, const C: usize>(
    len: usize,
    stride: usize,
    left: *const f32,
    right: *const f32,
    to_stride: usize,
    to: *mut f32,
) {
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        let whole = len / V::LANES * V::LANES;
        for k in (0..whole).step_by(V::LANES) {
            let columns: [V; C] = load_each(right.add(k), stride);
            for r in 0..R {
                let row = V::load(left.add(r * stride + k));
                for c in 0..C {
                    sums[r][c] = row.mul_add(columns[c], sums[r][c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                let mut sum = sums[r][c].sum();
                for k in whole..len {
                    sum += *left.add(r * stride + k) * *right.add(c * stride + k);
                }
                *to.add(c * to_stride + r) += sum;
            }
        }
    }
}

/// # Safety
/// The instructions of `V` are available, and the matrices have the lengths of the shape.
#[inline(always)]
unsafe fn input_gradient<V: Vector>(
    shape: &Dense,
    gradients: *const f32,
    weights: *const f32,
    to: *mut f32,
) {
    let Dense { count, inputs, outputs, .. } = *shape;
    for column in (0..inputs).step_by(COLUMN_BLOCK) {
        let columns = COLUMN_BLOCK.min(inputs - column);
        for begin in (0..outputs).step_by(ROW_BLOCK) {
            let sum = RowSum {
                len: ROW_BLOCK.min(outputs - begin),
                factor_strides: (outputs, 1),
                stride: inputs,
                // The first block begins with nothing, the others add to it.
                keep: if begin == 0 { 0.0 } else { 1.0 },
                scale: 1.0,
            };
            unsafe {
                let rows = weights.add(begin * inputs + column);
                let (factors, to) = (gradients.add(begin), to.add(column));
                sum_of_rows::<V>(&sum, count, columns, false, factors, rows, to);
            }
        }
    }
}

/// # Safety
/// The instructions of `V` are available, and the matrices have the lengths of the shape.
#[inline(always)]
unsafe fn weight_gradient<V: Vector>(
    shape: &Dense,
    gradients: *const f32,
    batch: *const f32,
    (keep, scale): (f32, f32),
    target: *mut f32,
) {
    let Dense { count, inputs, outputs, .. } = *shape;
    let sum = RowSum { len: count, factor_strides: (1, outputs), stride: inputs, keep, scale };
    for column in (0..inputs).step_by(COLUMN_BLOCK) {
        let columns = COLUMN_BLOCK.min(inputs - column);
        unsafe {
            let (rows, to) = (batch.add(column), target.add(column));
            sum_of_rows::<V>(&sum, outputs, columns, true, gradients, rows, to);
        }
    }
}

/// `target[i] = keep * target[i] + scale * sum over k of factor(i, k) * row[k]`, for several i.
#[derive(Debug, Clone, Copy)]
struct RowSum {
    /// How many rows are summed up.
    len: usize,
    /// From the factors of one target to those of the next, and from one row to the next.
    factor_strides: (usize, usize),
    /// From one row to the next, and from one target to the next.
    stride: usize,
    keep: f32,
    scale: f32,
}

/// All targets and all columns; the target matrix is written row by row, or column by column.
#[inline(always)]
unsafe fn sum_of_rows<V: Vector>(
    sum: &RowSum,
    targets: usize,
    columns: usize,
    by_row: bool,
    factors: *const f32,
    rows: *const f32,
    to: *mut f32,
) {
    let pair = 2 * V::LANES;
    let whole = columns / V::LANES * V::LANES;
    if by_row {
        for target in (0..targets).step_by(6) {
            for column in (0..whole).step_by(pair) {
                // The targets that come next are far away.
                for row in target + 6..target + 12 {
                    prefetch(to.wrapping_add(row * sum.stride + column));
                }
                unsafe {
                    sum_tile_at::<V>(sum, (target, targets), (column, whole), factors, rows, to);
                }
            }
        }
    } else {
        for column in (0..whole).step_by(pair) {
            for target in (0..targets).step_by(6) {
                unsafe {
                    sum_tile_at::<V>(sum, (target, targets), (column, whole), factors, rows, to);
                }
            }
        }
    }
    // Columns that do not fill a register.
    for target in 0..targets {
        for column in whole..columns {
            unsafe {
                let mut total = 0.0;
                for k in 0..sum.len {
                    let factor =
                        factors.add(target * sum.factor_strides.0 + k * sum.factor_strides.1);
                    total += *factor * *rows.add(k * sum.stride + column);
                }
                let to = to.add(target * sum.stride + column);
                let kept = if sum.keep == 0.0 { 0.0 } else { sum.keep * *to };
                *to = kept + sum.scale * total;
            }
        }
    }
}

/// The tile at a target and a column, as large as there are more of them.
#[inline(always)]
unsafe fn sum_tile_at<V: Vector>(
    sum: &RowSum,
    (target, targets): (usize, usize),
    (column, columns): (usize, usize),
    factors: *const f32,
    rows: *const f32,
    to: *mut f32,
) {
    unsafe {
        let factors = factors.add(target * sum.factor_strides.0);
        let rows = rows.add(column);
        let to = to.add(target * sum.stride + column);
        let single = column + 2 * V::LANES > columns;
        tile!(6.min(targets - target), [6 1 2 3 4 5], |R| {
            if single {
                sum_tile::<V, R, 1>(sum, factors, rows, to);
            } else {
                sum_tile::<V, R, 2>(sum, factors, rows, to);
            }
        });
    }
}

#[inline(always)]
unsafe fn sum_tile<V: Vector, const R: usize, const C: usize>(
    sum: &RowSum,
    factors: *const f32,
    rows: *const f32,
    to: *mut f32,
) {
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        for k in 0..sum.len {
            let row = rows.add(k * sum.stride);
            let row: [V; C] = load_each(row, V::LANES);
            let factor = factors.add(k * sum.factor_strides.1);
            for r in 0..R {
                let factor = V::splat(*factor.add(r * sum.factor_strides.0));
                for c in 0..C {
                    sums[r][c] = factor.mul_add(row[c], sums[r][c]);
                }
            }
        }
        let (keep, scale) = (V::splat(sum.keep), V::splat(sum.scale));
        for r in 0..R {
            for c in 0..C {
                let to = to.add(r * sum.stride + c * V::LANES);
                let total = scale.mul(sums[r][c]);
                if sum.keep == 0.0 {
                    total.store(to);
                } else {
                    keep.mul_add(V::load(to), total).store(to);
                }
            }
        }
    }
}

/// # Safety
/// As for [`forward`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn forward_avx2(shape: &Dense, batch: *const f32, weights: *const f32, scores: *mut f32) {
    unsafe { forward::<__m256>(shape, batch, weights, scores) }
}

/// # Safety
/// As for [`input_gradient`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn input_gradient_avx2(
    shape: &Dense,
    gradients: *const f32,
    weights: *const f32,
    to: *mut f32,
) {
    unsafe { input_gradient::<__m256>(shape, gradients, weights, to) }
}

/// # Safety
/// As for [`weight_gradient`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn weight_gradient_avx2(
    shape: &Dense,
    gradients: *const f32,
    batch: *const f32,
    factors: (f32, f32),
    target: *mut f32,
) {
    unsafe { weight_gradient::<__m256>(shape, gradients, batch, factors, target) }
}

/// # Safety
/// As for [`forward`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn forward_avx512(shape: &Dense, batch: *const f32, weights: *const f32, scores: *mut f32) {
    unsafe { forward::<__m512>(shape, batch, weights, scores) }
}

/// # Safety
/// As for [`input_gradient`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn input_gradient_avx512(
    shape: &Dense,
    gradients: *const f32,
    weights: *const f32,
    to: *mut f32,
) {
    unsafe { input_gradient::<__m512>(shape, gradients, weights, to) }
}

/// # Safety
/// As for [`weight_gradient`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn weight_gradient_avx512(
    shape: &Dense,
    gradients: *const f32,
    batch: *const f32,
    factors: (f32, f32),
    target: *mut f32,
) {
    unsafe { weight_gradient::<__m512>(shape, gradients, batch, factors, target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, step: f32) -> Vec<f32> {
        (0..len).map(|index| (index as f32 * step).sin()).collect()
    }

    /// Every backend against the portable one, with all remainders of tiles, registers and blocks. Sums of up to 2,100
    /// products of numbers below 1 differ by their order: 1e-4.
    #[test]
    fn paths_agree() {
        let shapes = [(1, 1, 1), (2, 7, 3), (3, 8, 4), (5, 17, 10), (7, 24, 13), (50, 200, 10)];
        for (count, inputs, outputs) in shapes.into_iter().chain([(13, 2_100, 9), (6, 131, 150)]) {
            let batch = numbers(count * inputs, 0.37);
            let weights = numbers(inputs * outputs, 0.71);
            let gradients = numbers(count * outputs, 1.3);
            let results = Backend::available().into_iter().map(|backend| {
                let dense = Dense { backend, count, inputs, outputs };
                let mut scores = vec![0.5; count * outputs];
                dense.forward(&batch, &weights, &mut scores);
                let mut input_gradient = vec![f32::NAN; count * inputs];
                dense.input_gradient(&gradients, &weights, &mut input_gradient);
                let mut target = vec![f32::NAN; inputs * outputs];
                dense.weight_gradient(&gradients, &batch, (0.0, 1.0), &mut target);
                dense.weight_gradient(&gradients, &batch, (0.5, -2.0), &mut target);
                [scores, input_gradient, target]
            });
            let results: Vec<_> = results.collect();
            let portable = &results[results.len() - 1];
            for result in &results {
                for (values, expected) in result.iter().zip(portable) {
                    for (value, expected) in values.iter().zip(expected) {
                        assert!((value - expected).abs() < 1e-4, "{count} x {inputs} x {outputs}");
                    }
                }
            }
        }
    }
}
