//! Fetch (key 1): reads record batches, and waits for them.
//!
//! # Behavior
//! - Answers at once when there are `min_bytes`, when any partition has an error, or when nothing is
//!   to be waited for; otherwise when one of the partitions changes so that there are, and at the
//!   latest after `max_wait_ms`, with what there is. There is no polling.
//! - The first batch of the first partition that has any is returned whole, whatever the limits
//!   (KIP-74); after it, whole batches within the limits of the partition and of the request.
//! - Sessionless: every answer has session id 0, which clients understand as "no session" (KIP-227).
//! - Memory for an answer is reserved from a budget of all connections, and given back as the
//!   client reads it. A request that finds the budget low gets less than it asked for.
//!
//! # Version notes
//! - 5: log start offset. 7: sessions. 9: leader epochs. 11: rack (ignored). 12: diverging epochs.
//!   13 would name topics by id.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::FetchPartition;
use strandline_storage::format::BatchHeader;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{FetchOptions, Fetched, FirstBatch, Isolation, PartitionView, Snapshot};

use super::fetch_encoding::{FetchAnswer, PartitionAnswer, TopicAnswer, encode};
use super::{Answer, Begin, Running, decode};
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Gateway, check_leader_epoch, find_partition};
use crate::error_code::{ErrorCode, NONE};
use crate::memory::Memory;
use crate::telemetry;

/// What a request gets when the budget of all answers is used up.
const RESERVED_BYTES_MIN: usize = 1024 * 1024;
const READ_COMMITTED: i8 = 1;
const NO_SESSION: i32 = 0;

/// The isolation level of a request; unknown ones read as Kafka's lowest.
pub(super) fn isolation(level: i8) -> Isolation {
    if level == READ_COMMITTED { Isolation::ReadCommitted } else { Isolation::ReadUncommitted }
}

pub(super) fn begin(context: Context, body: Bytes) -> Begin {
    let begun = decode::<FetchRequest>(body, context.version).map(|request| {
        let running: Running = async move { Ok(answer(&context, request).await) }.boxed();
        running
    });
    ready(begun).boxed()
}

async fn answer(context: &Context, request: FetchRequest) -> Answer {
    if let Err(error) = check_session(&request) {
        let answer = FetchAnswer { error_code: context.code(error), topics: Vec::new() };
        return Answer { body: Some(encode(answer, context.version)), memory: None };
    }
    let limits = Limits::new(context, &request);
    let ids = partition_ids(&context.log().snapshot(), &request);
    // Registered before the first look, so that no commit in between is missed.
    let mut changes = context.log().changes(&ids);
    let mut timeout = context.gateway.clock().sleep(limits.max_wait);
    let mut patience = if limits.max_wait.is_zero() { Patience::Over } else { Patience::Left };
    loop {
        let plans = Plans::new(context, &request, &limits);
        if patience == Patience::Over || plans.answers_at_once(&limits) {
            let (answer, memory) = read(context, plans, &limits).await;
            if patience == Patience::Over || answer.has_error() || answer.size_bytes() >= limits.bytes_min {
                return finish(context, answer, memory);
            }
        }
        tokio::select! {
            () = changes.changed() => (),
            () = &mut timeout => patience = Patience::Over,
            () = context.hurried() => patience = Patience::Over,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Left,
    Over,
}

/// No session is ever created, so no session id can be right.
fn check_session(request: &FetchRequest) -> Result<(), ErrorCode> {
    match (request.session_id, request.session_epoch) {
        (NO_SESSION, ..=0) => Ok(()),
        (NO_SESSION, _) => Err(ErrorCode::InvalidFetchSessionEpoch),
        _ => Err(ErrorCode::FetchSessionIdNotFound),
    }
}

/// The limits of a request, made to fit those of the gateway.
struct Limits {
    max_wait: std::time::Duration,
    bytes_min: usize,
    bytes_max: usize,
    isolation: Isolation,
}

impl Limits {
    fn new(context: &Context, request: &FetchRequest) -> Self {
        let bytes_max = size(request.max_bytes).min(context.settings().fetch_bytes_max);
        Self {
            max_wait: std::time::Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
            bytes_min: size(request.min_bytes).min(bytes_max),
            bytes_max,
            isolation: isolation(request.isolation_level),
        }
    }
}

fn size(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

fn partition_ids(snapshot: &Snapshot, request: &FetchRequest) -> Vec<TopicPartition> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().filter_map(|one| find_partition(snapshot, &topic.topic, one.partition).ok())
    });
    partitions.collect()
}

