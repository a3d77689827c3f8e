//! Transactions and missing offsets, over a commit as a coordinator or log cleaning would make it:
//! what was aborted, is open or was removed is no row, and no statistic speaks of it.

use bytes::{Bytes, BytesMut};

use super::fixture::{Fixture, T, integers};
use crate::format::event::{ProducerBatch, ProducerBatches, TransactionEnded, TransactionResult};
use crate::format::{
    BatchBuilder, BatchKind, BatchOptions, BlockEntry, BlockFlags, DecompressionBudget, Event,
    ProducerIdentity, WalHeader, WalObjectBuilder, decode_wal_object, inspect, set_base_offset,
};
use crate::ids::{ShardId, TopicPartition, WalPosition};
use crate::table::ScanCounter;

/// A batch at its place.
struct Placed {
    base_offset: i64,
    next_offset: i64,
    batch: Bytes,
    kind: BatchKind,
}

fn placed(base_offset: i64, producer_id: i64, kind: BatchKind, timestamps: &[Option<i64>]) -> Placed {
    let producer = ProducerIdentity { producer_id, producer_epoch: 0, base_sequence: 0 };
    let producer = (producer_id >= 0).then_some(producer);
    let mut builder = BatchBuilder::new(BatchOptions { producer, kind, ..BatchOptions::default() });
    for timestamp in timestamps {
        // A marker: version 0 of an abort.
        builder.append(*timestamp, Some(&[0, 0, 0, 0]), Some(b"value"), &[]).unwrap();
    }
    let mut batch = BytesMut::from(&builder.finish()[..]);
    set_base_offset(&mut batch, base_offset);
    let next_offset = base_offset + timestamps.len() as i64;
    Placed { base_offset, next_offset, batch: batch.freeze(), kind }
}

/// Records whose times are their offsets.
fn at(base_offset: i64, producer_id: i64, kind: BatchKind, records: i64) -> Placed {
    let timestamps: Vec<_> = (base_offset..base_offset + records).map(|offset| Some(T + offset)).collect();
    placed(base_offset, producer_id, kind, &timestamps)
}

fn block(topic_partition: TopicPartition, batches: &[Placed]) -> BlockEntry {
    let entry = |placed: &Placed| {
        let summary = inspect(&placed.batch, &mut DecompressionBudget::new(1 << 20)).unwrap();
        let count = summary.record_count as u32;
        let is_control = placed.kind == BatchKind::Control;
        let flags = match placed.kind {
            BatchKind::Plain => BlockFlags::default(),
            BatchKind::Transactional => BlockFlags::TRANSACTIONAL,
            BatchKind::Control => BlockFlags::TRANSACTIONAL | BlockFlags::CONTROL,
        };
        BlockEntry {
            topic_partition,
            base_offset: placed.base_offset,
            next_offset: placed.next_offset,
            position: 0,
            length: 0,
            data_count: if is_control { 0 } else { count },
            control_count: if is_control { count } else { 0 },
            null_timestamp_count: summary.null_timestamp_count as u32,
            min_timestamp: summary.min_timestamp,
            max_timestamp: summary.max_timestamp,
            offset_of_max_timestamp: placed.base_offset,
            append_time_ms: T,
            leader_epoch: 0,
            flags,
            crc: 0,
        }
    };
    let mut entries = batches.iter().map(entry);
    let first = entries.next().unwrap();
    entries.fold(first, |mut all, next| {
        all.extend(&next);
        all
    })
}

/// Puts a commit behind the last one, and opens the log again.
async fn with_commit(written: Fixture, events: &[Event], blocks: Vec<(BlockEntry, Vec<Placed>)>) -> Fixture {
    let newest = written.store.list("shards/0/wal").await.unwrap().pop().unwrap();
    let bytes = written.store.get(&newest.key).await.unwrap();
    let before = decode_wal_object(&bytes, bytes.len() as u64).unwrap();
    let WalPosition { writer_epoch, seq } = before.position();
    let mut builder = WalObjectBuilder::new(WalHeader {
        shard: ShardId(0),
        position: WalPosition { writer_epoch, seq: seq + 1 },
        writer_nonce: [7; 16],
        durable_seq: i64::try_from(seq).unwrap(),
        previous_header_crc: before.header_crc(),
        append_time_ms: T,
    });
    events.iter().for_each(|event| builder.push_event(event));
    for (entry, batches) in blocks {
        builder.push_block(entry, batches.into_iter().map(|placed| placed.batch).collect());
    }
    let (directory, _) = newest.key.rsplit_once('/').unwrap();
    let key = format!("{directory}/{:020}", seq + 1);
    written.store.create(&key, builder.finish().bytes).await.unwrap();
    written.reopen().await
}

