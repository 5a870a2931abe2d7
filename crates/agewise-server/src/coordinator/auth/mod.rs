//! Authentication: sessions, signatures, tokens and rates, checked before anything else is done for a call.
//!
//! The authenticator is shared by all calls, so signatures are checked on every core and not by the driver. What it knows follows from the
//! ledger: the driver adds clients that enrol, and reads the ledger again when an operator has written to it. Sessions live in memory only;
//! after a restart every client begins a new one.

mod calls;
mod enrolment;

use super::connections::Connection;
use super::refusal::Refusal;
use super::storage::ledger::{AccessRows, TokenRow};
use crate::crypto::PublicKey;
use crate::crypto::seed_chain::RoundSeed;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Refusals on one connection before it is closed; an honest client with a wrong setting sees why before that.
const MOST_REFUSALS: u32 = 8;

/// A client, as calls are checked.
#[derive(Debug)]
pub(super) struct ClientEntry {
    key: PublicKey,
    /// The first round in which the key is good for draws: it was registered before the seed was shown.
    key_since: u64,
    revoked: bool,
    session: Option<Session>,
    allowance: Allowance,
}

/// The session of a client: it has one, the newest, on one connection.
#[derive(Debug)]
pub(super) struct Session {
    number: u64,
    challenge: Vec<u8>,
    /// The counter of the last call.
    counter: u64,
    connection: Option<Arc<Connection>>,
}

/// How many calls a client may make now: grows with time, up to a bound.
#[derive(Debug)]
pub(super) struct Allowance {
    left: f64,
    at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct ClientTable {
    clients: Vec<ClientEntry>,
    revoked: u32,
    numbers: HashMap<String, u32>,
    /// The one client of each key, also of keys that were renewed.
    owners: HashMap<[u8; 32], u32>,
    tokens: HashMap<String, TokenRow>,
    /// Refused since the driver last asked, by client (-1: not a client) and reason.
    refused: BTreeMap<(i64, &'static str), (u64, String)>,
    /// The seed of the present round, for checking draws.
    drawing: Option<(u64, RoundSeed)>,
}

/// Authenticates calls.
#[derive(Debug)]
pub(crate) struct Authenticator {
    run: Vec<u8>,
    needs_tokens: bool,
    calls_per_second: f64,
    mark: [u8; 32],
    challenges: AtomicU64,
    table: Mutex<ClientTable>,
}

/// How a client may enrol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Enrolment {
    /// Under this number, as before; a token for its name that it shows is spent all the same.
    Returning(u32, Option<String>),
    /// As a new client, spending this token if there is one.
    New(Option<String>),
    /// Under this number, with a new key, spending this token: the operator has made it for this client.
    Rekeyed(u32, String),
}

impl Authenticator {
    /// Without any clients yet; [`Authenticator::load`] comes next.
    pub(crate) fn new(
        run: Vec<u8>,
        needs_tokens: bool,
        calls_per_second: f64,
    ) -> Result<Self, getrandom::Error> {
        let mut mark = [0; 32];
        getrandom::fill(&mut mark)?;
        let challenges = AtomicU64::new(1);
        let table = Mutex::default();
        Ok(Self { run, needs_tokens, calls_per_second, mark, challenges, table })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, ClientTable> {
        self.table.lock()
    }

    /// Loads clients and tokens from the ledger. Sessions go on. Returns the clients that are revoked from now on.
    pub(crate) fn load(&self, rows: AccessRows) -> Vec<u32> {
        let AccessRows { clients, tokens, owners } = rows;
        let mut table = self.table();
        // A client that is not in the ledger was never told that it is known.
        table.clients.truncate(clients.len());
        let mut revoked = Vec::new();
        for (number, row) in (0..).zip(&clients) {
            match table.clients.get_mut(number as usize) {
                Some(known) if known.key == row.key => {
                    known.key_since = row.key_since;
                    if row.revoked && !known.revoked {
                        known.revoked = true;
                        revoked.push(number);
                        end_session(known.session.take(), None);
                    }
                }
                place => {
                    let new = Self::new_entry(row.key, row.key_since, row.revoked);
                    match place {
                        Some(place) => *place = new,
                        None => table.clients.push(new),
                    }
                    if row.revoked {
                        revoked.push(number);
                    }
                }
            }
        }
        table.revoked = clients.iter().filter(|row| row.revoked).count() as u32;
        table.numbers = clients.iter().map(|row| row.name.clone()).zip(0..).collect();
        table.owners = owners;
        table.tokens = tokens.into_iter().map(|token| (token.id.clone(), token)).collect();
        revoked
    }

    fn new_entry(key: PublicKey, key_since: u64, revoked: bool) -> ClientEntry {
        // Full at the beginning: it is cut to what it can hold.
        let allowance = Allowance { left: f64::MAX, at: Instant::now() };
        ClientEntry { key, key_since, revoked, session: None, allowance }
    }

    /// Adds a client that the driver has just admitted.
    pub(crate) fn register(&self, name: &str, key: PublicKey, client: u32, since: u64) {
        let mut table = self.table();
        table.clients.truncate(client as usize);
        let known = Self::new_entry(key, since, false);
        table.clients.push(known);
        table.numbers.insert(name.to_string(), client);
        table.owners.insert(key.to_bytes(), client);
    }

    /// Gives a client another key. Its session ends.
    pub(crate) fn renew(&self, client: u32, key: PublicKey, since: u64) {
        let new = Self::new_entry(key, since, false);
        let mut table = self.table();
        table.owners.insert(key.to_bytes(), client);
        if let Some(known) = table.clients.get_mut(client as usize) {
            end_session(std::mem::replace(known, new).session, None);
        }
    }

    /// A client has enrolled with a token.
    pub(crate) fn spend(&self, token: &str, client: u32) {
        if let Some(token) = self.table().tokens.get_mut(token) {
            token.client = Some(client);
        }
    }

    /// The number of a client.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.table().numbers.get(name).copied()
    }

