//! From files to a data set in memory.

use super::catalogue::{CatalogueEntry, ContentFile, Holds, Layout, Split, find};
use super::cifar::{CifarLabels, Records, read_cifar};
use super::digits::{embedded_digits, embedded_owners};
use super::error::{DataError, FormatError};
use super::gzip::{read_at_most, unpack};
use super::idx::read_idx_of;
use super::images::{Dataset, Images};
use super::locate::{DatasetFiles, open};
use super::own::owners_from;
use super::set::NaturalClients;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use tar::Archive;

/// What an archive may hold besides the data: names of classes, a page about it, headers.
const ARCHIVE_EXTRAS: u64 = 1 << 20;

/// Whether this is the name of a data set of the catalogue.
pub fn is_known(name: &str) -> bool {
    find(name).is_ok()
}

/// Loads a data set of the catalogue from the first of these folders that has it.
pub fn load(name: &str, folders: &[PathBuf]) -> Result<Dataset, DataError> {
    find(name)?.load(folders)
}

impl CatalogueEntry {
    /// The data set of this name.
    pub fn named(name: &str) -> agewise_core::Result<&'static Self> {
        find(name)
    }

    /// Loads the data set from the first of these folders that has it.
    pub fn load(&self, folders: &[PathBuf]) -> Result<Dataset, DataError> {
        self.load_found(&self.find_in(folders)?)
    }

    /// Loads the data set from where it was found, and says which of its files are not those that were published.
    pub fn load_found(&self, found: &DatasetFiles) -> Result<Dataset, DataError> {
        let dataset = self.read_found(found)?;
        let altered = self.altered(found)?;
        // Files that are not those that were published may have their images in another order.
        let owners = embedded_owners(self.name).filter(|_| altered.is_empty());
        let clients = match owners {
            Some(owners) => Some(natural_clients(self, owners)?),
            None => dataset.clients,
        };
        Ok(Dataset { clients, altered, ..dataset })
    }

    fn read_found(&self, found: &DatasetFiles) -> Result<Dataset, DataError> {
        match (found, self.layout) {
            (DatasetFiles::Embedded, _) => embedded_digits(),
            (DatasetFiles::Files(paths), Layout::Cifar) => {
                let mut splits = Splits::default();
                for (path, file) in paths.iter().zip(self.content) {
                    let records = read_cifar(open(path)?, labels(self), file.images);
                    splits.add(file, records.map_err(|error| error.in_file(path))?);
                }
                splits.into_dataset(self, paths.first().map_or(Path::new(""), PathBuf::as_path))
            }
            (DatasetFiles::Files(paths), _) => dataset_from_idx(self, |file| {
                let place = self.content.iter().position(|other| other.name == file.name);
                let path = place.map(|place| paths[place].clone()).unwrap_or_default();
                let source = open(&path)?;
                Ok((path, BufReader::new(source)))
            }),
            (DatasetFiles::Archive(path), _) => from_archive(self, path),
        }
    }
}

/// The clients of a set of which the owners are inside the program.
fn natural_clients(entry: &CatalogueEntry, packed: &[u8]) -> Result<NaturalClients, DataError> {
    let wrong = |error: FormatError| {
        error.in_file(Path::new(&format!("embedded owners of {}", entry.name)))
    };
    let images = u64::from(entry.images(Split::Train));
    let text = unpack(packed).and_then(|source| read_at_most(source, 16 * images));
    let owners = text.and_then(|text| owners_from(&text)).map_err(wrong)?;
    if owners.len() as u64 != images {
        return Err(wrong(FormatError::new(owners.len(), images.to_string())));
    }
    Ok(NaturalClients::new(&owners))
}

/// The labels of a set of records.
fn labels(entry: &CatalogueEntry) -> CifarLabels {
    if entry.classes == CifarLabels::Hundred.classes() {
        CifarLabels::Hundred
    } else {
        CifarLabels::Ten
    }
}

