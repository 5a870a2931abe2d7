//! The local and global optima, the problem constants and the selection skew of Theorem 1.
//!
//! The objective of client k is F_k = mean cross-entropy + weight decay / 2 |theta|^2. The penalty covers all
//! parameters, biases too, because that is what training descends on. The global objective is F = sum q_k F_k.
//!
//! - [`local_losses`]: F_k(theta) of every client.
//! - [`local_optima`]: the least F_k that training finds, for any model.
//! - [`ConvexProblem`]: the true optima, local and global, and all constants of the theorem, for one dense layer with
//!   weight decay.
//! - [`skew`], [`SkewTrack`]: how much a policy leans towards clients that are far from their optimum.

mod constants;
mod convex;
mod curvature;
mod local_optima;
mod minimise;
mod objective_gaps;
mod selection_skew;

pub use constants::ProblemConstants;
pub use convex::{ConvexProblem, Optimum, is_strongly_convex};
pub use local_optima::{OptimumBudget, local_optima};
pub use objective_gaps::{ObjectiveLog, ObjectiveRecord, Optima};
pub use selection_skew::{SkewRange, SkewTrack, skew};

use agewise_core::math::square;
use agewise_core::{Error, Result};
use agewise_train::local::Samples;
use agewise_train::task::PartitionKey;
use agewise_train::{Task, Threads};

/// F_k(theta) of every client: mean cross-entropy plus weight decay / 2 |theta|^2.
pub fn local_losses(
    task: &dyn Task,
    key: PartitionKey,
    parameters: &[f32],
    weight_decay: f32,
    threads: Threads,
) -> Result<Vec<f64>> {
    let penalty = penalty(parameters, f64::from(weight_decay));
    threads.map(key.clients as usize, |client| {
        Ok(task.client_loss(key, client as u32, parameters)? + penalty)
    })
}

/// A client without samples has no objective.
fn check_client(client: usize, samples: &Samples<'_>) -> Result<()> {
    if samples.is_empty() {
        return Err(Error::new(format!("samples of client {client}"), 0, "at least one"));
    }
    Ok(())
}

/// Weight decay / 2 |theta|^2.
fn penalty(parameters: &[f32], weight_decay: f64) -> f64 {
    // 0 even where the parameters have grown beyond all bounds.
    if weight_decay == 0.0 {
        return 0.0;
    }
    let square: f64 = parameters.iter().map(|&value| square(f64::from(value))).sum();
    weight_decay / 2.0 * square
}
