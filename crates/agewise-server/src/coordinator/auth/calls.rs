//! Authentication of calls: by the session of a client, or by a token.

use super::Authenticator;
use super::enrolment::check_token;
use crate::coordinator::connections::Connection;
use crate::coordinator::refusal::{Reason, Refusal};
use crate::crypto::signing::{self, SignedRequest};
use crate::crypto::token::Role;
use crate::crypto::vrf::DrawContext;
use crate::protocol::JoinRequest;
use agewise_core::Draw;
use std::sync::Arc;

impl Authenticator {
    /// Authenticates a call: its signature is right and was never used, and the client is neither revoked nor too fast.
    pub(crate) fn admit<M: SignedRequest>(
        &self,
        message: &M,
        connection: Option<&Arc<Connection>>,
    ) -> Result<(), Refusal> {
        let admitted = self.look_at(message, connection);
        if let Err(refusal) = &admitted {
            // A refusal is attributed to a client only if the call has proven to be from it.
            let is_proven = matches!(refusal.reason, Reason::Replay | Reason::Rate);
            self.note(is_proven.then(|| message.client()), refusal, connection);
        }
        admitted
    }

    fn look_at<M: SignedRequest>(
        &self,
        message: &M,
        connection: Option<&Arc<Connection>>,
    ) -> Result<(), Refusal> {
        let refuse = |reason, detail: &str| Err(Refusal::new(reason, detail));
        if message.run() != self.run {
            return refuse(Reason::Session, "this is another run: enrol again");
        }
        let (key, number, challenge) = {
            let table = self.table();
            let Some(known) = table.clients.get(message.client() as usize) else {
                return refuse(Reason::Session, "not a client that has enrolled: enrol first");
            };
            if known.revoked {
                return refuse(Reason::Revoked, "this client was revoked");
            }
            let Some(session) = &known.session else {
                return refuse(Reason::Session, "no session: enrol again");
            };
            if !is_same(session.connection.as_ref(), connection) {
                return refuse(
                    Reason::Session,
                    "the session is on another connection: enrol again",
                );
            }
            (known.key, session.number, session.challenge.clone())
        };
        // The costly part is done without the lock, so that other calls go on.
        if !signing::verify(message, &key, &challenge) {
            return refuse(Reason::Signature, "the signature is not this client's for this call");
        }
        let counter = message.call_signature().map_or(0, |signature| signature.counter);
        let mut table = self.table();
        let Some(known) = table.clients.get_mut(message.client() as usize) else {
            return refuse(Reason::Session, "enrol again");
        };
        let session = known.session.as_mut().filter(|session| session.number == number);
        let Some(session) = session else {
            return refuse(Reason::Session, "a newer session of this client has begun");
        };
        if counter <= session.counter {
            return refuse(Reason::Replay, "a call with this counter was made before");
        }
        session.counter = counter;
        if !self.allow(&mut known.allowance) {
            return refuse(Reason::Rate, "too many calls, slow down");
        }
        Ok(())
    }

    /// The draw that a client proves, if it asks for the present round.
    pub(crate) fn verified_draw(&self, request: &JoinRequest) -> Option<Draw> {
        let (key, since, (round, seed)) = {
            let table = self.table();
            let known = table.clients.get(request.client as usize)?;
            (known.key, known.key_since, table.drawing?)
        };
        let draw = DrawContext { run: &self.run, round, seed: &seed, client: request.client };
        let is_due = round == request.round && since <= round;
        is_due.then(|| draw.verify(&key, &request.proof)).flatten()
    }

    /// Whether a token has the rights of this role. Without tokens every caller may read the status.
    pub(crate) fn check_bearer(
        &self,
        token: Option<&str>,
        role: Role,
        connection: Option<&Arc<Connection>>,
    ) -> Result<(), Refusal> {
        if !self.needs_tokens && role == Role::Observer {
            return Ok(());
        }
        // The connection stays unauthenticated: an observer asks once, and one token could open any number of connections.
        let checked = self.look_at_bearer(token, role);
        if let Err(refusal) = &checked {
            self.note(None, refusal, connection);
        }
        checked
    }

    fn look_at_bearer(&self, token: Option<&str>, role: Role) -> Result<(), Refusal> {
        let Some(token) = token else {
            let detail = format!("a token for the role of {} is needed", role.name());
            return Err(Refusal::new(Reason::Token, detail));
        };
        let table = self.table();
        let row = check_token(&table, token)?;
        if row.role.may(role) {
            return Ok(());
        }
        let detail =
            format!("a token for {}s may not do what {}s may", row.role.name(), role.name());
        Err(Refusal::new(Reason::Role, detail))
    }
}

/// Whether a call came on the connection on which its session began. Calls without a connection, in tests, are on all of them.
fn is_same(session: Option<&Arc<Connection>>, call: Option<&Arc<Connection>>) -> bool {
    session.zip(call).is_none_or(|(session, call)| Arc::ptr_eq(session, call))
}
