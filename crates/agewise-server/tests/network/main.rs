//! A coordinator and its clients over loopback: whole runs, runs that are resumed, verification, audits, and faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../examples/selfish/measures.rs"]
#[allow(dead_code, reason = "the example shows more")]
mod measures;
#[path = "../../examples/selfish/trial.rs"]
mod trial;

mod audits;
mod end_to_end;
mod faults;
mod own_aggregation;
mod resuming;
mod selfish;
mod verified;
