//! The directory of a run: never overwritten by accident, and complete or clearly not.
//!
//! | name                               | what it is                                                                    |
//! |------------------------------------|-------------------------------------------------------------------------------|
//! | `config.toml`                      | the parameters; the first file that is written                                |
//! | `lock`                             | an empty file, locked by the process that is working in the directory         |
//! | `log/VARIANT-SEED.jsonl`           | everything that is known of a run but its model; it stays                     |
//! | `checkpoints/VARIANT-SEED-N.safetensors` | the last two states of a training run, the last one when it has ended |
//! | `models/VARIANT.safetensors`       | the last model of each variant under the first seed                           |
//! | `timing.csv`, `provenance.json`    | how long rounds took; where, when and with what. Only these differ from run to run |
//! | `*.csv`, `summary.json`, `tensorboard/` | tables that follow from the logs                                         |
//! | `figures/`, `report.html`          | written by `agewise-report`; PNG pictures may differ from machine to machine  |

mod config;
mod csv;
mod extend;
mod jsonl;
mod provenance;
mod run_writer;
mod store;
mod tensorboard;
mod timing;

pub use config::config_text;
pub use extend::extend;
pub use provenance::processor;
pub use timing::MeanTimes;

pub(crate) use provenance::Provenance;
pub(crate) use run_writer::RunWriter;
pub(crate) use store::{SelectionResult, Store};
pub(crate) use timing::{Timing, mean_times};

use agewise_core::files::{is_temporary, write_atomically};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file from which a run can be run again.
pub const CONFIG: &str = "config.toml";
/// The file that is locked by the process that works in the directory. It is never replaced or removed: a lock on a file that has
/// lost its name would exclude no other process.
pub const LOCK: &str = "lock";
/// The figures over all runs.
pub const SUMMARY: &str = "summary.json";
/// The page about the run; the last file that is written: where it is, everything else is.
pub const REPORT: &str = "report.html";
/// The directory of the figures.
pub const FIGURES: &str = "figures";
/// The directory of the logs; they stay, a report is drawn from them.
pub const LOGS: &str = "log";
/// The directory of the states from which training runs go on.
pub const CHECKPOINTS: &str = "checkpoints";
/// The directory of the last models.
pub const MODELS: &str = "models";
/// The directory of the TensorBoard event files.
pub const EVENTS: &str = "tensorboard";
/// Where, when and with what a run was played.
pub const PROVENANCE: &str = "provenance.json";
/// How long rounds took.
pub const TIMING: &str = "timing.csv";

/// What follows from the logs.
const DERIVED: [&str; 8] =
    [SUMMARY, "rounds.csv", "clients.csv", "intervals.csv", "windows.csv", REPORT, FIGURES, EVENTS];

/// What an experiment writes while it is played, beside its configuration.
const PLAYED: [&str; 5] = [LOGS, CHECKPOINTS, MODELS, TIMING, PROVENANCE];

/// A directory that holds one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir(PathBuf);

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// It is there already.
    #[error(
        "out = {}: expected a folder that does not exist yet or is empty (--force writes into it, --resume continues \
         what is there)",
        .0.display()
    )]
    Exists(PathBuf),
    /// There is no run in it.
    #[error("{}: expected the folder of a run, with its {CONFIG}", .0.display())]
    NoRun(PathBuf),
    /// Another process is working in it.
    #[error("{}: expected a folder in which no other process is working", .0.display())]
    Busy(PathBuf),
    /// Something is called like a part of a run and is not.
    #[error(
        "{}: expected nothing of that name, as this is not the folder of a run (--force clears only runs)",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl RunDirError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }

    /// Whether another name would do: the user can fix it, and the machine is fine.
    pub fn is_bad_name(&self) -> bool {
        match self {
            Self::Exists(_) | Self::NoRun(_) | Self::Busy(_) | Self::Foreign(_) => true,
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::InvalidFilename
            ),
        }
    }
}

type Result<T> = std::result::Result<T, RunDirError>;

impl RunDir {
    /// Makes the directory for a new run: `out`, or the next free `runs/NAME-001`, `runs/NAME-002`, ...
    pub fn create(out: Option<&Path>, name: &str, force: bool) -> Result<Self> {
        let path = match out {
            Some(path) => path.to_path_buf(),
            None => return Self::next_free(Path::new("runs"), name),
        };
        if !force && is_occupied(&path) {
            return Err(RunDirError::Exists(path));
        }
        fs::create_dir_all(&path).map_err(RunDirError::io(&path))?;
        Ok(Self(path))
    }

