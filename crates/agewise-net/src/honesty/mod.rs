//! What makes a deployment that does not have to trust its clients: keys, lots that can be proven, seeds that nobody can choose, and
//! tokens. docs/security.md says what each of them is good for.
//!
//! - [`Identity`]: the key of a client, with which it signs every call and draws its lots.
//! - [`lots`]: the lot of a client in a round is a verifiable random function of the run, the round and the round's seed under its key.
//! - [`seeds`]: the seeds of the rounds, from a hash chain whose end is known before the first of them.
//! - [`seal`]: the signature of a call, good for one call of one session.
//! - [`token`]: what an operator hands out.

pub mod identity;
pub mod lots;
pub mod seal;
pub mod seeds;
pub mod token;

pub use identity::{Identity, PublicKey};
