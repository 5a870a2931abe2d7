//! Clients, tokens and refusals.

use super::{ClientRow, Ledger};
use crate::crypto::PublicKey;
use crate::crypto::token::{Role, Token};
use rusqlite::types::Type;
use rusqlite::{Error, OptionalExtension, Result, Row, params};
use std::collections::HashMap;

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRow {
    pub(crate) id: String,
    pub(crate) hash: [u8; 32],
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) client: Option<u32>,
    pub(crate) revoked: bool,
}

impl TokenRow {
    /// A token that was not used yet.
    pub(crate) fn new(token: &Token, role: Role, name: Option<String>) -> Self {
        Self { id: token.id(), hash: token.hash(), role, name, client: None, revoked: false }
    }
}

/// Everything by which calls are authenticated.
pub(crate) struct AccessRows {
    /// By number.
    pub(crate) clients: Vec<ClientRow>,
    pub(crate) tokens: Vec<TokenRow>,
    /// The one client of each key, also of keys that were renewed.
    pub(crate) owners: HashMap<[u8; 32], u32>,
}

/// Something in the ledger is not what we write.
fn damaged(column: usize, what: &'static str) -> Error {
    Error::FromSqlConversionFailure(column, Type::Blob, what.into())
}

impl Ledger {
    /// A number that changes when another program has written to the ledger.
    pub(crate) fn version(&self) -> Result<i64> {
        self.db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
    }

    /// A new client, with the number of samples that it tells.
    pub(crate) fn enrol(
        &mut self,
        client: u32,
        round: u64,
        settings: u32,
        row: &ClientRow,
    ) -> Result<()> {
        let mut query = self.write()?.prepare_cached(
            "INSERT INTO clients (client, name, key, samples, enrolled, first_waiting, waiting_since, settings)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
        )?;
        let (key, round) = (row.key.to_bytes(), round as i64);
        let (samples, waiting) = (row.samples as i64, row.waiting_since);
        query.execute(params![client, row.name, key, samples, round, waiting, settings])?;
        drop(query);
        self.set_key(client, row.key_since, row.key)?;
        self.set_samples(client, 0, row.samples)
    }

    /// Another key of a client, good for draws from this round on. The key of another client is an error: the caller checks that
    /// before, so that the client can be told.
    pub(crate) fn set_key(&mut self, client: u32, since: u64, key: PublicKey) -> Result<()> {
        let db = self.write()?;
        let key = key.to_bytes();
        // A client may come back to a key that it had before.
        let owned = db
            .prepare_cached(
                "INSERT INTO key_owners VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET client = excluded.client WHERE client = excluded.client",
            )?
            .execute(params![key, client])?;
        if owned != 1 {
            return Err(Error::StatementChangedRows(owned));
        }
        db.prepare_cached("INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3)")?.execute(params![
            client,
            since as i64,
            key
        ])?;
        db.prepare_cached("UPDATE clients SET key = ?2 WHERE client = ?1")?
            .execute(params![client, key])?;
        Ok(())
    }

    /// Another number of samples of a known client, for rounds from this one on.
    pub(crate) fn set_samples(&mut self, client: u32, since: u64, samples: u64) -> Result<()> {
        let db = self.write()?;
        db.prepare_cached("INSERT OR REPLACE INTO samples VALUES (?1, ?2, ?3)")?
            .execute(params![client, since as i64, samples as i64])?;
        db.prepare_cached("UPDATE clients SET samples = ?2 WHERE client = ?1")?
            .execute(params![client, samples as i64])?;
        Ok(())
    }

    /// The name of a client.
    pub(crate) fn client_name(&self, client: u32) -> Result<String> {
        let mut query = self.db.prepare_cached("SELECT name FROM clients WHERE client = ?1")?;
        query.query_row([client], |row| row.get(0))
    }

