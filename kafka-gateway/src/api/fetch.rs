//! Fetch (key 1): reads record batches, and waits for them.
//!
//! # Behavior
//! - Answers at once when there are `min_bytes`, when any partition has an error, or when nothing is
//!   to be waited for; otherwise when one of the partitions changes so that there are, and at the
//!   latest after `max_wait_ms`, with what there is. There is no polling.
//! - The first batch of the first partition that has any is returned whole, whatever the limits
//!   (KIP-74); after it, whole batches within the limits of the partition and of the request.
//! - In a session the request names what changed, and the answer what is new (KIP-227). A client that
//!   gets no slot for a session is answered with session id 0 and sends whole requests.
//! - A session that names topics by name answers UNKNOWN_TOPIC_OR_PARTITION once when the topic
//!   behind the name has changed, so that its client looks where it stands. In one that names topics by
//!   id, a topic that went is INCONSISTENT_TOPIC_ID.
//! - A client that fetched more than its quota gets an empty answer with the time for which its connection
//!   is not read from (KIP-219); its session stays as it was. What it gets otherwise counts, with the same
//!   consequence. (Kafka holds back the answer with which it would be over it, and gives clients that ask for
//!   much half of their quota at times.)
//! - Memory for an answer is reserved from a budget of all connections, and given back as the
//!   client reads it. A request that finds the budget low gets less than it asked for.
//!
//! # Version notes
//! - 5: log start offset. 7: sessions. 9: leader epochs. 10: topics with compression.type=zstd, which
//!   are UNSUPPORTED_COMPRESSION_TYPE before. 11: rack (ignored). 12: diverging epochs; a last fetched
//!   epoch above the partition's is OFFSET_OUT_OF_RANGE.
//! - 13: topics by id; an unknown one is UNKNOWN_TOPIC_ID. 14 to 18 differ for brokers that follow, of
//!   which there are none.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use kafka_protocol::messages::FetchRequest;
use strandline_storage::format::{BatchHeader, Compression};
use strandline_storage::ids::{TopicId, TopicPartition};
use strandline_storage::log::{FetchOptions, Fetched, FirstBatch, Isolation, PartitionView, Snapshot, Topic};

use super::fetch_encoding::{FetchAnswer, PartitionAnswer, encode};
use super::fetch_request::take_session_request;
use super::{Answer, Begin, Running, decode};
use crate::authorize::Operation;
use crate::context::{Context, Gateway, TopicKey, check_leader_epoch, find_topic, partition_of};
use crate::error_code::{ErrorCode, NONE};
use crate::fetch_session::{Item, NO_SESSION, Opened, Position, Ticket};
use crate::memory::Memory;
use crate::telemetry;

/// What a request gets when the budget of all answers is used up.
const RESERVED_BYTES_MIN: usize = 1024 * 1024;
const READ_COMMITTED: i8 = 1;
const ZSTD_SINCE: i16 = 10;

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
    let limits = Limits::new(context, &request);
    let opened = context.gateway.fetch_sessions.open(take_session_request(request, context.version));
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(error) => return refuse(context, ErrorCode::from(error)),
    };
    let throttle_time_ms = context.check_fetched();
    if throttle_time_ms > 0 {
        return throttled(context, &opened, throttle_time_ms);
    }
    let ids = find_partitions(&context.log().snapshot(), &mut opened.items);
    // Registered before the first look, so that no commit in between is missed.
    let mut changes = context.log().changes(&ids);
    let mut timeout = context.gateway.clock().sleep(limits.max_wait);
    let mut patience = if limits.max_wait.is_zero() { Patience::Over } else { Patience::Left };
    loop {
        let plans = Plans::new(context, &opened.items, &limits);
        if patience == Patience::Over || plans.answers_at_once(&limits) {
            let (found, memory) = read(context, plans, &limits).await;
            if patience == Patience::Over || is_enough(&found, &limits) {
                return finish(context, &opened, found, memory);
            }
        }
        tokio::select! {
            () = changes.changed() => (),
            () = &mut timeout => patience = Patience::Over,
            () = context.hurried() => patience = Patience::Over,
        }
    }
}

