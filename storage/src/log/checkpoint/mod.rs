//! Checkpoints: the state of the shard as a root and pages, so that an open replays only what came
//! after, and the WAL before can be deleted.
//!
//! Invariant: a checkpoint is the state after one durable WAL object, and is written as a whole
//! before its root exists. Loading it and replaying what follows gives the state that a replay of
//! everything would have given.
//! Invariant: a page is never written twice: one whose entries did not change is shared by the roots.

mod access;
mod decode;
mod encode;
mod load;
mod write;

#[cfg(test)]
mod tests;

pub(super) use load::{Loaded, load_newest};
pub(super) use write::{WrittenCheckpoint, write_checkpoint};
