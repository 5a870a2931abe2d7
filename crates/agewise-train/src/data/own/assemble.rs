//! From what was read to a data set: classes from labels, clients from names, and whether the files fit together.

use super::super::error::{DataError, FormatError};
use super::super::images::Images;
use super::super::set::{Data, NaturalClients, SampleSet, sort_names};
use super::super::table::{Labels, Table};
use super::parsed::{Column, Parsed, Values};
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

/// The most classes: labels are bytes in memory.
const MOST_CLASSES: usize = 256;

/// What training descends on: `auto`, `cross-entropy` (labels are classes) or `squared` (labels are numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Labels with fractions are numbers, all others are classes.
    #[default]
    Auto,
    /// Labels are classes.
    CrossEntropy,
    /// Labels are numbers.
    Squared,
}

impl FromStr for Loss {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cross-entropy" => Ok(Self::CrossEntropy),
            "squared" => Ok(Self::Squared),
            _ => Err(Error::new("loss", text, "auto, cross-entropy or squared")),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::CrossEntropy => "cross-entropy",
            Self::Squared => "squared",
        })
    }
}

/// A data set from the samples of its files.
pub(super) fn assemble(
    name: &str,
    train: Parsed,
    test: Option<Parsed>,
    loss: Loss,
) -> std::result::Result<Data, DataError> {
    check_rows(&train)?;
    if let Some(test) = &test {
        check_rows(test)?;
        check_beside(&train, test)?;
    }
    let target = Target::new(&train, loss)?;
    let clients = train.clients.as_deref().map(NaturalClients::new);
    let feature_names = train.feature_names.clone();
    let empty = Parsed {
        path: train.path.clone(),
        shape: train.shape,
        values: match train.values {
            Values::Bytes(_) => Values::Bytes(Vec::new()),
            Values::Numbers(_) => Values::Numbers(Vec::new()),
        },
        feature_names: Vec::new(),
        labels: Column::Numbers(Vec::new()),
        clients: None,
        rows: super::parsed::Rows::Places,
    };
    let test = target.samples(test.unwrap_or(empty))?;
    let train = target.samples(train)?;
    let class_names = target.names();
    Ok(Data { clients, class_names, feature_names, ..Data::new(name, train, test) })
}

/// Checks that there are samples, and that each has a label and a client.
fn check_rows(parsed: &Parsed) -> std::result::Result<(), DataError> {
    let wrong = |found: String, expected: &str| {
        Err(FormatError::new(found, expected).in_file(&parsed.path))
    };
    if parsed.labels.len() == 0 {
        return wrong("no samples".to_string(), "at least one");
    }
    if let Some(row) = parsed.labels.missing() {
        let found = format!("{}: the label {:?}", parsed.rows.name(row), parsed.labels.text(row));
        return wrong(found, "a class or a finite number in every row");
    }
    let nameless = |clients: &Vec<String>| clients.iter().position(|name| name.trim().is_empty());
    if let Some(row) = parsed.clients.as_ref().and_then(nameless) {
        let found = format!("{}: no client", parsed.rows.name(row));
        return wrong(found, "the name or the number of a client in every row");
    }
    Ok(())
}

/// Checks that test samples are like the training samples and of the same clients.
fn check_beside(train: &Parsed, test: &Parsed) -> std::result::Result<(), DataError> {
    let wrong = |found: String, expected: String| {
        Err(FormatError::new(found, expected).in_file(&test.path))
    };
    let bytes = |parsed: &Parsed| matches!(parsed.values, Values::Bytes(_));
    if test.shape != train.shape || bytes(test) != bytes(train) {
        let kind = |parsed: &Parsed| if bytes(parsed) { "pixels" } else { "numbers" };
        let expected = format!("{} {}, as the training samples", train.shape, kind(train));
        return wrong(format!("samples of {} {}", test.shape, kind(test)), expected);
    }
    if let (Some(known), Some(clients)) = (&train.clients, &test.clients) {
        let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        let strange = clients.iter().position(|client| !known.contains(client.as_str()));
        if let Some(row) = strange {
            let found = format!("{}: client {}", test.rows.name(row), clients[row]);
            let expected = format!("one of the {} clients of the training samples", known.len());
            return wrong(found, expected);
        }
    }
    Ok(())
}

/// What is predicted.
enum Target {
    /// Classes, by name.
    Classes {
        names: Vec<String>,
        numeric: bool,
    },
    Numbers,
}

