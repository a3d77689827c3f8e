//! Any bytes through [`targets::record_batch`].

#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_fuzz::targets;

fuzz_target!(|bytes: &[u8]| targets::record_batch(bytes));
