//! Properties of a whole log, held against plain lists: lookups and the bounds of blocks, checkpoints
//! against a replay of everything, and merges.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::log::open::read_only;
use crate::log::{Block, MaintenanceSettings, OffsetCommit};

const ANY: Isolation = Isolation::ReadUncommitted;

/// A record: its time, and whether its value is so large that a few fill a block.
type Record = (Option<i64>, bool);

fn record() -> impl Strategy<Value = Record> {
    let time = prop_oneof![
        8 => (0..60_i64).prop_map(|step| Some(T + step)),
        // Far back: before 1970 it counts as none for lookups.
        1 => Just(Some(-5)),
        1 => Just(Some(0)),
        2 => Just(None),
    ];
    (time, prop::bool::weighted(0.08))
}

/// Records that are appended as one batch, under a codec.
fn batches(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(usize, Vec<Record>)>> {
    let batch = (0..Compression::ALL.len(), prop::collection::vec(record(), 1..12));
    prop::collection::vec(batch, count)
}

fn batch_of(codec: usize, records: &[Record]) -> Bytes {
    let compression = Compression::ALL[codec];
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    for (time, is_large) in records {
        let value = vec![7; if *is_large { 30_000 } else { 8 }];
        builder.append(*time, None, Some(&value), &[]).expect("a small record");
    }
    builder.finish()
}

/// Nothing happens by itself.
fn quiet() -> MaintenanceSettings {
    let never = Duration::from_secs(1 << 30);
    MaintenanceSettings {
        compaction_interval: never,
        checkpoint_interval: never,
        checkpoint_age_max: never,
        checkpoints_kept: 1000,
        wal_delete_delay: never,
        ..MaintenanceSettings::default()
    }
}

fn settings(maintenance: MaintenanceSettings) -> LogSettings {
    LogSettings { maintenance, ..LogSettings::default() }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(test)
}

/// The times of all records by offset, and where the log starts.
struct Oracle {
    times: Vec<Option<i64>>,
    log_start_offset: usize,
}

impl Oracle {
    fn first_at_or_after(&self, target_ms: i64) -> Option<i64> {
        let found = self.times.iter().skip(self.log_start_offset);
        let found = found.into_iter().position(|time| time.is_some_and(|time| time >= target_ms))?;
        Some((self.log_start_offset + found) as i64)
    }

    fn greatest(&self) -> Option<i64> {
        let known = self.times.iter().skip(self.log_start_offset).flatten();
        let greatest = known.copied().filter(|time| *time >= 0).max()?;
        self.first_at_or_after(greatest)
    }

    async fn check(&self, view: &PartitionView) {
        for target in (T - 1..T + 61).chain([0, 1, i64::MAX]) {
            let found = view.lookup_time(target, ANY).await.expect("it is readable");
            let expected = self.first_at_or_after(target);
            assert_eq!(found.map(|found| found.offset), expected, "at or after {target}");
            assert_eq!(
                found.map(|found| Some(found.timestamp)),
                expected.map(|offset| self.times[offset as usize]),
                "a record is given with its own time"
            );
        }
        let greatest = view.max_timestamp(ANY).await.expect("it is readable");
        assert_eq!(greatest.map(|found| found.offset), self.greatest());
        self.check_records(view).await;
        self.check_blocks(view).await;
    }

    async fn check_records(&self, view: &PartitionView) {
        let start = self.log_start_offset as i64;
        let fetched = view.fetch(from(start, usize::MAX)).await.expect("it is readable");
        let found: Vec<_> = records(&fetched).into_iter().filter(|(offset, _)| *offset >= start).collect();
        let expected: Vec<_> = (start..).zip(self.times[self.log_start_offset..].iter().copied()).collect();
        assert_eq!(found, expected);
    }

    async fn check_blocks(&self, view: &PartitionView) {
        for slice in view.slices() {
            let blocks = view.slice_blocks(slice).await.expect("it is readable");
            blocks.iter().for_each(|block| self.check_block(block));
            let count: u64 = blocks.iter().map(|block| u64::from(block.data_count)).sum();
            assert_eq!(slice.slice.data_count, count);
        }
        view.tail().for_each(|block| self.check_block(block));
    }

    /// What the index says of a block is what its records say.
    fn check_block(&self, block: &Block) {
        let times = &self.times[block.base_offset as usize..block.next_offset as usize];
        let known = times.iter().copied().flatten();
        let bounds = (known.clone().min().unwrap_or(-1), known.clone().max().unwrap_or(-1));
        assert_eq!((block.min_timestamp, block.max_timestamp), bounds);
        let null_count = times.iter().filter(|time| time.is_none()).count();
        assert_eq!(
            (block.data_count as usize, block.null_timestamp_count as usize),
            (times.len(), null_count)
        );
        if let Some(greatest) = known.max() {
            let first = times.iter().position(|time| *time == Some(greatest)).expect("it is there");
            assert_eq!(block.offset_of_max_timestamp, block.base_offset + first as i64);
        }
    }
}

async fn reopen_bare(store: &Arc<CountingStore>, log: Log, maintenance: MaintenanceSettings) -> Log {
    log.close().await;
    let bare = LogSettings { tail_bytes_max: 0, cache_bytes_max: 0, ..settings(maintenance) };
    open_with(store, bare).await
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn lookups_and_bounds_agree_with_a_plain_list_in_memory_in_the_wal_and_in_segments(
        early in batches(0..12),
        late in batches(0..12),
        trims in prop::collection::vec(0..101_usize, 3),
        shared_segment_bytes in 200_u64..100_000,
    ) {
        run(async {
            let store = memory();
            let maintenance = MaintenanceSettings { shared_segment_bytes, merge_slices: 2, ..quiet() };
            let log = open_with(&store, settings(maintenance.clone())).await;
            let events = create(&log, "events", 1, &[]).await;
            let mut oracle = Oracle { times: Vec::new(), log_start_offset: 0 };
            let append_all = async |log: &Log, oracle: &mut Oracle, batches: &[(usize, Vec<Record>)]| {
                for (codec, records) in batches {
                    append(log, events, batch_of(*codec, records)).await.expect("it is appended");
                    oracle.times.extend(records.iter().map(|(time, _)| *time));
                }
            };
            let trim = async |log: &Log, oracle: &mut Oracle, percent: usize| {
                let left = oracle.times.len() - oracle.log_start_offset;
                oracle.log_start_offset += left * percent / 100;
                let offset = oracle.log_start_offset as i64;
                let trimmed = log.delete_records(vec![(events, offset)]).await.expect("the log takes it");
                assert_eq!(trimmed, [Ok(offset)]);
            };
            append_all(&log, &mut oracle, &early).await;
            oracle.check(&view(&log, events)).await;
            trim(&log, &mut oracle, trims[0] / 2).await;
            oracle.check(&view(&log, events)).await;
            let log = reopen_bare(&store, log, maintenance.clone()).await;
            oracle.check(&view(&log, events)).await;
            log.compact_now().await.expect("it is compacted");
            oracle.check(&view(&log, events)).await;
            trim(&log, &mut oracle, trims[1] / 2).await;
            append_all(&log, &mut oracle, &late).await;
            oracle.check(&view(&log, events)).await;
            log.compact_now().await.expect("it is compacted");
            trim(&log, &mut oracle, trims[2]).await;
            oracle.check(&view(&log, events)).await;
            let log = reopen_bare(&store, log, maintenance).await;
            oracle.check(&view(&log, events)).await;
        });
    }
}

/// What can happen to a log, with numbers that are taken modulo what is there.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u8),
    Delete(u8),
    Append { topic: u8, count: u8 },
    AppendIdempotent { topic: u8 },
    DeleteRecords { topic: u8, percent: u8 },
    CommitOffset { topic: u8, offset: u8 },
    PutSchema(u8),
    SetConfig(u8),
    AllocateIds,
    Compact,
    Checkpoint,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any::<u8>().prop_map(Step::Create),
        1 => any::<u8>().prop_map(Step::Delete),
        8 => (any::<u8>(), 1..9_u8).prop_map(|(topic, count)| Step::Append { topic, count }),
        3 => any::<u8>().prop_map(|topic| Step::AppendIdempotent { topic }),
        2 => (any::<u8>(), 0..101_u8).prop_map(|(topic, percent)| Step::DeleteRecords { topic, percent }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(topic, offset)| Step::CommitOffset { topic, offset }),
        1 => any::<u8>().prop_map(Step::PutSchema),
        1 => any::<u8>().prop_map(Step::SetConfig),
        1 => Just(Step::AllocateIds),
        3 => Just(Step::Compact),
        3 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
    ]
}

