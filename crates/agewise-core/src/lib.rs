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
//! - [`Population`]: clients that are admitted, leave and change size.
//! - [`Failures`]: when a client that did not deliver may be asked again.
//! - [`Selector`]: a policy at work on a population, round by round.
//! - [`PolicyVariant`]: a policy with its name, first ages and weighting; also one of your own.
//! - [`theory`]: Theorems 1 to 5 and what follows.
//! - [`metrics`]: intervals, windows, weights, cohort sizes, load, co-participation.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tolerances"))]
#![forbid(unsafe_code)]

mod ages;
mod backoff;
mod calibration;
pub mod distributions;
mod error;
pub mod files;
mod law;
pub mod math;
pub mod metrics;
mod policies;
mod policy;
mod population;
mod random;
mod reports;
mod round;
mod selector;
mod setting;
mod sizes;
pub mod theory;
mod weighting;

pub use ages::Ages;
pub use backoff::{FailedClient, Failures, RetryTurns};
pub use calibration::Calibrator;
pub use error::{Error, Result};
pub use law::{
    AgeLaw, IntervalMoments, LARGEST_MAX_AGE, LawFamily, Laws, MaxAge, MaxAgeCost, StationaryAge,
    proportional_rates,
};
pub use policies::{POLICIES, build as build_policy, find as find_policy};
pub use policy::{
    LocalRule, LossNeed, Needs, OptionValue, Plan, Policy, PolicyEntry, PolicySpec, PolicyVariant,
    Probe, ProbeKind, Ranking,
};
pub use population::{Population, PopulationState};
pub use random::{Chance, CoarseRanks, Draw, Draws, Ranks, Seed, Sequence, Stream};
pub use reports::{Report, Reports};
pub use round::{Availability, Pick, Round};
pub use selector::{Cohort, Selector, SelectorState};
pub use setting::{EmptyCohort, Setting, SettingParams, Start};
pub use sizes::{SizeDistribution, Sizes};
pub use weighting::{CohortMember, Weighting};

/// The program of this crate's README, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
