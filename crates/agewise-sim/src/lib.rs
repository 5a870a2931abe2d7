//! Two simulators. [`study`] trains: policies side by side on real data. The rest of this crate selects: how a policy
//! loads its clients, from 100 clients to 10^8, calm and under churn.
//!
//! A [`Run`] plays one policy under one seed. Policies that follow age (age laws, oldest-first, round-robin)
//! run on an engine that keeps clients in groups of equal age, so that a round costs what the due clients cost;
//! random selection on one that keeps them in order of number; any other policy is asked for its cohort. All
//! give exactly the cohorts of a client-by-client replay, for any number of threads.

mod asked;
mod config;
mod listed;
pub mod objective;
mod played;
mod record;
mod run;
mod shard;
mod statistics;
pub mod study;
mod summary;
mod tally;
mod world;

pub use config::{SimulatedPolicy, Simulation, SimulationParams};
pub use record::{RoundRecord, RunRecord};
pub use run::{AgeMap, RoundRow, Run, RunOutcome, RunSpec, calm, play};
pub use statistics::{
    Estimate, Interval, PairedChange, PairedDifference, RoundsToTarget, Student, holm, median,
    quantile,
};
pub use summary::{PolicySummary, Summary, theory};
pub use world::{Availability, World};
