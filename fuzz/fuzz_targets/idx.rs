//! Any bytes as an idx file: a result, no panic, and never more values than allowed.
#![no_main]

use agewise_learn::data::idx::{read_idx, read_idx_of};
use libfuzzer_sys::fuzz_target;

const MOST: u64 = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(idx) = read_idx(bytes, MOST) {
        assert!(idx.values.len() as u64 <= MOST);
        let product: u64 = idx.dimensions.iter().map(|&size| u64::from(size)).product();
        assert_eq!(idx.values.len() as u64, product);
        assert_eq!(read_idx_of(bytes, &idx.dimensions), Ok(idx.values));
    }
});
