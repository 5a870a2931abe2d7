//! Charts and pages: what they contain, and what they refuse.
//! One program, because each one is compiled and linked for itself.
#![allow(clippy::disallowed_methods, reason = "tests have tolerances")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

mod figure;
mod heat_map;
mod interval_plot;
mod page;
