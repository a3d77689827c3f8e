//! AddPartitionsToTxn (key 24): a producer says to which partitions its transaction writes.
//!
//! # Behavior
//! - Answered when it is durable, so that whatever happens the partitions get their markers.
//! - All of the partitions are added or none: where one does not exist or may not be written to, the
//!   others are OPERATION_NOT_ATTEMPTED.
//! - A producer id that is not that of the transactional id is INVALID_PRODUCER_ID_MAPPING, an old
//!   epoch PRODUCER_FENCED. CONCURRENT_TRANSACTIONS while the transaction before is completed.
//!
//! # Version notes
//! - Before 2, INVALID_PRODUCER_EPOCH stands for PRODUCER_FENCED.
//! - 4 and later are for brokers, which need ClusterAction and no other right: many transactional ids at
//!   once, and only a look whether partitions were added (KIP-890), which 5 answers with
//!   TRANSACTION_ABORTABLE if they were not.

use std::collections::BTreeSet;

use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use strandline_storage::format::Producer;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::Snapshot;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::ErrorCode;
use crate::transaction::{AddPartitions, verify};

const PRODUCER_FENCED_SINCE: i16 = 2;
const MANY_SINCE: i16 = 4;
const ABORTABLE_SINCE: i16 = 5;

pub(super) async fn answer(
    context: Context,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    if context.version >= MANY_SINCE {
        return answer_many(&context, &request.transactions).await;
    }
    let transaction = AddPartitionsToTxnTransaction::default()
        .with_transactional_id(request.v3_and_below_transactional_id)
        .with_producer_id(request.v3_and_below_producer_id)
        .with_producer_epoch(request.v3_and_below_producer_epoch)
        .with_topics(request.v3_and_below_topics);
    let results = answer_one(&context, &transaction).await;
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results)
}

async fn answer_many(
    context: &Context,
    transactions: &[AddPartitionsToTxnTransaction],
) -> AddPartitionsToTxnResponse {
    if let Err(error) = context.authorize(Operation::ClusterAction, Resource::Cluster) {
        return AddPartitionsToTxnResponse::default().with_error_code(context.code(error));
    }
    let mut results = Vec::with_capacity(transactions.len());
    for transaction in transactions {
        let result = AddPartitionsToTxnResult::default()
            .with_transactional_id(transaction.transactional_id.clone())
            .with_topic_results(answer_one(context, transaction).await);
        results.push(result);
    }
    AddPartitionsToTxnResponse::default().with_results_by_transaction(results)
}

type Found = Result<TopicPartition, ErrorCode>;

async fn answer_one(
    context: &Context,
    transaction: &AddPartitionsToTxnTransaction,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let name = &transaction.transactional_id;
    if let Err(error) = check_name(context, name) {
        return respond(context, &transaction.topics, |_| error);
    }
    let snapshot = context.log().snapshot();
    let found = find_all(context, &snapshot, &transaction.topics);
    if found.iter().any(Result::is_err) {
        return respond(context, &transaction.topics, |index| match found[index] {
            Ok(_) => ErrorCode::OperationNotAttempted,
            Err(error) => error,
        });
    }
    let partitions: Vec<_> = found.into_iter().flatten().collect();
    let producer =
        Producer { producer_id: transaction.producer_id.0, producer_epoch: transaction.producer_epoch };
    if context.version >= MANY_SINCE && transaction.verify_only {
        return respond(context, &transaction.topics, |index| {
            look_up(context, &snapshot, name, producer, partitions[index])
        });
    }
    let add = AddPartitions { producer, partitions: partitions.into_iter().collect::<BTreeSet<_>>() };
    let added = context.gateway.transactions.add_partitions(name, add).await;
    let code = added.map_or_else(|error| ErrorCode::from(&error), |()| ErrorCode::None);
    respond(context, &transaction.topics, |_| code)
}

fn check_name(context: &Context, name: &str) -> Result<(), ErrorCode> {
    if context.version < MANY_SINCE {
        context.authorize(Operation::Write, Resource::TransactionalId(name))?;
    }
    if name.is_empty() { Err(ErrorCode::InvalidRequest) } else { Ok(()) }
}

fn find_all(context: &Context, snapshot: &Snapshot, topics: &[AddPartitionsToTxnTopic]) -> Vec<Found> {
    let mut found = Vec::new();
    for topic in topics {
        let allowed = match context.version {
            MANY_SINCE.. => Ok(()),
            _ => context.authorize(Operation::Write, Resource::Topic(&topic.name)),
        };
        let find = |partition: &i32| {
            allowed?;
            find_partition(snapshot, &topic.name, *partition)
        };
        found.extend(topic.partitions.iter().map(find));
    }
    found
}

fn look_up(
    context: &Context,
    snapshot: &Snapshot,
    name: &str,
    producer: Producer,
    partition: TopicPartition,
) -> ErrorCode {
    let current = snapshot.transactional_id(name).map(|current| &**current);
    match verify(current, producer, partition).map_err(|error| ErrorCode::from(&error)) {
        Ok(()) => ErrorCode::None,
        Err(ErrorCode::InvalidTxnState) if context.version >= ABORTABLE_SINCE => {
            ErrorCode::TransactionAbortable
        }
        Err(error) => error,
    }
}

/// One code for each partition, by its number in the request.
fn respond(
    context: &Context,
    topics: &[AddPartitionsToTxnTopic],
    code: impl Fn(usize) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut index = 0;
    let mut results = Vec::with_capacity(topics.len());
    for topic in topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let code = code(index).for_version(context.version, PRODUCER_FENCED_SINCE);
            let result = AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*partition)
                .with_partition_error_code(context.code(code));
            partitions.push(result);
            index += 1;
        }
        let result = AddPartitionsToTxnTopicResult::default().with_name(topic.name.clone());
        results.push(result.with_results_by_partition(partitions));
    }
    results
}
