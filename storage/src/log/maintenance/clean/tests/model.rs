//! Random keys, values, tombstones and transactions, with trims and restarts between, against a map
//! from each key to its newest committed record.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::log::verify::verify;

#[derive(Clone, Debug)]
enum Step {
    /// Records of these keys; `false` is a tombstone.
    Put(Vec<(u8, bool)>),
    /// The same in a transaction of a producer.
    Transactional(i64, Vec<(u8, bool)>),
    End(i64, TransactionResult),
    Compact,
    /// Compact while the log start moves to a place in the log, given in 256ths.
    Trim(u8),
    Reopen,
}

/// A record that was appended.
#[derive(Clone, Debug)]
struct Appended {
    stored: Stored,
    /// The producer whose transaction is open, or whether it was committed.
    state: Result<bool, i64>,
}

#[derive(Default)]
struct Model {
    next_offset: i64,
    log_start_offset: i64,
    records: Vec<Appended>,
    sequences: BTreeMap<i64, i32>,
}

impl Model {
    fn push(&mut self, pairs: &[(u8, bool)], state: Result<bool, i64>) -> Vec<(String, Option<String>)> {
        let mut pushed = Vec::new();
        for (key, has_value) in pairs {
            let offset = self.next_offset;
            self.next_offset += 1;
            let (key, value) = (format!("key {key}"), has_value.then(|| format!("value {offset}")));
            pushed.push((key.clone(), value.clone()));
            let stored = Stored { offset, timestamp: Some(T + offset), key, value };
            self.records.push(Appended { stored, state });
        }
        pushed
    }

    fn end(&mut self, producer: i64, result: TransactionResult) {
        self.next_offset += 1;
        let of_it = self.records.iter_mut().filter(|record| record.state == Err(producer));
        of_it.for_each(|record| record.state = Ok(result == Commit));
    }

    /// The newest committed record of each key, in the order of offsets.
    fn newest(&self) -> Vec<Stored> {
        let committed = self.records.iter().filter(|record| record.state == Ok(true));
        let alive = committed.filter(|record| record.stored.offset >= self.log_start_offset);
        let newest: BTreeMap<_, _> =
            alive.map(|record| (record.stored.key.clone(), record.stored.clone())).collect();
        let mut newest: Vec<_> = newest.into_values().collect();
        newest.sort_by_key(|record| record.offset);
        newest
    }
}

struct Run {
    world: World,
    log: Log,
    id: TopicPartition,
    model: Model,
}

