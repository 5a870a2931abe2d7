//! Attackers, each with a client of its own: all of their requests are refused and counted, and the run of the honest clients ends with the
//! same model as without them. A binary of its own, because one test measures the memory of its process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

#[path = "../common/mod.rs"]
mod common;

mod attacked_run;
mod bombs;
mod draws;
mod drips;
mod floods;
mod frames;
mod keys;
mod mutation;
mod mutator;
mod poison;
mod replays;
mod revoked;
mod updates;
mod waiting;
