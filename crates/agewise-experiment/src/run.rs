//! One variant under one seed.

mod asynchronous;
mod recorder;
mod replayed_selection;
mod run_clock;
mod selection;
mod training;

pub use selection::{SelectionRun, SelectionSpec};
pub use training::TrainingRun;

pub(crate) use run_clock::RunClock;
