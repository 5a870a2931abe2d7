//! Tables of comma-separated values, with the names of the columns in the first line.

use super::super::error::{DataError, FormatError};
use super::super::images::ImageShape;
use super::columns::Columns;
use super::parsed::{Column, Parsed, Rows, Values};
use super::{OwnDataParams, unpacked};
use csv::{ReaderBuilder, StringRecord, Trim};
use std::io::Read;
use std::path::Path;

/// How some programs begin a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The most bytes of a file.
const MOST_BYTES: u64 = 1 << 36;

/// Finds the lines of records. The parser's own count is one behind where lines end with two characters.
struct LineCounter<'a> {
    text: &'a [u8],
    /// Up to where ends of lines were counted, and how many there were.
    counted: usize,
    ends: u64,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, counted: 0, ends: 0 }
    }

    /// The line, from 1, of a record that is not before the last one that was asked for.
    fn at(&mut self, position: &csv::Position) -> u64 {
        let rest = self.text.get(self.counted..).unwrap_or_default();
        let begin = (position.byte() as usize).saturating_sub(self.counted).min(rest.len());
        // The record may begin with what is left of the end of the line before.
        let skipped = rest[begin..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = &rest[..begin + skipped];
        self.ends += passed.split(|&byte| byte == b'\n').count() as u64 - 1;
        self.counted += passed.len();
        self.ends + 1
    }
}

/// Reads a file; test samples have the features of the training samples, in their order.
pub(super) fn read(
    params: &OwnDataParams,
    path: &Path,
    features: Option<&[String]>,
) -> Result<Parsed, DataError> {
    let wrong = |error: FormatError| error.in_file(path);
    let mut text = Vec::new();
    let read = unpacked(path)?.take(MOST_BYTES).read_to_end(&mut text);
    read.map_err(|error| wrong(FormatError::reading(&error)))?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter(&text))
        .flexible(true)
        .trim(Trim::All)
        .from_reader(&text[..]);
    let mut lines = LineCounter::new(&text);
    let unreadable = |error: &csv::Error| {
        let line = error.position().map_or(1, |position| LineCounter::new(&text).at(position));
        wrong(FormatError::new(format!("line {line}: {error}"), "lines of text in UTF-8"))
    };
    let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
    let names: Vec<String> = header.iter().map(str::to_string).collect();
    if !names.is_empty() && names.iter().all(|name| name.parse::<f64>().is_ok()) {
        let found = format!("line 1: {}", names.join(", "));
        let expected = "the names of the columns in the first line";
        return Err(wrong(FormatError::new(found, expected)));
    }
    let columns = Columns::find(params, names, features).map_err(wrong)?;
    let mut parsed = Lines::default();
    for record in reader.records() {
        let record = record.map_err(|error| unreadable(&error))?;
        let line = record.position().map_or(0, |position| lines.at(position));
        parsed.add(&columns, &record, line).map_err(wrong)?;
    }
    Ok(Parsed {
        path: path.to_path_buf(),
        shape: ImageShape::flat(columns.features.len() as u32),
        values: Values::Numbers(parsed.features),
        feature_names: columns.feature_names(),
        labels: Column::Texts(parsed.labels),
        clients: columns.client.map(|_| parsed.clients),
        rows: Rows::Lines(parsed.numbers),
    })
}

/// The one of `,`, `;` and the tabulator that the first line has most often.
fn delimiter(text: &[u8]) -> u8 {
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |mark: u8| first.split(|&byte| byte == mark).count();
    // The comma wins a tie.
    [b';', b'\t', b','].into_iter().max_by_key(|&mark| count(mark)).unwrap_or(b',')
}

/// The lines that were read.
#[derive(Default)]
struct Lines {
    features: Vec<f32>,
    labels: Vec<String>,
    clients: Vec<String>,
    /// The number of each line.
    numbers: Vec<u64>,
}

impl Lines {
    fn add(
        &mut self,
        columns: &Columns,
        record: &StringRecord,
        line: u64,
    ) -> Result<(), FormatError> {
        if record.len() != columns.names.len() {
            let expected = format!("{}, as the first line has", columns.names.len());
            return Err(FormatError::new(
                format!("line {line}: {} values", record.len()),
                expected,
            ));
        }
        for &column in &columns.features {
            let number: Option<f32> = record[column].parse().ok();
            let number = number.filter(|number| number.is_finite()).ok_or_else(|| {
                let found = format!("{:?}", &record[column]);
                columns.no_number(column, &format!("line {line}"), &found)
            })?;
            self.features.push(number);
        }
        self.labels.push(record[columns.label].to_string());
        if let Some(client) = columns.client {
            self.clients.push(record[client].to_string());
        }
        self.numbers.push(line);
        Ok(())
    }
}
