//! `strandline.wal`: one row per shard, with what its log takes in the store.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array};
use datafusion::arrow::datatypes::Field;
use strandline_storage::log::ShardStats;

use super::{
    SystemContext, bigint, counts, integer, optional_bigint, optional_counts, optional_time, optional_times,
};

pub(super) fn fields() -> Vec<Field> {
    vec![
        integer("shard"),
        optional_bigint("writer_epoch"),
        optional_bigint("seq"),
        bigint("objects"),
        bigint("size_bytes"),
        bigint("tail_bytes"),
        bigint("objects_since_compaction"),
        bigint("segments"),
        bigint("segment_bytes"),
        bigint("live_bytes"),
        bigint("garbage_segments"),
        bigint("garbage_bytes"),
        optional_bigint("checkpoint_writer_epoch"),
        optional_bigint("checkpoint_seq"),
        optional_time("checkpoint_at"),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let shards = context.relations.snapshot.shard_stats();
    let sizes = |of: fn(&ShardStats) -> u64| counts(shards.iter().map(of));
    let known = |of: fn(&ShardStats) -> Option<u64>| optional_counts(shards.iter().map(of));
    let number = |shard: &ShardStats| i32::try_from(shard.shard.0).unwrap_or(i32::MAX);
    vec![
        Arc::new(Int32Array::from_iter_values(shards.iter().map(number))),
        known(|shard| shard.position.map(|position| position.writer_epoch)),
        known(|shard| shard.position.map(|position| position.seq)),
        sizes(|shard| shard.wal_objects),
        sizes(|shard| shard.wal_bytes),
        sizes(|shard| shard.tail_bytes),
        sizes(|shard| shard.wal_objects_since_compaction),
        sizes(|shard| shard.segments),
        sizes(|shard| shard.segment_bytes),
        sizes(|shard| shard.live_bytes),
        sizes(|shard| shard.garbage_segments),
        sizes(|shard| shard.garbage_bytes),
        known(|shard| shard.checkpoint.map(|position| position.writer_epoch)),
        known(|shard| shard.checkpoint.map(|position| position.seq)),
        optional_times(shards.iter().map(|shard| shard.checkpoint_at_ms)),
    ]
}
