//! The idx format of MNIST and Fashion-MNIST, plain or gzip.
//!
//! Two zero bytes, the type of the values (8: bytes), the number of dimensions, each dimension as a big-endian 32-bit
//! number, and the values.

use super::error::FormatError;
use super::gzip::{read_at_most, unpack};
use std::io::Read;

/// The type of values that are bytes.
const BYTES: u8 = 8;

/// The most dimensions that are of use here: images, rows, columns and perhaps channels.
const MOST_DIMENSIONS: u8 = 4;

/// The contents of an idx file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idx {
    /// The size of each dimension; the first is the number of images or labels.
    pub dimensions: Vec<u32>,
    /// The values, as many as the product of the dimensions.
    pub values: Vec<u8>,
}

/// Reads an idx file of bytes, plain or gzip, with at most `most` values.
///
/// Reads and keeps at most `most` values and one byte, whatever the header says and however long the source is.
pub fn read_idx(source: impl Read, most: u64) -> Result<Idx, FormatError> {
    let mut source = unpack(source)?;
    let [zero, also_zero, kind, dimensions] = header_word(&mut source)?;
    if (zero, also_zero, kind) != (0, 0, BYTES) || !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        return Err(FormatError::new(
            format!("the first bytes {zero:02x} {also_zero:02x} {kind:02x} {dimensions:02x}"),
            format!("00 00 08 and the number of dimensions, 1 to {MOST_DIMENSIONS} (idx format)"),
        ));
    }
    let words = (0..dimensions).map(|_| header_word(&mut source).map(u32::from_be_bytes));
    let dimensions: Vec<u32> = words.collect::<Result<_, _>>()?;
    // Four dimensions of 32 bits fit into 128 bits.
    let claimed: u128 = dimensions.iter().map(|&size| u128::from(size)).product();
    let claimed = u64::try_from(claimed).ok().filter(|&claimed| claimed <= most);
    let Some(claimed) = claimed else {
        let found = format!("a header that announces {} values", times(&dimensions));
        return Err(FormatError::new(found, format!("at most {most}")));
    };
    let values = read_at_most(source, claimed)?;
    if values.len() as u64 != claimed {
        let found = match values.len() as u64 {
            fewer if fewer < claimed => format!("{fewer} values after the header"),
            _ => format!("more than {claimed} values after the header"),
        };
        let expected = format!("{claimed}, as the header says ({})", times(&dimensions));
        return Err(FormatError::new(found, expected));
    }
    Ok(Idx { dimensions, values })
}

/// Reads an idx file that must have exactly these dimensions.
pub fn read_idx_of(source: impl Read, dimensions: &[u32]) -> Result<Vec<u8>, FormatError> {
    let most = dimensions.iter().fold(1u64, |most, &size| most.saturating_mul(u64::from(size)));
    let idx = read_idx(source, most)?;
    if idx.dimensions == dimensions {
        Ok(idx.values)
    } else {
        let found = format!("{} values", times(&idx.dimensions));
        Err(FormatError::new(found, times(dimensions)))
    }
}

/// Four bytes of the header.
fn header_word(source: &mut impl Read) -> Result<[u8; 4], FormatError> {
    let word = read_at_most(source.by_ref().take(4), 4)?;
    <[u8; 4]>::try_from(word.as_slice())
        .map_err(|_| FormatError::new("a file that ends within its header", "an idx file"))
}

/// The dimensions as people write them.
fn times(dimensions: &[u32]) -> String {
    dimensions.iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")
}
