//! What makes participation verifiable, so that neither the clients nor the coordinator need to be trusted: keys, verifiable draws, seeds
//! that neither side can choose, and tokens. docs/security.md says what each of them is good for.
//!
//! - [`Identity`]: the key of a client, with which it signs every call and makes its draws.
//! - [`vrf`]: the draw of a client in a round is a verifiable random function of the run, the round and the round's seed under its key.
//! - [`seed_chain`]: the seeds of the rounds, from a hash chain whose end is known before the first of them.
//! - [`signing`]: the signature of a call, good for one call of one session.
//! - [`token`]: the tokens that an operator gives to clients and observers.

pub mod identity;
pub mod seed_chain;
pub mod signing;
pub mod token;
pub mod vrf;

pub use identity::{Identity, PublicKey};

use data_encoding::HEXLOWER_PERMISSIVE;

/// The bytes that these hexadecimal digits stand for; `None` if they are not so many bytes.
pub(crate) fn from_hex<const N: usize>(digits: impl AsRef<[u8]>) -> Option<[u8; N]> {
    HEXLOWER_PERMISSIVE.decode(digits.as_ref()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::from_hex;

    #[test]
    fn digits_stand_for_so_many_bytes() {
        assert_eq!(from_hex("000fFf"), Some([0, 15, 255]));
        for wrong in ["", "0", "000f", "000f0g", "000fé", "000f0f0f"] {
            assert_eq!(from_hex::<3>(wrong), None, "{wrong}");
        }
    }
}
