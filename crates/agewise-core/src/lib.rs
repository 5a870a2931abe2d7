//! The participation core of agewise: who trains next in federated learning, and what that means.
//!
//! n clients, m of them per round. The *age* of a client is the number of rounds since it was last
//! credited; a policy chooses the clients of a round; theory says what a policy does to the load of the
//! clients and to the weights of the aggregation; metrics measure it.
//!
//! No I/O, no clock, no threads: randomness is a function of (seed, stream, round, client), so a caller can
//! split the work as it likes and resume a run at any round with the same result.
//!
//! - [`AgeLaw`], [`Laws`]: with which probability a client of some age takes part (Theorem 2).
//! - [`Policy`], [`LocalRule`], [`POLICIES`]: the coordinator's and the client's side of every policy.
//! - [`Selector`]: a policy at work, round by round.
//! - [`theory`]: Theorems 1 to 5 and what follows.
//! - [`metrics`]: intervals, windows, weights, cohort sizes, load, meetings; accumulators that can be merged.

mod ages;
mod calibration;
mod error;
mod law;
pub mod metrics;
mod policies;
mod policy;
mod random;
mod selector;
mod setting;
mod sizes;
mod spec;
pub mod theory;
mod weighting;

pub use ages::Ages;
pub use calibration::Calibrator;
pub use error::{Error, Result};
pub use law::{
    AgeLaw, IntervalMoments, LARGEST_MAX_AGE, LawFamily, Laws, StationaryAge, proportional_rates,
};
pub use policies::{POLICIES, build as build_policy, find as find_policy};
pub use policy::{
    Availability, LocalRule, Pick, Plan, Policy, PolicyEntry, Ranking, Report, Reports, Round,
};
pub use random::{Chance, CoarseRanks, Lot, Lots, Ranks, Seed, Sequence, Stream};
pub use selector::{Cohort, Selector, SelectorState};
pub use setting::{EmptyCohort, Setting, SettingParams, Start};
pub use sizes::{SizeLaw, Sizes};
pub use spec::{OptionValue, PolicySpec};
pub use weighting::{Weighed, Weighting};
