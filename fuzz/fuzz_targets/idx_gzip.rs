//! Any bytes as a gzip stream that may hold an idx file; and any file gives the same result plain and packed.
#![no_main]

use agewise_learn::data::idx::read_idx;
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use std::io::Write;

const MOST: u64 = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    // A gzip header without name, time and flags, so that the fuzzer gets to what is behind it.
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    if let Ok(idx) = read_idx(&[&header[..], bytes].concat()[..], MOST) {
        assert!(idx.values.len() as u64 <= MOST);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    // Bytes that are gzip themselves would be unpacked once only.
    if let (Ok(packed), false) = (packed, bytes.starts_with(&header[..2])) {
        assert_eq!(read_idx(&packed[..], MOST).ok(), read_idx(bytes, MOST).ok());
    }
});
