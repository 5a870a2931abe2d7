//! The key of a client (sr25519: Schnorr signatures on Ristretto).

use super::from_hex;
use data_encoding::HEXLOWER;
use schnorrkel::{ExpansionMode, Keypair, MiniSecretKey};
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// The two halves of a client's key. The secret one never leaves this type but for the client's own file.
#[derive(Clone)]
pub struct Identity {
    secret: MiniSecretKey,
    pub(super) pair: Keypair,
}

impl Identity {
    /// A new key, from the system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self::from_secret(bytes))
    }

    /// The key with this secret: 32 bytes that only its owner knows.
    pub fn from_secret(bytes: [u8; 32]) -> Self {
        // 32 bytes are always a secret: the error is about their number.
        let secret = MiniSecretKey::from_bytes(&bytes)
            .unwrap_or_else(|_| unreachable!("a secret has 32 bytes"));
        let pair = secret.expand_to_keypair(ExpansionMode::Ed25519);
        Self { secret, pair }
    }

    /// The key in a file that only its owner can read; a new one if there is no such file.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => {
                let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a client's key");
                from_hex(text.trim()).map(Self::from_secret).ok_or_else(wrong)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self::generate().map_err(io::Error::other)?;
                write_secret(path, &format!("{}\n", HEXLOWER.encode(made.secret.as_bytes())))?;
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// The half that the coordinator knows.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.pair.public)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret, wherever this is printed.
        f.debug_tuple("Identity").field(&self.public()).finish()
    }
}

/// The public half of a client's key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub(super) schnorrkel::PublicKey);

impl PublicKey {
    /// From 32 bytes; `None` if they are not a key.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        schnorrkel::PublicKey::from_bytes(bytes).ok().map(Self)
    }

    /// As 32 bytes.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.to_bytes()))
    }
}

/// Writes a new file that only its owner can read. It is whole, or not there.
pub(crate) fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let temporary = path.with_file_name(name);
    fs::remove_file(&temporary).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, path)
}
