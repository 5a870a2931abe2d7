//! The state of a client: its name, its key, its run, the round since which it waits, and the coordinator's commitment to its seeds.

use super::ClientError;
use crate::crypto::seed_chain::Commitment;
use crate::crypto::{Identity, from_hex};
use crate::protocol::name::check_name;
use agewise_core::Error;
use agewise_core::files::write_atomically;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The state of a client, kept in a small JSON file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientState {
    /// Its name.
    pub name: String,
    /// The run in which it has an age, as hexadecimal digits; empty before the first.
    #[serde(default)]
    pub run: String,
    /// Its number in that run.
    #[serde(default)]
    pub client: u32,
    /// Its age in round t is t minus this.
    #[serde(default)]
    pub waiting_since: i64,
    /// The coordinator's commitment to the seeds of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Remembered>,
    #[serde(skip)]
    path: Option<PathBuf>,
}

/// A [`Commitment`], as it is kept in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    chain: u64,
    anchor: String,
    next_anchor: String,
}

impl From<Commitment> for Remembered {
    fn from(commitment: Commitment) -> Self {
        let Commitment { chain, anchor, next_anchor } = commitment;
        Self { chain, anchor: HEXLOWER.encode(&anchor), next_anchor: HEXLOWER.encode(&next_anchor) }
    }
}

impl Remembered {
    /// `None` if the file was changed by hand.
    pub(super) fn commitment(&self) -> Option<Commitment> {
        let (anchor, next_anchor) = (from_hex(&self.anchor)?, from_hex(&self.next_anchor)?);
        Some(Commitment { chain: self.chain, anchor, next_anchor })
    }
}

/// The files inside the state folder.
const FILE: &str = "client.json";
const KEY: &str = "client.key";

/// The key of a client: kept in its state folder, or until the program ends.
pub(super) fn identity(folder: Option<&Path>) -> Result<Identity, ClientError> {
    let Some(folder) = folder else {
        return Ok(Identity::generate()?);
    };
    fs::create_dir_all(folder).map_err(state_error(folder))?;
    let path = folder.join(KEY);
    Identity::load_or_create(&path).map_err(state_error(&path))
}

impl ClientState {
    /// Reads the state in a folder, or begins one. A state that cannot be read is begun anew if a name is given: the coordinator knows
    /// the rest.
    pub(super) fn load(folder: Option<&Path>, name: Option<&str>) -> Result<Self, ClientError> {
        if let Some(name) = name {
            check_name(name)?;
        }
        let path = folder.map(|folder| folder.join(FILE));
        let stored = match &path {
            None => None,
            Some(path) => match fs::read(path) {
                Ok(bytes) => Some(serde_json::from_slice::<Self>(&bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(state_error(path)(error)),
            },
        };
        match (stored, name) {
            (Some(Ok(stored)), None) => Ok(Self { path, ..stored }),
            (Some(Ok(stored)), Some(name)) if stored.name == name => Ok(Self { path, ..stored }),
            (Some(Ok(stored)), Some(name)) => {
                let expected = format!("{}, as the state says", stored.name);
                Err(Error::new("name", name, expected).into())
            }
            (Some(Err(error)), None) => {
                let shown =
                    path.as_deref().map_or_else(String::new, |path| path.display().to_string());
                let expected = format!("a client's state, or --name to begin a new one ({error})");
                Err(Error::new("state", shown, expected).into())
            }
            (_, Some(name)) => Ok(Self::new(name.to_string(), path)),
            (None, None) => Ok(Self::new(random_name()?, path)),
        }
    }

    fn new(name: String, path: Option<PathBuf>) -> Self {
        Self { name, run: String::new(), client: 0, waiting_since: 0, seeds: None, path }
    }

    /// Writes the state, if there is a place for it.
    pub(super) fn save(&self) -> Result<(), ClientError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(state_error(folder))?;
        }
        let text =
            serde_json::to_vec_pretty(self).map_err(|error| state_error(path)(error.into()))?;
        write_atomically(path, &text).map_err(state_error(path))
    }
}

fn state_error(path: &Path) -> impl FnOnce(io::Error) -> ClientError {
    let path = path.to_path_buf();
    move |source| ClientError::State { path, source }
}

fn random_name() -> Result<String, ClientError> {
    Ok(format!("client-{:016x}", getrandom::u64()?))
}
