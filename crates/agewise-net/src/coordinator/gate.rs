//! The gate: who may call, asked before anything else is done for a call.
//!
//! It is shared by all calls, so signatures are checked on every core and not by the driver. What it knows follows from the ledger: the
//! driver adds those who enrol, and reads the ledger again when an operator has written to it. Sessions live in memory only; after a
//! restart everyone begins a new one.

use super::doorway::Guest;
use super::ledger::{ClientRow, TokenRow};
use super::refusal::{Reason, Refusal};
use crate::honesty::PublicKey;
use crate::honesty::lots::Draw;
use crate::honesty::seal::{self, Sealed};
use crate::honesty::seeds::RoundSeed;
use crate::honesty::token::{Role, Token};
use crate::proto::{EnrolRequest, JoinRequest};
use agewise_core::Lot;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use subtle::ConstantTimeEq as _;

/// A challenge: its number, and a mark that only this gate can make.
const CHALLENGE_BYTES: usize = 8 + 32;
/// Refusals on one connection before it is closed; an honest client with a wrong setting sees why before that.
const MOST_REFUSALS: u32 = 8;
/// Challenges that one connection may ask for.
const MOST_CHALLENGES: u32 = 32;

/// A client at the gate.
#[derive(Debug)]
struct Known {
    key: PublicKey,
    /// The first round in which the key is good for lots: it was registered before the seed was shown.
    key_since: u64,
    revoked: bool,
    session: Option<Session>,
    allowance: Allowance,
}

/// The session of a client: it has one, the newest, on one connection.
#[derive(Debug)]
struct Session {
    number: u64,
    challenge: Vec<u8>,
    /// The counter of the last call.
    counter: u64,
    guest: Option<Arc<Guest>>,
}

/// How many calls a client may make now: grows with time, up to a bound.
#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

#[derive(Debug, Default)]
struct Book {
    clients: Vec<Known>,
    revoked: u32,
    numbers: HashMap<String, u32>,
    tokens: HashMap<String, TokenRow>,
    /// Refused since the driver last asked, by client (-1: nobody we know) and reason.
    refused: BTreeMap<(i64, &'static str), (u64, String)>,
    /// The seed of the present round, for checking lots.
    drawing: Option<(u64, RoundSeed)>,
}

/// The gate.
#[derive(Debug)]
pub(crate) struct Gate {
    run: Vec<u8>,
    needs_tokens: bool,
    calls_per_second: f64,
    mark: [u8; 32],
    challenges: AtomicU64,
    book: Mutex<Book>,
}

/// How somebody may enrol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Under this number, as before; a token for its name that it shows is spent all the same.
    Known(u32, Option<String>),
    /// As a new client, spending this token if there is one.
    New(Option<String>),
    /// Under this number, with a new key, spending this token: the operator has made it for this client.
    Renewed(u32, String),
}

impl Gate {
    /// A gate that nobody knows yet; [`Gate::load`] comes next.
    pub(crate) fn new(
        run: Vec<u8>,
        needs_tokens: bool,
        calls_per_second: f64,
    ) -> Result<Self, getrandom::Error> {
        let mut mark = [0; 32];
        getrandom::fill(&mut mark)?;
        let challenges = AtomicU64::new(1);
        let book = Mutex::default();
        Ok(Self { run, needs_tokens, calls_per_second, mark, challenges, book })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the ledger says. Sessions go on. Gives the clients that are shut out from now on.
    pub(crate) fn load(&self, clients: &[ClientRow], tokens: Vec<TokenRow>) -> Vec<u32> {
        let mut book = self.book();
        // A client that is not in the ledger was never told that it is known.
        book.clients.truncate(clients.len());
        let mut shut_out = Vec::new();
        for (number, row) in (0..).zip(clients) {
            match book.clients.get_mut(number as usize) {
                Some(known) if known.key == row.key => {
                    known.key_since = row.key_since;
                    if row.revoked && !known.revoked {
                        known.revoked = true;
                        shut_out.push(number);
                        end_session(known.session.take(), None);
                    }
                }
                place => {
                    let new = Self::stranger(row.key, row.key_since, row.revoked);
                    match place {
                        Some(place) => *place = new,
                        None => book.clients.push(new),
                    }
                    if row.revoked {
                        shut_out.push(number);
                    }
                }
            }
        }
        book.revoked = clients.iter().filter(|row| row.revoked).count() as u32;
        book.numbers = clients.iter().map(|row| row.name.clone()).zip(0..).collect();
        book.tokens = tokens.into_iter().map(|token| (token.id.clone(), token)).collect();
        shut_out
    }

    fn stranger(key: PublicKey, key_since: u64, revoked: bool) -> Known {
        // Full at the beginning: it is cut to what it can hold.
        let allowance = Allowance { left: f64::MAX, at: Instant::now() };
        Known { key, key_since, revoked, session: None, allowance }
    }

    /// Adds a client that the driver has just admitted.
    pub(crate) fn register(&self, name: &str, key: PublicKey, client: u32, since: u64) {
        let mut book = self.book();
        book.clients.truncate(client as usize);
        let known = Self::stranger(key, since, false);
        book.clients.push(known);
        book.numbers.insert(name.to_string(), client);
    }

    /// Gives a client another key. Its session ends.
    pub(crate) fn renew(&self, client: u32, key: PublicKey, since: u64) {
        let new = Self::stranger(key, since, false);
        if let Some(known) = self.book().clients.get_mut(client as usize) {
            end_session(std::mem::replace(known, new).session, None);
        }
    }

    /// A client has enrolled with a token.
    pub(crate) fn spend(&self, token: &str, client: u32) {
        if let Some(token) = self.book().tokens.get_mut(token) {
            token.client = Some(client);
        }
    }

    /// The number of a client.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.book().numbers.get(name).copied()
    }

