//! The deployment: a coordinator, and clients that decide by themselves.
//!
//! The coordinator announces a round. Every client decides with its own age and a verifiable random draw whether it takes part, joins, trains
//! and reports. An accepted update is on disk before it is acknowledged, and the client is credited. The messages are those of
//! `proto/agewise/v1/coordinator.proto`.
//!
//! - [`coordinator::run`]: the coordinator, on any listener, until it is told to stop.
//! - [`client::Client`]: a client that embeds in another program, with any task.
//! - [`native`]: both ends over the learning engine of agewise.
//! - [`client::swarm`]: many clients in one process.
//! - [`crypto`]: keys, verifiable draws, seed chains and tokens, so that participation is verifiable.
//! - [`remote`]: status and revocation over the network, for operators.

#![forbid(unsafe_code)]

pub mod client;
mod config;
pub mod coordinator;
pub mod crypto;
pub mod live_page;
pub mod native;
pub mod protocol;
pub mod remote;
#[cfg(feature = "test-support")]
pub mod test_support;
pub mod tls;

pub use agewise_train::aggregation::MaxNorm;
pub use config::{
    AccessParams, CoordinatorConfig, CoordinatorParams, DeployedModelParams, DrawSource,
    LimitParams, ReportDeadline, RoundParams, TlsParams, UpdateParams, refuse_renamed_keys,
};
