//! Parameters as bytes, and back: 32-bit little-endian floats.

/// The bytes of parameters.
pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * values.len());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// The parameters in bytes; what is left over at the end is not one.
pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4);
    words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}
