//! A deployment of real processes that are killed, stopped, run out of disk and find their files damaged: nothing that was promised is
//! lost.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

#[path = "deployment_faults/disk.rs"]
mod disk;
#[path = "deployment_faults/kills.rs"]
mod kills;
#[path = "deployment_faults/ledger.rs"]
mod ledger;
#[path = "deployment_faults/processes.rs"]
mod processes;
#[path = "deployment_faults/starts.rs"]
mod starts;
