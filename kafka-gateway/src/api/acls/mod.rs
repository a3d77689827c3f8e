//! DescribeAcls (key 29), CreateAcls (key 30) and DeleteAcls (key 31): the rules on what clients may do.
//!
//! # Behavior
//! - Without an authorizer all of them are SECURITY_DISABLED, as in Apache Kafka.
//! - Rules are on topics, groups, the cluster (whose name is `kafka-cluster`) and transactional ids. Other
//!   kinds, operations that the kind does not have, and hosts that are neither `*` nor an address are
//!   INVALID_REQUEST with a sentence that says so: they could never match anything.
//! - Each rule and each filter succeeds or fails alone. A rule that is there already is no error. What was
//!   created or deleted is durable when it is answered, and holds for the next request of any connection.
//!
//! # Version notes
//! - 2 is flexible. 3 knows the resource kind user, which is refused like delegation tokens.

mod filter;
mod wire;

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{AccessChange, AclBinding};

use self::filter::Filter;
use super::access_change::{Draft, commit};
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

/// What became of one item of a request.
type Outcome<T> = Result<T, Refusal>;

fn check(context: &Context, operation: Operation) -> Outcome<()> {
    context.check_authorized(operation, Resource::Cluster)?;
    match context.settings().authorizer {
        Some(_) => Ok(()),
        None => Err((ErrorCode::SecurityDisabled, "no authorizer is configured".to_owned())),
    }
}

pub(super) async fn describe(context: Context, request: DescribeAclsRequest) -> DescribeAclsResponse {
    let response = DescribeAclsResponse::default().with_error_message(None);
    let filter = check(&context, Operation::Describe).and_then(|()| Filter::of_request(&request));
    match filter {
        Ok(filter) => {
            let access = context.log().access();
            response.with_resources(wire::resources(access.acls.iter().filter(|rule| filter.matches(rule))))
        }
        Err((error, reason)) => response
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}

pub(super) async fn create(context: Context, request: CreateAclsRequest) -> CreateAclsResponse {
    let allowed = check(&context, Operation::Alter);
    let rules = request.creations.iter().map(|creation| {
        allowed.clone()?;
        wire::binding(creation)
    });
    let rules: Vec<Outcome<AclBinding>> = rules.collect();
    let created = match rules.iter().any(Result::is_ok) {
        true => commit(&context, move |draft| create_all(draft, rules)).await,
        false => Ok(rules.into_iter().map(|rule| rule.map(drop)).collect()),
    };
    let results = match created {
        Ok(outcomes) => outcomes.into_iter().map(|outcome| creation_result(&context, outcome)).collect(),
        Err(refusal) => {
            request.creations.iter().map(|_| creation_result(&context, Err(refusal.clone()))).collect()
        }
    };
    CreateAclsResponse::default().with_results(results)
}

fn create_all(draft: &mut Draft, rules: Vec<Outcome<AclBinding>>) -> Vec<Outcome<()>> {
    let create = |rule: Outcome<AclBinding>| {
        let added = draft.change(AccessChange::AddAcls(vec![rule?]));
        added.map_err(|error| (ErrorCode::from(&error), error.to_string()))
    };
    rules.into_iter().map(create).collect()
}

fn creation_result(context: &Context, outcome: Outcome<()>) -> AclCreationResult {
    let result = AclCreationResult::default().with_error_message(None);
    match outcome {
        Ok(()) => result,
        Err((error, reason)) => result
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}

pub(super) async fn delete(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let allowed = check(&context, Operation::Alter);
    let filter = |filter: &DeleteAclsFilter| {
        allowed.clone()?;
        Filter::of_deletion(filter)
    };
    let filters: Vec<Outcome<Filter>> = request.filters.iter().map(filter).collect();
    let deleted = match filters.iter().any(Result::is_ok) {
        true => commit(&context, move |draft| delete_all(draft, filters)).await,
        false => Ok(filters.into_iter().map(|filter| filter.map(|_| Vec::new())).collect()),
    };
    let results = match deleted {
        Ok(outcomes) => outcomes.into_iter().map(|outcome| deletion_result(&context, outcome)).collect(),
        Err(refusal) => {
            request.filters.iter().map(|_| deletion_result(&context, Err(refusal.clone()))).collect()
        }
    };
    DeleteAclsResponse::default().with_filter_results(results)
}

/// Deletes what matches; a rule that several filters match is in the answer of each.
fn delete_all(draft: &mut Draft, filters: Vec<Outcome<Filter>>) -> Vec<Outcome<Vec<AclBinding>>> {
    let before = draft.access.acls.clone();
    let delete = |filter: Outcome<Filter>| {
        let filter = filter?;
        let matching: Vec<_> = before.iter().filter(|rule| filter.matches(rule)).collect();
        let removed = draft.change(AccessChange::RemoveAcls(matching.clone()));
        removed.map_err(|error| (ErrorCode::from(&error), error.to_string()))?;
        Ok(matching)
    };
    filters.into_iter().map(delete).collect()
}

fn deletion_result(context: &Context, outcome: Outcome<Vec<AclBinding>>) -> DeleteAclsFilterResult {
    let result = DeleteAclsFilterResult::default().with_error_message(None);
    match outcome {
        Ok(deleted) => result.with_matching_acls(deleted.into_iter().map(wire::matching).collect()),
        Err((error, reason)) => result
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}
