//! Events: round trip, refusal of what is not known, and any bytes.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::access_tests::access_event;
use super::group_tests::group_state_event;
use super::*;
use crate::format::slice::{LossAcceptance, SliceData, SliceLocation};
use crate::format::{BlockFlags, PendingOffset, Producer, ReplacedOffset, TransactionState, TransactionalId};
use crate::ids::TopicPartition;

fn encoded(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    bytes
}

fn frame(kind: u16, min_reader_version: u16, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&min_reader_version.to_le_bytes());
    bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

#[test]
fn a_transactional_id_in_an_unknown_state_or_without_a_producer_is_refused() {
    let refused = |message: &[u8]| Event::decode(&frame(18, 2, message)).unwrap_err().to_string();
    assert_eq!(refused(&[0x12, 0, 0x28, 9]), "kind 18 does not decode: transaction state 9 is not known");
    assert_eq!(refused(&[0x0a, 1, b't']), "kind 18 does not decode: the producer is missing");
    let epoch = [0x12, 4, 0x10, 0x80, 0x80, 0x04];
    assert!(refused(&epoch).contains("producer epoch 32768 does not fit 16 bits"));
}

fn topic_deleted() -> Event {
    Event::TopicDeleted(TopicDeleted { topic_id: TopicId::from_bytes([3; 16]) })
}

#[test]
fn an_event_has_the_bytes_of_docs_formats() {
    let mut expected = vec![3, 0, 1, 0, 18, 0, 0, 0, 0x0a, 16];
    expected.extend_from_slice(&[3; 16]);
    assert_eq!(encoded(&topic_deleted()), expected);
    let allocated = Event::ProducerIdsAllocated(ProducerIdsAllocated { next_producer_id: 1000 });
    assert_eq!(encoded(&allocated), [6, 0, 1, 0, 3, 0, 0, 0, 0x08, 0xe8, 0x07]);
}