    pub(crate) fn is_revoked(&self, client: u32) -> bool {
        self.book().clients.get(client as usize).is_some_and(|known| known.revoked)
    }

    /// How many clients are shut out. Asked all the time, so it is counted when it changes.
    pub(crate) fn revoked(&self) -> u32 {
        self.book().revoked
    }

    /// The round in which lots are drawn from now on.
    pub(crate) fn draw(&self, round: u64, seed: Option<RoundSeed>) {
        self.book().drawing = seed.map(|seed| (round, seed));
    }

    /// A challenge that was never given before. One connection needs one, and gets a few.
    pub(crate) fn challenge(&self, guest: Option<&Arc<Guest>>) -> Result<Vec<u8>, Refusal> {
        if guest.is_some_and(|guest| guest.challenge() > MOST_CHALLENGES) {
            let refusal = Refusal::new(Reason::Rate, "too many challenges on one connection");
            self.note(None, &refusal, guest);
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

    /// The number of a challenge; `None` if it is not one of this gate.
    fn number_of(&self, challenge: &[u8]) -> Option<u64> {
        if challenge.len() != CHALLENGE_BYTES {
            return None;
        }
        let (number, mark) = challenge.split_at(8);
        let number = <[u8; 8]>::try_from(number).ok()?;
        bool::from(self.mark_of(number).ct_eq(mark)).then_some(u64::from_le_bytes(number))
    }

    /// Who asks to enrol, and whether it may. Asked by the service, and again by the driver when it knows the ledger's last state.
    pub(crate) fn may_enrol(&self, request: &EnrolRequest) -> Result<Admission, Refusal> {
        let refuse = |reason, detail: &str| Err(Refusal::new(reason, detail));
        let book = self.book();
        if let Some(&client) = book.numbers.get(&request.name)
            && let Some(known) = book.clients.get(client as usize)
        {
            if known.revoked {
                return refuse(Reason::Revoked, "this client was revoked");
            }
            if known.key.to_bytes() == request.key.as_slice() {
                let token = check_client_token(&book, request).ok();
                let token = token.filter(|row| row.name.is_some()).map(|row| row.id.clone());
                return Ok(Admission::Known(client, token));
            }
            return match check_client_token(&book, request) {
                Ok(row) if row.name.is_some() => Ok(Admission::Renewed(client, row.id.clone())),
                _ => {
                    let detail = "another key is registered under this name; a client that has lost its \
                                  key needs a new token for its name";
                    refuse(Reason::Key, detail)
                }
            };
        }
        if !self.needs_tokens {
            return Ok(Admission::New(None));
        }
        if request.token.is_empty() {
            return refuse(Reason::Token, "a token from the operator is needed to enrol");
        }
        Ok(Admission::New(Some(check_client_token(&book, request)?.id.clone())))
    }

    /// Checks everything about an enrolment that needs no ledger.
    pub(crate) fn check_enrolment(
        &self,
        request: &EnrolRequest,
        guest: Option<&Arc<Guest>>,
    ) -> Result<PublicKey, Refusal> {
        let checked = self.look_at_enrolment(request);
        if let Err(refusal) = &checked {
            self.note(self.proven(request, refusal.reason), refusal, guest);
        }
        checked
    }

    /// The client that asks to enrol again, if it has shown that it is this client.
    pub(crate) fn proven(&self, request: &EnrolRequest, reason: Reason) -> Option<u32> {
        let client = self.number(&request.name)?;
        let key = self.book().clients.get(client as usize)?.key;
        let is_signed = !matches!(reason, Reason::Session | Reason::Seal);
        (is_signed && key.to_bytes() == request.key.as_slice()).then_some(client)
    }

    /// Whether somebody is refused whom the ledger may know better by now: it has a token that is not known here.
    pub(crate) fn may_be_new(&self, request: &EnrolRequest) -> bool {
        matches!(self.may_enrol(request), Err(refusal) if refusal.reason == Reason::Token)
    }

    fn look_at_enrolment(&self, request: &EnrolRequest) -> Result<PublicKey, Refusal> {
        let Some(number) = self.number_of(&request.challenge) else {
            let detail = "this challenge is not from here, ask for another one";
            return Err(Refusal::new(Reason::Session, detail));
        };
        let key = seal::verify_enrolment(request);
        let detail = "the signature does not show that the key is there";
        let key = key.ok_or_else(|| Refusal::new(Reason::Seal, detail))?;
        if let Admission::Known(client, _) = self.may_enrol(request)?
            && let Some(known) = self.book().clients.get_mut(client as usize)
        {
            // Before it costs its owner anything: whoever has heard an enrolment can say it again.
            if known.session.as_ref().is_some_and(|session| session.number >= number) {
                return Err(Refusal::new(Reason::Replay, "this challenge was used before"));
            }
            if !self.allow(&mut known.allowance) {
                return Err(Refusal::new(Reason::Rate, "too many calls, slow down"));
            }
        }
        Ok(key)
    }

    /// Takes one call from what a client may make: so many per second, and in a burst those of five seconds.
    fn allow(&self, allowance: &mut Allowance) -> bool {
        allowance.take(self.calls_per_second, 5.0 * self.calls_per_second)
    }

    /// Begins the session of a client that has enrolled; an older one ends.
    pub(crate) fn begin_session(
        &self,
        client: u32,
        challenge: &[u8],
        guest: Option<&Arc<Guest>>,
    ) -> Result<(), Refusal> {
        let number = self.number_of(challenge);
        let mut book = self.book();
        let Some((known, number)) = book.clients.get_mut(client as usize).zip(number) else {
            return Err(Refusal::new(Reason::Session, "enrol again"));
        };
        if known.session.as_ref().is_some_and(|session| session.number >= number) {
            drop(book);
            let refusal = Refusal::new(Reason::Replay, "this challenge was used before");
            self.note(Some(client), &refusal, guest);
            return Err(refusal);
        }
        if let Some(guest) = guest {
            guest.welcome();
        }
        let (challenge, here) = (challenge.to_vec(), guest.cloned());
        let old = known.session.replace(Session { number, challenge, counter: 0, guest: here });
        drop(book);
        end_session(old, guest);
        Ok(())
    }

    /// Lets a call of a client in: its seal is right, was never used, and the client is not shut out and not too fast.
    pub(crate) fn admit<M: Sealed>(
        &self,
        message: &M,
        guest: Option<&Arc<Guest>>,
    ) -> Result<(), Refusal> {
        let admitted = self.look_at(message, guest);
        if let Err(refusal) = &admitted {
            // Only who has shown that it is this client can be blamed in its name.
            let is_proven = matches!(refusal.reason, Reason::Replay | Reason::Rate);
            self.note(is_proven.then(|| message.client()), refusal, guest);
        }
        admitted
    }

    fn look_at<M: Sealed>(&self, message: &M, guest: Option<&Arc<Guest>>) -> Result<(), Refusal> {
        let refuse = |reason, detail: &str| Err(Refusal::new(reason, detail));
        if message.run() != self.run {
            return refuse(Reason::Session, "this is another run: enrol again");
        }
        let (key, number, challenge) = {
            let book = self.book();
            let Some(known) = book.clients.get(message.client() as usize) else {
                return refuse(Reason::Session, "not a client that has enrolled: enrol first");
            };
            if known.revoked {
                return refuse(Reason::Revoked, "this client was revoked");
            }
            let Some(session) = &known.session else {
                return refuse(Reason::Session, "no session: enrol again");
            };
            if !is_same(session.guest.as_ref(), guest) {
                return refuse(
                    Reason::Session,
                    "the session is on another connection: enrol again",
                );
            }
            (known.key, session.number, session.challenge.clone())
        };
        // The costly part is done without holding anybody up.
        if !seal::verify(message, &key, &challenge) {
            return refuse(Reason::Seal, "the signature is not this client's for this call");
        }
        let counter = message.seal().map_or(0, |seal| seal.counter);
        let mut book = self.book();
        let Some(known) = book.clients.get_mut(message.client() as usize) else {
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

    /// The lot that a client proves, if it asks for the present round.
    pub(crate) fn lot(&self, request: &JoinRequest) -> Option<Lot> {
        let (key, since, (round, seed)) = {
            let book = self.book();
            let known = book.clients.get(request.client as usize)?;
            (known.key, known.key_since, book.drawing?)
        };
        let draw = Draw { run: &self.run, round, seed: &seed };
        let is_due = round == request.round && since <= round;
        is_due.then(|| draw.verify(&key, &request.proof)).flatten()
    }

    /// Whether the holder of a token may do what this role may. Without tokens everybody who gets here may look.
    pub(crate) fn check_bearer(
        &self,
        token: Option<&str>,
        role: Role,
        guest: Option<&Arc<Guest>>,
    ) -> Result<(), Refusal> {
        if !self.needs_tokens && role == Role::Observer {
            return Ok(());
        }
        // The connection stays a stranger's: who looks asks once, and a token could open any number of them.
        let checked = self.look_at_bearer(token, role);
        if let Err(refusal) = &checked {
            self.note(None, refusal, guest);
        }
        checked
    }

    fn look_at_bearer(&self, token: Option<&str>, role: Role) -> Result<(), Refusal> {
        let Some(token) = token else {
            let detail = format!("a token for the role of {} is needed", role.name());
            return Err(Refusal::new(Reason::Token, detail));
        };
        let book = self.book();
        let row = check_token(&book, token)?;
        if row.role.may(role) {
            return Ok(());
        }
        let detail =
            format!("a token for {}s may not do what {}s may", row.role.name(), role.name());
        Err(Refusal::new(Reason::Role, detail))
    }

    /// Counts a refusal, and closes a connection with too many of them.
    pub(crate) fn note(&self, client: Option<u32>, refusal: &Refusal, guest: Option<&Arc<Guest>>) {
        let mut book = self.book();
        let client = client.filter(|&client| (client as usize) < book.clients.len());
        let key = (client.map_or(-1, i64::from), refusal.reason.name());
        let entry = book.refused.entry(key).or_default();
        entry.0 += 1;
        entry.1.clone_from(&refusal.detail);
        drop(book);
        let peer = guest.map(|guest| guest.peer());
        tracing::debug!(?peer, ?client, %refusal, "refused at the gate");
        if let Some(guest) = guest
            && guest.refuse() >= MOST_REFUSALS
        {
            guest.show_out();
        }
    }

    /// What was refused here since the last time: client, reason, count and the last detail.
    pub(crate) fn take_refused(&self) -> Vec<(i64, &'static str, u64, String)> {
        let refused = std::mem::take(&mut self.book().refused);
        let row = |((client, reason), (count, detail))| (client, reason, count, detail);
        refused.into_iter().map(row).collect()
    }
}

/// Closes the connection of a session that is over, unless the next one is on it: a client has one connection.
fn end_session(session: Option<Session>, next: Option<&Arc<Guest>>) {
    let guest = session.and_then(|session| session.guest);
    if let Some(guest) = guest.filter(|guest| next.is_none_or(|next| !Arc::ptr_eq(guest, next))) {
        guest.show_out();
    }
}

/// Whether a call came on the connection on which its session began. Calls that came through no door, in tests, are on all of them.
fn is_same(session: Option<&Arc<Guest>>, call: Option<&Arc<Guest>>) -> bool {
    session.zip(call).is_none_or(|(session, call)| Arc::ptr_eq(session, call))
}

/// The token of an enrolment, if it can be used for it.
fn check_client_token<'a>(book: &'a Book, request: &EnrolRequest) -> Result<&'a TokenRow, Refusal> {
    let row = check_token(book, &request.token)?;
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
fn check_token<'a>(book: &'a Book, text: &str) -> Result<&'a TokenRow, Refusal> {
    let token = text.parse::<Token>().ok();
    let row =
        token.and_then(|token| book.tokens.get(&token.id()).filter(|row| token.is(&row.hash)));
    let row = row.ok_or_else(|| Refusal::new(Reason::Token, "this token is not known"))?;
    if row.revoked {
        return Err(Refusal::new(Reason::Revoked, "this token was revoked"));
    }
    Ok(row)
}

impl Allowance {
    /// Takes one call, if there is one left.
    fn take(&mut self, per_second: f64, most: f64) -> bool {
        let now = Instant::now();
        let grown = now.saturating_duration_since(self.at).as_secs_f64() * per_second;
        self.left = (self.left + grown).min(most);
        self.at = now;
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}
