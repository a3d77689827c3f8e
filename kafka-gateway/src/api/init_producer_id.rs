//! InitProducerId (key 22): an id and an epoch for an idempotent or transactional producer.
//!
//! # Behavior
//! - Without a transactional id: an id that was never given out, with epoch 0.
//! - With one: the next epoch of its producer id, which fences all producers before it, and a new
//!   producer id when the epochs are used up. An open transaction is aborted first; where that takes
//!   several shards, CONCURRENT_TRANSACTIONS until it is done.
//! - Without a transactional id it takes IdempotentWrite on the cluster, or Write on any topic.
//! - An empty transactional id is INVALID_REQUEST, a timeout that is not within 1 ms and the setting
//!   INVALID_TRANSACTION_TIMEOUT.
//!
//! # Version notes
//! - 3 and later carry the producer's present id and epoch, for one that goes on after an error
//!   (KIP-360). PRODUCER_FENCED if another one took its place. Without a transactional id nothing depends
//!   on them. One of the two alone is INVALID_REQUEST.
//! - Before 4, INVALID_PRODUCER_EPOCH stands for PRODUCER_FENCED.
//! - 5 is the same here: the protocol that comes with transaction.version 2 is not served.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use strandline_storage::access::ResourceKind;
use strandline_storage::format::Producer;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::transaction::Init;

const PRODUCER_FENCED_SINCE: i16 = 4;
const NO_PRODUCER_ID: i64 = -1;
const NO_EPOCH: i16 = -1;

pub(super) async fn answer(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse {
    let (producer, code) = match init(&context, &request).await {
        Ok(producer) => (producer, ErrorCode::None),
        Err(error) => (
            Producer { producer_id: NO_PRODUCER_ID, producer_epoch: NO_EPOCH },
            error.for_version(context.version, PRODUCER_FENCED_SINCE),
        ),
    };
    InitProducerIdResponse::default()
        .with_error_code(context.code(code))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch)
}

async fn init(context: &Context, request: &InitProducerIdRequest) -> Result<Producer, ErrorCode> {
    let Some(name) = &request.transactional_id else { return idempotent(context, request).await };
    context.authorize(Operation::Write, Resource::TransactionalId(name))?;
    if name.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    let expected = expected(request)?;
    let fresh_producer_id = context.gateway.next_producer_id().await;
    let fresh_producer_id = fresh_producer_id.map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
    let init = Init { expected, timeout_ms: request.transaction_timeout_ms, fresh_producer_id };
    let producer = context.gateway.transactions.init(name, init).await;
    producer.map_err(|error| ErrorCode::from(&error))
}

async fn idempotent(context: &Context, request: &InitProducerIdRequest) -> Result<Producer, ErrorCode> {
    if !context.rights.allow_any(Operation::Write, ResourceKind::Topic) {
        context.authorize(Operation::IdempotentWrite, Resource::Cluster)?;
    }
    expected(request)?;
    let producer_id = context.gateway.next_producer_id().await;
    let producer_id = producer_id.map_err(|error| ErrorCode::from(&error))?;
    Ok(Producer { producer_id, producer_epoch: 0 })
}

/// The producer that the client has, if it names one: both of id and epoch, or none.
fn expected(request: &InitProducerIdRequest) -> Result<Option<Producer>, ErrorCode> {
    let producer = Producer { producer_id: request.producer_id.0, producer_epoch: request.producer_epoch };
    match (producer.producer_id == NO_PRODUCER_ID, producer.producer_epoch == NO_EPOCH) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some(producer)),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(producer_id: i64, producer_epoch: i16) -> InitProducerIdRequest {
        InitProducerIdRequest::default()
            .with_producer_id(producer_id.into())
            .with_producer_epoch(producer_epoch)
    }

    #[test]
    fn a_producer_is_named_by_both_of_its_numbers() {
        assert_eq!(expected(&request(-1, -1)), Ok(None));
        let producer = Producer { producer_id: 7, producer_epoch: 2 };
        assert_eq!(expected(&request(7, 2)), Ok(Some(producer)));
        assert_eq!(expected(&request(7, -1)), Err(ErrorCode::InvalidRequest));
        assert_eq!(expected(&request(-1, 2)), Err(ErrorCode::InvalidRequest));
    }
}