    /// All clients, by number.
    pub(crate) fn clients(&self) -> Result<Vec<ClientRow>> {
        let mut query = self.db.prepare(
            "SELECT name, key, samples, waiting_since, revoked, revoked_from,
               COALESCE((SELECT MAX(since) FROM keys WHERE keys.client = clients.client), 0), client, failures, eligible_from
             FROM clients ORDER BY client",
        )?;
        let mut next = 0i64;
        let row = |row: &Row<'_>| {
            if row.get::<_, i64>(7)? != next {
                return Err(damaged(7, "clients that are numbered without gaps"));
            }
            next += 1;
            let key = PublicKey::from_bytes(&row.get::<_, Vec<u8>>(1)?);
            Ok(ClientRow {
                name: row.get(0)?,
                key: key.ok_or_else(|| damaged(1, "a client's key"))?,
                samples: row.get::<_, i64>(2)? as u64,
                waiting_since: row.get(3)?,
                revoked: row.get(4)?,
                revoked_from: row.get::<_, Option<i64>>(5)?.map(|round| round as u64),
                key_since: row.get::<_, i64>(6)? as u64,
                failures: row.get(8)?,
                eligible_from: row.get(9)?,
            })
        };
        query.query_map([], row)?.collect()
    }

    /// Everything by which calls are authenticated.
    pub(crate) fn access(&self) -> Result<AccessRows> {
        let mut owners = self.db.prepare("SELECT key, client FROM key_owners")?;
        let owners = owners.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let owners = owners.collect::<Result<_>>()?;
        Ok(AccessRows { clients: self.clients()?, tokens: self.tokens()?, owners })
    }

    /// Notes the first round that begins without a client that was revoked.
    pub(crate) fn revoked_from(&mut self, client: u32, round: u64) -> Result<()> {
        self.write()?
            .prepare_cached("UPDATE clients SET revoked_from = ?2 WHERE client = ?1")?
            .execute(params![client, round as i64])?;
        Ok(())
    }

    /// Every token.
    pub(crate) fn tokens(&self) -> Result<Vec<TokenRow>> {
        let mut query = self
            .db
            .prepare("SELECT id, hash, role, name, client, revoked FROM tokens ORDER BY id")?;
        let row = |row: &Row<'_>| {
            let role: String = row.get(2)?;
            Ok(TokenRow {
                id: row.get(0)?,
                hash: row.get(1)?,
                role: role.parse().map_err(|_| damaged(2, "a token's role"))?,
                name: row.get(3)?,
                client: row.get(4)?,
                revoked: row.get(5)?,
            })
        };
        query.query_map([], row)?.collect()
    }

    /// Adds a token.
    pub(crate) fn add_token(&mut self, token: &TokenRow) -> Result<()> {
        let mut query = self
            .write()?
            .prepare_cached("INSERT INTO tokens (id, hash, role, name) VALUES (?1, ?2, ?3, ?4)")?;
        query.execute(params![token.id, token.hash, token.role.name(), token.name])?;
        Ok(())
    }

    /// A client has enrolled with a token.
    pub(crate) fn spend_token(&mut self, id: &str, client: u32) -> Result<()> {
        self.write()?
            .prepare_cached("UPDATE tokens SET client = ?2 WHERE id = ?1")?
            .execute(params![id, client])?;
        Ok(())
    }

    /// Revokes the client of this name, or the token with this public part; says which, if there is one.
    pub(crate) fn revoke(&mut self, who: &str) -> Result<Option<String>> {
        let db = self.write()?;
        let client: Option<u32> = db
            .query_row("SELECT client FROM clients WHERE name = ?1", [who], |row| row.get(0))
            .optional()?;
        if let Some(client) = client {
            db.execute("UPDATE clients SET revoked = 1 WHERE client = ?1", [client])?;
            return Ok(Some(format!("client {who}, number {client}")));
        }
        let role: Option<String> = db
            .query_row("SELECT role FROM tokens WHERE id = ?1", [who], |row| row.get(0))
            .optional()?;
        if let Some(role) = role {
            db.execute("UPDATE tokens SET revoked = 1 WHERE id = ?1", [who])?;
            return Ok(Some(format!("{role} token {who}")));
        }
        Ok(None)
    }

    /// Counts refusals of one kind; -1 is a peer that is not a client.
    pub(crate) fn refuse(
        &mut self,
        round: u64,
        client: i64,
        reason: &str,
        detail: &str,
        count: u64,
    ) -> Result<()> {
        let db = self.write()?;
        let (round, count) = (round as i64, count as i64);
        db.prepare_cached(
            "INSERT INTO refusals VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (round, client, reason) DO UPDATE SET count = count + excluded.count, detail = excluded.detail",
        )?
        .execute(params![round, client, reason, detail, count])?;
        db.prepare_cached("UPDATE clients SET refused = refused + ?2 WHERE client = ?1")?
            .execute(params![client, count])?;
        db.prepare_cached("UPDATE rounds SET refused = refused + ?2 WHERE round = ?1")?
            .execute(params![round, count])?;
        Ok(())
    }
}
