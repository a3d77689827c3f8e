//! DescribeAcls (key 29), CreateAcls (key 30) and DeleteAcls (key 31).
//!
//! # Behavior
//! - There is no authorizer, so all of them are SECURITY_DISABLED, as in an Apache Kafka without one.

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::context::Context;
use crate::error_code::ErrorCode;

fn reason() -> Option<StrBytes> {
    Some(StrBytes::from_static_str("no authorizer is configured"))
}

pub(super) async fn describe(context: Context, _request: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse::default()
        .with_error_code(context.code(ErrorCode::SecurityDisabled))
        .with_error_message(reason())
}

pub(super) async fn create(context: Context, request: CreateAclsRequest) -> CreateAclsResponse {
    let results = request.creations.iter().map(|_| {
        AclCreationResult::default()
            .with_error_code(context.code(ErrorCode::SecurityDisabled))
            .with_error_message(reason())
    });
    CreateAclsResponse::default().with_results(results.collect())
}

pub(super) async fn delete(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let results = request.filters.iter().map(|_| {
        DeleteAclsFilterResult::default()
            .with_error_code(context.code(ErrorCode::SecurityDisabled))
            .with_error_message(reason())
    });
    DeleteAclsResponse::default().with_filter_results(results.collect())
}
