//! The folder of a run: never overwritten by accident, and complete or clearly not.

use crate::report::{is_temporary, write_atomically};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that holds one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder(PathBuf);

/// Why a run folder cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// It is there already.
    Exists(PathBuf),
    /// There is no run in it.
    NoRun(PathBuf),
    /// Another process is working in it.
    Busy(PathBuf),
    /// Something is called like a part of a run and is not.
    Foreign(PathBuf),
    /// A file cannot be written or read.
    Io(PathBuf, io::Error),
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(path) => write!(
                f,
                "out = {}: expected a folder that does not exist yet or is empty (--force writes into it, \
                 --resume continues what is there)",
                path.display()
            ),
            Self::NoRun(path) => {
                write!(f, "{}: expected the folder of a run, with its config.toml", path.display())
            }
            Self::Foreign(path) => write!(
                f,
                "{}: expected nothing of that name, as this is not the folder of a run (--force clears only runs)",
                path.display()
            ),
            Self::Busy(path) => {
                write!(
                    f,
                    "{}: expected a folder in which no other process is working",
                    path.display()
                )
            }
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for FolderError {}

impl FolderError {
    /// Whether another name would do: the user can fix it, and the machine is fine.
    pub fn is_bad_name(&self) -> bool {
        match self {
            Self::Exists(_) | Self::NoRun(_) | Self::Busy(_) | Self::Foreign(_) => true,
            Self::Io(_, error) => matches!(
                error.kind(),
                io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::InvalidFilename
            ),
        }
    }
}

/// The file from which a run can be run again.
pub const CONFIG: &str = "config.toml";

impl RunFolder {
    /// Makes the folder for a new run: `out`, or the next free `runs/NAME-001`, `runs/NAME-002`, ...
    pub fn create(out: Option<&Path>, name: &str, force: bool) -> Result<Self, FolderError> {
        let path = match out {
            Some(path) => path.to_path_buf(),
            None => return Self::next_free(Path::new("runs"), name),
        };
        if !force && is_occupied(&path) {
            return Err(FolderError::Exists(path));
        }
        fs::create_dir_all(&path).map_err(|error| FolderError::Io(path.clone(), error))?;
        Ok(Self(path))
    }

    fn next_free(parent: &Path, name: &str) -> Result<Self, FolderError> {
        fs::create_dir_all(parent).map_err(|error| FolderError::Io(parent.to_path_buf(), error))?;
        let mut number = 1u32;
        loop {
            let path = parent.join(format!("{name}-{number:03}"));
            // Making it is the test: two runs that start together cannot get the same folder.
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(FolderError::Io(path, error)),
            }
        }
    }

    /// The folder of a run that was begun before.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        if path.join(CONFIG).is_file() {
            Ok(Self(path.to_path_buf()))
        } else {
            Err(FolderError::NoRun(path.to_path_buf()))
        }
    }

    /// Keeps other processes from working in the folder, as long as the result lives; a process that is killed lets go.
    /// What an earlier one had half written is removed.
    pub fn lock(&self) -> Result<fs::File, FolderError> {
        let path = self.0.join(CONFIG);
        let config = fs::File::open(&path).map_err(|error| FolderError::Io(path.clone(), error))?;
        match config.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(FolderError::Busy(self.0.clone())),
            Err(fs::TryLockError::Error(error)) => return Err(FolderError::Io(path, error)),
        }
        sweep(&self.0)?;
        Ok(config)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file of the run, making the folders in between.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.0.join(name);
        let written = match path.parent() {
            Some(parent) => fs::create_dir_all(parent),
            None => Ok(()),
        };
        let written = written.and_then(|()| write_atomically(&path, bytes));
        written.map_err(|error| FolderError::Io(path, error))
    }

    /// Opens a file of the run to write over what is there: for one that is written often and has a checksum of its own.
    pub fn overwrite(&self, name: &str) -> Result<fs::File, FolderError> {
        let path = self.0.join(name);
        let opened = fs::OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        opened.map_err(|error| FolderError::Io(path, error))
    }

    /// An error about a file of the run.
    pub(crate) fn trouble(&self, name: &str, error: io::Error) -> FolderError {
        FolderError::Io(self.0.join(name), error)
    }

    /// Makes a folder inside the run.
    pub fn make(&self, name: &str) -> Result<(), FolderError> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).map_err(|error| FolderError::Io(path, error))
    }

    /// Opens a file of the run, to write behind what is there.
    pub fn append(&self, name: &str) -> Result<fs::File, FolderError> {
        let path = self.0.join(name);
        let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
        opened.map_err(|error| FolderError::Io(path, error))
    }

    /// Reads the bytes of a file of the run; `None` if it is not there.
    pub fn read_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.0.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FolderError::Io(path, error)),
        }
    }

    /// Reads a file of the run; `None` if it is not there.
    pub fn read(&self, name: &str) -> Result<Option<String>, FolderError> {
        let path = self.0.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FolderError::Io(path, error)),
        }
    }

    /// Removes a file or a folder inside the run, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        let path = self.0.join(name);
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FolderError::Io(path, error))
            }
            _ => Ok(()),
        }
    }
}

/// A number that stands for a configuration and this version of the program: what was stored under another one is
/// not taken over. (FNV-1a, which is the same on every machine.)
pub(crate) fn fingerprint(config: &str) -> u64 {
    let text = config.bytes().chain(env!("CARGO_PKG_VERSION").bytes());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.fold(0xcbf2_9ce4_8422_2325, step)
}

/// Removes temporary files, in a folder and those below it.
fn sweep(folder: &Path) -> Result<(), FolderError> {
    let trouble = |error| FolderError::Io(folder.to_path_buf(), error);
    for entry in fs::read_dir(folder).map_err(trouble)? {
        let entry = entry.map_err(trouble)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // Links are not followed: what they lead to is not ours.
        if entry.file_type().map_err(trouble)?.is_dir() {
            sweep(&path)?;
        } else if is_temporary(&name) {
            fs::remove_file(&path).map_err(trouble)?;
        }
    }
    Ok(())
}

fn is_occupied(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        // A file of that name, or a folder that cannot be looked into.
        Err(_) => path.symlink_metadata().is_ok(),
    }
}
