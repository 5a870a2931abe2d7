//! The files in a zip archive, as NumPy writes them: stored or deflated, not encrypted.

use super::super::error::FormatError;
use super::super::gzip::read_at_most;
use flate2::read::DeflateDecoder;

/// A file in an archive.
pub(super) struct Entry {
    /// Its name.
    pub(super) name: String,
    method: u16,
    packed: u64,
    unpacked: u64,
    offset: u64,
}

/// The mark of the end of the directory, and of each of its entries.
const END: [u8; 4] = [b'P', b'K', 5, 6];
const ENTRY: [u8; 4] = [b'P', b'K', 1, 2];
const LOCAL: [u8; 4] = [b'P', b'K', 3, 4];
/// A size that stands in the extra field instead.
const ELSEWHERE: u64 = 0xffff_ffff;

fn damaged(found: &str) -> FormatError {
    FormatError::new(found, "a complete .npz as numpy.savez or numpy.savez_compressed writes it")
}

/// The files of an archive.
pub(super) fn entries(archive: &[u8]) -> Result<Vec<Entry>, FormatError> {
    // The end has 22 bytes and a comment of up to 65,535.
    let from = archive.len().saturating_sub(22 + 0xffff);
    let tail = &archive[from..];
    let end = tail.windows(END.len()).rposition(|window| window == END);
    let end = end.ok_or_else(|| damaged("an archive without its directory"))?;
    let count = number::<2>(tail, end + 10)?;
    let mut at = number::<4>(tail, end + 16)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let place = usize::try_from(at).map_err(|_| damaged("a directory beyond the end"))?;
        let head = archive.get(place..).unwrap_or_default();
        if head.get(..4) != Some(&ENTRY[..]) {
            return Err(damaged("a damaged directory"));
        }
        let [name, extra, comment] = [28, 30, 32].map(|place| number::<2>(head, place));
        let (name, extra, comment) = (name? as usize, extra? as usize, comment? as usize);
        let text = head.get(46..46 + name).ok_or_else(|| damaged("a damaged directory"))?;
        let more = head.get(46 + name..46 + name + extra);
        let mut sizes = [number::<4>(head, 24)?, number::<4>(head, 20)?, number::<4>(head, 42)?];
        large_sizes(more.unwrap_or_default(), &mut sizes)?;
        let [unpacked, packed, offset] = sizes;
        entries.push(Entry {
            name: String::from_utf8_lossy(text).into_owned(),
            method: number::<2>(head, 10)? as u16,
            packed,
            unpacked,
            offset,
        });
        at += (46 + name + extra + comment) as u64;
    }
    Ok(entries)
}

/// Replaces sizes that do not fit into 32 bits by those of the extra field.
fn large_sizes(mut extra: &[u8], sizes: &mut [u64; 3]) -> Result<(), FormatError> {
    while extra.len() >= 4 {
        let (kind, len) = (number::<2>(extra, 0)?, number::<2>(extra, 2)? as usize);
        let body = extra.get(4..4 + len).ok_or_else(|| damaged("a damaged directory"))?;
        if kind == 1 {
            let mut at = 0;
            for size in sizes.iter_mut().filter(|size| **size == ELSEWHERE) {
                *size = number::<8>(body, at)?;
                at += 8;
            }
        }
        extra = &extra[4 + len..];
    }
    Ok(())
}

impl Entry {
    /// The bytes of the file.
    pub(super) fn read(&self, archive: &[u8]) -> Result<Vec<u8>, FormatError> {
        let cut = || damaged("an archive that ends within a file");
        let begin = usize::try_from(self.offset).map_err(|_| cut())?;
        let head = archive.get(begin..).ok_or_else(cut)?;
        if head.get(..4) != Some(&LOCAL[..]) {
            return Err(damaged("a damaged file"));
        }
        let skip = 30 + number::<2>(head, 26)? as usize + number::<2>(head, 28)? as usize;
        let packed = usize::try_from(self.packed).map_err(|_| cut())?;
        let end = skip.checked_add(packed).ok_or_else(cut)?;
        let bytes = head.get(skip..end).ok_or_else(cut)?;
        let bytes = match self.method {
            0 => bytes.to_vec(),
            8 => read_at_most(DeflateDecoder::new(bytes), self.unpacked)?,
            _ => return Err(damaged("a file packed in another way")),
        };
        if bytes.len() as u64 != self.unpacked {
            return Err(damaged("a file of another length than the directory says"));
        }
        Ok(bytes)
    }
}

/// A whole number of so many bytes, the last one the highest.
fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Result<u64, FormatError> {
    let bytes = bytes.get(at..at + BYTES).ok_or_else(|| damaged("an archive that is cut off"))?;
    Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}
