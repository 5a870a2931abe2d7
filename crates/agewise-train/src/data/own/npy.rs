//! Arrays as NumPy stores them: a line of text about type and shape, and the numbers.

use super::super::error::FormatError;

/// The type of the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Unsigned,
    Signed,
    Float,
    /// Texts of 32-bit characters.
    Unicode,
    /// Texts of bytes.
    Bytes,
}

/// An array.
#[derive(Debug)]
pub(super) struct Array {
    kind: Kind,
    /// The bytes of an entry.
    width: usize,
    /// Whether the highest byte of a number comes first.
    big_endian: bool,
    /// Its sides.
    pub(super) shape: Vec<usize>,
    bytes: Vec<u8>,
}

const MAGIC: &[u8] = b"\x93NUMPY";

impl Array {
    /// Reads an array of numbers, truth values or texts.
    pub(super) fn read(file: &[u8]) -> Result<Self, FormatError> {
        let damaged = || FormatError::new("a damaged array", "an array as NumPy writes it");
        let rest = file.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (len, at) = match rest {
            [1, _, low, high, ..] => (usize::from(u16::from_le_bytes([*low, *high])), 4),
            [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
            _ => return Err(damaged()),
        };
        let header = rest.get(at..at + len).ok_or_else(damaged)?;
        let header = String::from_utf8_lossy(header);
        let bytes = rest[at + len..].to_vec();
        let value = |key: &str| {
            let after = header.split_once(&format!("'{key}':"))?.1;
            Some(after.trim_start())
        };
        if value("fortran_order").is_none_or(|text| !text.starts_with("False")) {
            let expected = "rows before columns (numpy.ascontiguousarray)";
            return Err(FormatError::new("an array in Fortran's order", expected));
        }
        let text = value("descr").and_then(|text| text.strip_prefix('\''));
        let text = text.and_then(|text| text.split('\'').next()).unwrap_or_default();
        let (kind, width, big_endian) = kind_of(text).ok_or_else(|| {
            FormatError::new(format!("an array of {text:?}"), "numbers, truth values or texts")
        })?;
        let shape = value("shape").and_then(|text| text.strip_prefix('('));
        let shape = shape.and_then(|text| text.split(')').next()).ok_or_else(damaged)?;
        let sides = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
        let shape: Vec<usize> =
            sides.map(|side| side.parse().map_err(|_| damaged())).collect::<Result<_, _>>()?;
        // Entries of no width take no bytes, however many there are: their number must not overflow either.
        let count = shape.iter().try_fold(1usize, |count, &side| count.checked_mul(side));
        if count.and_then(|count| count.checked_mul(width)) != Some(bytes.len()) {
            let expected = format!("{shape:?} entries of {width} bytes, as its header says");
            return Err(FormatError::new(format!("an array of {} bytes", bytes.len()), expected));
        }
        Ok(Self { kind, width, big_endian, shape, bytes })
    }

    /// How many entries it has in the first direction.
    pub(super) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// The entries as bytes, if they are bytes.
    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        (self.kind == Kind::Unsigned && self.width == 1).then_some(&self.bytes)
    }

    /// The entries as numbers; nothing if they are texts.
    pub(super) fn numbers(&self) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
        if matches!(self.kind, Kind::Unicode | Kind::Bytes) {
            return None;
        }
        Some(Box::new(self.bytes.chunks_exact(self.width.max(1)).map(|entry| self.number(entry))))
    }

    /// The entries as texts; whole numbers without a point.
    pub(super) fn texts(&self) -> Vec<String> {
        if let Some(numbers) = self.numbers() {
            return numbers.map(|number| number.to_string()).collect();
        }
        // Texts of no length have no bytes, and there are still as many.
        let count = self.shape.iter().product();
        let entry = |index: usize| &self.bytes[index * self.width..][..self.width];
        (0..count).map(|index| self.text(entry(index))).collect()
    }

    fn text(&self, entry: &[u8]) -> String {
        let text = match self.kind {
            Kind::Bytes => String::from_utf8_lossy(entry).into_owned(),
            _ => entry.chunks_exact(4).map(|four| character(four, self.big_endian)).collect(),
        };
        text.trim_end_matches('\0').to_string()
    }

    fn number(&self, entry: &[u8]) -> f64 {
        let mut low_first = [0; 8];
        for (place, &byte) in entry.iter().enumerate() {
            low_first[if self.big_endian { self.width - 1 - place } else { place }] = byte;
        }
        let bits = u64::from_le_bytes(low_first);
        match (self.kind, self.width) {
            (Kind::Float, 4) => f64::from(f32::from_bits(bits as u32)),
            (Kind::Float, 2) => half(bits as u16),
            (Kind::Float, _) => f64::from_bits(bits),
            (Kind::Signed, width) => {
                let unused = 64 - 8 * width as u32;
                (((bits << unused) as i64) >> unused) as f64
            }
            _ => bits as f64,
        }
    }
}

/// What a type of NumPy is, such as `<f4` or `|u1`.
fn kind_of(text: &str) -> Option<(Kind, usize, bool)> {
    let order = text.chars().next().filter(|order| "<>|=".contains(*order))?;
    let kind = text.get(1..2)?;
    let width: usize = text.get(2..)?.parse().ok()?;
    let (kind, width) = match (kind, width) {
        ("b", 1) => (Kind::Bool, 1),
        ("u", 1 | 2 | 4 | 8) => (Kind::Unsigned, width),
        ("i", 1 | 2 | 4 | 8) => (Kind::Signed, width),
        ("f", 2 | 4 | 8) => (Kind::Float, width),
        ("U", 0..=65_536) => (Kind::Unicode, 4 * width),
        ("S", 0..=65_536) => (Kind::Bytes, width),
        _ => return None,
    };
    Some((kind, width, order == '>'))
}

fn character(four: &[u8], big_endian: bool) -> char {
    let bytes = <[u8; 4]>::try_from(four).unwrap_or_default();
    let code = if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The smallest float of 16 bits above 0: 2^-24.
const SMALLEST_HALF: f64 = 1.0 / 16_777_216.0;

/// A float of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * SMALLEST_HALF,
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * f64::from(1 << (exponent - 1)) * SMALLEST_HALF,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_numbers() {
        for (bits, number) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, SMALLEST_HALF), (0x3555, 0.333_251_953_125)]
        {
            assert_eq!(half(bits), number);
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
    }
}
