//! Checksums: whether a file is the one that was published.

use super::catalogue::{CatalogueEntry, ContentFile, how_to_get};
use super::error::DataError;
use super::gzip::unpack;
use super::locate::{DatasetFiles, open};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write as _};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// A SHA-256, in small hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum(pub &'static str);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The SHA-256 of everything that comes from a source, in small hexadecimal digits.
pub fn digest_of(mut source: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// What a checksum says about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// It is, byte for byte, the file that was published.
    Published,
    /// It is packed in another way, or not at all, and has the published contents.
    SameContents,
    /// No checksum is known for the file in this form.
    Unknown,
    /// It is another file.
    Wrong {
        /// Its checksum, or why there is none.
        found: String,
        /// The checksum of the right file.
        expected: Checksum,
    },
}

/// A file whose checksum is known, and that has another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredFile {
    /// The file.
    pub path: PathBuf,
    /// The data set.
    pub dataset: &'static str,
    /// Its checksum, or why there is none.
    pub found: String,
    /// The checksum of the published file.
    pub expected: Checksum,
}

impl fmt::Display for AlteredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, dataset, found, expected } = self;
        let path = path.display();
        write!(f, "{path}: SHA-256 {found} is not that of the published {dataset}, {expected}: ")?;
        f.write_str(&how_to_get(dataset))
    }
}

impl CatalogueEntry {
    /// The files of a data set that are not those that were published, where that is known.
    pub fn altered(&self, found: &DatasetFiles) -> Result<Vec<AlteredFile>, DataError> {
        let altered = |(path, integrity)| match integrity {
            Integrity::Wrong { found, expected } => {
                Some(AlteredFile { path, dataset: self.name, found, expected })
            }
            _ => None,
        };
        Ok(self.verify(found)?.into_iter().filter_map(altered).collect())
    }

    /// Checks the files of a data set that was found; those that are embedded are checked too.
    pub fn verify(&self, found: &DatasetFiles) -> Result<Vec<(PathBuf, Integrity)>, DataError> {
        let paths = match found {
            DatasetFiles::Embedded => {
                let check = |file: &ContentFile| {
                    let packed = super::digits::embedded_file(file.name).unwrap_or_default();
                    (PathBuf::from(format!("embedded {}", file.name)), by_contents(packed, file))
                };
                return Ok(self.content.iter().map(check).collect());
            }
            DatasetFiles::Archive(path) => std::slice::from_ref(path),
            DatasetFiles::Files(paths) => paths,
        };
        paths.iter().map(|path| Ok((path.clone(), self.verify_file(path)?))).collect()
    }

    /// Checks a file by its name: it may be as it was published, unpacked or packed again.
    pub fn verify_file(&self, path: &Path) -> Result<Integrity, DataError> {
        let published = self.published.iter().find(|file| path.ends_with(file.name));
        let mut verdict = Integrity::Unknown;
        if let Some(published) = published {
            let digest = digest_of(open(path)?);
            let found =
                digest.map_err(|source| DataError::Io { path: path.to_path_buf(), source })?;
            if found == published.checksum.0 {
                return Ok(Integrity::Published);
            }
            verdict = Integrity::Wrong { found, expected: published.checksum };
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let plain_name = name.strip_suffix(".gz").unwrap_or(name);
        match self.content.iter().find(|file| file.name == plain_name) {
            Some(file) if file.checksum.is_some() => {
                Ok(by_contents(BufReader::new(open(path)?), file))
            }
            _ => Ok(verdict),
        }
    }
}

/// Compares the unpacked contents; reads no more than the right file has, and one byte.
pub(crate) fn by_contents(packed: impl Read, file: &ContentFile) -> Integrity {
    let Some(expected) = file.checksum else {
        return Integrity::Unknown;
    };
    let unpacked = unpack(packed).map_err(|error| error.to_string());
    let found = unpacked.and_then(|source| {
        digest_of(source.take(file.bytes + 1)).map_err(|error| error.to_string())
    });
    match found {
        Ok(found) if found == expected.0 => Integrity::SameContents,
        Ok(found) | Err(found) => Integrity::Wrong { found, expected },
    }
}
