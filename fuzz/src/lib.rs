//! What the fuzz targets of this package run. Without a fuzzer the corpora run as tests of the storage
//! crate (`storage/src/format/corpus_tests.rs`), which takes in `targets` as a module of its own.
//!
//!     cargo +nightly fuzz run wal_object

use strandline_storage::{format, ids};

pub mod targets;
