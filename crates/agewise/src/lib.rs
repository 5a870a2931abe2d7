//! agewise: balanced client participation in federated learning. Who trains next?
//!
//! This crate is the front door: it re-exports the rooms of the house and holds the `agewise` command.
//!
//! - [`compare`][]: the main job, policies side by side by training.
//! - [`core`][]: ages, policies, theory, participation metrics.
//! - [`learn`][]: the learning engine.
//! - [`net`][]: the deployment: a coordinator, and clients that decide by themselves.
//! - [`data`][]: data sets on this machine.
//! - [`report`][]: figures.
//! - [`sim`][]: the simulators of selection and of training.
//! - [`theory`][]: what the policies do, before anything is run.
//!
//! ```
//! use agewise::core::{PolicySpec, SettingParams};
//! use agewise::theory::{TheoryReport, TheoryRequest};
//!
//! let setting = SettingParams::new(100, 15, 10).check()?;
//! let policies = PolicySpec::parse_list("random,oldest-first")?;
//! let report = TheoryReport::new(&TheoryRequest::new(setting, policies))?;
//! assert!((report.policies[0].theory.var_interval - 37.8).abs() < 0.1);
//! assert!((report.policies[1].theory.var_interval - 0.22).abs() < 0.01);
//! # Ok::<(), agewise::core::Error>(())
//! ```

pub use agewise_core as core;
pub use agewise_learn as learn;
#[cfg(feature = "command")]
pub use agewise_net as net;
pub use agewise_report as report;
pub use agewise_sim as sim;

#[cfg(feature = "command")]
pub mod cli;
pub mod compare;
mod csv;
pub mod data;
mod format;
mod looks;
pub mod run_folder;
pub mod simulate;
pub mod theory;

/// The examples of docs/extending.md, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
mod extending {}
