//! What makes participation verifiable, so that neither the clients nor the coordinator need to be trusted: keys, verifiable draws, seeds
//! that neither side can choose, and tokens. docs/security.md says what each of them is good for.
//!
//! - [`Identity`]: the key of a client, with which it signs every call and makes its draws.
//! - [`vrf`]: the draw of a client in a round is a verifiable random function of the run, the round and the round's seed under its key.
//! - [`seed_chain`]: the seeds of the rounds, from a hash chain whose end is known before the first of them.
//! - [`signing`]: the signature of a call, good for one call of one session.
//! - [`token`]: what an operator hands out.

pub mod identity;
pub mod seed_chain;
pub mod signing;
pub mod token;
pub mod vrf;

pub use identity::{Identity, PublicKey};
