//! Receiving updates: each is checked as it is written to disk, so that a bad one never counts and a large one is never in memory.

use super::error::CoordinatorError;
use super::refusal::{Reason, Refusal};
use agewise_core::{Error, Result as Checked};
use agewise_train::aggregation::{UpdateSource, too_far};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest chunk of an update.
pub(crate) const LARGEST_CHUNK: usize = 256 << 10;
/// Chunks may be this small on average, and a few smaller: each of them costs us more than it costs the sender.
const SMALLEST_CHUNK: usize = 1 << 10;
const SPARE_CHUNKS: usize = 64;

/// Where the accepted updates of a round lie.
#[derive(Debug)]
pub(crate) struct UpdateStore(PathBuf);

impl UpdateStore {
    /// The folder of a run's updates.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn round(&self, round: u64) -> PathBuf {
        self.0.join(round.to_string())
    }

    /// Creates the folder of a round, and removes those of others.
    pub(crate) fn begin(&self, round: u64) -> Result<(), CoordinatorError> {
        let folder = self.round(round);
        fs::create_dir_all(&folder).map_err(CoordinatorError::file(&folder))?;
        for entry in fs::read_dir(&self.0).map_err(CoordinatorError::file(&self.0))?.flatten() {
            if entry.path() != folder {
                // A folder that cannot be removed now is tried again in the next round.
                fs::remove_dir_all(entry.path()).ok();
            }
        }
        Ok(())
    }

    /// Where an update of a client lies once it is complete.
    pub(crate) fn place(&self, round: u64, client: u32, sha256: &[u8]) -> PathBuf {
        let mark = HEXLOWER.encode(&sha256[..sha256.len().min(8)]);
        self.round(round).join(format!("{client}-{mark}.f32"))
    }
}

/// The requirements on an update, and its place.
#[derive(Debug, Clone)]
pub(crate) struct UploadSpec {
    pub(crate) place: PathBuf,
    pub(crate) global: Arc<Vec<f32>>,
    pub(crate) sha256: Vec<u8>,
    /// The longest distance from the global model, if there is a bound.
    pub(crate) max_norm: Option<f64>,
}

/// An update that is being received.
pub(crate) struct UpdateReceiver {
    path: PathBuf,
    file: File,
    expected: UploadSpec,
    hash: Sha256,
    /// Parameters that are complete, and the bytes of the next one.
    complete: usize,
    rest: Vec<u8>,
    squares: f64,
    chunks: usize,
}

/// Why an update was not received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The update is not acceptable.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The coordinator cannot store it.
    #[error(transparent)]
    Storage(#[from] CoordinatorError),
}

impl UpdateReceiver {
    /// Creates the file. `attempt` differs between tries, so that two of them do not write to one file.
    pub(crate) fn begin(expected: UploadSpec, attempt: u64) -> Result<Self, CoordinatorError> {
        let path = expected.place.with_extension(format!("{attempt}.part"));
        let file = File::create(&path).map_err(CoordinatorError::file(&path))?;
        let hash = Sha256::new();
        Ok(Self {
            path,
            file,
            expected,
            hash,
            complete: 0,
            rest: Vec::new(),
            squares: 0.0,
            chunks: 0,
        })
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), UploadError> {
        let size = 4 * self.expected.global.len();
        let so_far = 4 * self.complete + self.rest.len();
        self.chunks += 1;
        let most = SPARE_CHUNKS + size / SMALLEST_CHUNK;
        if self.chunks > most {
            let detail = format!("more than {most} chunks for {size} bytes");
            return Err(Refusal::new(Reason::Size, detail).into());
        }
        if bytes.len() > LARGEST_CHUNK {
            let detail = format!("a chunk of {} bytes, at most {LARGEST_CHUNK}", bytes.len());
            return Err(Refusal::new(Reason::Size, detail).into());
        }
        if so_far + bytes.len() > size {
            let detail = format!("more than {size} bytes");
            return Err(Refusal::new(Reason::Size, detail).into());
        }
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(CoordinatorError::file(&self.path))?;
        let mut bytes = bytes;
        if !self.rest.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(4 - self.rest.len()));
            self.rest.extend_from_slice(head);
            bytes = tail;
            if self.rest.len() == 4 {
                let word = std::mem::take(&mut self.rest);
                self.look(&word)?;
            }
        }
        let (words, rest) = bytes.split_at(bytes.len() / 4 * 4);
        self.look(words)?;
        self.rest.extend_from_slice(rest);
        Ok(())
    }

    /// Checks whole parameters.
    fn look(&mut self, words: &[u8]) -> Result<(), Refusal> {
        let global = &self.expected.global[self.complete..];
        let mut squares = 0.0f64;
        for (word, &global) in words.chunks_exact(4).zip(global) {
            let value = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let distance = f64::from(value) - f64::from(global);
            squares += distance * distance;
        }
        // Parameters of 32 bits cannot overflow a sum of squares in 64: it is finite iff all of them are.
        if !squares.is_finite() {
            let detail = "a parameter is infinite or not a number";
            return Err(Refusal::new(Reason::NotFinite, detail));
        }
        self.squares += squares;
        self.complete += words.len() / 4;
        Ok(())
    }

    /// Checks the whole, and puts it on disk for good. Gives its distance to the global model.
    pub(crate) fn finish(self) -> Result<f64, UploadError> {
        let UploadSpec { place, global, sha256, max_norm } = &self.expected;
        let (size, came) = (4 * global.len(), 4 * self.complete + self.rest.len());
        if came != size {
            let detail = format!("{came} bytes, expected {size}");
            return Err(Refusal::new(Reason::Size, detail).into());
        }
        if self.hash.clone().finalize().as_slice() != sha256.as_slice() {
            let detail = "the bytes that came are not those of the header's checksum";
            return Err(Refusal::new(Reason::Checksum, detail).into());
        }
        let norm = self.squares.sqrt();
        if let Some(most) = max_norm.filter(|&most| norm > most) {
            return Err(Refusal::new(Reason::Norm, too_far(norm, most)).into());
        }
        let failed = |error| CoordinatorError::file(&self.path)(error);
        self.file.sync_all().map_err(failed)?;
        fs::rename(&self.path, place).map_err(failed)?;
        // Where a folder cannot be opened as a file the system does this by itself.
        if let Some(Ok(folder)) = place.parent().map(File::open) {
            folder.sync_all().map_err(failed)?;
        }
        Ok(norm)
    }
}

