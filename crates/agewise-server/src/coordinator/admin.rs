//! Administration of a run, while a coordinator runs or before it starts: create tokens, list clients and tokens, and revoke them. A user that
//! may write to the state folder is an operator.

use super::LEDGER;
use super::error::CoordinatorError;
use super::startup::{make_private, open_ledger};
use super::storage::ledger::{Ledger, TokenRow};
use super::storage::models::{FOLDER, is_as_written};
use crate::crypto::token::{Role, Token};
use crate::protocol::name::check_name;
use agewise_core::Error;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most tokens that are made at once.
const MOST_TOKENS: u64 = 1_000_000;

/// The clients and the tokens of a run.
#[derive(Debug)]
pub struct Admin {
    ledger: Ledger,
    state: PathBuf,
}

/// What became of a rollback that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollbackOutcome {
    /// It was not done yet: the coordinator does it when it is started, or within a quarter of a second if it runs.
    Waiting,
    /// The run goes on with the model from this round on.
    Done {
        /// The first round after it.
        round: u64,
    },
    /// It was not done.
    Refused {
        /// Why.
        why: String,
    },
}

/// A client that has enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    /// Its number.
    pub client: u32,
    /// Its name.
    pub name: String,
    /// Its public key, as digits.
    pub key: String,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Failures in a row since it was last credited.
    pub failures: u32,
    /// Why it is suspended, if it is.
    pub suspended: Option<String>,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// Its public part.
    pub id: String,
    /// Its role.
    pub role: Role,
    /// The name of the client that may use it, if it is for one.
    pub name: Option<String>,
    /// The number of the client that has used it.
    pub used_by: Option<u32>,
    /// Whether it was revoked.
    pub revoked: bool,
}

impl Admin {
    /// The admin of the run in a state folder, which may be one that has not begun.
    pub fn open(state: &Path) -> Result<Self, CoordinatorError> {
        make_private(state)?;
        Ok(Self { ledger: open_ledger(&state.join(LEDGER))?, state: state.to_path_buf() })
    }

    /// Asks for the model with which a round began, so that what that round and all later ones made is not used any more. Returns the version
    /// of the model. Ages, credits and seeds stay as they are: rounds are not played again.
    pub fn roll_back(&mut self, round: u64) -> Result<u64, CoordinatorError> {
        let kept = self.ledger.rounds_with_kept_models()?;
        let newest = self.ledger.models()?.first().map(|model| model.version);
        let Some((_, model)) = kept.iter().find(|(number, _)| *number == round) else {
            let rounds: Vec<String> = kept.iter().map(|(number, _)| number.to_string()).collect();
            let expected = match &rounds[..] {
                [] => "a run with a round that has begun".to_string(),
                rounds => format!(
                    "a round whose first model is kept: {} (model.keep says how many are)",
                    rounds.join(", ")
                ),
            };
            return Err(Error::new("round", round, expected).into());
        };
        let version = model.version;
        if newest == Some(version) {
            let expected =
                format!("a round before: the run is at model {version}, with which it began");
            return Err(Error::new("round", round, expected).into());
        }
        let path = self.state.join(FOLDER).join(&model.file);
        let bytes = fs::read(&path).map_err(CoordinatorError::file(&path))?;
        if !is_as_written(&path, &bytes, &model.sha256) {
            let what = format!("{}: expected the bytes that were written", path.display());
            return Err(CoordinatorError::Corrupt(what));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let asked = since.map_or(0, |since| since.as_millis() as i64);
        self.ledger.ask_rollback(version, asked)?;
        self.ledger.commit()?;
        Ok(version)
    }

    /// What became of the last rollback that was asked for; `None` if there was none.
    pub fn last_rollback(&self) -> Result<Option<RollbackOutcome>, CoordinatorError> {
        Ok(self.ledger.last_rollback()?.map(|found| match found {
            (Some(round), _) => RollbackOutcome::Done { round },
            (None, Some(why)) => RollbackOutcome::Refused { why },
            (None, None) => RollbackOutcome::Waiting,
        }))
    }

    /// New tokens. They are shown here once; the ledger keeps what they can be recognised by.
    pub fn invite(
        &mut self,
        role: Role,
        name: Option<&str>,
        count: u64,
    ) -> Result<Vec<Token>, CoordinatorError> {
        if !(1..=MOST_TOKENS).contains(&count) {
            return Err(Error::new("count", count, format!("from 1 to {MOST_TOKENS}")).into());
        }
        if let Some(name) = name {
            check_name(name)?;
            if count > 1 && role == Role::Client {
                return Err(Error::new("count", count, "1, as a name is one client's").into());
            }
        }
        let mut tokens = Vec::new();
        for _ in 0..count {
            let token = Token::generate()?;
            self.ledger.add_token(&TokenRow::new(&token, role, name.map(str::to_string)))?;
            tokens.push(token);
        }
        self.ledger.commit()?;
        Ok(tokens)
    }

    /// The clients, by number.
    pub fn clients(&self) -> Result<Vec<ClientInfo>, CoordinatorError> {
        let mut suspended: BTreeMap<u32, String> = self.ledger.suspended()?.into_iter().collect();
        let row = |(client, row): (u32, super::storage::ledger::ClientRow)| ClientInfo {
            client,
            name: row.name,
            key: format!("{:?}", row.key),
            revoked: row.revoked,
            failures: row.failures,
            suspended: suspended.remove(&client),
        };
        Ok((0..).zip(self.ledger.clients()?).map(row).collect())
    }

    /// The tokens.
    pub fn tokens(&self) -> Result<Vec<TokenInfo>, CoordinatorError> {
        let row = |TokenRow { id, role, name, client, revoked, .. }| TokenInfo {
            id,
            role,
            name,
            used_by: client,
            revoked,
        };
        Ok(self.ledger.tokens()?.into_iter().map(row).collect())
    }

    /// Lifts the suspension of a client. It takes part again as soon as its back-off is over, and is suspended again after as many failures
    /// in a row.
    pub fn reinstate(&mut self, name: &str) -> Result<(), CoordinatorError> {
        let client = self.ledger.reinstate(name)?;
        self.ledger.commit()?;
        let expected = "the name of a client that is suspended (agewise coordinator list)";
        let unknown = || Error::new("name", format!("{name:?}"), expected).into();
        client.map(|_| ()).ok_or_else(unknown)
    }

    /// Revokes the client of this name, or the token with this public part. Says which.
    pub fn revoke(&mut self, who: &str) -> Result<String, CoordinatorError> {
        let revoked = self.ledger.revoke(who)?;
        self.ledger.commit()?;
        let expected = "the name of a client or the public part of a token";
        revoked.ok_or_else(|| Error::new("who", format!("{who:?}"), expected).into())
    }
}
