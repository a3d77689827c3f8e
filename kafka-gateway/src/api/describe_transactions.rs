//! DescribeTransactions (key 65): where the transactions of some transactional ids stand.
//!
//! # Behavior
//! - A transactional id that is not known is TRANSACTIONAL_ID_NOT_FOUND.
//! - Topics that the client may not describe, and those that are gone, are left out.
//!
//! # Version notes
//! - 0 is the only one.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicName, TransactionalId as WireName,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::format::TransactionalId;
use strandline_storage::log::Snapshot;

use super::once_each;
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;

const NO_TIME: i64 = -1;

pub(super) async fn answer(
    context: Context,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let snapshot = context.log().snapshot();
    let states = once_each(request.transactional_ids).map(|name| describe(&context, &snapshot, name));
    DescribeTransactionsResponse::default().with_transaction_states(states.collect())
}

fn describe(context: &Context, snapshot: &Snapshot, name: WireName) -> TransactionState {
    let state = TransactionState::default().with_transactional_id(name.clone());
    match find(context, snapshot, &name) {
        Ok(found) => state
            .with_transaction_state(StrBytes::from_static_str(found.state.name()))
            .with_transaction_timeout_ms(found.timeout_ms)
            .with_transaction_start_time_ms(found.started_at_ms.unwrap_or(NO_TIME))
            .with_producer_id(found.producer.producer_id.into())
            .with_producer_epoch(found.producer.producer_epoch)
            .with_topics(topics(context, snapshot, found)),
        Err(error) => state.with_error_code(context.code(error)),
    }
}

fn find<'a>(context: &Context, snapshot: &'a Snapshot, name: &str) -> Result<&'a TransactionalId, ErrorCode> {
    context.authorize(Operation::Describe, Resource::TransactionalId(name))?;
    if name.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    snapshot.transactional_id(name).map(|found| &**found).ok_or(ErrorCode::TransactionalIdNotFound)
}

fn topics(context: &Context, snapshot: &Snapshot, found: &TransactionalId) -> Vec<TopicData> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in &found.partitions {
        let Some(topic) = snapshot.topic_by_id(partition.topic_id) else { continue };
        if context.may(Operation::Describe, Resource::Topic(&topic.name)) {
            topics.entry(&topic.name).or_default().push(partition.partition);
        }
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        TopicData::default().with_topic(name).with_partitions(partitions)
    });
    topics.collect()
}
