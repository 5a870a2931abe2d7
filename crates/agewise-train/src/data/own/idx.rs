//! Idx files of images, with the labels in a file beside them.

use super::super::error::{DataError, FormatError};
use super::super::idx::read_idx;
use super::super::images::ImageShape;
use super::parsed::{Column, Parsed, Rows, Values};
use super::{OwnDataParams, Sources, open_file, unpacked};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most bytes of a file.
const MOST_BYTES: u64 = 1 << 36;

/// Images of a file. The checksums of the files beside it are added with this before their names.
pub(super) fn read(
    params: &OwnDataParams,
    path: &Path,
    sources: &mut Sources,
    prefix: &str,
) -> Result<Parsed, DataError> {
    let wrong = |found: String, expected: &str| FormatError::new(found, expected).in_file(path);
    let idx = read_idx(open_file(path)?, MOST_BYTES).map_err(|error| error.in_file(path))?;
    let shape = match *idx.dimensions {
        [_, features] => ImageShape::flat(features),
        [_, height, width] => ImageShape::new(1, height, width),
        [_, height, width, channels] => ImageShape::new(channels, height, width),
        _ => {
            let expected = "the idx file of the images: that of the labels is --label FILE";
            return Err(wrong("one number for each sample".to_string(), expected));
        }
    };
    let count = idx.dimensions.first().copied().unwrap_or(0) as usize;
    let is_test = !prefix.is_empty();
    let label = match &params.label {
        Some(file) if !is_test => PathBuf::from(file),
        _ => beside(path).ok_or_else(|| {
            let expected = "a name such as train-images-idx3-ubyte, beside which there is train-labels-idx1-ubyte, \
                            or --label FILE";
            wrong("a name that does not say where the labels are".to_string(), expected)
        })?,
    };
    let labels = read_idx(open_file(&label)?, MOST_BYTES).map_err(|error| error.in_file(&label))?;
    sources.add(&format!("{prefix}label"), &label)?;
    if labels.dimensions.len() != 1 || labels.values.len() != count {
        let found = format!("{:?} labels", labels.dimensions);
        return Err(FormatError::new(found, format!("{count}, one for each image")).in_file(&label));
    }
    let clients = match params.client.as_ref().filter(|_| !is_test) {
        None => None,
        Some(file) => {
            let file = Path::new(file);
            sources.add("client", file)?;
            let owners = owners(file)?;
            if owners.len() != count {
                let found = format!("{} clients", owners.len());
                let expected = format!("{count}, one for each image");
                return Err(FormatError::new(found, expected).in_file(file));
            }
            Some(owners)
        }
    };
    Ok(Parsed {
        path: path.to_path_buf(),
        shape,
        values: Values::Bytes(idx.values),
        feature_names: Vec::new(),
        labels: Column::Numbers(labels.values.into_iter().map(f64::from).collect()),
        clients,
        rows: Rows::Places,
    })
}

/// The file of the labels beside one of images.
fn beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let other = name.replace("images", "labels").replace("idx3", "idx1");
    let plain = other.strip_suffix(".gz").unwrap_or(&other);
    let files = [path.with_file_name(plain), path.with_file_name(format!("{plain}.gz"))];
    (other != name).then(|| files.into_iter().find(|file| file.is_file()))?
}

/// Whose each image is: bytes in an idx file, or a name on each line of a text.
fn owners(path: &Path) -> Result<Vec<String>, DataError> {
    let mut bytes = Vec::new();
    let read = unpacked(path)?.take(MOST_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| FormatError::reading(&error).in_file(path))?;
    owners_from(&bytes).map_err(|error| error.in_file(path))
}

/// The same from the unpacked bytes.
pub(in crate::data) fn owners_from(bytes: &[u8]) -> Result<Vec<String>, FormatError> {
    if bytes.starts_with(&[0, 0]) {
        let idx = read_idx(bytes, MOST_BYTES)?;
        return Ok(idx.values.iter().map(u8::to_string).collect());
    }
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| {
        FormatError::new("bytes that are no text", "an idx file of bytes, or a name on each line")
    })?;
    Ok(text.lines().map(|line| line.trim().to_string()).collect())
}