/// A data set from idx files, each of which `source` opens by its name.
pub(crate) fn dataset_from_idx<R: Read>(
    entry: &CatalogueEntry,
    source: impl Fn(&ContentFile) -> Result<(PathBuf, R), DataError>,
) -> Result<Dataset, DataError> {
    let mut owners = Vec::new();
    let mut images = |split: Split| {
        let mut records = Records::default();
        let mut last = PathBuf::new();
        for file in entry.content.iter().filter(|file| file.split == split) {
            let (path, source) = source(file)?;
            let sides = [file.images, entry.shape.height, entry.shape.width];
            let (dimensions, values) = match file.holds {
                Holds::Labels => (&sides[..1], &mut records.labels),
                Holds::Owners => (&sides[..1], &mut owners),
                Holds::Pixels | Holds::Records => (&sides[..], &mut records.pixels),
            };
            let read = read_idx_of(source, dimensions);
            *values = read.map_err(|error| error.in_file(&path))?;
            last = path;
        }
        checked(entry, records, &last)
    };
    let (train, test) = (images(Split::Train)?, images(Split::Test)?);
    let owners: Vec<String> = owners.iter().map(u8::to_string).collect();
    let clients = (!owners.is_empty()).then(|| NaturalClients::new(&owners));
    Ok(Dataset { clients, ..Dataset::new(entry.name, train, test) })
}

/// A data set from an archive, whatever the order of its files.
fn from_archive(entry: &CatalogueEntry, path: &Path) -> Result<Dataset, DataError> {
    let wrong = |error: FormatError| error.in_file(path);
    let reading = |error: std::io::Error| FormatError::reading(&error).in_file(path);
    let unpacked = unpack(BufReader::new(open(path)?)).map_err(wrong)?;
    let most = entry.content.iter().map(|file| file.bytes).sum::<u64>() + ARCHIVE_EXTRAS;
    let mut archive = Archive::new(unpacked.take(most));
    let mut parts: Vec<Option<Records>> = vec![None; entry.content.len()];
    for file in archive.entries().map_err(reading)? {
        let file = file.map_err(reading)?;
        let name = file.path().map_err(reading)?;
        let place = entry
            .content
            .iter()
            .position(|content| name.file_name().is_some_and(|name| name == content.name));
        let Some(place) = place else {
            continue;
        };
        let records = read_cifar(file, labels(entry), entry.content[place].images);
        parts[place] = Some(records.map_err(|error| {
            let name = entry.content[place].name;
            error.in_file(&path.join(name))
        })?);
    }
    let mut splits = Splits::default();
    for (part, content) in parts.into_iter().zip(entry.content) {
        let found = format!("an archive without {}", content.name);
        let missing = || wrong(FormatError::new(found, "all files of the data set"));
        splits.add(content, part.ok_or_else(missing)?);
    }
    splits.into_dataset(entry, path)
}

/// Records of both splits, put together file by file.
#[derive(Default)]
struct Splits {
    train: Records,
    test: Records,
}

impl Splits {
    fn add(&mut self, file: &ContentFile, records: Records) {
        let split = match file.split {
            Split::Train => &mut self.train,
            Split::Test => &mut self.test,
        };
        if split.pixels.is_empty() {
            *split = records;
        } else {
            split.pixels.extend(records.pixels);
            split.labels.extend(records.labels);
        }
    }

    fn into_dataset(self, entry: &CatalogueEntry, path: &Path) -> Result<Dataset, DataError> {
        let train = checked(entry, self.train, path)?;
        let test = checked(entry, self.test, path)?;
        Ok(Dataset::new(entry.name, train, test))
    }
}

/// Images from records; `path` is where the last of them came from.
fn checked(entry: &CatalogueEntry, records: Records, path: &Path) -> Result<Images, DataError> {
    let images = Images::new(entry.shape, entry.classes, records.pixels, records.labels);
    images.map_err(|error| {
        let found = format!("{} = {}", error.field(), error.value());
        FormatError::new(found, error.expected()).in_file(path)
    })
}