/// A log to which steps are applied.
struct Stepper {
    store: Arc<CountingStore>,
    log: Log,
    maintenance: MaintenanceSettings,
    next_name: u32,
    next_sequence: BTreeMap<TopicPartition, i32>,
}

impl Stepper {
    async fn new(maintenance: MaintenanceSettings) -> Self {
        let store = memory();
        let log = open_with(&store, settings(maintenance.clone())).await;
        Self { store, log, maintenance, next_name: 0, next_sequence: BTreeMap::new() }
    }

    /// A partition of a topic that is there.
    fn partition(&self, number: u8) -> Option<TopicPartition> {
        let topics: Vec<_> = self.log.snapshot().topics().cloned().collect();
        let topic = topics.get(usize::from(number).checked_rem(topics.len())?)?;
        Some(TopicPartition::new(topic.id, i32::from(number) % topic.partition_count))
    }

    async fn apply(&mut self, step: Step) {
        match step {
            Step::Create(partitions) => {
                self.next_name += 1;
                let name = format!("topic-{}", self.next_name);
                create(&self.log, &name, 1 + i32::from(partitions % 3), &[]).await;
            }
            Step::Reopen => {
                let unused = open_with(&memory(), LogSettings::default()).await;
                let log = std::mem::replace(&mut self.log, unused);
                self.log = reopen_bare(&self.store, log, self.maintenance.clone()).await;
            }
            Step::AllocateIds => drop(self.log.allocate_producer_ids(3).await.expect("the log takes it")),
            Step::Compact => self.log.compact_now().await.expect("it is compacted"),
            Step::Checkpoint => self.log.checkpoint_now().await.expect("it is written"),
            Step::Delete(topic)
            | Step::Append { topic, .. }
            | Step::AppendIdempotent { topic }
            | Step::DeleteRecords { topic, .. }
            | Step::CommitOffset { topic, .. }
            | Step::PutSchema(topic)
            | Step::SetConfig(topic) => {
                if let Some(id) = self.partition(topic) {
                    self.apply_to(id, step).await;
                }
            }
        }
    }

