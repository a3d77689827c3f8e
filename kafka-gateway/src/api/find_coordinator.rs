//! FindCoordinator (key 10): which broker coordinates a group or a transactional id.
//!
//! # Behavior
//! - This one, always. Key types other than groups (0) and transactional ids (1) are
//!   INVALID_REQUEST.
//!
//! # Version notes
//! - 0 knows groups only. 4 and later ask for many keys at once. 6 knows share groups, which are not
//!   served.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};

const MANY_KEYS_SINCE: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const NO_NODE: i32 = -1;
const NO_PORT: i32 = -1;

pub(super) async fn answer(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    if context.version >= MANY_KEYS_SINCE {
        let keys = request.coordinator_keys.into_iter();
        let coordinators = keys.map(|key| find(&context, request.key_type, key)).collect();
        return FindCoordinatorResponse::default().with_coordinators(coordinators);
    }
    let found = find(&context, request.key_type, request.key);
    FindCoordinatorResponse::default()
        .with_error_code(found.error_code)
        .with_error_message(None)
        .with_node_id(found.node_id)
        .with_host(found.host)
        .with_port(found.port)
}

fn find(context: &Context, key_type: i8, key: StrBytes) -> Coordinator {
    let coordinator = match check(context, key_type, &key) {
        Ok(()) => {
            let (host, port) = context.advertised();
            Coordinator::default()
                .with_error_code(NONE)
                .with_node_id(context.settings().node_id.into())
                .with_host(StrBytes::from_string(host))
                .with_port(port)
        }
        Err(error) => Coordinator::default()
            .with_error_code(context.code(error))
            .with_node_id(NO_NODE.into())
            .with_port(NO_PORT),
    };
    coordinator.with_key(key).with_error_message(None)
}

fn check(context: &Context, key_type: i8, key: &str) -> Result<(), ErrorCode> {
    let resource = match key_type {
        GROUP => Resource::Group(key),
        TRANSACTION => Resource::TransactionalId(key),
        _ => return Err(ErrorCode::InvalidRequest),
    };
    context.authorize(Operation::Describe, resource)
}
