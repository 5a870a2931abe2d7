//! The learning engine: real data split among clients, models as lists of layers over one flat slice of parameters,
//! local training at the machine's limit, and aggregation with the core's weights.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tolerances"))]
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

use agewise_kernels::product;
pub use agewise_kernels::{Backend, UnknownBackend};
pub use evaluation::{Evaluation, Metric};
pub use native_task::NativeTask;
pub use round_engine::{EarlierStart, RoundEngine, RoundPlan, RoundReport, StaleRule};
pub use task::Task;
pub use threads::{Threads, WorkerPool};

/// The backend of this process: the one that was chosen ([`Backend::choose`]), the one that the environment names
/// (`AGEWISE_KERNELS`), or the fastest of this machine.
pub fn selected_backend() -> agewise_core::Result<Backend> {
    Backend::selected().map_err(|UnknownBackend(name)| {
        let expected = UnknownBackend::expected();
        agewise_core::Error::new(agewise_kernels::VARIABLE, name, expected)
    })
}

/// A product of square matrices by the kernels of this process: for measuring what the machine can do.
///
/// # Panics
/// If a slice is too short.
pub fn matrix_product(target: &mut [f32], left: &[f32], right: &[f32], side: usize) {
    let backend = Backend::selected().unwrap_or_else(|_| Backend::fastest());
    product(backend, (side, side, side), left, right, target);
}
