//! What several runs say together: means and medians with intervals, and comparisons over common seeds.
//!
//! Two policies that run under one seed see the same random numbers, so their runs are compared in pairs: what the
//! seed does to both cancels. No I/O and no clock; the bootstrap has a constant seed.

mod bootstrap;
mod confidence_interval;
mod estimate;
mod multiple_comparisons;
mod paired;
mod quantile;
mod rounds_to_target;
mod student;

pub use confidence_interval::Interval;
pub use estimate::Estimate;
pub use multiple_comparisons::holm;
pub use paired::{PairedChange, PairedDifference, Spent};
pub use quantile::{median, quantile};
pub use rounds_to_target::RoundsToTarget;
pub use student::Student;
