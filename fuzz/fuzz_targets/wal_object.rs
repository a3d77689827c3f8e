//! Any bytes through [`targets::wal_object`].

#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_fuzz::targets;

fuzz_target!(|bytes: &[u8]| targets::wal_object(bytes));
