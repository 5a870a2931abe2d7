//! One variant under one seed.

mod logged;
mod recorder;
mod selection;
mod training;

pub use selection::{SelectionRun, SelectionSpec};
pub use training::TrainingRun;
