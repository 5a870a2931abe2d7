//! Enrolment: challenges, tokens and keys, and the session that begins with them.

use super::{Authenticator, ClientTable, Enrolment, Session, end_session};
use crate::coordinator::connections::Connection;
use crate::coordinator::refusal::{Reason, Refusal};
use crate::coordinator::storage::ledger::TokenRow;
use crate::crypto::PublicKey;
use crate::crypto::signing;
use crate::crypto::token::{Role, Token};
use crate::protocol::{EnrolRequest, PROTOCOL};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use subtle::ConstantTimeEq as _;

/// A challenge: its number, and a mark that only this authenticator can make.
const CHALLENGE_BYTES: usize = 8 + 32;
/// Challenges that one connection may ask for.
const MOST_CHALLENGES: u32 = 32;

impl Authenticator {
    /// A challenge that was never given before. One connection needs one, and gets a few.
    pub(crate) fn challenge(
        &self,
        connection: Option<&Arc<Connection>>,
    ) -> Result<Vec<u8>, Refusal> {
        if connection.is_some_and(|connection| connection.challenge() > MOST_CHALLENGES) {
            let refusal = Refusal::new(Reason::Rate, "too many challenges on one connection");
            self.note(None, &refusal, connection);
            return Err(refusal);
        }
        Ok(self.next_challenge())
    }

    fn next_challenge(&self) -> Vec<u8> {
        let number = self.challenges.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let mut challenge = number.to_vec();
        challenge.extend_from_slice(&self.mark_of(number));
        challenge
    }

    fn mark_of(&self, number: [u8; 8]) -> [u8; 32] {
        // Both parts have a fixed length, so nothing can be appended to what is hashed.
        let mut hash = Sha256::new();
        hash.update(self.mark);
        hash.update(number);
        hash.finalize().into()
    }

    /// The number of a challenge; `None` if it was not made here.
    fn number_of(&self, challenge: &[u8]) -> Option<u64> {
        if challenge.len() != CHALLENGE_BYTES {
            return None;
        }
        let (number, mark) = challenge.split_at(8);
        let number = <[u8; 8]>::try_from(number).ok()?;
        bool::from(self.mark_of(number).ct_eq(mark)).then_some(u64::from_le_bytes(number))
    }

    /// Whether a client may enrol, and as which one. The service asks first, and the driver again with the latest state of the ledger.
    pub(crate) fn may_enrol(&self, request: &EnrolRequest) -> Result<Enrolment, Refusal> {
        let refuse = |reason, detail: &str| Err(Refusal::new(reason, detail));
        let table = self.table();
        let owner = <[u8; 32]>::try_from(request.key.as_slice()).ok();
        let owner = owner.and_then(|key| table.owners.get(&key));
        if owner.is_some_and(|owner| table.numbers.get(&request.name) != Some(owner)) {
            let detail = "this key belongs to a client of another name: every client makes a key of its own, and a known client \
                          that needs another one needs a new token for its name";
            return refuse(Reason::Key, detail);
        }
        if let Some(&client) = table.numbers.get(&request.name)
            && let Some(known) = table.clients.get(client as usize)
        {
            if known.revoked {
                return refuse(Reason::Revoked, "this client was revoked");
            }
            if known.key.to_bytes() == request.key.as_slice() {
                let token = check_client_token(&table, request).ok();
                let token = token.filter(|row| row.name.is_some()).map(|row| row.id.clone());
                return Ok(Enrolment::Returning(client, token));
            }
            return match check_client_token(&table, request) {
                Ok(row) if row.name.is_some() => Ok(Enrolment::Rekeyed(client, row.id.clone())),
                _ => {
                    let detail = "another key is registered under this name; another client needs another name, \
                                  and one that has lost its key a new token for its name";
                    refuse(Reason::Key, detail)
                }
            };
        }
        if !self.needs_tokens {
            return Ok(Enrolment::New(None));
        }
        if request.token.is_empty() {
            return refuse(Reason::Token, "a token from the operator is needed to enrol");
        }
        Ok(Enrolment::New(Some(check_client_token(&table, request)?.id.clone())))
    }

    /// Checks everything about an enrolment that needs no ledger.
    pub(crate) fn check_enrolment(
        &self,
        request: &EnrolRequest,
        connection: Option<&Arc<Connection>>,
    ) -> Result<PublicKey, Refusal> {
        let checked = self.look_at_enrolment(request);
        if let Err(refusal) = &checked {
            self.note(self.proven(request, refusal.reason), refusal, connection);
        }
        checked
    }

