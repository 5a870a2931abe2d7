//! Data of one's own: `.csv`, `.parquet`, `.npz`, idx, or a folder of pictures by class.
//!
//! Each format is read into `Parsed` by a file of its own, which names the row or the file of whatever is wrong;
//! `assemble` makes a data set of it, the same way for all formats.

mod assemble;
mod columns;
mod csv;
mod folder;
mod idx;
mod npy;
mod npz;
mod parquet;
mod parsed;
mod picture;
mod zip;

pub use assemble::Loss;
pub(super) use idx::owners_from;

use super::checksum::digest_of;
use super::error::{DataError, FormatError};
use super::gzip::unpack;
use super::locate::open;
use super::set::Data;
use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Which files are to be read, and what is in them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnDataParams {
    /// The file, or the folder of pictures.
    pub data: PathBuf,
    /// The column, the array or the file of the labels; if it has a usual name it need not be said.
    pub label: Option<String>,
    /// The column, the array or the file that says whose each sample is.
    pub client: Option<String>,
    /// The file with the test samples.
    pub test: Option<PathBuf>,
    /// Columns that are neither features nor anything else.
    pub ignore: Vec<String>,
    /// Whether labels are classes or numbers to be predicted.
    pub loss: Loss,
}

/// What was read.
#[derive(Debug, Clone)]
pub struct OwnData {
    /// The samples, not scaled; there are no test samples if no file has any.
    pub data: Data,
    /// The SHA-256 of each file, by what it was read for: `data`, `test`, `label`, ...
    pub checksums: BTreeMap<String, String>,
}

/// What a file is, by its contents; names lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Csv,
    Parquet,
    Npz,
    Idx,
    Folder,
}

const FORMATS: &str = "a .csv, a .parquet, an .npz, an idx file, or a folder with a subfolder of PNG or JPEG pictures for each class";

impl OwnDataParams {
    /// Reads the files. Everything that is wrong is named with its file and its row, column or client.
    pub fn load(&self) -> Result<OwnData, DataError> {
        let kind = kind_of(&self.data)?;
        if !self.ignore.is_empty() && !matches!(kind, Kind::Csv | Kind::Parquet) {
            let expected = "no columns to ignore: only the columns of a table could be features";
            return Err(FormatError::new(self.ignore.join(", "), expected).in_file(&self.data));
        }
        let mut sources = Sources::default();
        let (train, mut test) = match kind {
            Kind::Csv => (csv::read(self, &self.data, None)?, None),
            Kind::Parquet => (parquet::read(self, &self.data, None)?, None),
            Kind::Npz => npz::read(self, &self.data)?,
            Kind::Idx => (idx::read(self, &self.data, &mut sources, "")?, None),
            Kind::Folder => folder::read(self, &self.data)?,
        };
        sources.add("data", &self.data)?;
        if let Some(path) = &self.test {
            if kind_of(path)? != kind {
                let found = "another format than that of the training samples";
                return Err(FormatError::new(found, "the same").in_file(path));
            }
            sources.add("test", path)?;
            test = Some(match kind {
                Kind::Csv => csv::read(self, path, Some(&train.feature_names))?,
                Kind::Parquet => parquet::read(self, path, Some(&train.feature_names))?,
                Kind::Npz => npz::read(self, path)?.0,
                Kind::Idx => idx::read(self, path, &mut sources, "test_")?,
                Kind::Folder => folder::read(self, path)?.0,
            });
        }
        let data = assemble::assemble(&name_of(&self.data), train, test, self.loss)?;
        Ok(OwnData { data, checksums: sources.checksums })
    }
}

/// The files that were read, with their checksums.
#[derive(Debug, Default)]
struct Sources {
    checksums: BTreeMap<String, String>,
}

impl Sources {
    fn add(&mut self, role: &str, path: &Path) -> Result<(), DataError> {
        let digest = if path.is_dir() {
            folder::digest(path)?
        } else {
            let digest = digest_of(open_file(path)?);
            digest.map_err(|source| DataError::Io { path: path.to_path_buf(), source })?
        };
        self.checksums.insert(role.to_string(), digest);
        Ok(())
    }
}

/// What a data set is called after its file.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Opens a file of the user; one that is not there was mistyped.
fn open_file(path: &Path) -> Result<std::fs::File, DataError> {
    if path.exists() {
        return open(path);
    }
    Err(FormatError::new("no such file or folder", FORMATS).in_file(path))
}

/// A file as it is meant, plain or gzip.
fn unpacked(path: &Path) -> Result<impl Read + use<>, DataError> {
    unpack(BufReader::new(open_file(path)?)).map_err(|error| error.in_file(path))
}

fn kind_of(path: &Path) -> Result<Kind, DataError> {
    if path.is_dir() {
        return Ok(Kind::Folder);
    }
    let mut first = Vec::with_capacity(8);
    let read = unpacked(path)?.take(8).read_to_end(&mut first);
    let wrong = |found: &str, expected: &str| FormatError::new(found, expected).in_file(path);
    read.map_err(|error| FormatError::reading(&error).in_file(path))?;
    match first.as_slice() {
        [b'P', b'K', 3 | 5, ..] => Ok(Kind::Npz),
        [0, 0, _, 1..=4, ..] => Ok(Kind::Idx),
        [b'P', b'A', b'R', b'1', ..] => Ok(Kind::Parquet),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Err(wrong(
            "a single array (.npy)",
            "an .npz: numpy.savez(FILE, x=..., y=..., client=...)",
        )),
        [0x89, b'P', b'N', b'G', ..] => {
            Err(wrong("a single picture", "the folder with a subfolder of pictures for each class"))
        }
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Err(wrong(
            "a file packed with xz",
            "one that is plain or gzip (xz -dk FILE unpacks it)",
        )),
        [] => Err(wrong("an empty file", FORMATS)),
        // Text has no zeros.
        text if !text.contains(&0) => Ok(Kind::Csv),
        _ => Err(wrong("a file of another format", FORMATS)),
    }
}
