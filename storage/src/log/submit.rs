//! The first part of an append: batches are checked in the caller's task, and go to the shards of
//! their partitions.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{Semaphore, oneshot};

use super::append::{Appended, PartitionAppend, PreparedBatch};
use super::committer::AppendResults;
use super::error::{AppendError, WriteError};
use super::pinned::PinnedState;
use super::placement::{ShardPart, by_shard};
use super::shard::Shard;
use super::shared::Shared;
use super::state::ShardState;
use crate::format::{BatchHeader, Compression, DecompressionBudget};

/// What batches are checked with.
#[derive(Debug)]
pub(super) struct Checks {
    /// How many checks of large batches may run at once: about half of the processors.
    long_checks: Semaphore,
}

impl Default for Checks {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { long_checks: Semaphore::new(processors.div_ceil(2)) }
    }
}

type Prepared = Vec<Result<PreparedBatch, AppendError>>;

/// Checks batches and queues them in the shards of their partitions.
pub(super) async fn submit(
    shards: &[Shard],
    checks: &Checks,
    appends: Vec<PartitionAppend>,
) -> PendingAppend {
    // One state for all of it: a topic that a check finds is then found here as well.
    let state = shards[0].shared.durable();
    let mut pending = PendingAppend::new(appends.len());
    let mut whole = Vec::with_capacity(appends.len());
    let prepared = checks.prepare(&shards[0].shared, state.clone(), appends).await;
    for (place, batch) in prepared.into_iter().enumerate() {
        match batch {
            Ok(batch) => whole.push((place, batch)),
            Err(error) => pending.settle(place, Err(error)),
        }
    }
    let parts = by_shard(whole, |batch| state.shard_of(batch.topic_partition));
    for (shard, ShardPart { places, items }) in parts {
        match shards[shard.0 as usize].enqueue(items).await {
            Ok(results) => pending.queued.push(Queued { places, results }),
            Err(error) => {
                let refused = |place| pending.settle(place, Err(AppendError::Write(error.clone())));
                places.into_iter().for_each(refused);
            }
        }
    }
    pending
}

impl Checks {
    /// Checks batches against the configuration of their topics. Work that would keep other tasks from
    /// running for long goes to a thread of its own.
    async fn prepare(
        &self,
        shared: &Shared,
        state: Arc<PinnedState>,
        appends: Vec<PartitionAppend>,
    ) -> Prepared {
        let is_long = takes_long(&state, &appends);
        let now_ms = shared.seams.clock.now_ms();
        let budget = DecompressionBudget::new(shared.settings.decompressed_bytes_max);
        let check = move |appends| check_all(&state, now_ms, budget, appends);
        if !is_long {
            return check(appends);
        }
        let permit = self.long_checks.acquire().await.expect("the semaphore is never closed");
        let checked = tokio::task::spawn_blocking(move || check(appends)).await;
        drop(permit);
        checked.expect("checks do not panic, and nobody cancels them")
    }
}

/// What batches decompress to is known only afterwards, so a small compressed one may be much work,
/// and so may one that is to be compressed.
fn takes_long(state: &ShardState, appends: &[PartitionAppend]) -> bool {
    const COMPRESSED_BYTES: usize = 16 * 1024;
    const PLAIN_BYTES: usize = 1024 * 1024;
    let (mut compressed, mut plain) = (0, 0);
    for PartitionAppend { topic_partition, batch } in appends {
        let topic = state.topics.get(&topic_partition.topic_id);
        let is_rewritten = topic.is_some_and(|topic| topic.config.compression().is_some());
        let header = BatchHeader::parse(batch);
        match header.and_then(|header| header.compression()) {
            Ok(Compression::None) | Err(_) if !is_rewritten => plain += batch.len(),
            _ => compressed += batch.len(),
        }
    }
    compressed > COMPRESSED_BYTES || plain > PLAIN_BYTES
}

/// All batches of one request share one budget of decompressed bytes.
fn check_all(
    state: &ShardState,
    now_ms: i64,
    mut budget: DecompressionBudget,
    appends: Vec<PartitionAppend>,
) -> Prepared {
    let check = |append: PartitionAppend| {
        let unknown = AppendError::UnknownTopicPartition(append.topic_partition);
        let topic = state.topics.get(&append.topic_partition.topic_id).ok_or(unknown)?;
        PreparedBatch::check(append, &topic.config, now_ms, &mut budget)
    };
    appends.into_iter().map(check).collect()
}

/// Resolves when the batches of one [`Log::submit`](super::Log::submit) are durable or refused, in
/// their order.
#[derive(Debug)]
pub struct PendingAppend {
    /// `None` for what is queued.
    results: Vec<Option<Result<Appended, AppendError>>>,
    queued: Vec<Queued>,
}

/// What is queued in one shard.
#[derive(Debug)]
struct Queued {
    places: Vec<usize>,
    results: oneshot::Receiver<AppendResults>,
}

impl PendingAppend {
    fn new(count: usize) -> Self {
        Self { results: (0..count).map(|_| None).collect(), queued: Vec::new() }
    }

    fn settle(&mut self, place: usize, result: Result<Appended, AppendError>) {
        self.results[place] = Some(result);
    }
}

impl Future for PendingAppend {
    type Output = Vec<Result<Appended, AppendError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(last) = self.queued.last_mut() {
            let Poll::Ready(results) = Pin::new(&mut last.results).poll(context) else {
                return Poll::Pending;
            };
            let Queued { places, .. } = self.queued.pop().expect("the last one was just polled");
            let stopped = || places.iter().map(|_| Err(AppendError::Write(WriteError::Closed))).collect();
            let results = results.unwrap_or_else(|_| stopped());
            places.iter().zip(results).for_each(|(place, result)| self.settle(*place, result));
        }
        let settled = std::mem::take(&mut self.results).into_iter();
        Poll::Ready(settled.map(|result| result.expect("all are settled, and polled once")).collect())
    }
}
