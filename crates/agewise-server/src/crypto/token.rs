//! Tokens. An operator gives one to a client so that it may enrol once, or to an observer so that it may read the status.
//!
//! A token is a name (16 digits, public, by which it is found) and a secret (40 digits). Only the SHA-256 of the secret is kept, and it is
//! compared in constant time.

use super::from_hex;
use agewise_core::Error;
use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq as _;

/// How a token begins, so that people and programs that look for leaked secrets recognise it.
const PREFIX: &str = "agewise_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 20;

/// The rights of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Enrol as a client, once.
    Client,
    /// Read the status of the run.
    Observer,
    /// Read the status of the run, and revoke.
    Operator,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Client, Self::Observer, Self::Operator];

    /// As it is written in the ledger and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Observer => "observer",
            Self::Operator => "operator",
        }
    }

    /// Whether this role includes the rights of another.
    pub fn may(self, other: Self) -> bool {
        self == other || (self, other) == (Self::Operator, Self::Observer)
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let role = Self::ALL.into_iter().find(|role| role.name() == text);
        role.ok_or_else(|| Error::new("role", text, "client, observer or operator"))
    }
}

/// A token, with its secret.
#[derive(Clone)]
pub struct Token {
    id: [u8; ID_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl Token {
    /// A new one, from the system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut token = Self { id: [0; ID_BYTES], secret: [0; SECRET_BYTES] };
        getrandom::fill(&mut token.id)?;
        getrandom::fill(&mut token.secret)?;
        Ok(token)
    }

    /// The public part.
    pub fn id(&self) -> String {
        HEXLOWER.encode(&self.id)
    }

    /// The hash of the secret, which is what the ledger keeps.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.secret).into()
    }

    /// Whether this is the token of which this hash was kept, in a time that does not depend on where they differ.
    pub fn is(&self, hash: &[u8; 32]) -> bool {
        self.hash().ct_eq(hash).into()
    }

    /// The whole token, secret included: for its holder only.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", HEXLOWER.encode(&self.id), HEXLOWER.encode(&self.secret))
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.trim().strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let token = parts
            .and_then(|(id, secret)| Some(Self { id: from_hex(id)?, secret: from_hex(secret)? }));
        // The text is not repeated: it may be a token with a typing mistake.
        token.ok_or_else(|| Error::new("token", "(not shown)", "agewise_, 16 digits, _, 40 digits"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, ...)", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_recognised() {
        let token = Token::generate().unwrap();
        let again: Token = token.reveal().parse().unwrap();
        assert!(again.is(&token.hash()));
        assert_eq!(again.id(), token.id());
        let other = Token::generate().unwrap();
        assert!(!other.is(&token.hash()));
    }

    #[test]
    fn neither_errors_nor_debug_output_show_a_secret() {
        let token = Token::generate().unwrap();
        let whole = token.reveal();
        let secret = whole.rsplit('_').next().unwrap();
        assert!(!format!("{token:?}").contains(secret));
        let error = format!("{whole}0").parse::<Token>().unwrap_err();
        assert!(!error.to_string().contains(secret), "{error}");
        for wrong in ["", "agewise_", "agewise_00_11", "x", &whole[1..], &whole.replace('_', "-")] {
            wrong.parse::<Token>().unwrap_err();
        }
    }

    #[test]
    fn roles_may_what_they_may() {
        assert!(Role::Operator.may(Role::Observer));
        assert!(!Role::Observer.may(Role::Operator));
        assert!(!Role::Client.may(Role::Observer));
        assert!(!Role::Operator.may(Role::Client));
        for role in Role::ALL {
            assert_eq!(role.name().parse::<Role>().unwrap(), role);
        }
    }
}