/// The answer to a request that does not fit its session.
fn refuse(context: &Context, error: ErrorCode) -> Answer {
    let answer = FetchAnswer { error_code: context.code(error), ..FetchAnswer::default() };
    Answer { body: Some(encode(answer, context.version)), memory: None }
}

/// The answer to a client that is over its quota: nothing, and its session as it was.
fn throttled(context: &Context, opened: &Opened, throttle_time_ms: i32) -> Answer {
    let session_id = match opened.ticket {
        Ticket::Continued { id, .. } => id,
        Ticket::New(_) | Ticket::None => NO_SESSION,
    };
    let answer = FetchAnswer { throttle_time_ms, session_id, ..FetchAnswer::default() };
    Answer { body: Some(encode(answer, context.version)), memory: None }
}

fn is_enough(found: &[PartitionAnswer], limits: &Limits) -> bool {
    let bytes: usize = found.iter().map(PartitionAnswer::size_bytes).sum();
    bytes >= limits.bytes_min || found.iter().any(PartitionAnswer::has_problem)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Left,
    Over,
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
        let bytes_max = bytes_max.min(context.fetched_bytes_max());
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

/// The partitions that are there. Their topics are noted in the items, so that the request does not go
/// on in another one while it waits.
fn find_partitions(snapshot: &Snapshot, items: &mut [Item]) -> Vec<TopicPartition> {
    let find = |item: &mut Item| {
        let topic = find_topic(snapshot, &item.key.topic).ok()?;
        item.topic_id.get_or_insert(topic.id);
        partition_of(topic, item.key.partition).ok()
    };
    items.iter_mut().filter_map(find).collect()
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
struct Plans {
    /// In the order of the items.
    plans: Vec<PartitionPlan>,
}

/// What to read of a partition, by its number, and the topic that was found.
struct PartitionPlan {
    partition: i32,
    topic_id: Option<TopicId>,
    plan: Result<Plan, ErrorCode>,
}

impl Plans {
    fn new(context: &Context, items: &[Item], limits: &Limits) -> Self {
        let snapshot = context.log().snapshot();
        let plans = items.iter().map(|item| {
            let topic = context.find_topic(Operation::Read, &snapshot, &item.key.topic);
            let topic = topic.map_err(|error| unknown_topic(item, error));
            PartitionPlan {
                partition: item.key.partition,
                topic_id: topic.as_ref().ok().map(|topic| topic.id),
                plan: topic.and_then(|topic| {
                    check_same_topic(item, topic.id)?;
                    check_codec(context.version, topic)?;
                    let id = partition_of(topic, item.key.partition)?;
                    let view = snapshot.partition(id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
                    Plan::new(view, &item.position, limits)
                }),
            }
        });
        Self { plans: plans.collect() }
    }

    fn all(&self) -> impl Iterator<Item = &Result<Plan, ErrorCode>> {
        self.plans.iter().map(|plan| &plan.plan)
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

/// What a client is told of a topic that is not found. Where it was found by its id before, Kafka finds its
/// name in the session, and another id behind the name.
fn unknown_topic(item: &Item, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicId if item.topic_id.is_some() => ErrorCode::InconsistentTopicId,
        error => error,
    }
}

/// Neither a session nor a request goes on in another topic that has got the same name.
fn check_same_topic(item: &Item, found: TopicId) -> Result<(), ErrorCode> {
    match item.topic_id {
        Some(known) if known != found => Err(ErrorCode::UnknownTopicOrPartition),
        _ => Ok(()),
    }
}

/// Clients that send a version before that of zstd cannot read it (KIP-110).
fn check_codec(version: i16, topic: &Topic) -> Result<(), ErrorCode> {
    let is_zstd = || topic.config.compression().is_some_and(|codec| codec.compression == Compression::Zstd);
    if version < ZSTD_SINCE && is_zstd() { Err(ErrorCode::UnsupportedCompressionType) } else { Ok(()) }
}

impl Plan {
    fn new(view: PartitionView, position: &Position, limits: &Limits) -> Result<Self, ErrorCode> {
        let bounds = view.bounds();
        check_leader_epoch(position.current_leader_epoch, bounds.leader_epoch)?;
        if position.last_fetched_epoch > bounds.leader_epoch {
            // Nothing is known of such a position, so there is nowhere to go back to.
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let from = position.fetch_offset;
        let diverging = diverging_epoch(&view, position);
        if diverging.is_none() && !(bounds.log_start_offset..=bounds.high_watermark).contains(&from) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let bytes_max = size(position.bytes_max);
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
fn diverging_epoch(view: &PartitionView, position: &Position) -> Option<(i32, i64)> {
    if position.last_fetched_epoch < 0 {
        return None;
    }
    let (epoch, end) = view.epoch_end_offset(position.last_fetched_epoch)?;
    (end < position.fetch_offset).then_some((epoch, end))
}

/// Reads what was planned, in its order, within the limits of the request and the budget.
async fn read(context: &Context, plans: Plans, limits: &Limits) -> (Vec<PartitionAnswer>, Memory) {
    let wanted = plans.bytes_wanted().min(limits.bytes_max);
    let mut memory = reserve(&context.gateway, wanted).await;
    let limit = memory.bytes().min(limits.bytes_max);
    let mut bytes = 0;
    let mut found = Vec::with_capacity(plans.plans.len());
    for PartitionPlan { partition, topic_id, plan } in plans.plans {
        let mut answered = match plan {
            Ok(plan) => read_partition(context, partition, plan, (bytes, limit), limits.isolation).await,
            Err(error) => PartitionAnswer::error(partition, context.code(error)),
        };
        answered.topic_id = topic_id;
        bytes += answered.size_bytes();
        found.push(answered);
    }
    memory.give_back(memory.bytes().saturating_sub(bytes));
    (found, memory)
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
    let is_full = bytes > 0 && bytes_max == 0;
    if plan.diverging.is_some() || plan.bytes_upper_bound == 0 || is_full {
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

/// Leaves out what a session's client knows already.
fn finish(context: &Context, opened: &Opened, found: Vec<PartitionAnswer>, memory: Memory) -> Answer {
    let observed: Vec<_> = found.iter().map(PartitionAnswer::observed).collect();
    let closed = match context.gateway.fetch_sessions.close(opened, &observed) {
        Ok(closed) => closed,
        Err(error) => return refuse(context, ErrorCode::from(error)),
    };
    let topics = opened.items.iter().map(|item| &item.key.topic);
    let answered = topics.zip(found).zip(closed.included).filter(|(_, is_included)| *is_included);
    let partitions: Vec<(&TopicKey, PartitionAnswer)> = answered.map(|(one, _)| one).collect();
    count(&partitions);
    let throttle_time_ms = context.charge_fetched(size_bytes(&partitions));
    let answer =
        FetchAnswer { throttle_time_ms, error_code: NONE, session_id: closed.session_id, partitions };
    Answer { body: Some(encode(answer, context.version)), memory: Some(memory) }
}

fn count(partitions: &[(&TopicKey, PartitionAnswer)]) {
    let batches = partitions.iter().flat_map(|(_, one)| &one.batches);
    let headers = batches.filter_map(|batch| BatchHeader::parse(batch).ok());
    let records: u64 = headers.map(|header| u64::try_from(header.record_count).unwrap_or(0)).sum();
    telemetry::fetched(records, size_bytes(partitions) as u64);
}

fn size_bytes(partitions: &[(&TopicKey, PartitionAnswer)]) -> usize {
    partitions.iter().map(|(_, one)| one.size_bytes()).sum()
}