impl Target {
    fn new(train: &Parsed, loss: Loss) -> std::result::Result<Self, DataError> {
        let numbers = train.labels.as_numbers();
        let has_fractions =
            || numbers.as_ref().is_some_and(|all| all.iter().any(|number| number.fract() != 0.0));
        let squared = loss == Loss::Squared || (loss == Loss::Auto && has_fractions());
        let numeric = numbers.is_some();
        if squared && numeric {
            return Ok(Self::Numbers);
        }
        if squared {
            let texts = (0..train.labels.len()).map(|row| train.labels.text(row));
            let bad = texts.enumerate().find(|(_, text)| text.trim().parse::<f64>().is_err());
            let found = bad.map_or_else(String::new, |(row, text)| {
                format!("{}: the label {text:?}", train.rows.name(row))
            });
            let expected = "a number in every row, as the loss is squared";
            return Err(FormatError::new(found, expected).in_file(&train.path));
        }
        let labels = class_texts(train, numeric);
        let mut names: Vec<&str> = labels.iter().map(String::as_str).collect();
        sort_names(&mut names);
        if names.len() > MOST_CLASSES {
            let expected = format!(
                "at most {MOST_CLASSES} classes (numbers are predicted with --loss squared and a model such as linear)"
            );
            let found = format!("{} different labels", names.len());
            return Err(FormatError::new(found, expected).in_file(&train.path));
        }
        let names = names.into_iter().map(str::to_string).collect();
        Ok(Self::Classes { names, numeric })
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Classes { names, .. } => names.clone(),
            Self::Numbers => Vec::new(),
        }
    }

    /// The samples with what is predicted of each.
    fn samples(&self, parsed: Parsed) -> std::result::Result<SampleSet, DataError> {
        let path = parsed.path.clone();
        let (names, numeric) = match self {
            Self::Classes { names, numeric } => (names, *numeric),
            Self::Numbers => return regression(parsed),
        };
        let numbers: HashMap<&str, u8> =
            names.iter().zip(0..=u8::MAX).map(|(name, number)| (name.as_str(), number)).collect();
        let of_row = |(row, text): (usize, String)| {
            numbers.get(text.as_str()).copied().ok_or_else(|| {
                let found = format!("{}: the label {text}", parsed.rows.name(row));
                let expected = Error::unknown("label", &text, names.iter().map(String::as_str));
                FormatError::new(found, expected.expected()).in_file(&path)
            })
        };
        let texts = class_texts(&parsed, numeric).into_iter().enumerate();
        let labels: Vec<u8> = texts.map(of_row).collect::<std::result::Result<_, _>>()?;
        let classes = names.len() as u32;
        let made = match parsed.values {
            Values::Bytes(pixels) => {
                Images::new(parsed.shape, classes, pixels, labels).map(SampleSet::Images)
            }
            Values::Numbers(features) => {
                let labels = Labels::Classes { classes, labels: labels.into() };
                Table::new(parsed.shape, features, labels).map(SampleSet::Table)
            }
        };
        made.map_err(|error| misfit(&error).in_file(&path))
    }
}

/// Samples of which a number is predicted. Pixels become numbers from 0 to 1.
fn regression(parsed: Parsed) -> std::result::Result<SampleSet, DataError> {
    let Some(numbers) = parsed.labels.as_numbers() else {
        let bad = (0..parsed.labels.len()).map(|row| (row, parsed.labels.text(row)));
        let bad = bad.into_iter().find(|(_, text)| text.trim().parse::<f64>().is_err());
        let found = bad.map_or_else(String::new, |(row, text)| {
            format!("{}: the label {text:?}", parsed.rows.name(row))
        });
        return Err(FormatError::new(found, "a number in every row").in_file(&parsed.path));
    };
    let labels = Labels::Numbers(numbers.into_iter().map(|number| number as f32).collect());
    let features: Vec<f32> = match parsed.values {
        Values::Bytes(pixels) => pixels.iter().map(|&pixel| f32::from(pixel) / 255.0).collect(),
        Values::Numbers(numbers) => numbers,
    };
    let made = Table::new(parsed.shape, features, labels).map(SampleSet::Table);
    made.map_err(|error| misfit(&error).in_file(&parsed.path))
}

/// The labels as names of classes; `1` and `1.0` are the same class where the training labels are numbers.
fn class_texts(parsed: &Parsed, numeric: bool) -> Vec<String> {
    let texts = (0..parsed.labels.len()).map(|row| parsed.labels.text(row));
    let name = |text: String| match text.trim().parse::<f64>() {
        Ok(number) if numeric => number.to_string(),
        _ => text.trim().to_string(),
    };
    texts.map(name).collect()
}

fn misfit(error: &Error) -> FormatError {
    FormatError::new(format!("{} = {}", error.field(), error.value()), error.expected())
}
