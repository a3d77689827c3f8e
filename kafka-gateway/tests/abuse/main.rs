//! The Kafka port under abuse: the target of the fuzzer with its corpus and with damaged requests, and floods.
//!
//! A binary of its own, because it looks at what the whole process does: panics that a runtime catches, and memory.

mod corpus;
mod damaged;
mod floods;
mod panics;
mod requests;
#[path = "../../../fuzz/src/kafka.rs"]
mod target;
