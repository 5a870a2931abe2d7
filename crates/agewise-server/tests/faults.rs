//! What goes wrong between a coordinator and its clients, over loopback: hang-ups in each phase, slow and hostile clients, clocks that
//! jump, files that were damaged. Nothing that was promised is lost, and nobody can stall the others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

#[path = "faults/cohorts.rs"]
mod cohorts;
#[path = "faults/damage.rs"]
mod damage;
#[path = "faults/hang_ups.rs"]
mod hang_ups;
#[path = "faults/raw.rs"]
mod raw;
#[path = "faults/site.rs"]
mod site;
#[path = "faults/times.rs"]
mod times;
#[path = "faults/updates.rs"]
mod updates;
