//! Produce (key 0): appends record batches.
//!
//! # Behavior
//! - acks 1 and -1 both answer when the batches are durable. acks 0 gets no answer; an error closes
//!   the connection, because there is no other way to tell.
//! - Exactly one batch of format 2 per partition; the log checks the rest.
//! - Batches are queued before the next request of the connection is looked at, so that the order of
//!   one producer is kept; the wait for durability runs beside the requests that follow.
//! - An unknown topic is UNKNOWN_TOPIC_OR_PARTITION: only Metadata creates topics.
//! - A transactional batch whose partition was not added to the open transaction of its producer is
//!   INVALID_TXN_STATE, one of a producer that was replaced INVALID_PRODUCER_EPOCH.
//! - Any transactional batch without a transactional id, or with one that the client may not write with, is
//!   TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the whole request.
//! - The bytes of a request count for the quota of its client when they have come. One that is over it is
//!   answered with the time for which its connection is not read from (KIP-219).
//! - A batch that is not durable within the request's timeout is REQUEST_TIMED_OUT. It stays queued
//!   and may still become durable.
//!
//! # Version notes
//! - 0 to 2 are advertised and not served: clients only use them to see that codecs are known.
//! - Before 7, zstd is UNSUPPORTED_COMPRESSION_TYPE.
//! - 5: log start offset, also where the log refused a batch for its records. 8: error messages, and the
//!   records that a batch was refused for.
//! - 13: topics by id; an unknown one is UNKNOWN_TOPIC_ID.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::FutureExt;
use kafka_protocol::messages::produce_request::PartitionProduceData;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::format::{BatchError, BatchHeader, Compression, Producer};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{AppendError, Appended, PartitionAppend, PendingAppend, Snapshot, Topic};

use super::{Answer, Begin, RequestError, Running, decode, encode};
use crate::authorize::{Operation, Resource};
use crate::context::{Context, TopicKey, partition_of};
use crate::error_code::ErrorCode;
use crate::telemetry;
use crate::transaction::verify;

const ZSTD_SINCE: i16 = 7;
const TOPIC_IDS_SINCE: i16 = 13;
const NO_OFFSET: i64 = -1;
const NO_TIME: i64 = -1;

/// Why a batch was refused, with a sentence for the person who sent it.
#[derive(Clone, Debug)]
struct Refusal {
    code: ErrorCode,
    reason: String,
    /// The numbers of the records in the batch that it was refused for, if they are known.
    records: Vec<i32>,
    log_start_offset: i64,
}

impl Refusal {
    fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), records: Vec::new(), log_start_offset: NO_OFFSET }
    }

    /// By the log, for a partition that begins at `log_start_offset`.
    fn by_log(error: &AppendError, log_start_offset: Option<i64>) -> Self {
        let records = match error {
            AppendError::NullKey { records } | AppendError::InvalidTimestamp { records, .. } => {
                records.clone()
            }
            _ => Vec::new(),
        };
        let log_start_offset = log_start_offset.filter(|_| tells_log_start(error)).unwrap_or(NO_OFFSET);
        Self { code: ErrorCode::from(error), reason: error.to_string(), records, log_start_offset }
    }
}

/// Whether the answer says where the partition begins: Kafka gets to it when the bytes are one whole batch of
/// an allowed size (`ReplicaManager.appendToLocalLog`).
fn tells_log_start(error: &AppendError) -> bool {
    match error {
        AppendError::UnknownTopicPartition(_)
        | AppendError::TooLarge { .. }
        | AppendError::PartitionNotInTransaction { .. }
        | AppendError::Write(_) => false,
        AppendError::InvalidBatch(batch) => !matches!(
            batch,
            BatchError::Truncated { .. }
                | BatchError::TooManyBatches { .. }
                | BatchError::UnsupportedMagic(_)
                | BatchError::LengthTooSmall { .. }
                | BatchError::CrcMismatch { .. }
                | BatchError::BudgetExceeded { .. }
        ),
        _ => true,
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        let reason = match code {
            ErrorCode::UnknownTopicOrPartition => "topic or partition does not exist",
            ErrorCode::UnknownTopicId => "no topic has this id",
            _ => "not authorized",
        };
        Self::new(code, reason)
    }
}

/// What became of one partition of the request.
struct Slot {
    topic: TopicKey,
    partition: i32,
    bytes: usize,
}

/// Where a batch is queued, whose result then comes from the log.
type Queued = Result<TopicPartition, Refusal>;

/// A request whose batches were looked at, in the order of the request.
struct Checked {
    slots: Vec<(Slot, Queued)>,
    appends: Vec<PartitionAppend>,
}

