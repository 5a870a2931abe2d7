//! agewise: balanced client participation in federated learning. Who trains next?
//!
//! Age of Information is the number of rounds since a client was last credited. Policies that follow it
//! load clients evenly; this crate selects with them, compares them by training, and says what differs.
//!
//! This is the facade: [`prelude`] has the names that most programs need, and each crate is re-exported as
//! a module. `docs/extending.md` has complete programs.
//!
//! - [`selection`][]: populations, policies, theory, participation metrics.
//! - [`train`][]: data, models, tasks, local training, aggregation.
//! - [`experiment`][]: variants side by side, with training or without.
//! - [`report`][]: tables, findings and pages of experiments and of the theory.
//! - [`plot`][]: figures.
//!
//! ```
//! use agewise::prelude::*;
//!
//! let setting = SettingParams::new(100, 15, 10).check()?;
//! let policy = PolicySpec::named("oldest-first");
//! let mut selector = Selector::new(&policy, setting, Seed(1), Start::Stationary)?;
//! let cohort = selector.select(Availability::Everyone)?;
//! assert_eq!(cohort.clients.len(), 15);
//! # Ok::<(), agewise::selection::Error>(())
//! ```
//!
//! The default feature `cli` is the program `agewise`. A program that uses this library alone switches it
//! off: `cargo add agewise --no-default-features`.

#![forbid(unsafe_code)]

pub use agewise_core as selection;
pub use agewise_experiment as experiment;
pub use agewise_plot as plot;
pub use agewise_report as report;
pub use agewise_train as train;

pub mod prelude;

/// The programs of docs/extending.md, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../extending.md")]
mod extending {}

/// The program of this crate's README, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The program of the repository's README, run as a test; only tests of a repository see it.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod front {}
