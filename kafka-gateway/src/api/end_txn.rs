//! EndTxn (key 26): a producer commits or aborts its transaction.
//!
//! # Behavior
//! - Answered when it is decided and durable. Where one shard holds the whole transaction, its markers
//!   and offsets are in the same commit; otherwise they follow, whatever happens.
//! - The same end again is no error; the other one, or an end without a transaction, is
//!   INVALID_TXN_STATE.
//!
//! # Version notes
//! - Before 2, INVALID_PRODUCER_EPOCH stands for PRODUCER_FENCED.
//! - 5 would raise the epoch with each transaction, which comes with transaction.version 2.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};
use strandline_storage::format::Producer;
use strandline_storage::format::event::TransactionResult;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;

const PRODUCER_FENCED_SINCE: i16 = 2;

pub(super) async fn answer(context: Context, request: EndTxnRequest) -> EndTxnResponse {
    let code = match end(&context, &request).await {
        Ok(()) => ErrorCode::None,
        Err(error) => error.for_version(context.version, PRODUCER_FENCED_SINCE),
    };
    EndTxnResponse::default().with_error_code(context.code(code))
}

async fn end(context: &Context, request: &EndTxnRequest) -> Result<(), ErrorCode> {
    let name = &request.transactional_id;
    context.authorize(Operation::Write, Resource::TransactionalId(name))?;
    if name.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    let producer = Producer { producer_id: request.producer_id.0, producer_epoch: request.producer_epoch };
    let result = match request.committed {
        true => TransactionResult::Commit,
        false => TransactionResult::Abort,
    };
    let ended = context.gateway.transactions.end(name, producer, result).await;
    ended.map_err(|error| ErrorCode::from(&error))
}