/// Offsets 3 and 4 were aborted by the marker 8, and those from 13 on are open. Producer 7 wrote
/// again after its abort.
async fn with_transactions() -> Fixture {
    use BatchKind::{Control, Plain, Transactional};

    let written = Fixture::new(1).await;
    let topic_id = written.topic.id;
    let topic_partition = TopicPartition::new(topic_id, 0);
    let began = |producer_id, base_offset, last_offset| {
        let batch = ProducerBatch {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            last_sequence: 0,
            base_offset,
            last_offset,
            append_time_ms: T,
            max_timestamp: T,
            transactional: true,
        };
        Event::ProducerBatches(ProducerBatches { topic_id, partition: 0, batches: vec![batch] })
    };
    let ended = |producer_id, result, marker_offset| {
        let (partition, producer_epoch, coordinator_epoch) = (0, 0, 0);
        Event::TransactionEnded(TransactionEnded {
            topic_id,
            partition,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            result,
            marker_offset,
        })
    };
    let events = [
        began(7, 3, 4),
        began(9, 6, 7),
        ended(7, TransactionResult::Abort, 8),
        began(7, 9, 10),
        ended(9, TransactionResult::Commit, 11),
        ended(7, TransactionResult::Commit, 12),
        began(5, 13, 13),
    ];
    let blocks = vec![
        vec![at(0, -1, Plain, 3), at(3, 7, Transactional, 2), at(5, -1, Plain, 1)],
        vec![at(6, 9, Transactional, 2), at(8, 7, Control, 1)],
        vec![at(9, 7, Transactional, 2)],
        vec![at(11, 9, Control, 1), at(12, 7, Control, 1), at(13, 5, Transactional, 1), at(14, -1, Plain, 1)],
    ];
    let blocks = blocks.into_iter().map(|batches| (block(topic_partition, &batches), batches)).collect();
    with_commit(written, &events, blocks).await
}

#[tokio::test]
async fn rows_of_aborted_and_open_transactions_and_markers_are_no_rows() {
    let expected = [0, 1, 2, 5, 6, 7, 9, 10].map(Some);
    let written = with_transactions().await;
    for fixture in &written.three_ways().await {
        for sql in [
            "SELECT _offset FROM t ORDER BY _offset",
            "SELECT _offset FROM t WHERE ts IS NOT NULL ORDER BY 1",
        ] {
            assert_eq!(integers(&fixture.query(sql).await, 0), expected, "{sql}");
        }
        let descending = fixture.query("SELECT _offset FROM t ORDER BY _offset DESC LIMIT 3").await;
        assert_eq!(integers(&descending, 0), [Some(10), Some(9), Some(7)]);
        for (aggregate, value) in [
            ("count(*)", 8),
            ("count(ts)", 8),
            ("min(ts)", T),
            ("max(ts)", T + 10),
            ("min(_offset)", 0),
            ("max(_offset)", 10),
        ] {
            assert_eq!(
                fixture.integer(&format!("SELECT {aggregate} FROM t")).await,
                Some(value),
                "{aggregate}"
            );
        }
        let inside = "SELECT count(*) FROM t WHERE _offset BETWEEN 3 AND 8";
        assert_eq!(fixture.integer(inside).await, Some(3));
    }
}

#[tokio::test]
async fn blocks_without_an_aborted_record_are_still_counted() {
    let fixture = with_transactions().await;
    let work = fixture.work("SELECT count(*) FROM t").await;
    assert_eq!(work.of(ScanCounter::BlocksTotal), 4);
    // An abort reaches over the first two, and an open transaction begins in the last.
    assert_eq!(work.of(ScanCounter::BlocksRead), 3);
    assert_eq!(work.of(ScanCounter::BlocksCounted), 1);
}

/// One block for the offsets 0 to 9, of which only 2, 3 and 6 are left. Its numbers are as they were
/// before: three records, or more, without a time.
async fn with_gaps() -> Fixture {
    let written = Fixture::new(1).await;
    let topic_partition = TopicPartition::new(written.topic.id, 0);
    let batches = vec![at(2, -1, BatchKind::Plain, 2), placed(6, -1, BatchKind::Plain, &[None])];
    let entry = BlockEntry {
        base_offset: 0,
        next_offset: 10,
        null_timestamp_count: 3,
        min_timestamp: T,
        max_timestamp: T + 9,
        flags: BlockFlags::GAPS,
        ..block(topic_partition, &batches)
    };
    with_commit(written, &[], vec![(entry, batches)]).await
}

#[tokio::test]
async fn bounds_of_a_range_with_gaps_are_not_taken_for_those_of_records() {
    let written = with_gaps().await;
    for fixture in &written.three_ways().await {
        for (sql, expected) in [
            ("SELECT count(*) FROM t", 3),
            ("SELECT min(_offset) FROM t", 2),
            ("SELECT max(_offset) FROM t", 6),
            ("SELECT min(ts) FROM t", T + 2),
            ("SELECT max(ts) FROM t", T + 3),
            ("SELECT count(ts) FROM t", 2),
            ("SELECT count(*) FROM t WHERE ts IS NULL", 1),
            ("SELECT count(*) FROM t WHERE ts IS NOT NULL", 2),
            ("SELECT count(*) FROM t WHERE ts >= '2020-01-01'", 2),
            ("SELECT count(*) FROM t WHERE _offset < 6", 2),
            ("SELECT count(*) FROM t WHERE _offset >= 0", 3),
        ] {
            assert_eq!(fixture.integer(sql).await, Some(expected), "{sql}");
        }
    }
}
