//! The learning engine: real data split among clients, models as lists of layers over one flat slice of parameters,
//! local training at the machine's limit, and aggregation with the core's weights.

#![forbid(unsafe_code)]

pub mod aggregation;
pub mod checkpoint;
pub mod data;
mod evaluation;
mod fused;
pub mod local;
mod loss;
pub mod model;
mod native_task;
mod round_engine;
pub mod sketch;
pub mod task;
mod threads;

pub use agewise_kernels::Backend;
pub use evaluation::{Evaluation, Metric};
pub use native_task::NativeTask;
pub use round_engine::{RoundEngine, RoundPlan, RoundReport};
pub use task::Task;
pub use threads::{Threads, WorkerPool};

/// A product of square matrices by the `gemm` crate, which the portable path uses: for measuring what the machine can do.
///
/// # Panics
/// If a slice is too short.
pub fn matrix_product(target: &mut [f32], left: &[f32], right: &[f32], side: usize) {
    use agewise_kernels::{Matrix, MatrixMut, product};
    let mut target = MatrixMut::new(target, side, side);
    product(&mut target, 0.0, 1.0, Matrix::new(left, side, side), Matrix::new(right, side, side));
}