pub(super) fn begin(context: Context, body: Bytes) -> Begin {
    async move {
        let throttle_time_ms = context.charge_produced(body.len());
        let request = decode::<ProduceRequest>(body, context.version)?;
        let (acks, timeout_ms) = (request.acks, request.timeout_ms);
        let Checked { slots, appends } = check(&context, request);
        let pending = match appends.is_empty() {
            true => None,
            false => context.within(timeout_ms, context.log().submit(appends)).await,
        };
        let running: Running = async move {
            let results = wait(&context, timeout_ms, pending).await;
            finish(&context, Wanted { acks, throttle_time_ms }, slots, results)
        }
        .boxed();
        Ok(running)
    }
    .boxed()
}

/// Looks at what needs no work of the log.
fn check(context: &Context, request: ProduceRequest) -> Checked {
    let allowed = check_transactional_id(context, &request);
    let transactional_id = request.transactional_id.as_deref().map(|name| &**name);
    let checking = Checking { context, snapshot: context.log().snapshot(), transactional_id };
    let mut checked = Checked { slots: Vec::new(), appends: Vec::new() };
    for topic in request.topic_data {
        let key = match context.version >= TOPIC_IDS_SINCE {
            true => TopicKey::Id(topic.topic_id),
            false => TopicKey::Name(topic.name),
        };
        let found = allowed.and_then(|()| context.find_topic(Operation::Write, &checking.snapshot, &key));
        for data in topic.partition_data {
            let bytes = data.records.as_ref().map_or(0, Bytes::len);
            let partition = data.index;
            let append = match request.acks {
                -1..=1 => check_partition(&checking, found, data),
                acks => Err(Refusal::new(
                    ErrorCode::InvalidRequiredAcks,
                    format!("acks {acks} is not -1, 0 or 1"),
                )),
            };
            let queued = append.map(|append| {
                let place = append.topic_partition;
                checked.appends.push(append);
                place
            });
            checked.slots.push((Slot { topic: key.clone(), partition, bytes }, queued));
        }
    }
    checked
}

/// Whether the client may write with the transactional id, if any batch is transactional.
fn check_transactional_id(context: &Context, request: &ProduceRequest) -> Result<(), ErrorCode> {
    let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let mut headers = partitions.filter_map(|data| BatchHeader::parse(data.records.as_ref()?).ok());
    if !headers.any(|header| header.is_transactional()) {
        return Ok(());
    }
    let name = request.transactional_id.as_deref();
    let name = name.ok_or(ErrorCode::TransactionalIdAuthorizationFailed)?;
    context.authorize(Operation::Write, Resource::TransactionalId(name))
}

/// What the batches of one request are checked against.
struct Checking<'a> {
    context: &'a Context,
    snapshot: Snapshot,
    transactional_id: Option<&'a str>,
}

fn check_partition(
    checking: &Checking<'_>,
    topic: Result<&Topic, ErrorCode>,
    data: PartitionProduceData,
) -> Result<PartitionAppend, Refusal> {
    let topic_partition = partition_of(topic?, data.index)?;
    let batch = data.records.filter(|records| !records.is_empty()).ok_or_else(|| {
        Refusal::new(ErrorCode::InvalidRecord, "exactly one record batch is expected, there is none")
    })?;
    let header = BatchHeader::parse(&batch);
    if let Some(header) = header.as_ref().ok().filter(|header| header.is_transactional()) {
        check_transaction(checking, header, topic_partition)?;
    }
    let compression = header.and_then(|header| header.compression());
    if checking.context.version < ZSTD_SINCE && compression == Ok(Compression::Zstd) {
        let reason = format!("zstd needs Produce version {ZSTD_SINCE}");
        return Err(Refusal::new(ErrorCode::UnsupportedCompressionType, reason));
    }
    Ok(PartitionAppend { topic_partition, batch })
}

/// The partition must have been added to the open transaction of the producer (KIP-890). The log
/// looks again when it gives the batch its offsets; here the answer is at hand.
fn check_transaction(
    checking: &Checking<'_>,
    header: &BatchHeader,
    partition: TopicPartition,
) -> Result<(), Refusal> {
    let Checking { snapshot, transactional_id, .. } = checking;
    let name = transactional_id.ok_or(ErrorCode::TransactionalIdAuthorizationFailed)?;
    let current = snapshot.transactional_id(name).map(|current| &**current);
    let producer = Producer { producer_id: header.producer_id, producer_epoch: header.producer_epoch };
    verify(current, producer, partition).map_err(|error| {
        let code = match ErrorCode::from(&error) {
            // Producers do not expect this one here, and try again on that one.
            ErrorCode::ConcurrentTransactions => ErrorCode::NotEnoughReplicas,
            code => code.without_producer_fenced(),
        };
        Refusal::new(code, error.to_string())
    })
}

