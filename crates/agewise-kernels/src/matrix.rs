//! Matrix products of any shape, by the `gemm` crate.

use gemm::{Parallelism, gemm};

/// A matrix in a slice, row by row, or column by column if it is transposed.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    strides: (usize, usize),
}

impl<'a> Matrix<'a> {
    /// The rows one after the other, `stride` floats from each to the next.
    ///
    /// # Panics
    /// If the slice is too short: shapes are checked when a model is built.
    pub fn with_stride(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || (columns <= stride && (rows - 1) * stride + columns <= data.len()));
        Self { data, rows, columns, strides: (stride, 1) }
    }

    /// The rows side by side.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::with_stride(data, rows, columns, columns)
    }

    /// Rows become columns.
    #[must_use]
    pub fn transposed(self) -> Self {
        let Self { data, rows, columns, strides } = self;
        Self { data, rows: columns, columns: rows, strides: (strides.1, strides.0) }
    }
}

/// A matrix to write to, row by row.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    data: &'a mut [f32],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a> MatrixMut<'a> {
    /// The rows one after the other, `stride` floats from each to the next.
    ///
    /// # Panics
    /// If the slice is too short: shapes are checked when a model is built.
    pub fn with_stride(data: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || (columns <= stride && (rows - 1) * stride + columns <= data.len()));
        Self { data, rows, columns, stride }
    }

    /// The rows side by side.
    pub fn new(data: &'a mut [f32], rows: usize, columns: usize) -> Self {
        Self::with_stride(data, rows, columns, columns)
    }
}

/// `target = keep * target + scale * left * right`; what is kept by 0 is not even read.
///
/// # Panics
/// If the shapes do not fit.
pub fn product(
    target: &mut MatrixMut<'_>,
    keep: f32,
    scale: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    assert_eq!(left.columns, right.rows);
    assert_eq!((target.rows, target.columns), (left.rows, right.columns));
    // SAFETY: each matrix was checked to lie in its slice when it was made, `target` is borrowed exclusively, and the
    // shapes fit each other.
    unsafe {
        gemm(
            target.rows,
            target.columns,
            left.columns,
            target.data.as_mut_ptr(),
            1,
            target.stride as isize,
            keep != 0.0,
            left.data.as_ptr(),
            left.strides.1 as isize,
            left.strides.0 as isize,
            right.data.as_ptr(),
            right.strides.1 as isize,
            right.strides.0 as isize,
            keep,
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition() {
        let (rows, inner, columns) = (3, 4, 5);
        let left: Vec<f32> = (0..12).map(|i| i as f32 - 5.0).collect();
        let right: Vec<f32> = (0..20).map(|i| (i * i % 7) as f32).collect();
        let mut expected = [1.0; 15];
        for (index, value) in expected.iter_mut().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let sum: f32 =
                (0..inner).map(|k| left[row * inner + k] * right[k * columns + column]).sum();
            *value = 0.5 * *value - 2.0 * sum;
        }
        let mut target = [1.0; 15];
        let (left, right) = (Matrix::new(&left, rows, inner), Matrix::new(&right, inner, columns));
        product(&mut MatrixMut::new(&mut target, rows, columns), 0.5, -2.0, left, right);
        assert_eq!(target, expected);
        // (A B)^T = B^T A^T, and what is kept by 0 may be anything.
        let mut transposed = [f32::NAN; 15];
        let target = &mut MatrixMut::new(&mut transposed, columns, rows);
        product(target, 0.0, 1.0, right.transposed(), left.transposed());
        assert_eq!(transposed[1], (expected[columns] - 0.5) / -2.0);
    }
}
