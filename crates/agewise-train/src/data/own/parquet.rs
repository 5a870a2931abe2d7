//! Tables in Parquet files, as pandas, Polars, DuckDB and Spark write them.

use super::super::error::{DataError, FormatError};
use super::super::images::ImageShape;
use super::columns::Columns;
use super::parsed::{Column, Parsed, Rows, Values};
use super::{OwnDataParams, open_file};
use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use std::cell::Cell as StdCell;
use std::fmt;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

/// How pandas calls the index of a table where it stores it as a column.
const PANDAS_INDEX: &str = "__index_level_";

/// The most bytes of a decimal number that is read.
const DECIMAL_BYTES: usize = 16;

/// How many values are read at a time: what a damaged file says of its length is no reason to ask for memory.
const BATCH: usize = 1 << 16;

/// Reads a file; test samples have the features of the training samples, in their order.
pub(super) fn read(
    params: &OwnDataParams,
    path: &Path,
    features: Option<&[String]>,
) -> Result<Parsed, DataError> {
    let file = open_file(path)?;
    let table = without_panics(|| read_table(params, path, features, file));
    table.map_err(|error| error.in_file(path))
}

/// Runs the reader, which asserts in places what damaged files do not keep: a panic of it is an error like any other.
fn without_panics<T>(read: impl FnOnce() -> Result<T, FormatError>) -> Result<T, FormatError> {
    thread_local!(static IS_READING: StdCell<bool> = const { StdCell::new(false) });
    static QUIET: Once = Once::new();
    // What would be printed of such a panic means nothing to a user.
    QUIET.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_READING.get() {
                print(panic);
            }
        }));
    });
    IS_READING.set(true);
    // Nothing that the reader has touched is used after a panic.
    let table = panic::catch_unwind(AssertUnwindSafe(read));
    IS_READING.set(false);
    table.unwrap_or_else(|_| Err(damaged(&"it contradicts itself")))
}

fn read_table(
    params: &OwnDataParams,
    path: &Path,
    features: Option<&[String]>,
    file: File,
) -> Result<Parsed, FormatError> {
    let reader = SerializedFileReader::new(file).map_err(|error| damaged(&error))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let columns = Columns::find(params, names_of(schema), features)?;
    let (mut numbers, mut labels, mut clients) = (Vec::new(), Vec::new(), Vec::new());
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| damaged(&error))?;
        let of_column = |column: usize| cells(&*group, schema, &columns.names[column]);
        let before = labels.len();
        labels.extend(of_column(columns.label)?.iter().map(Cell::text));
        let rows = labels.len() - before;
        if let Some(client) = columns.client {
            clients.extend(of_column(client)?.iter().map(Cell::text));
        }
        let width = columns.features.len();
        let begin = numbers.len();
        numbers.resize(begin + rows * width, 0.0);
        for (place, &column) in columns.features.iter().enumerate() {
            let cells = of_column(column)?;
            if cells.len() != rows {
                let found = format!("{} rows in column {}", cells.len(), columns.names[column]);
                return Err(FormatError::new(found, format!("{rows}, as in the others")));
            }
            for (row, cell) in cells.iter().enumerate() {
                let number = cell.number().ok_or_else(|| {
                    let row = format!("row {} (from 0)", before + row);
                    columns.no_number(column, &row, &cell.to_string())
                })?;
                numbers[begin + row * width + place] = number;
            }
        }
    }
    if columns.client.is_some() && clients.len() != labels.len() {
        let found = format!("{} clients for {} labels", clients.len(), labels.len());
        return Err(FormatError::new(found, "one for each row"));
    }
    Ok(Parsed {
        path: path.to_path_buf(),
        shape: ImageShape::flat(columns.features.len() as u32),
        values: Values::Numbers(numbers),
        feature_names: columns.feature_names(),
        labels: Column::Texts(labels),
        clients: columns.client.map(|_| clients),
        rows: Rows::Places,
    })
}

/// The names of the columns, without the index of pandas.
fn names_of(schema: &SchemaDescriptor) -> Vec<String> {
    let names = schema.root_schema().get_fields().iter().map(|field| field.name().to_string());
    names.filter(|name| !name.starts_with(PANDAS_INDEX)).collect()
}