    pub(crate) fn is_revoked(&self, client: u32) -> bool {
        self.table().clients.get(client as usize).is_some_and(|known| known.revoked)
    }

    /// How many clients are revoked. It is asked often, so it is counted when it changes.
    pub(crate) fn revoked(&self) -> u32 {
        self.table().revoked
    }

    /// The round in which draws are drawn from now on.
    pub(crate) fn draw(&self, round: u64, seed: Option<RoundSeed>) {
        self.table().drawing = seed.map(|seed| (round, seed));
    }

    /// Takes one call from what a client may make: so many per second, and in a burst those of five seconds.
    pub(super) fn allow(&self, allowance: &mut Allowance) -> bool {
        allowance.take(self.calls_per_second, 5.0 * self.calls_per_second)
    }

    /// Counts a refusal, and closes a connection with too many of them.
    pub(crate) fn note(
        &self,
        client: Option<u32>,
        refusal: &Refusal,
        connection: Option<&Arc<Connection>>,
    ) {
        let mut table = self.table();
        let client = client.filter(|&client| (client as usize) < table.clients.len());
        let key = (client.map_or(-1, i64::from), refusal.reason.name());
        let entry = table.refused.entry(key).or_default();
        entry.0 += 1;
        entry.1.clone_from(&refusal.detail);
        drop(table);
        let peer = connection.map(|connection| connection.peer());
        tracing::debug!(?peer, ?client, %refusal, "refused");
        if let Some(connection) = connection
            && connection.refuse() >= MOST_REFUSALS
        {
            connection.disconnect();
        }
    }

    /// The refusals since the last call: client, reason, count and the last detail.
    pub(crate) fn take_refused(&self) -> Vec<(i64, &'static str, u64, String)> {
        let refused = std::mem::take(&mut self.table().refused);
        let row = |((client, reason), (count, detail))| (client, reason, count, detail);
        refused.into_iter().map(row).collect()
    }
}

/// Closes the connection of a session that is over, unless the next one is on it: a client has one connection.
pub(super) fn end_session(session: Option<Session>, next: Option<&Arc<Connection>>) {
    let connection = session.and_then(|session| session.connection);
    if let Some(connection) =
        connection.filter(|connection| next.is_none_or(|next| !Arc::ptr_eq(connection, next)))
    {
        connection.disconnect();
    }
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
