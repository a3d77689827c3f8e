//! InitProducerId (key 22): an id for an idempotent producer.
//!
//! # Behavior
//! - Without a transactional id: an id that was never given out, with epoch 0.
//! - With one: INVALID_REQUEST, because there are no transactions yet.
//!
//! # Version notes
//! - 3 and later carry the producer's present id and epoch, which only transactions use.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;

const NO_PRODUCER_ID: i64 = -1;
const NO_EPOCH: i16 = -1;

pub(super) async fn answer(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse {
    match next_id(&context, &request).await {
        Ok(id) => InitProducerIdResponse::default().with_producer_id(id.into()).with_producer_epoch(0),
        Err(error) => InitProducerIdResponse::default()
            .with_error_code(context.code(error))
            .with_producer_id(NO_PRODUCER_ID.into())
            .with_producer_epoch(NO_EPOCH),
    }
}

async fn next_id(context: &Context, request: &InitProducerIdRequest) -> Result<i64, ErrorCode> {
    if let Some(id) = &request.transactional_id {
        context.authorize(Operation::Write, Resource::TransactionalId(id))?;
        return Err(ErrorCode::InvalidRequest);
    }
    context.authorize(Operation::IdempotentWrite, Resource::Cluster)?;
    context.gateway.next_producer_id().await.map_err(|error| ErrorCode::from(&error))
}