fn damaged(error: &dyn fmt::Display) -> FormatError {
    FormatError::new(
        format!("a Parquet file that cannot be read ({error})"),
        "a complete file, not encrypted, plain or packed with snappy, zstd or gzip",
    )
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    /// No value.
    Missing,
    Bool(bool),
    Whole(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    Text(String),
}

impl Cell {
    /// A finite number, if it is one.
    fn number(&self) -> Option<f32> {
        let number = match self {
            Self::Missing => return None,
            Self::Bool(flag) => f32::from(u8::from(*flag)),
            Self::Whole(number) => *number as f32,
            Self::Unsigned(number) => *number as f32,
            Self::Single(number) => *number,
            Self::Double(number) => *number as f32,
            Self::Text(text) => text.trim().parse().ok()?,
        };
        number.is_finite().then_some(number)
    }

    /// The value as a label or a name; nothing where it is missing.
    fn text(&self) -> String {
        if *self == Self::Missing { String::new() } else { self.to_string() }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no value"),
            Self::Bool(flag) => flag.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Unsigned(number) => number.fmt(f),
            Self::Single(number) => number.fmt(f),
            Self::Double(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The values of a column in a group of rows.
fn cells(
    group: &dyn RowGroupReader,
    schema: &SchemaDescriptor,
    name: &str,
) -> Result<Vec<Cell>, FormatError> {
    let is_column = |column: &usize| schema.column(*column).path().parts() == [name];
    let found = (0..schema.num_columns()).find(is_column).filter(|&column| {
        schema.column(column).self_type().get_basic_info().repetition() != Repetition::REPEATED
    });
    let unusable = |found: &str| {
        let expected = format!("numbers or text in each row (--ignore {name} leaves it out)");
        FormatError::new(format!("column {name}: {found}"), expected)
    };
    let column = found.ok_or_else(|| unusable("lists or structures"))?;
    let description = schema.column(column);
    let meaning = Meaning::of(&description).ok_or_else(|| unusable("times or other values"))?;
    let is_optional = description.max_def_level() > 0;
    let of_bytes = |bytes: &[u8]| meaning.of_bytes(bytes);
    let reader = group.get_column_reader(column).map_err(|error| damaged(&error))?;
    let cells = match reader {
        ColumnReader::BoolColumnReader(reader) => {
            values(reader, is_optional, |value| Some(Cell::Bool(value)))
        }
        ColumnReader::Int32ColumnReader(reader) => {
            values(reader, is_optional, |value| Some(meaning.of_whole(i64::from(value), 32)))
        }
        ColumnReader::Int64ColumnReader(reader) => {
            values(reader, is_optional, |value| Some(meaning.of_whole(value, 64)))
        }
        ColumnReader::FloatColumnReader(reader) => {
            values(reader, is_optional, |value| Some(Cell::Single(value)))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            values(reader, is_optional, |value| Some(Cell::Double(value)))
        }
        ColumnReader::ByteArrayColumnReader(reader) => {
            values(reader, is_optional, |value: ByteArray| of_bytes(value.data()))
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            values(reader, is_optional, |value| of_bytes(value.data()))
        }
        ColumnReader::Int96ColumnReader(_) => return Err(unusable("times")),
    };
    cells.map_err(|error| damaged(&error))?.ok_or_else(|| unusable("bytes that are no text"))
}

/// All values of a column, with those that are missing in their places; nothing if one cannot be understood.
fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    is_optional: bool,
    cell: impl Fn(T::T) -> Option<Cell>,
) -> Result<Option<Vec<Cell>>, ParquetError> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    loop {
        let levels = is_optional.then_some(&mut levels);
        let (records, _, _) = reader.read_records(BATCH, levels, None, &mut found)?;
        if records == 0 {
            break;
        }
    }
    let mut found = found.into_iter();
    let mut next = || found.next().and_then(&cell);
    if !is_optional {
        return Ok(std::iter::from_fn(|| found.next()).map(&cell).collect());
    }
    let of_level = |level: i16| if level > 0 { next() } else { Some(Cell::Missing) };
    Ok(levels.into_iter().map(of_level).collect())
}

/// What the stored numbers and bytes of a column stand for.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// As they are; bytes are text.
    Plain,
    Unsigned,
    /// So many digits behind the point.
    Decimal(i32),
}

impl Meaning {
    /// Nothing for dates, times and the like: their numbers would be features of an arbitrary scale.
    fn of(column: &ColumnDescriptor) -> Option<Self> {
        match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Decimal(_)), _) | (None, ConvertedType::DECIMAL) => {
                Some(Self::Decimal(column.type_scale()))
            }
            (
                _,
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64,
            ) => Some(Self::Unsigned),
            (
                Some(LogicalType::Integer(_) | LogicalType::String | LogicalType::Enum) | None,
                ConvertedType::NONE
                | ConvertedType::UTF8
                | ConvertedType::ENUM
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64,
            ) => Some(Self::Plain),
            _ => None,
        }
    }

    fn of_whole(self, number: i64, bits: u32) -> Cell {
        match self {
            Self::Plain => Cell::Whole(number),
            Self::Unsigned if bits == 32 => Cell::Unsigned(u64::from(number as u32)),
            Self::Unsigned => Cell::Unsigned(number as u64),
            Self::Decimal(scale) => Cell::Double(number as f64 / libm::pow(10.0, f64::from(scale))),
        }
    }

    fn of_bytes(self, bytes: &[u8]) -> Option<Cell> {
        match self {
            // The number is in two's complement, its highest byte first.
            Self::Decimal(scale) if (1..=DECIMAL_BYTES).contains(&bytes.len()) => {
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
                let number =
                    bytes.iter().fold(sign, |number: i128, &byte| number << 8 | i128::from(byte));
                Some(Cell::Double(number as f64 / libm::pow(10.0, f64::from(scale))))
            }
            Self::Plain => std::str::from_utf8(bytes).ok().map(|text| Cell::Text(text.to_string())),
            _ => None,
        }
    }
}
