//! The learning engine: real data split among clients, models as lists of layers over one flat slice of parameters,
//! local training at the machine's limit, and aggregation with the core's weights.

pub mod aggregate;
pub mod combine;
pub mod data;
pub mod federate;
mod kernel;
mod loss;
pub mod model;
pub mod sketch;
mod stage;
pub mod train;

pub use kernel::Path;
pub use loss::Evaluation;

/// A product of square matrices by the `gemm` crate, which the portable path uses: for measuring what the machine can do.
///
/// # Panics
/// If a slice is too short.
pub fn matrix_product(target: &mut [f32], left: &[f32], right: &[f32], side: usize) {
    use kernel::{Matrix, MatrixMut, product};
    let mut target = MatrixMut::new(target, side, side);
    product(&mut target, 0.0, 1.0, Matrix::new(left, side, side), Matrix::new(right, side, side));
}
