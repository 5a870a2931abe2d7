//! NumPy's archives: an array of samples, one of labels, and perhaps one that says whose they are.

use super::super::error::{DataError, FormatError};
use super::super::images::ImageShape;
use super::npy::Array;
use super::parsed::{Column, Parsed, Rows, Values};
use super::zip::{Entry, entries};
use super::{OwnDataParams, open_file};
use agewise_core::Error;
use std::io::Read;
use std::path::Path;

/// What the array of samples is usually called; the first that is there counts.
const SAMPLES: [&str; 7] = ["x", "x_train", "X", "X_train", "images", "features", "data"];
/// What the labels are usually called.
const LABELS: [&str; 7] = ["y", "y_train", "label", "labels", "target", "targets", "Y"];

/// The training samples of a file, and its test samples if it has arrays called `x_test` and `y_test`.
pub(super) fn read(
    params: &OwnDataParams,
    path: &Path,
) -> Result<(Parsed, Option<Parsed>), DataError> {
    let mut bytes = Vec::new();
    let read = open_file(path)?.read_to_end(&mut bytes);
    read.map_err(|source| DataError::Io { path: path.to_path_buf(), source })?;
    read_archive(params, path, &bytes).map_err(|error| error.in_file(path))
}

fn read_archive(
    params: &OwnDataParams,
    path: &Path,
    bytes: &[u8],
) -> Result<(Parsed, Option<Parsed>), FormatError> {
    let archive = Archive { bytes, entries: entries(bytes)? };
    let is_test = params.test.as_deref() == Some(path);
    let samples = archive.usual(&SAMPLES, "samples")?;
    let labels = match &params.label {
        Some(name) => name.clone(),
        None => archive.usual(&LABELS, "labels (--label NAME)")?,
    };
    let client = match &params.client {
        // Test samples need not say whose they are.
        Some(name) if is_test && !archive.has(name) => None,
        client => client.as_deref(),
    };
    let train = archive.parsed(path, &samples, &labels, client)?;
    let test_names = (samples.replace("train", "test"), labels.replace("train", "test"));
    let has_test = samples != test_names.0 && labels != test_names.1 && archive.has(&test_names.0);
    let test = if has_test && params.test.is_none() {
        Some(archive.parsed(path, &test_names.0, &test_names.1, None)?)
    } else {
        None
    };
    Ok((train, test))
}

struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
}

impl Archive<'_> {
    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.iter().filter_map(|entry| entry.name.strip_suffix(".npy"))
    }

    fn has(&self, name: &str) -> bool {
        self.names().any(|other| other == name)
    }

    /// The first of the usual names that is there.
    fn usual(&self, names: &[&str], what: &str) -> Result<String, FormatError> {
        let found = names.iter().find(|name| self.has(name));
        found.map(|name| (*name).to_string()).ok_or_else(|| {
            let there = self.names().collect::<Vec<_>>().join(", ");
            let expected = format!("an array of {what} called one of {}", names.join(", "));
            FormatError::new(format!("the arrays {there}"), expected)
        })
    }

    fn array(&self, name: &str) -> Result<Array, FormatError> {
        let entry = self.entries.iter().find(|entry| entry.name.strip_suffix(".npy") == Some(name));
        let entry = entry.ok_or_else(|| {
            let hint = Error::unknown("array", name, self.names());
            FormatError::new(format!("no array {name}"), hint.expected())
        })?;
        Array::read(&entry.read(self.bytes)?).map_err(|error| error.at(&format!("array {name}")))
    }

    fn parsed(
        &self,
        path: &Path,
        samples: &str,
        labels: &str,
        client: Option<&str>,
    ) -> Result<Parsed, FormatError> {
        let array = self.array(samples)?;
        let (shape, channels_first) = shape_of(&array.shape).ok_or_else(|| {
            let found = format!("array {samples} of {:?}", array.shape);
            let expected = "(samples, features), (samples, rows, columns) or (samples, rows, columns, channels)";
            FormatError::new(found, expected)
        })?;
        let values = values(&array, samples, shape, channels_first)?;
        // No more than the archive has bytes: each sample has a number at least. Labels and names may have none.
        let count = array.rows();
        let one_for_each = |name: &str| {
            let column = self.array(name)?;
            if column.shape.iter().product::<usize>() == count && column.rows() == count {
                return Ok(column);
            }
            let found = format!("array {name} of {:?}", column.shape);
            Err(FormatError::new(found, format!("one entry for each of {count} samples")))
        };
        let label = one_for_each(labels)?;
        let labels = match label.numbers() {
            Some(numbers) => Column::Numbers(numbers.collect()),
            None => Column::Texts(label.texts()),
        };
        let clients = client.map(|name| Ok(one_for_each(name)?.texts())).transpose()?;
        let (path, feature_names, rows) = (path.to_path_buf(), Vec::new(), Rows::Places);
        Ok(Parsed { path, shape, values, feature_names, labels, clients, rows })
    }
}

/// The shape of a sample, and whether its channels come before its rows, as in PyTorch.
fn shape_of(shape: &[usize]) -> Option<(ImageShape, bool)> {
    let side = |side: usize| u32::try_from(side).ok().filter(|side| (1..=1 << 16).contains(side));
    match *shape {
        [_] => Some((ImageShape::flat(1), false)),
        [_, features] => Some((ImageShape::flat(side(features)?), false)),
        [_, height, width] => Some((ImageShape::new(1, side(height)?, side(width)?), false)),
        [_, channels @ (1 | 3), height, width] if !matches!(width, 1 | 3 | 4) => {
            Some((ImageShape::new(channels as u32, side(height)?, side(width)?), true))
        }
        [_, height, width, channels] => {
            Some((ImageShape::new(side(channels)?, side(height)?, side(width)?), false))
        }
        _ => None,
    }
}

/// The samples with their channels last; bytes in rows and columns are pixels, everything else are numbers.
fn values(
    array: &Array,
    name: &str,
    shape: ImageShape,
    channels_first: bool,
) -> Result<Values, FormatError> {
    if let Some(bytes) = array.as_bytes().filter(|_| array.shape.len() > 2) {
        return Ok(Values::Bytes(ordered(bytes, shape, channels_first)));
    }
    let Some(numbers) = array.numbers() else {
        let found = format!("array {name} of texts");
        return Err(FormatError::new(found, "numbers, as they are features"));
    };
    let mut floats = Vec::with_capacity(array.shape.iter().product());
    for (place, number) in numbers.enumerate() {
        let float = number as f32;
        if !float.is_finite() {
            let (row, feature) = (place / shape.len(), place % shape.len());
            let found = format!("array {name}, row {row} (from 0), feature {feature}: {number}");
            return Err(FormatError::new(found, "finite numbers of 32 bits"));
        }
        floats.push(float);
    }
    Ok(Values::Numbers(ordered(&floats, shape, channels_first)))
}

fn ordered<T: Copy>(values: &[T], shape: ImageShape, channels_first: bool) -> Vec<T> {
    if !channels_first {
        return values.to_vec();
    }
    let (channels, pixels) = (shape.channels as usize, shape.len() / shape.channels as usize);
    let samples = values.chunks_exact(shape.len());
    let last = |sample: &[T]| -> Vec<T> {
        let place = |pixel: usize| (0..channels).map(move |channel| channel * pixels + pixel);
        (0..pixels).flat_map(place).map(|place| sample[place]).collect()
    };
    samples.flat_map(last).collect()
}
