//! ListGroups (key 16): all groups, those that only have committed offsets included.
//!
//! # Behavior
//! - Groups that the client may not describe are left out, unless it may describe the cluster.
//!
//! # Version notes
//! - 4: states, and a filter by them. 5: types ("classic" or "consumer"), and a filter by them.

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};

use super::group_requests::{Filter, text};
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::group::coordinator::Listed;

const STATE_SINCE: i16 = 4;
const TYPE_SINCE: i16 = 5;

pub(super) async fn answer(context: Context, request: ListGroupsRequest) -> ListGroupsResponse {
    let (states, types) = (Filter::new(&request.states_filter), Filter::new(&request.types_filter));
    let groups = context.gateway.groups.list().into_iter();
    let sees_all = context.may(Operation::Describe, Resource::Cluster);
    let is_shown = |group: &Listed| {
        states.takes(group.state)
            && types.takes(group.group_type)
            && (sees_all || context.may(Operation::Describe, Resource::Group(&group.group_id)))
    };
    let groups = groups.filter(is_shown).map(|group| listed(&context, group)).collect();
    ListGroupsResponse::default().with_groups(groups)
}

fn listed(context: &Context, group: Listed) -> ListedGroup {
    let response = ListedGroup::default()
        .with_group_id(GroupId(text(group.group_id)))
        .with_protocol_type(text(group.protocol_type));
    match context.version {
        TYPE_SINCE.. => response.with_group_state(text(group.state)).with_group_type(text(group.group_type)),
        STATE_SINCE.. => response.with_group_state(text(group.state)),
        _ => response,
    }
}
