//! Experiments from the outside: what they promise, against first principles, closed forms and brute force.

#![allow(clippy::disallowed_methods, reason = "tests have tolerances")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod against_theory;
mod blocks;
mod calibration;
mod extending;
mod naive_replay;
mod objective;
mod own;
mod same_world;
mod selection;
mod training;
