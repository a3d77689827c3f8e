//! ListTransactions (key 66): all transactional ids, or those in some states or of some producers.
//!
//! # Behavior
//! - No filter of a kind means all. A state that is not known is named in the answer.
//! - Transactional ids that the client may not describe are left out.
//!
//! # Version notes
//! - 1: only transactions that have been open for longer than so many milliseconds.
//! - 2: only transactional ids that match a regular expression as a whole. One that is none is
//!   INVALID_REGULAR_EXPRESSION.

use std::collections::BTreeSet;

use kafka_protocol::messages::list_transactions_response::TransactionState as Listed;
use kafka_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionalId as WireName,
};
use kafka_protocol::protocol::StrBytes;
use regex::Regex;
use strandline_storage::format::{TransactionState, TransactionalId};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::pattern::whole_name;

const DURATION_SINCE: i16 = 1;

/// What a transactional id has to be to be listed.
struct Filter {
    states: BTreeSet<TransactionState>,
    producer_ids: BTreeSet<i64>,
    /// Transactions that began before it.
    began_before_ms: Option<i64>,
    names: Option<Regex>,
}

pub(super) async fn answer(context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse {
    let (known, unknown): (Vec<_>, Vec<_>) =
        request.state_filters.iter().partition(|name| state_of(name).is_some());
    let unknown: Vec<StrBytes> = unknown.into_iter().cloned().collect();
    let response = ListTransactionsResponse::default().with_unknown_state_filters(unknown);
    if known.is_empty() && !request.state_filters.is_empty() {
        return response;
    }
    let names = match names(&request) {
        Ok(names) => names,
        Err(error) => return response.with_error_code(context.code(error)),
    };
    let filter = Filter {
        states: known.into_iter().filter_map(|name| state_of(name)).collect(),
        producer_ids: request.producer_id_filters.iter().map(|id| id.0).collect(),
        began_before_ms: began_before_ms(&context, request.duration_filter),
        names,
    };
    let snapshot = context.log().snapshot();
    let is_listed = |found: &TransactionalId| {
        filter.matches(found) && context.may(Operation::Describe, Resource::TransactionalId(&found.name))
    };
    let listed = snapshot.transactional_ids().filter(|found| is_listed(found)).map(|found| {
        Listed::default()
            .with_transactional_id(WireName(StrBytes::from_string(found.name.clone())))
            .with_producer_id(found.producer.producer_id.into())
            .with_transaction_state(StrBytes::from_static_str(found.state.name()))
    });
    response.with_transaction_states(listed.collect())
}

fn state_of(name: &str) -> Option<TransactionState> {
    TransactionState::ALL.into_iter().find(|state| state.name() == name)
}

/// No pattern and an empty one stand for all names.
fn names(request: &ListTransactionsRequest) -> Result<Option<Regex>, ErrorCode> {
    let pattern = request.transactional_id_pattern.as_ref().filter(|pattern| !pattern.is_empty());
    let compiled = pattern.map(|pattern| whole_name(pattern)).transpose();
    compiled.map_err(|_| ErrorCode::InvalidRegularExpression)
}

fn began_before_ms(context: &Context, duration_ms: i64) -> Option<i64> {
    let is_asked_for = context.version >= DURATION_SINCE && duration_ms >= 0;
    is_asked_for.then(|| context.gateway.clock().now_ms().saturating_sub(duration_ms))
}

impl Filter {
    fn matches(&self, found: &TransactionalId) -> bool {
        let has_state = self.states.is_empty() || self.states.contains(&found.state);
        let producer_id = found.producer.producer_id;
        let has_producer = self.producer_ids.is_empty() || self.producer_ids.contains(&producer_id);
        let has_age = self.began_before_ms.is_none_or(|before_ms| {
            found.started_at_ms.is_some_and(|started_at_ms| started_at_ms < before_ms)
        });
        let has_name = self.names.as_ref().is_none_or(|names| names.is_match(&found.name));
        has_state && has_producer && has_age && has_name
    }
}