type AppendResults = Vec<Result<Appended, AppendError>>;

/// `None`: the batches are not durable within the request's timeout.
async fn wait(context: &Context, timeout_ms: i32, pending: Option<PendingAppend>) -> Option<AppendResults> {
    context.within(timeout_ms, pending?).await
}

/// What the answer depends on besides the batches.
struct Wanted {
    acks: i16,
    throttle_time_ms: i32,
}

fn finish(
    context: &Context,
    wanted: Wanted,
    slots: Vec<(Slot, Queued)>,
    results: Option<AppendResults>,
) -> Result<Answer, RequestError> {
    let mut results = results.map(Vec::into_iter);
    let outcomes = slots.into_iter().map(|(slot, queued)| {
        let outcome = queued.and_then(|place| next_result(context, place, results.as_mut()));
        (slot, outcome)
    });
    if wanted.acks == 0 {
        return finish_unacknowledged(outcomes);
    }
    let mut topics = TopicAnswers::default();
    for (slot, outcome) in outcomes {
        let partition = answer_partition(context, &slot, outcome);
        topics.push(slot.topic, partition);
    }
    let response = ProduceResponse::default()
        .with_responses(topics.answers)
        .with_throttle_time_ms(wanted.throttle_time_ms);
    encode(&response, context.version)
}

fn next_result(
    context: &Context,
    place: TopicPartition,
    results: Option<&mut std::vec::IntoIter<Result<Appended, AppendError>>>,
) -> Result<Appended, Refusal> {
    let Some(results) = results else {
        let reason = "batch is not durable yet, and may be later";
        return Err(Refusal::new(ErrorCode::RequestTimedOut, reason));
    };
    let result = results.next().expect("the log answers every append");
    result.map_err(|error| {
        let view = context.log().snapshot().partition(place);
        Refusal::by_log(&error, view.map(|view| view.bounds().log_start_offset))
    })
}

fn finish_unacknowledged(
    outcomes: impl Iterator<Item = (Slot, Result<Appended, Refusal>)>,
) -> Result<Answer, RequestError> {
    for (slot, outcome) in outcomes {
        match outcome {
            Ok(appended) => count(&slot, &appended),
            Err(refusal) => {
                let place = format!("topic {} partition {}", slot.topic, slot.partition);
                return Err(RequestError::UnacknowledgedProduce(format!("{place}: {}", refusal.reason)));
            }
        }
    }
    Ok(Answer::default())
}

fn count(slot: &Slot, appended: &Appended) {
    if !appended.is_duplicate {
        let records = appended.last_offset - appended.base_offset + 1;
        telemetry::produced(u64::try_from(records).unwrap_or(0), slot.bytes as u64);
    }
}

fn answer_partition(
    context: &Context,
    slot: &Slot,
    outcome: Result<Appended, Refusal>,
) -> PartitionProduceResponse {
    let response = PartitionProduceResponse::default().with_index(slot.partition);
    match outcome {
        Ok(appended) => {
            count(slot, &appended);
            response
                .with_base_offset(appended.base_offset)
                .with_log_append_time_ms(appended.log_append_time.unwrap_or(NO_TIME))
                .with_log_start_offset(appended.log_start_offset)
        }
        Err(refusal) => response
            .with_error_code(context.code(refusal.code))
            .with_record_errors(record_errors(&refusal))
            .with_error_message(Some(StrBytes::from_string(refusal.reason)))
            .with_base_offset(NO_OFFSET)
            .with_log_append_time_ms(NO_TIME)
            .with_log_start_offset(refusal.log_start_offset),
    }
}

fn record_errors(refusal: &Refusal) -> Vec<BatchIndexAndErrorMessage> {
    // All of them share the bytes of one text.
    let reason = StrBytes::from_string(refusal.reason.clone());
    let named = refusal.records.iter().map(|index| {
        BatchIndexAndErrorMessage::default()
            .with_batch_index(*index)
            .with_batch_index_error_message(Some(reason.clone()))
    });
    named.collect()
}

/// Answers by topic, in the order of the request; each topic once, however often it is named.
#[derive(Default)]
struct TopicAnswers {
    answers: Vec<TopicProduceResponse>,
    places: BTreeMap<TopicKey, usize>,
}

impl TopicAnswers {
    fn push(&mut self, topic: TopicKey, partition: PartitionProduceResponse) {
        let place = *self.places.entry(topic.clone()).or_insert_with(|| {
            self.answers.push(match topic {
                TopicKey::Name(name) => TopicProduceResponse::default().with_name(name),
                TopicKey::Id(id) => TopicProduceResponse::default().with_topic_id(id),
            });
            self.answers.len() - 1
        });
        self.answers[place].partition_responses.push(partition);
    }
}
