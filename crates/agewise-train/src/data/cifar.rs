//! The binary format of CIFAR-10 and CIFAR-100: records of labels and three planes of colour.

use super::error::FormatError;
use super::gzip::{read_at_most, unpack};
use super::images::ImageShape;
use std::io::Read;

/// The size of every image: 32 x 32 in three colours.
pub const SHAPE: ImageShape = ImageShape::new(3, 32, 32);

/// The classes of CIFAR-10 or of CIFAR-100, which decide how a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CifarLabels {
    /// One label below 10.
    Ten,
    /// A coarse label below 20, which is left aside, and a fine one below 100.
    Hundred,
}

impl CifarLabels {
    /// The number of classes.
    pub const fn classes(self) -> u32 {
        match self {
            Self::Ten => 10,
            Self::Hundred => 100,
        }
    }

    /// The bytes before the pixels; the last of them is the class.
    const fn bytes(self) -> usize {
        match self {
            Self::Ten => 1,
            Self::Hundred => 2,
        }
    }

    /// The bytes of one record.
    pub const fn record(self) -> usize {
        self.bytes() + SHAPE.len()
    }
}

/// The contents of a file of records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Records {
    /// The pixels of all images, rows before columns before colours.
    pub pixels: Vec<u8>,
    /// One class for each image.
    pub labels: Vec<u8>,
}

/// Reads a file of exactly so many records, plain or gzip.
///
/// Reads and keeps at most those records and one byte, however long the source is.
pub fn read_cifar(
    source: impl Read,
    labels: CifarLabels,
    images: u32,
) -> Result<Records, FormatError> {
    let record = labels.record();
    let size = u64::from(images) * record as u64;
    let bytes = read_at_most(unpack(source)?, size)?;
    if bytes.len() as u64 != size {
        let found = match bytes.len() as u64 {
            fewer if fewer < size => format!("{fewer} bytes"),
            _ => format!("more than {size} bytes"),
        };
        let expected = format!("{size} bytes: {images} records of {record}");
        return Err(FormatError::new(found, expected));
    }
    let mut records = Records {
        pixels: Vec::with_capacity(images as usize * SHAPE.len()),
        labels: Vec::with_capacity(images as usize),
    };
    for (number, record) in bytes.chunks_exact(record).enumerate() {
        let (before, planes) = record.split_at(labels.bytes());
        let label = before[before.len() - 1];
        if u32::from(label) >= labels.classes() {
            let found = format!("label {label} in record {number}");
            let expected = format!("a label from 0 to {}", labels.classes() - 1);
            return Err(FormatError::new(found, expected));
        }
        records.labels.push(label);
        let plane = planes.len() / SHAPE.channels as usize;
        let (red, rest) = planes.split_at(plane);
        let (green, blue) = rest.split_at(plane);
        for ((&red, &green), &blue) in red.iter().zip(green).zip(blue) {
            records.pixels.extend([red, green, blue]);
        }
    }
    Ok(records)
}