/// What to read of one partition.
struct Plan {
    view: PartitionView,
    from: i64,
    bytes_max: usize,
    /// No more than this can be read; the real size is known after reading.
    bytes_upper_bound: usize,
    diverging: Option<(i32, i64)>,
}

/// What to read of all partitions in one snapshot, without having read anything.
struct Plans<'a> {
    topics: Vec<(&'a str, Vec<PartitionPlan>)>,
}

/// The number of a partition, and what to read of it.
type PartitionPlan = (i32, Result<Plan, ErrorCode>);

impl<'a> Plans<'a> {
    fn new(context: &Context, request: &'a FetchRequest, limits: &Limits) -> Self {
        let snapshot = context.log().snapshot();
        let topics = request.topics.iter().map(|topic| {
            let plans = topic.partitions.iter().map(|partition| {
                let plan = Plan::new(context, &snapshot, &topic.topic, partition, limits);
                (partition.partition, plan)
            });
            (topic.topic.as_str(), plans.collect())
        });
        Self { topics: topics.collect() }
    }

    fn all(&self) -> impl Iterator<Item = &Result<Plan, ErrorCode>> {
        self.topics.iter().flat_map(|(_, plans)| plans.iter().map(|(_, plan)| plan))
    }

    /// Whether reading may give an answer that is not to be waited for.
    fn answers_at_once(&self, limits: &Limits) -> bool {
        let mut is_empty = true;
        for plan in self.all() {
            is_empty = false;
            match plan {
                Ok(plan) if plan.diverging.is_none() => (),
                _ => return true,
            }
        }
        is_empty || self.bytes_upper_bound() >= limits.bytes_min
    }

    /// What an answer may hold, apart from a first batch that is larger.
    fn bytes_wanted(&self) -> usize {
        self.all().flatten().map(|plan| plan.bytes_upper_bound.min(plan.bytes_max)).sum()
    }

    fn bytes_upper_bound(&self) -> usize {
        self.all().flatten().map(|plan| plan.bytes_upper_bound).sum()
    }
}