#[test]
fn an_unknown_kind_is_refused_by_number() {
    let error = Event::decode(&frame(99, 1, b"")).unwrap_err();
    let expected = format!("kind 99 is not known to format version {FORMAT_VERSION}; it needs version 1");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_event_that_needs_a_newer_reader_is_refused_by_version() {
    for kind in [3, 99] {
        let min_reader_version = FORMAT_VERSION + 1;
        let error = Event::decode(&frame(kind, min_reader_version, b"")).unwrap_err();
        let supported = FORMAT_VERSION;
        assert_eq!(error, EventError::UnsupportedVersion { kind, min_reader_version, supported });
    }
}

#[test]
fn an_id_that_is_not_16_bytes_is_refused() {
    let error = Event::decode(&frame(3, 1, &[0x0a, 2, 1, 2])).unwrap_err();
    assert_eq!(error.to_string(), "kind 3 does not decode: a topic id has 2 bytes, not 16");
    assert!(matches!(Event::decode(&frame(3, 1, b"")), Err(EventError::Malformed { kind: 3, .. })));
}

#[test]
fn a_config_that_is_there_twice_is_refused() {
    let mut message = vec![0x0a, 16];
    message.extend_from_slice(&[3; 16]);
    for _ in 0..2 {
        message.extend_from_slice(&[0x12, 3, 0x0a, 1, b'a']);
    }
    let error = Event::decode(&frame(5, 1, &message)).unwrap_err();
    assert_eq!(error.to_string(), "kind 5 does not decode: config \"a\" is there twice");
}

#[test]
fn a_slice_that_ends_beyond_every_object_or_is_not_understood_is_refused() {
    let message = |field: &[u8], number: u8| {
        // SegmentsInstalled.partitions[0].slices[0] with `stored` and `flags`.
        let mut stored = vec![0x0a, 16];
        stored.extend_from_slice(&[1; 16]);
        stored.extend_from_slice(&[0x38, 104]);
        stored.extend_from_slice(field);
        let mut slice = vec![0x0a, 16];
        slice.extend_from_slice(&[3; 16]);
        slice.extend_from_slice(&[0x18, 0, 0x20, 1, 0x2a, stored.len() as u8]);
        slice.extend_from_slice(&stored);
        slice.extend_from_slice(&[0x80, 0x01, number]);
        let mut install = vec![0x0a, 16];
        install.extend_from_slice(&[3; 16]);
        install.extend_from_slice(&[0x20, 1, 0x2a, slice.len() as u8]);
        install.extend_from_slice(&slice);
        let mut message = vec![0x12, install.len() as u8];
        message.extend_from_slice(&install);
        Event::decode(&frame(32, 2, &message)).map(drop)
    };
    let end = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let last_place = |tag: u8| [&[tag][..], &end, &[tag + 8, 1]].concat();
    assert_eq!(message(&[], 0), Ok(()));
    assert!(message(&last_place(0x10), 0).unwrap_err().to_string().contains("beyond every object"));
    assert!(message(&[], 0x20).unwrap_err().to_string().contains("flags 0x20"));
}

#[test]
fn a_frame_that_is_cut_off_is_refused() {
    let bytes = encoded(&topic_deleted());
    for length in 0..bytes.len() {
        assert!(
            matches!(Event::decode(&bytes[..length]), Err(EventError::Truncated { .. })),
            "length {length}"
        );
    }
}

#[test]
fn an_error_comes_with_the_number_of_its_event() {
    let mut bytes = encoded(&topic_deleted());
    bytes.extend(encoded(&topic_deleted()));
    assert_eq!(decode_events(&bytes), Ok(vec![topic_deleted(), topic_deleted()]));
    bytes.extend(frame(99, 1, b""));
    assert_eq!(decode_events(&bytes).unwrap_err().0, 2);
}

fn topic_id() -> impl Strategy<Value = TopicId> {
    any::<[u8; 16]>().prop_map(TopicId::from_bytes)
}

fn topic_event() -> impl Strategy<Value = Event> {
    let created = (
        topic_id(),
        any::<String>(),
        any::<i32>(),
        btree_map(any::<String>(), any::<String>(), 0..4),
        vec(any::<u32>().prop_map(ShardId), 0..4),
        any::<i64>(),
    );
    let added = (topic_id(), any::<i32>(), vec(any::<u32>().prop_map(ShardId), 0..4));
    let config_set = (topic_id(), btree_map(any::<String>(), option::of(any::<String>()), 0..4));
    let schema = (topic_id(), any::<String>(), any::<u32>(), vec(any::<u8>(), 0..40));
    prop_oneof![
        created.prop_map(|(topic_id, name, partition_count, configs, shards, created_at_ms)| {
            Event::TopicCreated(TopicCreated {
                topic_id,
                name,
                partition_count,
                configs,
                shards,
                created_at_ms,
            })
        }),
        topic_id().prop_map(|topic_id| Event::TopicDeleted(TopicDeleted { topic_id })),
        added.prop_map(|(topic_id, partition_count, shards)| {
            Event::PartitionsAdded(PartitionsAdded { topic_id, partition_count, shards })
        }),
        config_set
            .prop_map(|(topic_id, configs)| { Event::TopicConfigSet(TopicConfigSet { topic_id, configs }) }),
        schema.prop_map(|(topic_id, kind, version, bytes)| {
            Event::SchemaPut(SchemaPut { topic_id, kind, version, bytes })
        }),
    ]
}

fn producer_event() -> impl Strategy<Value = Event> {
    let batch = any::<(i64, i16, i32, i32, i64, i64, i64, i64)>().prop_map(|fields| {
        let (producer_id, producer_epoch, base_sequence, last_sequence, ..) = fields;
        let (.., base_offset, last_offset, append_time_ms, max_timestamp) = fields;
        ProducerBatch {
            producer_id,
            producer_epoch,
            base_sequence,
            last_sequence,
            base_offset,
            last_offset,
            append_time_ms,
            max_timestamp,
            transactional: base_offset % 2 == 0,
        }
    });
    prop_oneof![
        any::<i64>().prop_map(|next_producer_id| {
            Event::ProducerIdsAllocated(ProducerIdsAllocated { next_producer_id })
        }),
        (topic_id(), any::<i32>(), vec(batch, 0..4)).prop_map(|(topic_id, partition, batches)| {
            Event::ProducerBatches(ProducerBatches { topic_id, partition, batches })
        }),
        (topic_id(), any::<i32>(), vec(any::<i64>(), 0..4)).prop_map(
            |(topic_id, partition, producer_ids)| {
                let partitions = vec![ExpiredProducers { topic_id, partition, producer_ids }];
                Event::ProducersExpired(ProducersExpired { partitions })
            }
        ),
    ]
}

fn transactional_id_event() -> impl Strategy<Value = Event> {
    let partition = || {
        (topic_id(), any::<i32>()).prop_map(|(topic_id, partition)| TopicPartition::new(topic_id, partition))
    };
    let producer = || {
        any::<(i64, i16)>().prop_map(|(producer_id, producer_epoch)| Producer { producer_id, producer_epoch })
    };
    let pending =
        (any::<(i64, i32)>(), option::of(any::<String>())).prop_map(|((offset, leader_epoch), metadata)| {
            PendingOffset {
                offset,
                leader_epoch,
                metadata,
                replaces: (offset % 2 == 0).then_some(ReplacedOffset { offset, commit_time_ms: offset }),
            }
        });
    let put = (
        any::<(String, i32, Option<i64>, i64)>(),
        (producer(), option::of(producer())),
        prop::sample::select(&TransactionState::ALL[..]),
        btree_set(partition(), 0..4),
        btree_map(any::<String>(), btree_map(partition(), pending, 0..3), 0..3),
    );
    prop_oneof![
        put.prop_map(|(fields, (producer, previous), state, partitions, groups)| {
            let (name, timeout_ms, started_at_ms, updated_at_ms) = fields;
            let transactional_id = TransactionalId {
                name,
                producer,
                previous,
                timeout_ms,
                state,
                partitions,
                groups,
                started_at_ms,
                updated_at_ms,
            };
            Event::TransactionalIdPut(TransactionalIdPut { transactional_id: transactional_id.into() })
        }),
        any::<String>().prop_map(|name| Event::TransactionalIdRemoved(TransactionalIdRemoved { name })),
    ]
}

fn group_event() -> impl Strategy<Value = Event> {
    let offset = (topic_id(), any::<(i32, i64, i32, i64)>(), option::of(any::<String>())).prop_map(
        |(topic_id, (partition, offset, leader_epoch, commit_time_ms), metadata)| CommittedOffset {
            topic_id,
            partition,
            offset,
            leader_epoch,
            metadata,
            commit_time_ms,
        },
    );
    let partition =
        (topic_id(), any::<i32>()).prop_map(|(topic_id, partition)| GroupPartition { topic_id, partition });
    prop_oneof![
        (any::<String>(), vec(offset, 0..4))
            .prop_map(|(group, offsets)| { Event::OffsetsCommitted(OffsetsCommitted { group, offsets }) }),
        (any::<String>(), vec(partition, 0..4)).prop_map(|(group, partitions)| {
            Event::GroupOffsetsDeleted(GroupOffsetsDeleted { group, partitions })
        }),
    ]
}

fn opened() -> impl Strategy<Value = Event> {
    let closed =
        any::<(u64, u64)>().prop_map(|(writer_epoch, end_seq)| ClosedEpoch { writer_epoch, end_seq });
    (vec(closed, 0..4), any::<String>(), any::<String>())
        .prop_map(|(closed_epochs, node, address)| Event::Opened(Opened { closed_epochs, node, address }))
}

fn object_id() -> impl Strategy<Value = ObjectId> {
    any::<[u8; 16]>().prop_map(ObjectId::from_bytes)
}

fn slice() -> impl Strategy<Value = Slice> {
    let places = (0..1_u64 << 62, 0..1_u64 << 62, 0..1_u64 << 62, any::<u32>());
    let location = (object_id(), places, 0_u32..9).prop_map(
        |(object, (data_position, data_length, index_position, index_crc), blocks)| SliceLocation {
            object,
            data_position,
            data_length,
            index_position,
            index_length: blocks * 104,
            index_crc,
            entry_length: 104,
        },
    );
    let lost = (any::<String>(), any::<bool>()).prop_map(|(object, accepted)| SliceData::Lost {
        object,
        acceptance: if accepted { LossAcceptance::Accepted } else { LossAcceptance::Open },
    });
    let data = prop_oneof![location.prop_map(SliceData::Stored), lost];
    (topic_id(), data, any::<[i64; 6]>(), any::<[u64; 3]>(), 0_i64..1000, 1_i64..1000).prop_map(
        |(topic_id, data, times, counts, base_offset, length)| Slice {
            topic_partition: TopicPartition::new(topic_id, 3),
            base_offset,
            next_offset: base_offset + length,
            data,
            data_count: counts[0],
            control_count: counts[1],
            null_timestamp_count: counts[2],
            min_timestamp: times[0],
            max_timestamp: times[1],
            offset_of_max_timestamp: times[2],
            min_append_time_ms: times[3],
            max_append_time_ms: times[4],
            leader_epoch: 7,
            flags: BlockFlags(times[0] as u32 & 0xffff_001f),
            delete_horizon_ms: (times[5] % 2 == 0).then_some(times[5]),
        },
    )
}

fn segment_event() -> impl Strategy<Value = Event> {
    let object = (object_id(), any::<u64>()).prop_map(|(object, length)| InstalledObject { object, length });
    let install = (topic_id(), any::<(i32, i64, i64)>(), vec(slice(), 0..3), option::of(any::<i64>()))
        .prop_map(|(topic_id, (partition, base_offset, next_offset), slices, cleaned_offset)| {
            PartitionInstall { topic_id, partition, base_offset, next_offset, slices, cleaned_offset }
        });
    let start = (topic_id(), any::<(i32, i64)>()).prop_map(|(topic_id, (partition, log_start_offset))| {
        LogStart { topic_id, partition, log_start_offset }
    });
    let range = (topic_id(), any::<(i32, i64, i64)>()).prop_map(
        |(topic_id, (partition, base_offset, next_offset))| LostRange {
            topic_id,
            partition,
            base_offset,
            next_offset,
        },
    );
    let ended = (topic_id(), any::<(i32, i64, i16, i32, bool, i64)>()).prop_map(|(topic_id, fields)| {
        let (partition, producer_id, producer_epoch, coordinator_epoch, committed, marker_offset) = fields;
        let result = if committed { TransactionResult::Commit } else { TransactionResult::Abort };
        TransactionEnded {
            topic_id,
            partition,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            result,
            marker_offset,
        }
    });
    prop_oneof![
        (vec(object, 0..3), vec(install, 0..3), any::<u64>()).prop_map(
            |(objects, partitions, wal_objects)| {
                Event::SegmentsInstalled(SegmentsInstalled { objects, partitions, wal_objects })
            }
        ),
        vec(start, 0..3).prop_map(|partitions| Event::LogStartsMoved(LogStartsMoved { partitions })),
        vec(object_id(), 0..3).prop_map(|objects| Event::ObjectsDeleted(ObjectsDeleted { objects })),
        (any::<String>(), vec(range, 0..3))
            .prop_map(|(object, partitions)| Event::LossAccepted(LossAccepted { object, partitions })),
        ended.prop_map(Event::TransactionEnded),
    ]
}

/// Any event of any kind.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        opened(),
        topic_event(),
        producer_event(),
        group_event(),
        group_state_event(),
        transactional_id_event(),
        access_event(),
        segment_event()
    ]
}

proptest! {
    #[test]
    fn events_round_trip(events in vec(any_event(), 0..8)) {
        let bytes: Vec<u8> = events.iter().flat_map(encoded).collect();
        prop_assert_eq!(decode_events(&bytes), Ok(events));
    }

    #[test]
    fn any_message_of_any_kind_is_decoded_or_refused(
        kind in 0_u16..70,
        message in vec(any::<u8>(), 0..80),
    ) {
        let _ = Event::decode(&frame(kind, FORMAT_VERSION, &message));
        let _ = decode_events(&message);
    }

    #[test]
    fn a_damaged_event_is_decoded_or_refused(
        event in any_event(),
        position: prop::sample::Index,
        value: u8,
    ) {
        let mut bytes = encoded(&event);
        let at = position.index(bytes.len());
        bytes[at] = value;
        let _ = decode_events(&bytes);
    }
}
