//! A deployment of real processes that are killed, stopped, run out of disk and find their files damaged: nothing that was promised is
//! lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod disk;
mod kills;
mod ledger;
mod processes;
mod rollbacks;
mod starts;
