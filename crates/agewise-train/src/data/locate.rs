//! Where the files of a data set are.

use super::catalogue::{CATALOGUE, CatalogueEntry, ContentFile, Holds, Layout};
use super::checksum::{Integrity, by_contents};
use super::error::DataError;
use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The environment variable that names a folder with data sets.
pub const DATA_VARIABLE: &str = "AGEWISE_DATA";

/// The folder in which data sets are kept if nothing else is said; nothing if the system has no such place.
pub fn default_folder() -> Option<PathBuf> {
    dirs::data_dir().map(|folder| folder.join("agewise"))
}

/// The folders in which data sets are looked for: the one that is given, the one that `AGEWISE_DATA` names, and the
/// default one.
pub fn folders(given: Option<&Path>) -> Vec<PathBuf> {
    let variable = env::var_os(DATA_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    given.map(Path::to_path_buf).into_iter().chain(variable).chain(default_folder()).collect()
}

/// The files of a data set, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetFiles {
    /// Inside the program.
    Embedded,
    /// The unpacked files or their gzip, in the order of [`CatalogueEntry::content`].
    Files(Vec<PathBuf>),
    /// One archive that holds all.
    Archive(PathBuf),
}

impl DatasetFiles {
    /// The folder, or the archive; nothing for what is embedded.
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Embedded => None,
            Self::Files(paths) => paths.first().and_then(|path| path.parent()),
            Self::Archive(path) => Some(path),
        }
    }
}

impl CatalogueEntry {
    /// Looks for the data set in these folders and in their subfolders of its name; the first one that has all of it
    /// counts.
    pub fn find_in(&self, folders: &[PathBuf]) -> Result<DatasetFiles, DataError> {
        if self.layout == Layout::Embedded {
            return Ok(DatasetFiles::Embedded);
        }
        let mut looked = Vec::new();
        for folder in folders {
            let places = self.subfolders.iter().map(|name| folder.join(name));
            let mut lacks = None;
            for place in places.chain([folder.clone()]) {
                match self.look_into(&place) {
                    Ok(found) => return Ok(found),
                    Err(missing) => lacks = lacks.or(missing),
                }
            }
            looked.push((folder.clone(), lacks));
        }
        Err(DataError::Missing { name: self.name.to_string(), looked })
    }

    /// What a folder has, or which file it lacks if it has others.
    fn look_into(&self, folder: &Path) -> Result<DatasetFiles, Option<String>> {
        let paths = self.content.iter().map(|file| file_of(folder, file.name));
        let paths: Vec<Option<PathBuf>> = paths.collect();
        let there = paths.iter().flatten().count();
        if there == self.content.len() {
            let paths: Vec<PathBuf> = paths.into_iter().flatten().collect();
            // MNIST and Fashion-MNIST have the same file names.
            return if self.are_of_another_set(&paths) {
                Err(None)
            } else {
                Ok(DatasetFiles::Files(paths))
            };
        }
        // One file that holds several is an archive.
        if self.layout == Layout::Cifar {
            let archives = self.published.iter().map(|file| folder.join(file.name));
            if let Some(archive) = archives.into_iter().find(|path| path.is_file()) {
                return Ok(DatasetFiles::Archive(archive));
            }
        }
        if there == 0 {
            return Err(None);
        }
        let missing = paths.iter().position(Option::is_none);
        Err(missing.map(|file| folder.join(self.content[file].name).display().to_string()))
    }

    /// Whether the labels are those of another data set, of which the checksum is known.
    fn are_of_another_set(&self, paths: &[PathBuf]) -> bool {
        let is = |path: &Path, file: &ContentFile| match File::open(path) {
            Ok(source) => by_contents(source, file) == Integrity::SameContents,
            Err(_) => false,
        };
        let others: Vec<&ContentFile> = CATALOGUE
            .iter()
            .filter(|entry| entry.name != self.name)
            .flat_map(|entry| entry.content)
            .filter(|file| file.holds == Holds::Labels)
            .collect();
        paths.iter().zip(self.content).filter(|(_, file)| file.holds == Holds::Labels).any(
            |(path, file)| {
                let same_name = others.iter().filter(|other| other.name == file.name);
                same_name.into_iter().any(|other| is(path, other))
            },
        )
    }
}

/// The file of this name in a folder, plain or with `.gz` at the end.
fn file_of(folder: &Path, name: &str) -> Option<PathBuf> {
    let plain = folder.join(name);
    let packed = folder.join(format!("{name}.gz"));
    [plain, packed].into_iter().find(|path| path.is_file())
}

/// Opens a file; the error has its name.
pub(crate) fn open(path: &Path) -> Result<File, DataError> {
    File::open(path).map_err(|source| DataError::Io { path: path.to_path_buf(), source })
}
