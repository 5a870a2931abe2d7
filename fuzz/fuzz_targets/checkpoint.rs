//! Searches with [`agewise_fuzz::checkpoint`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| agewise_fuzz::checkpoint(bytes));