    async fn apply_to(&mut self, id: TopicPartition, step: Step) {
        let log = &self.log;
        match step {
            Step::Delete(_) => log.delete_topic(id.topic_id).await.expect("it is deleted"),
            Step::Append { count, .. } => {
                let times: Vec<_> = (0..i64::from(count)).map(|number| T + number * 7 % 5).collect();
                append(log, id, batch(&times)).await.expect("it is appended");
            }
            Step::AppendIdempotent { .. } => {
                let sequence = self.next_sequence.entry(id).or_default();
                append(log, id, idempotent(0, *sequence, 2)).await.expect("it is appended");
                *sequence += 2;
            }
            Step::DeleteRecords { percent, .. } => {
                let bounds = view(log, id).bounds();
                let left = bounds.high_watermark - bounds.log_start_offset;
                let offset = bounds.log_start_offset + left * i64::from(percent) / 100;
                log.delete_records(vec![(id, offset)]).await.expect("the log takes it");
            }
            Step::CommitOffset { offset, .. } => {
                let offset = i64::from(offset);
                let commit = OffsetCommit { topic_partition: id, offset, leader_epoch: -1, metadata: None };
                log.commit_offsets("group", vec![commit]).await.expect("the log takes it");
            }
            Step::PutSchema(_) => {
                let version = log.snapshot().schema(id.topic_id, "kind").map_or(0, |schema| schema.version);
                let put = log.put_schema(id.topic_id, "kind", version, Bytes::from_static(b"schema"));
                put.await.expect("the log takes it");
            }
            Step::SetConfig(number) => {
                let value = number.is_multiple_of(2).then_some("1000000");
                let set = set_config(log, id.topic_id, "max.message.bytes", value);
                set.await.expect("the log takes it");
            }
            other => unreachable!("{other:?} concerns no partition"),
        }
    }

