//! Random interleavings of producers, ends of transactions, compactions, checkpoints and restarts
//! against a model that keeps plain lists.

use std::collections::BTreeMap;
use std::pin::Pin;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// One thing that happens to the one partition.
#[derive(Clone, Debug)]
enum Step {
    /// A batch without a producer.
    Plain(usize),
    /// A batch of a producer outside of a transaction.
    Idempotent(i64, usize),
    Transactional(i64, usize),
    End(i64, TransactionResult),
}

/// What happens to the log between two bursts of steps.
#[derive(Clone, Copy, Debug)]
enum Pause {
    Nothing,
    Compact,
    Checkpoint,
    Reopen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open(i64),
    Aborted,
    Committed,
}

#[derive(Default)]
struct Model {
    next_offset: i64,
    sequences: BTreeMap<i64, i32>,
    /// Every record of a user.
    records: Vec<(i64, Fate)>,
    open: BTreeMap<i64, i64>,
    /// Producer, first offset and marker.
    aborted: Vec<(i64, i64, i64)>,
}

/// What a step must come to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    At(i64),
    Refused,
}

impl Model {
    fn push(&mut self, fate: Fate, count: usize) -> Outcome {
        let base_offset = self.next_offset;
        self.next_offset += count as i64;
        self.records.extend((base_offset..self.next_offset).map(|offset| (offset, fate)));
        Outcome::At(base_offset)
    }

    /// The sequence that the batch of the step has.
    fn sequence(&self, step: &Step) -> i32 {
        match step {
            Step::Idempotent(producer, _) | Step::Transactional(producer, _) => {
                self.sequences.get(producer).copied().unwrap_or(0)
            }
            Step::Plain(_) | Step::End(..) => 0,
        }
    }

    fn apply(&mut self, step: &Step) -> Outcome {
        match *step {
            Step::Plain(count) => self.push(Fate::Committed, count),
            Step::Idempotent(producer, _) if self.open.contains_key(&producer) => Outcome::Refused,
            Step::Idempotent(producer, count) => {
                *self.sequences.entry(producer).or_default() += count as i32;
                self.push(Fate::Committed, count)
            }
            Step::Transactional(producer, count) => {
                *self.sequences.entry(producer).or_default() += count as i32;
                self.open.entry(producer).or_insert(self.next_offset);
                self.push(Fate::Open(producer), count)
            }
            Step::End(producer, result) => {
                let marker = self.next_offset;
                self.next_offset += 1;
                let fate = if result == Abort { Fate::Aborted } else { Fate::Committed };
                let of_it = self.records.iter_mut().filter(|(_, fate)| *fate == Fate::Open(producer));
                of_it.for_each(|(_, of_record)| *of_record = fate);
                let first = self.open.remove(&producer);
                if let (Some(first), Fate::Aborted) = (first, fate) {
                    self.aborted.push((producer, first, marker));
                }
                // A producer that only markers are known of has to begin at 0.
                self.sequences.entry(producer).or_default();
                Outcome::At(marker)
            }
        }
    }

    fn last_stable_offset(&self) -> i64 {
        self.open.values().min().copied().unwrap_or(self.next_offset)
    }

    fn committed(&self) -> Vec<i64> {
        let end = self.last_stable_offset();
        let visible = self.records.iter().filter(|(offset, fate)| *fate == Fate::Committed && *offset < end);
        visible.map(|(offset, _)| *offset).collect()
    }

    fn aborted_between(&self, from: i64, end: i64) -> Vec<AbortedTransaction> {
        let mut overlapping: Vec<_> = self
            .aborted
            .iter()
            .filter(|(_, first, marker)| *first < end && *marker >= from)
            .map(|(producer_id, first_offset, _)| AbortedTransaction {
                producer_id: *producer_id,
                first_offset: *first_offset,
            })
            .collect();
        overlapping.sort_by_key(|aborted| aborted.first_offset);
        overlapping
    }
}

