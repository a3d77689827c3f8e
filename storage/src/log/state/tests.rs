//! The state against objects that contradict it.

use super::*;
use crate::format::event::{ProducerBatches, TopicCreated, TopicDeleted};
use crate::format::{BlockEntry, BlockFlags, Event, WalHeader};
use crate::ids::ShardId;

fn created(name: &str, id: u8) -> Event {
    Event::TopicCreated(TopicCreated {
        topic_id: TopicId::from_bytes([id; 16]),
        name: name.to_owned(),
        partition_count: 1,
        configs: Default::default(),
        shards: Vec::new(),
        created_at_ms: 0,
    })
}

fn block(id: u8, base_offset: i64, next_offset: i64) -> BlockEntry {
    BlockEntry {
        topic_partition: TopicPartition::new(TopicId::from_bytes([id; 16]), 0),
        base_offset,
        next_offset,
        position: 0,
        length: 100,
        data_count: 1,
        control_count: 0,
        null_timestamp_count: 0,
        min_timestamp: 5,
        max_timestamp: 9,
        offset_of_max_timestamp: base_offset,
        append_time_ms: 0,
        leader_epoch: 0,
        flags: BlockFlags::default(),
        crc: 0,
    }
}

fn apply(state: &mut ShardState, events: &[Event], blocks: &[BlockEntry]) -> Result<(), String> {
    let header = WalHeader {
        shard: ShardId(0),
        position: WalPosition { writer_epoch: 1, seq: 0 },
        writer_nonce: [0; 16],
        durable_seq: -1,
        previous_header_crc: 0,
        append_time_ms: 0,
    };
    state.apply(&Commit { header: &header, header_crc: 0, object_length: 1, events, blocks })
}

#[test]
fn an_object_that_contradicts_the_state_is_refused() {
    let mut state = ShardState::default();
    apply(&mut state, &[created("a", 1)], &[block(1, 0, 3)]).unwrap();
    let refused =
        |events: &[Event], blocks: &[BlockEntry]| apply(&mut state.clone(), events, blocks).unwrap_err();
    refused(&[created("a", 2)], &[]);
    refused(&[created("b", 1)], &[]);
    refused(&[Event::TopicDeleted(TopicDeleted { topic_id: TopicId::from_bytes([9; 16]) })], &[]);
    refused(&[], &[block(9, 0, 1)]);
    refused(&[], &[block(1, 2, 4)]);
    refused(&[], &[block(1, 3, 3)]);
    let batches =
        ProducerBatches { topic_id: TopicId::from_bytes([9; 16]), partition: 0, batches: Vec::new() };
    refused(&[Event::ProducerBatches(batches)], &[]);
}

#[test]
fn offsets_between_blocks_may_be_missing() {
    let mut state = ShardState::default();
    apply(&mut state, &[created("a", 1)], &[block(1, 5, 8), block(1, 10, 12)]).unwrap();
    let partition = state.partitions.values().next().unwrap();
    assert_eq!(partition.next_offset, 12);
    assert_eq!(partition.first_block_where(|block| block.next_offset > 8), 1);
    assert_eq!(partition.first_block_where(|block| block.next_offset > 12), 2);
}

#[test]
fn a_copy_is_not_changed_by_what_is_applied_later() {
    let mut state = ShardState::default();
    apply(&mut state, &[created("a", 1)], &[]).unwrap();
    let copy = state.clone();
    apply(&mut state, &[created("b", 2)], &[block(1, 0, 3)]).unwrap();
    assert_eq!(copy.topics.len(), 1);
    assert!(copy.partitions.values().all(|partition| partition.blocks.is_empty()));
}