    /// The client that asks to enrol again, if it has shown that it is this client.
    pub(crate) fn proven(&self, request: &EnrolRequest, reason: Reason) -> Option<u32> {
        let client = self.number(&request.name)?;
        let key = self.table().clients.get(client as usize)?.key;
        let is_signed = !matches!(reason, Reason::Session | Reason::Signature | Reason::Protocol);
        (is_signed && key.to_bytes() == request.key.as_slice()).then_some(client)
    }

    /// True if the only problem is a token that is not in the table: the ledger may have it by now, so reload and retry.
    pub(crate) fn may_be_new(&self, request: &EnrolRequest) -> bool {
        matches!(self.may_enrol(request), Err(refusal) if refusal.reason == Reason::Token)
    }

    fn look_at_enrolment(&self, request: &EnrolRequest) -> Result<PublicKey, Refusal> {
        if request.protocol != PROTOCOL {
            // 0: a client of a time when it was not told.
            let client = request.protocol.max(1);
            let detail = format!(
                "the client speaks version {client}, this coordinator version {PROTOCOL}: give both the same release \
                 (docs/upgrading.md)"
            );
            return Err(Refusal::new(Reason::Protocol, detail));
        }
        let Some(number) = self.number_of(&request.challenge) else {
            let detail = "this challenge is not from here, ask for another one";
            return Err(Refusal::new(Reason::Session, detail));
        };
        let key = signing::verify_enrolment(request);
        let detail = "the signature does not show that the key is there";
        let key = key.ok_or_else(|| Refusal::new(Reason::Signature, detail))?;
        if let Enrolment::Returning(client, _) = self.may_enrol(request)?
            && let Some(known) = self.table().clients.get_mut(client as usize)
        {
            // Before it costs its owner anything: an enrolment that was overheard can be sent again.
            if known.session.as_ref().is_some_and(|session| session.number >= number) {
                return Err(Refusal::new(Reason::Replay, "this challenge was used before"));
            }
            if !self.allow(&mut known.allowance) {
                return Err(Refusal::new(Reason::Rate, "too many calls, slow down"));
            }
        }
        Ok(key)
    }

    /// Begins the session of a client that has enrolled; an older one ends. Says whether that one was taken over: its connection was another
    /// one, and open.
    pub(crate) fn begin_session(
        &self,
        client: u32,
        challenge: &[u8],
        connection: Option<&Arc<Connection>>,
    ) -> Result<bool, Refusal> {
        let number = self.number_of(challenge);
        let mut table = self.table();
        let Some((known, number)) = table.clients.get_mut(client as usize).zip(number) else {
            return Err(Refusal::new(Reason::Session, "enrol again"));
        };
        if known.session.as_ref().is_some_and(|session| session.number >= number) {
            drop(table);
            let refusal = Refusal::new(Reason::Replay, "this challenge was used before");
            self.note(Some(client), &refusal, connection);
            return Err(refusal);
        }
        if let Some(connection) = connection {
            connection.authenticate();
        }
        let (challenge, here) = (challenge.to_vec(), connection.cloned());
        let old =
            known.session.replace(Session { number, challenge, counter: 0, connection: here });
        drop(table);
        let before = old.as_ref().and_then(|session| session.connection.as_ref());
        let is_other = |before: &&Arc<Connection>| {
            connection.is_some_and(|connection| !Arc::ptr_eq(before, connection))
        };
        let taken_over = before.filter(is_other).is_some_and(|before| before.is_authenticated());
        end_session(old, connection);
        Ok(taken_over)
    }
}

/// The token of an enrolment, if it can be used for it.
fn check_client_token<'a>(
    table: &'a ClientTable,
    request: &EnrolRequest,
) -> Result<&'a TokenRow, Refusal> {
    let row = check_token(table, &request.token)?;
    let wrong = if row.role != Role::Client {
        "this token is not for clients"
    } else if row.client.is_some() {
        "this token was used before"
    } else if row.name.as_ref().is_some_and(|name| *name != request.name) {
        "this token is for a client of another name"
    } else {
        return Ok(row);
    };
    Err(Refusal::new(Reason::Token, wrong))
}

/// The row of a token, if it is one, and is good. Which of its parts is wrong is not told.
pub(super) fn check_token<'a>(table: &'a ClientTable, text: &str) -> Result<&'a TokenRow, Refusal> {
    let token = text.parse::<Token>().ok();
    let row =
        token.and_then(|token| table.tokens.get(&token.id()).filter(|row| token.is(&row.hash)));
    let row = row.ok_or_else(|| Refusal::new(Reason::Token, "this token is not known"))?;
    if row.revoked {
        return Err(Refusal::new(Reason::Revoked, "this token was revoked"));
    }
    Ok(row)
}