fn batch_of(step: &Step, base_sequence: i32) -> Bytes {
    let options = |producer_id, kind| BatchOptions {
        producer: (producer_id >= 0).then_some(ProducerIdentity {
            producer_id,
            producer_epoch: 0,
            base_sequence,
        }),
        kind,
        ..BatchOptions::default()
    };
    let (options, count) = match *step {
        Step::Plain(count) => (options(-1, BatchKind::Plain), count),
        Step::Idempotent(producer, count) => (options(producer, BatchKind::Plain), count),
        Step::Transactional(producer, count) => (options(producer, BatchKind::Transactional), count),
        Step::End(..) => unreachable!("the end of a transaction has no batch of a producer"),
    };
    batch_with(options, &vec![Some(T); count])
}

/// Sends all steps of a burst before the first is answered: they may share objects.
async fn burst(log: &Log, events: TopicPartition, model: &mut Model, steps: &[Step]) {
    let mut sent: Vec<Pin<Box<dyn Future<Output = Outcome> + '_>>> = Vec::new();
    let mut expected = Vec::new();
    for step in steps {
        let sequence = model.sequence(step);
        expected.push(model.apply(step));
        sent.push(match *step {
            Step::End(producer, result) => Box::pin(async move {
                Outcome::At(end_in(log, events, end(producer, result, &[])).await.expect("it is not fenced"))
            }),
            _ => {
                let batch = batch_of(step, sequence);
                Box::pin(async move {
                    match append(log, events, batch).await {
                        Ok(appended) => Outcome::At(appended.base_offset),
                        Err(AppendError::NonTransactionalBatch { .. }) => Outcome::Refused,
                        Err(error) => panic!("{error}"),
                    }
                })
            }
        });
    }
    assert_eq!(futures::future::join_all(sent).await, expected);
}

async fn check(log: &Log, events: TopicPartition, model: &Model) {
    let bounds = view(log, events).bounds();
    assert_eq!(bounds.high_watermark, model.next_offset);
    assert_eq!(bounds.last_stable_offset, model.last_stable_offset());
    let all: Vec<_> = model.records.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(visible(&fetch(log, events, 0).await), all);
    assert_eq!(visible(&fetch_committed(log, events, 0).await), model.committed());
    // From every place, and one batch at a time.
    for offset in 0..bounds.last_stable_offset {
        let options = FetchOptions { isolation: Isolation::ReadCommitted, ..from(offset, 1) };
        let fetched = view(log, events).fetch(options).await.unwrap();
        assert_eq!(fetched.aborted, model.aborted_between(offset, fetched.next_offset));
    }
}

async fn run(rounds: Vec<(Vec<Step>, Pause)>) {
    let store = memory();
    let mut log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let mut model = Model::default();
    for (steps, pause) in rounds {
        burst(&log, events, &mut model, &steps).await;
        match pause {
            Pause::Nothing => {}
            Pause::Compact => log.compact_now().await.expect("the compaction succeeds"),
            Pause::Checkpoint => log.checkpoint_now().await.expect("the checkpoint is written"),
            Pause::Reopen => log = reopen(&store, log).await,
        }
        check(&log, events, &model).await;
    }
}

fn step() -> impl Strategy<Value = Step> {
    let producer = 0_i64..4;
    let result = prop_oneof![Just(Abort), Just(Commit)];
    prop_oneof![
        1 => (1_usize..3).prop_map(Step::Plain),
        1 => (producer.clone(), 1_usize..3).prop_map(|(producer, count)| Step::Idempotent(producer, count)),
        4 => (producer.clone(), 1_usize..3).prop_map(|(producer, count)| Step::Transactional(producer, count)),
        3 => (producer, result).prop_map(|(producer, result)| Step::End(producer, result)),
    ]
}

fn pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        2 => Just(Pause::Nothing),
        1 => Just(Pause::Compact),
        1 => Just(Pause::Checkpoint),
        1 => Just(Pause::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn read_committed_sees_what_the_model_sees(rounds in vec((vec(step(), 1..8), pause()), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be built").block_on(run(rounds));
    }
}
