//! DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (key 51).
//!
//! # Behavior
//! - No user has credentials: a user that is named is RESOURCE_NOT_FOUND, one that is named twice
//!   DUPLICATE_RESOURCE, and all users together are none.
//! - Altering any is UNSUPPORTED_VERSION with a sentence that says so, once per user.

use std::collections::BTreeSet;

use kafka_protocol::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use kafka_protocol::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;

pub(super) async fn describe(
    context: Context,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let response = DescribeUserScramCredentialsResponse::default().with_error_message(None);
    if let Err((error, reason)) = context.check_authorized(Operation::Describe, Resource::Cluster) {
        let reason = Some(StrBytes::from_string(reason));
        return response.with_error_code(context.code(error)).with_error_message(reason);
    }
    let users: Vec<StrBytes> = request.users.into_iter().flatten().map(|user| user.name).collect();
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for user in &users {
        if !seen.insert(user) {
            twice.insert(user);
        }
    }
    let results = seen.iter().map(|user| {
        let (error, reason) = match twice.contains(user) {
            true => (ErrorCode::DuplicateResource, "user is named more than once"),
            false => (ErrorCode::ResourceNotFound, "user has no credentials"),
        };
        DescribeUserScramCredentialsResult::default()
            .with_user((*user).clone())
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_static_str(reason)))
    });
    response.with_results(results.collect())
}

pub(super) async fn alter(
    context: Context,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let (error, reason) = match context.check_authorized(Operation::Alter, Resource::Cluster) {
        Ok(()) => (ErrorCode::UnsupportedVersion, "credentials are not supported".to_owned()),
        Err(refusal) => refusal,
    };
    let deleted = request.deletions.into_iter().map(|deletion| deletion.name);
    let upserted = request.upsertions.into_iter().map(|upsertion| upsertion.name);
    let users: BTreeSet<StrBytes> = deleted.chain(upserted).collect();
    let results = users.into_iter().map(|user| {
        AlterUserScramCredentialsResult::default()
            .with_user(user)
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason.clone())))
    });
    AlterUserScramCredentialsResponse::default().with_results(results.collect())
}