impl Plan {
    fn new(
        context: &Context,
        snapshot: &Snapshot,
        topic: &str,
        requested: &FetchPartition,
        limits: &Limits,
    ) -> Result<Self, ErrorCode> {
        context.authorize(Operation::Read, Resource::Topic(topic))?;
        let partition = find_partition(snapshot, topic, requested.partition)?;
        let view = snapshot.partition(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let bounds = view.bounds();
        check_leader_epoch(requested.current_leader_epoch, bounds.leader_epoch)?;
        let from = requested.fetch_offset;
        let diverging = diverging_epoch(&view, requested);
        if diverging.is_none() && !(bounds.log_start_offset..=bounds.high_watermark).contains(&from) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let bytes_max = size(requested.partition_max_bytes);
        let bytes_upper_bound = upper_bound(&view, from, limits);
        Ok(Self { view, from, bytes_max, bytes_upper_bound, diverging })
    }
}

/// The bytes of the slices and blocks that hold what can be read from an offset on, counted no further than the
/// limit of the request.
fn upper_bound(view: &PartitionView, from: i64, limits: &Limits) -> usize {
    let end = view.bounds().end(limits.isolation);
    if from >= end { 0 } else { view.bytes_between(from, end, limits.bytes_max) }
}

/// Where the reader's last epoch ends in this log, if its position is not part of this log (KIP-595).
fn diverging_epoch(view: &PartitionView, requested: &FetchPartition) -> Option<(i32, i64)> {
    if requested.last_fetched_epoch < 0 {
        return None;
    }
    let (epoch, end) = view.epoch_end_offset(requested.last_fetched_epoch)?;
    (epoch < requested.last_fetched_epoch || end < requested.fetch_offset).then_some((epoch, end))
}

/// Reads what was planned, in the order of the request, within its limits and the budget.
async fn read<'a>(context: &Context, plans: Plans<'a>, limits: &Limits) -> (FetchAnswer<'a>, Memory) {
    let wanted = plans.bytes_wanted().min(limits.bytes_max);
    let mut memory = reserve(&context.gateway, wanted).await;
    let limit = memory.bytes().min(limits.bytes_max);
    let mut bytes = 0;
    let mut topics = Vec::with_capacity(plans.topics.len());
    for (topic, plans) in plans.topics {
        let mut partitions = Vec::with_capacity(plans.len());
        for (partition, plan) in plans {
            let answered = match plan {
                Ok(plan) => read_partition(context, partition, plan, (bytes, limit), limits.isolation).await,
                Err(error) => PartitionAnswer::error(partition, context.code(error)),
            };
            bytes += answered.size_bytes();
            partitions.push(answered);
        }
        topics.push(TopicAnswer { topic, partitions });
    }
    memory.give_back(memory.bytes().saturating_sub(bytes));
    (FetchAnswer { error_code: NONE, topics }, memory)
}

/// Takes bytes from the budget of all answers: what is wanted, but no more than half of what is left,
/// so that clients that do not read cannot take it all; and waits while there is nothing, which ends
/// the connections of clients that hold some and stall.
async fn reserve(gateway: &Gateway, wanted: usize) -> Memory {
    let budget = &gateway.response_memory;
    let share = (budget.available_bytes() / 2).max(RESERVED_BYTES_MIN);
    if let Some(memory) = budget.try_take(wanted.min(share)) {
        return memory;
    }
    budget.take(wanted.min(RESERVED_BYTES_MIN).min(gateway.settings.response_bytes_max)).await
}

/// `(bytes, limit)`: what was read of other partitions, and what all may have together.
async fn read_partition(
    context: &Context,
    partition: i32,
    plan: Plan,
    (bytes, limit): (usize, usize),
    isolation: Isolation,
) -> PartitionAnswer {
    let mut answer = PartitionAnswer::new(partition, plan.view.bounds());
    answer.diverging = plan.diverging;
    let first_batch = if bytes == 0 { FirstBatch::Whole } else { FirstBatch::WithinLimit };
    let bytes_max = plan.bytes_max.min(limit.saturating_sub(bytes));
    if plan.diverging.is_some() || plan.bytes_upper_bound == 0 {
        return answer.with_isolation(isolation, Vec::new());
    }
    let options = FetchOptions { from: plan.from, bytes_max, isolation, first_batch };
    match plan.view.fetch(options).await {
        Ok(Fetched { batches, aborted, .. }) => {
            answer.batches = batches;
            answer.with_isolation(isolation, aborted)
        }
        Err(error) => {
            tracing::warn!(partition = %plan.view.topic_partition().partition, %error, "fetch failed");
            PartitionAnswer::error(partition, context.code(ErrorCode::from(&error)))
        }
    }
}

fn finish(context: &Context, answer: FetchAnswer<'_>, memory: Memory) -> Answer {
    let batches = answer.topics.iter().flat_map(|topic| topic.partitions.iter().flat_map(|one| &one.batches));
    let records = batches.filter_map(|batch| BatchHeader::parse(batch).ok());
    let records: u64 = records.map(|header| u64::try_from(header.record_count).unwrap_or(0)).sum();
    telemetry::fetched(records, answer.size_bytes() as u64);
    Answer { body: Some(encode(answer, context.version)), memory: Some(memory) }
}
