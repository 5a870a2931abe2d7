//! Reading bytes that may be compressed, and may unpack to far more than they should.

use super::error::FormatError;
use flate2::read::MultiGzDecoder;
use std::io::{self, Chain, Cursor, Read};

/// Bytes as they are meant, whether they come plain or as gzip.
pub(crate) enum Unpacked<R> {
    Plain(Peeked<R>),
    Gzip(Box<MultiGzDecoder<Peeked<R>>>),
}

/// A source of which the first bytes were looked at.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first two bytes of every gzip stream, and of no format that we read.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Looks at the first bytes to see how a source is packed: names lie.
pub(crate) fn unpack<R: Read>(mut source: R) -> Result<Unpacked<R>, FormatError> {
    let mut first = Vec::with_capacity(GZIP.len());
    let read = source.by_ref().take(GZIP.len() as u64).read_to_end(&mut first);
    read.map_err(|error| FormatError::reading(&error))?;
    let is_gzip = first == GZIP;
    let peeked = Cursor::new(first).chain(source);
    Ok(if is_gzip {
        // Several gzip members after one another are one stream; anything else after a member is an error.
        Unpacked::Gzip(Box::new(MultiGzDecoder::new(peeked)))
    } else {
        Unpacked::Plain(peeked)
    })
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(source) => source.read(buffer),
        }
    }
}

/// Reads to the end, but at most one byte more than `most`: enough to see that there is too much.
///
/// Memory grows with the bytes that come, not with what a header says.
pub(crate) fn read_at_most(source: impl Read, most: u64) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    match source.take(most.saturating_add(1)).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(FormatError::reading(&error)),
    }
}
