//! Searches with [`agewise_fuzz::npy`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| agewise_fuzz::npy(bytes));
