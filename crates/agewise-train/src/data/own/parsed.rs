//! A file as it was read, before its labels are understood.

use super::super::images::ImageShape;
use std::path::PathBuf;

/// The samples of a file.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The file.
    pub(super) path: PathBuf,
    /// The shape of a sample.
    pub(super) shape: ImageShape,
    /// All samples, one after the other.
    pub(super) values: Values,
    /// The names of the features; empty where they have none.
    pub(super) feature_names: Vec<String>,
    /// What is to be predicted.
    pub(super) labels: Column,
    /// Whose each sample is, where the file says.
    pub(super) clients: Option<Vec<String>>,
    /// What the samples are called in messages.
    pub(super) rows: Rows,
}

/// Features.
#[derive(Debug)]
pub(super) enum Values {
    /// Pixels.
    Bytes(Vec<u8>),
    /// Numbers, all of them finite.
    Numbers(Vec<f32>),
}

/// A column, as text or as numbers.
#[derive(Debug)]
pub(super) enum Column {
    /// Text; it may be that of numbers.
    Texts(Vec<String>),
    /// Numbers.
    Numbers(Vec<f64>),
}

impl Column {
    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// An entry as it is shown.
    pub(super) fn text(&self, row: usize) -> String {
        match self {
            Self::Texts(texts) => texts[row].clone(),
            Self::Numbers(numbers) => numbers[row].to_string(),
        }
    }

    /// Numbers, if all entries are finite ones.
    pub(super) fn as_numbers(&self) -> Option<Vec<f64>> {
        let numbers: Option<Vec<f64>> = match self {
            Self::Numbers(numbers) => Some(numbers.clone()),
            Self::Texts(texts) => texts.iter().map(|text| text.trim().parse().ok()).collect(),
        };
        numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()))
    }

    /// The first entry that is missing: an empty text, or a number that is none.
    pub(super) fn missing(&self) -> Option<usize> {
        match self {
            Self::Texts(texts) => texts.iter().position(|text| {
                let text = text.trim();
                text.is_empty() || text.parse::<f64>().is_ok_and(|number| !number.is_finite())
            }),
            Self::Numbers(numbers) => numbers.iter().position(|number| !number.is_finite()),
        }
    }
}

/// What the samples of a file are called.
#[derive(Debug)]
pub(super) enum Rows {
    /// By line.
    Lines(Vec<u64>),
    /// By place, from 0.
    Places,
    /// By file.
    Files(Vec<PathBuf>),
}

impl Rows {
    /// The name of a sample.
    pub(super) fn name(&self, row: usize) -> String {
        match self {
            Self::Lines(lines) => format!("line {}", lines[row]),
            Self::Places => format!("row {row} (from 0)"),
            Self::Files(files) => files[row].display().to_string(),
        }
    }
}