    /// The state that an open finds, as text; with the checkpoints or without.
    async fn state(&self, checkpoints: Checkpoints) -> String {
        let copy: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
        for object in self.store.list("").await.expect("memory lists") {
            if checkpoints == Checkpoints::Left || !object.key.contains("/checkpoints/") {
                let bytes = self.store.get(&object.key).await.expect("memory reads");
                copy.create(&object.key, bytes).await.expect("memory takes it");
            }
        }
        let read =
            read_only(&copy, crate::ids::ShardId::default(), &LogSettings::default(), &Seams::simulated(1))
                .await;
        let (_, state) = read.expect("the copy opens");
        without_running_maxima(&format!("{state:?}"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checkpoints {
    Left,
    TakenAway,
}

/// Running maxima may be higher than what is left makes necessary.
fn without_running_maxima(text: &str) -> String {
    const NAME: &str = "running_max_timestamp: ";
    let mut parts = text.split(NAME);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push_str(part.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit()));
    }
    rest
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_checkpoint_and_a_replay_of_the_rest_are_a_replay_of_everything(
        steps in prop::collection::vec(step(), 1..60),
        merge_slices in 2_usize..5,
    ) {
        run(async {
            let maintenance = MaintenanceSettings { merge_slices, shared_segment_bytes: 2000, ..quiet() };
            let mut stepper = Stepper::new(maintenance).await;
            stepper.apply(Step::Create(1)).await;
            for step in steps {
                stepper.apply(step).await;
            }
            assert_eq!(stepper.state(Checkpoints::Left).await, stepper.state(Checkpoints::TakenAway).await);
        });
    }

    #[test]
    fn merges_of_any_slices_keep_every_record(
        rounds in prop::collection::vec((0..3_i32, 1..30_usize, any::<bool>()), 1..40),
        merge_slices in 2_usize..6,
        (small_slice_bytes, shared_segment_bytes, own_segment_bytes) in (100_u64..4000, 100_u64..8000, 100_u64..8000),
        segment_bytes_max in 4000_u64..20_000,
    ) {
        run(async {
            let maintenance = MaintenanceSettings {
                merge_slices, small_slice_bytes, shared_segment_bytes, own_segment_bytes, segment_bytes_max, ..quiet()
            };
            let store = memory();
            let log = open_with(&store, settings(maintenance.clone())).await;
            let first = create(&log, "events", 3, &[]).await;
            let mut expected = vec![Vec::new(); 3];
            for (partition, count, compacts) in rounds {
                let id = TopicPartition::new(first.topic_id, partition);
                let known: &mut Vec<_> = &mut expected[partition as usize];
                let times: Vec<_> = (0..count as i64).map(|number| T + (number * 31) % 17).collect();
                append(&log, id, batch(&times)).await.expect("it is appended");
                known.extend(times.into_iter().map(Some));
                if compacts {
                    log.compact_now().await.expect("it is compacted");
                }
            }
            let check = async |log: &Log| {
                for (partition, times) in (0..).zip(&expected) {
                    let id = TopicPartition::new(first.topic_id, partition);
                    let all: Vec<_> = (0..).zip(times.iter().copied()).collect();
                    assert_eq!(records(&fetch(log, id, 0).await), all);
                }
            };
            check(&log).await;
            check(&reopen_bare(&store, log, maintenance).await).await;
        });
    }
}
