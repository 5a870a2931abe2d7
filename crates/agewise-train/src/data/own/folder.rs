//! A folder of pictures, PNG or JPEG: CLASS/FILE, or CLIENT/CLASS/FILE.
//!
//! A folder with the two subfolders `train` and `test` has both splits.

use super::super::checksum::digest_of;
use super::super::error::{DataError, FormatError};
use super::super::images::ImageShape;
use super::OwnDataParams;
use super::parsed::{Column, Parsed, Rows, Values};
use super::picture::decode;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What `--client` is, where the first folders are the clients.
const CLIENT: &str = "folder";

/// The training pictures, and the test pictures if they are here too.
pub(super) fn read(
    params: &OwnDataParams,
    path: &Path,
) -> Result<(Parsed, Option<Parsed>), DataError> {
    let (train, test) = (path.join("train"), path.join("test"));
    if train.is_dir() && test.is_dir() && folders(path)?.len() == 2 {
        let test = if params.test.is_none() { Some(read_split(params, &test)?) } else { None };
        return Ok((read_split(params, &train)?, test));
    }
    Ok((read_split(params, path)?, None))
}

/// The checksum of a folder: of the names and the checksums of all its files.
pub(super) fn digest(path: &Path) -> Result<String, DataError> {
    let mut all = String::new();
    add_digests(path, path, &mut all)?;
    digest_of(all.as_bytes()).map_err(io(path))
}

fn add_digests(root: &Path, path: &Path, all: &mut String) -> Result<(), DataError> {
    for entry in entries(path)? {
        if entry.is_dir() {
            add_digests(root, &entry, all)?;
        } else {
            let digest = fs::File::open(&entry).and_then(digest_of).map_err(io(&entry))?;
            let name = entry.strip_prefix(root).unwrap_or(&entry);
            // Writing to a string cannot fail.
            let _ = writeln!(all, "{digest}  {}", name.display());
        }
    }
    Ok(())
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> DataError + '_ {
    move |source| DataError::Io { path: path.to_path_buf(), source }
}

/// What a folder holds, by name; hidden files are left aside.
fn entries(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(io(path))? {
        let entry = entry.map_err(io(path))?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            entries.push(entry.path());
        }
    }
    entries.sort();
    Ok(entries)
}

/// The folders in a folder; it must hold nothing else.
fn folders(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let all = entries(path)?;
    let wrong = |path: &Path, found: &str| {
        FormatError::new(found, "subfolders of PNG or JPEG pictures, one for each class")
            .in_file(path)
    };
    if let Some(file) = all.iter().find(|entry| !entry.is_dir()) {
        return Err(wrong(file, "a file beside the folders of the classes"));
    }
    if all.is_empty() { Err(wrong(path, "an empty folder")) } else { Ok(all) }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read_split(params: &OwnDataParams, path: &Path) -> Result<Parsed, DataError> {
    let first = folders(path)?;
    let by_client = match params.client.as_deref() {
        None => false,
        Some(CLIENT) => true,
        Some(other) => {
            let expected = "--client folder, for pictures in CLIENT/CLASS/FILE";
            return Err(FormatError::new(format!("--client {other}"), expected).in_file(path));
        }
    };
    let mut pictures = Pictures::default();
    for folder in &first {
        if by_client {
            for class in folders(folder)? {
                pictures.add_class(&class, Some(&name_of(folder)))?;
            }
        } else {
            pictures.add_class(folder, None)?;
        }
    }
    let shape = pictures.shape.unwrap_or(ImageShape::flat(1));
    Ok(Parsed {
        path: path.to_path_buf(),
        shape,
        values: Values::Bytes(pictures.pixels),
        feature_names: Vec::new(),
        labels: Column::Texts(pictures.labels),
        clients: by_client.then_some(pictures.clients),
        rows: Rows::Files(pictures.files),
    })
}

#[derive(Default)]
struct Pictures {
    shape: Option<ImageShape>,
    pixels: Vec<u8>,
    labels: Vec<String>,
    clients: Vec<String>,
    files: Vec<PathBuf>,
}

impl Pictures {
    fn add_class(&mut self, folder: &Path, client: Option<&str>) -> Result<(), DataError> {
        let files = entries(folder)?;
        if files.is_empty() {
            let found = match client {
                Some(client) => format!("no pictures of client {client} here"),
                None => "no pictures of this class".to_string(),
            };
            return Err(FormatError::new(found, "at least one").in_file(folder));
        }
        for file in files {
            if file.is_dir() {
                let found = "a folder within the folder of a class";
                let expected =
                    "PNG or JPEG pictures (--client folder, if the first folders are the clients)";
                return Err(FormatError::new(found, expected).in_file(&file));
            }
            self.add(&file).map_err(|error| error.in_file(&file))?;
            self.labels.push(name_of(folder));
            self.clients.extend(client.map(str::to_string));
            self.files.push(file);
        }
        Ok(())
    }

    fn add(&mut self, file: &Path) -> Result<(), FormatError> {
        let bytes = fs::read(file).map_err(|error| FormatError::reading(&error))?;
        let (shape, pixels) = decode(&bytes)?;
        let first = *self.shape.get_or_insert(shape);
        if shape != first {
            let found = format!("a picture of {shape} (rows x columns x channels)");
            return Err(FormatError::new(found, format!("{first}, as the first picture has")));
        }
        self.pixels.extend(pixels);
        Ok(())
    }
}