impl Drop for UpdateReceiver {
    fn drop(&mut self) {
        // Nothing is there any more if it was finished.
        fs::remove_file(&self.path).ok();
    }
}

/// The accepted updates of a cohort, in its order. One file is open at a time, however large the cohort is.
pub(crate) struct UpdateFiles {
    paths: Vec<PathBuf>,
    open: Option<(usize, File)>,
    bytes: Vec<u8>,
    failed: Option<CoordinatorError>,
}

/// Parameters that are read at once: the target is all that memory is counted for.
const PIECE: usize = 1 << 14;

impl UpdateFiles {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, open: None, bytes: Vec::new(), failed: None }
    }

    /// Whether a file could not be read.
    pub(crate) fn failed(self) -> Option<CoordinatorError> {
        self.failed
    }

    /// So many parameters of an update, from this one on.
    pub(crate) fn part(
        &mut self,
        member: usize,
        first: usize,
        count: usize,
    ) -> Result<Vec<f32>, CoordinatorError> {
        let mut part = vec![0.0; count];
        let read = self.fill(member, first, &mut part);
        read.map_err(CoordinatorError::file(&self.paths[member]))?;
        Ok(part)
    }

    fn fill(&mut self, member: usize, first: usize, target: &mut [f32]) -> io::Result<()> {
        let mut file = match self.open.take() {
            Some((open, file)) if open == member => file,
            _ => File::open(&self.paths[member])?,
        };
        file.seek(SeekFrom::Start(4 * first as u64))?;
        for piece in target.chunks_mut(PIECE) {
            self.bytes.resize(4 * piece.len(), 0);
            file.read_exact(&mut self.bytes)?;
            for (value, word) in piece.iter_mut().zip(self.bytes.chunks_exact(4)) {
                *value = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            }
        }
        self.open = Some((member, file));
        Ok(())
    }
}

impl UpdateSource for UpdateFiles {
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Checked<()> {
        self.fill(member, first, target).map_err(|error| {
            let path = &self.paths[member];
            let expected = format!("a readable file ({error})");
            let what = Error::new("update", path.display(), expected);
            self.failed = Some(CoordinatorError::file(path)(error));
            what
        })
    }
}

/// The SHA-256 of a stored update; `None` if it is not there. A disk that cannot be read says nothing about what is on it.
pub(crate) fn stored_checksum(path: &Path) -> Result<Option<Vec<u8>>, CoordinatorError> {
    let failed = |error| CoordinatorError::file(path)(error);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut hash = Sha256::new();
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes).map_err(failed)? {
            0 => return Ok(Some(hash.finalize().to_vec())),
            count => hash.update(&bytes[..count]),
        }
    }
}
