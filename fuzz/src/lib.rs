//! What the fuzz targets of this package run. Without a fuzzer the corpora run as tests: those of the decoders in the
//! storage crate (`storage/src/format/corpus_tests.rs`), which takes in `targets` as a module of its own, and that of
//! the Kafka port in the gateway (`kafka-gateway/tests/abuse`), which does the same with `kafka`.
//!
//!     cargo +nightly fuzz run wal_object

use strandline_storage::{format, ids};

pub mod kafka;
pub mod targets;
