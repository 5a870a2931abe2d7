//! One variant under one seed.

mod logged;
mod recorder;
mod run_clock;
mod selection;
mod steps;
mod training;

pub use selection::{SelectionRun, SelectionSpec};
pub use training::TrainingRun;

pub(crate) use run_clock::RunClock;