impl Run {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Put(pairs) => self.put(BatchOptions::default(), pairs, Ok(true)).await,
            Step::Transactional(producer, pairs) => {
                let sequence = self.model.sequences.entry(*producer).or_default();
                let options = transactional(*producer, *sequence);
                *sequence += pairs.len() as i32;
                self.put(options, pairs, Err(*producer)).await;
            }
            Step::End(producer, result) => {
                let marker = end(&self.log, self.id, *producer, *result).await;
                assert_eq!(marker, self.model.next_offset);
                self.model.end(*producer, *result);
            }
            Step::Compact => compact(&self.log).await,
            Step::Trim(place) => self.trim(*place).await,
            Step::Reopen => {
                self.log.close().await;
                self.log = self.world.open().await;
            }
        }
    }

    async fn put(&mut self, options: BatchOptions, pairs: &[(u8, bool)], state: Result<bool, i64>) {
        let base_offset = self.model.next_offset;
        let compression = Compression::ALL[base_offset as usize % Compression::ALL.len()];
        let pushed = self.model.push(pairs, state);
        let pairs: Vec<_> = pushed.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        let batch = batch(BatchOptions { compression, ..options }, T + base_offset, &pairs);
        assert_eq!(append(&self.log, self.id, batch).await, Ok(base_offset));
    }

    /// An install that finds its inputs trimmed is refused, and done again by the next one.
    async fn trim(&mut self, place: u8) {
        let offset = self.model.next_offset * i64::from(place) / 256;
        let trim = self.log.delete_records(vec![(self.id, offset)]);
        let (_, trimmed) = futures::join!(self.log.compact_now(), trim);
        self.model.log_start_offset = self.model.log_start_offset.max(offset);
        assert_eq!(trimmed.expect("the log takes it"), [Ok(self.model.log_start_offset)]);
    }

    /// What must be there at any time: records as they were appended, and the newest of each key.
    async fn check(&self) {
        let (_, records) = read(&self.log, self.id).await;
        for record in &records {
            let appended = self.model.records.iter().find(|a| a.stored.offset == record.offset);
            assert_eq!(Some(record), appended.map(|appended| &appended.stored));
        }
        for newest in self.model.newest() {
            assert!(records.contains(&newest), "{newest:?} is lost");
        }
    }

    async fn check_cleaned(&self) {
        let (headers, records) = read(&self.log, self.id).await;
        let start = self.model.log_start_offset;
        let alive: Vec<_> = records.into_iter().filter(|record| record.offset >= start).collect();
        assert_eq!(alive, self.model.newest());
        // Markers have a time too, as in Kafka.
        let markers = headers.iter().filter(|header| header.is_control() && header.base_offset >= start);
        let markers = markers.map(|header| (header.base_offset, header.max_timestamp));
        let records = alive.iter().filter_map(|record| Some((record.offset, record.timestamp?)));
        let mut timed: Vec<_> = markers.chain(records).collect();
        timed.sort_unstable();
        let view = view(&self.log, self.id);
        for target in (T..=T + self.model.next_offset).step_by(3) {
            let expected = timed.iter().find(|(_, timestamp)| *timestamp >= target).copied();
            let found = view.lookup_time(target, Isolation::ReadCommitted).await.expect("it is readable");
            assert_eq!(found.map(|found| (found.offset, found.timestamp)), expected);
        }
    }
}

async fn run(steps: Vec<Step>, keys_max: usize) {
    let mut world = world();
    world.settings.maintenance.clean_keys_max = keys_max;
    let log = world.open().await;
    let id = create(&log, &EAGER).await;
    let mut run = Run { world, log, id, model: Model::default() };
    for step in &steps {
        run.step(step).await;
        run.check().await;
    }
    for (producer, result) in [(0, Commit), (1, Abort)] {
        run.step(&Step::End(producer, result)).await;
    }
    run.step(&Step::Compact).await;
    run.check_cleaned().await;
    run.step(&Step::Reopen).await;
    run.check_cleaned().await;
    run.log.close().await;
    let World { settings, seams, .. } = &run.world;
    let report = verify(&run.world.store(), settings, seams, &mut |_| {}).await;
    let report = report.expect("the store can be read");
    assert!(report.is_clean(), "{report:?}");
}

fn step() -> impl Strategy<Value = Step> {
    let pairs = || vec((0_u8..6, prop::bool::weighted(0.8)), 1..5);
    let result = prop_oneof![Just(Abort), Just(Commit)];
    prop_oneof![
        4 => pairs().prop_map(Step::Put),
        3 => (0_i64..2, pairs()).prop_map(|(producer, pairs)| Step::Transactional(producer, pairs)),
        2 => (0_i64..2, result).prop_map(|(producer, result)| Step::End(producer, result)),
        3 => Just(Step::Compact),
        1 => any::<u8>().prop_map(Step::Trim),
        1 => Just(Step::Reopen),
    ]
}

/// A slice of which nothing is left shares its place in the segment's index with the next one.
#[test]
fn a_trim_in_the_middle_of_a_cleaning_loses_no_newest_record() {
    let tombstones = |keys: &[u8]| Step::Put(keys.iter().map(|key| (*key, false)).collect());
    let steps = vec![
        tombstones(&[0, 1]),
        tombstones(&[0, 0]),
        Step::Compact,
        tombstones(&[0]),
        Step::Compact,
        Step::Trim(103),
        Step::Compact,
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(run(steps, 3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn cleaning_is_a_map(steps in vec(step(), 1..25), keys_max in prop_oneof![Just(3_usize), Just(1000)]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime can be built").block_on(run(steps, keys_max));
    }
}
