//! What several runs say together: means and medians with intervals, and comparisons over common seeds.
//!
//! Two policies that run under one seed see the same random numbers, so their runs are compared in pairs: what the
//! seed does to both cancels. No I/O and no clock; the bootstrap has a constant seed.

mod bootstrap;
mod estimate;
mod interval;
mod multiple;
mod paired;
mod quantile;
mod rounds;
mod student;

pub use estimate::Estimate;
pub use interval::Interval;
pub use multiple::holm;
pub use paired::{PairedChange, PairedDifference};
pub use quantile::{median, quantile};
pub use rounds::RoundsToTarget;
pub use student::Student;
