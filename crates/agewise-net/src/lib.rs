//! The deployment: a coordinator, and clients that decide by themselves.
//!
//! The coordinator announces a round; every client draws its own lot with its own age, joins, trains and reports; what was accepted is on
//! disk before it is acknowledged, and credited. The protocol is `proto/agewise/v1/coordinator.proto`.
//!
//! - [`coordinator::run`]: the coordinator, on any listener, until it is told to stop.
//! - [`participant::Participant`]: a client that embeds in another program, with any learner.
//! - [`native`]: both ends over the learning engine of agewise.
//! - [`swarm`]: many clients in one process.
//! - [`honesty`]: keys, proofs, seeds and tokens, so that nobody has to be believed.

mod config;
pub mod coordinator;
mod hex;
pub mod honesty;
mod model;
mod name;
pub mod native;
mod parameters;
pub mod participant;
mod rule;
mod status;
pub mod swarm;
pub mod tls;

pub use config::{
    AccessParams, CoordinatorConfig, CoordinatorParams, LimitParams, LotSource, ModelParams,
    RoundParams, TlsParams, UpdateParams,
};
pub use hex::hex;
pub use model::GlobalModel;
pub use rule::{Rule, RuleParams};
pub use status::{NoStatus, revoke, status};

/// The messages of the protocol.
#[allow(
    missing_docs,
    clippy::pedantic,
    unused_qualifications,
    reason = "generated from the protocol, where the docs are"
)]
pub mod proto {
    tonic::include_proto!("agewise.v1");
}
