//! The participation core against closed forms, brute force and simulation.
//! One program, because each one is compiled and linked for itself.
#![allow(clippy::disallowed_methods, reason = "tests have tolerances")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

mod against_simulation;
mod bad_input;
mod calibrated;
mod colluders;
mod common;
mod failures;
mod field;
mod in_step;
mod notes;
mod own_rates;
mod population;
mod properties;
mod property_inputs;
mod theorem_2;
mod two_sides;
