//! What a coordinator and its clients say to each other: the messages, and what both sides have to compute in the same way.
//!
//! The messages are generated from `proto/agewise/v1/coordinator.proto`; docs/protocol.md has the order of the calls and what each side checks.

pub(crate) mod codec;
pub(crate) mod name;
pub(crate) mod parameters;
mod participation;

pub use messages::*;
pub use participation::{ParticipationParams, ParticipationRule};
pub(crate) use participation::{max_age_from_wire, max_age_to_wire, seeded_draw};

/// The version of the protocol, which both sides tell: a client that is older than its coordinator, or newer, is told so instead of
/// being refused in every round. 1 is that of release 0.1, which told nothing; since 2 the draw of a client covers its number.
pub const PROTOCOL: u32 = 2;

#[allow(
    missing_docs,
    clippy::pedantic,
    unused_qualifications,
    reason = "generated from the protocol, where the docs are"
)]
mod messages {
    tonic::include_proto!("agewise.v1");
    include!(concat!(env!("OUT_DIR"), "/server/agewise.v1.rs"));
}