    fn next_free(parent: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(parent).map_err(RunDirError::io(parent))?;
        let mut number = 1u32;
        loop {
            let path = parent.join(format!("{name}-{number:03}"));
            // Making it is the test: two runs that start together cannot get the same directory.
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(RunDirError::io(&path)(error)),
            }
        }
    }

    /// The directory of a run that was begun before.
    pub fn open(path: &Path) -> Result<Self> {
        if path.join(CONFIG).is_file() {
            Ok(Self(path.to_path_buf()))
        } else {
            Err(RunDirError::NoRun(path.to_path_buf()))
        }
    }

    /// Keeps other processes from working in the directory, as long as the result lives; a process that is killed lets
    /// go. What an earlier one had half written is removed. The configuration is read and replaced under it.
    pub fn lock(&self) -> Result<fs::File> {
        let file = self.overwrite(LOCK)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(RunDirError::Busy(self.0.clone())),
            Err(fs::TryLockError::Error(error)) => return Err(self.failed(LOCK, error)),
        }
        sweep(&self.0)?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes what an earlier run left in the directory, so that its results cannot be taken for the new ones.
    fn clear(&self) -> Result<()> {
        DERIVED.iter().chain(&PLAYED).try_for_each(|name| self.remove(name))
    }

    /// Refuses what is called like a part of a run and is not in the directory of one: it is not ours.
    fn check_foreign(&self) -> Result<()> {
        if self.0.join(CONFIG).is_file() {
            return Ok(());
        }
        let results = DERIVED.iter().chain(&PLAYED);
        match results.map(|name| self.0.join(name)).find(|path| path.exists()) {
            Some(path) => Err(RunDirError::Foreign(path)),
            None => Ok(()),
        }
    }

    /// Writes a file of the run, making the directories in between.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(RunDirError::io(parent))?;
        }
        write_atomically(&path, bytes).map_err(RunDirError::io(&path))
    }

    /// Opens a file of the run to write over what is there: for one that is written often and has a checksum of its own.
    pub(crate) fn overwrite(&self, name: &str) -> Result<fs::File> {
        let path = self.0.join(name);
        let opened = fs::OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        opened.map_err(RunDirError::io(&path))
    }

    /// Opens a file of the run, to write behind what is there.
    pub(crate) fn append(&self, name: &str) -> Result<fs::File> {
        let path = self.0.join(name);
        let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
        opened.map_err(RunDirError::io(&path))
    }

    /// An error about a file of the run.
    pub(crate) fn failed(&self, name: &str, error: io::Error) -> RunDirError {
        RunDirError::io(&self.0.join(name))(error)
    }

    /// Makes a directory inside the run.
    pub(crate) fn make(&self, name: &str) -> Result<()> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).map_err(RunDirError::io(&path))
    }

    /// Reads the bytes of a file of the run; `None` if it is not there.
    pub fn read_bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.read_with(name, |path| fs::read(path))
    }

    /// Reads a file of the run; `None` if it is not there.
    pub fn read(&self, name: &str) -> Result<Option<String>> {
        self.read_with(name, |path| fs::read_to_string(path))
    }

    fn read_with<T>(&self, name: &str, read: fn(&Path) -> io::Result<T>) -> Result<Option<T>> {
        let path = self.0.join(name);
        match read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RunDirError::io(&path)(error)),
        }
    }

    /// The names of what is in a directory of the run, in order; none if it is not there.
    pub(crate) fn names(&self, name: &str) -> Result<Vec<String>> {
        let entries =
            self.read_with(name, |path| fs::read_dir(path)?.collect::<io::Result<Vec<_>>>())?;
        let names =
            entries.into_iter().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Removes a file or a directory inside the run, if it is there.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.0.join(name);
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RunDirError::io(&path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Removes temporary files, in a directory and those below it.
fn sweep(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(RunDirError::io(directory))? {
        let entry = entry.map_err(RunDirError::io(directory))?;
        let path = entry.path();
        // Links are not followed: what they lead to is not ours.
        if entry.file_type().map_err(RunDirError::io(&path))?.is_dir() {
            sweep(&path)?;
        } else if is_temporary(&entry.file_name().to_string_lossy()) {
            fs::remove_file(&path).map_err(RunDirError::io(&path))?;
        }
    }
    Ok(())
}

/// Whether there is anything but the lock of a run that was killed before it had begun.
fn is_occupied(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            entries.any(|entry| entry.map_or(true, |entry| entry.file_name() != LOCK))
        }
        // A file of that name, or a directory that cannot be looked into.
        Err(_) => path.symlink_metadata().is_ok(),
    }
}
