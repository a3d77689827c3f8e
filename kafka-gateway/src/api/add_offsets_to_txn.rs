//! AddOffsetsToTxn (key 25): a producer says that it commits offsets of a group with its transaction.
//!
//! # Behavior
//! - As AddPartitionsToTxn, with the group in the place of the partitions.
//!
//! # Version notes
//! - Before 2, INVALID_PRODUCER_EPOCH stands for PRODUCER_FENCED.

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use strandline_storage::format::Producer;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::transaction::AddGroup;

const PRODUCER_FENCED_SINCE: i16 = 2;

pub(super) async fn answer(context: Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse {
    let code = match add(&context, &request).await {
        Ok(()) => ErrorCode::None,
        Err(error) => error.for_version(context.version, PRODUCER_FENCED_SINCE),
    };
    AddOffsetsToTxnResponse::default().with_error_code(context.code(code))
}

async fn add(context: &Context, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    let name = &request.transactional_id;
    context.authorize(Operation::Write, Resource::TransactionalId(name))?;
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    if name.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let producer = Producer { producer_id: request.producer_id.0, producer_epoch: request.producer_epoch };
    let add = AddGroup { producer, group: request.group_id.to_string() };
    let added = context.gateway.transactions.add_group(name, add).await;
    added.map_err(|error| ErrorCode::from(&error))
}
