//! What the APIs of groups have in common.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_protocol::protocol::StrBytes;

use crate::authorize::Resource;
use crate::context::Context;
use crate::group::Caller;

/// The client did not ask for them.
const NOT_ASKED: i32 = i32::MIN;

pub(super) fn caller(member_id: &StrBytes, instance_id: Option<&StrBytes>) -> Caller {
    Caller { member_id: member_id.to_string(), instance_id: instance_id.map(StrBytes::to_string) }
}

pub(super) fn milliseconds(milliseconds: i32) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

pub(super) fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

/// A bit for each operation that the client may do with a group.
pub(super) fn authorized_operations(context: &Context, group_id: &str, asked: AskedOperations) -> i32 {
    match asked {
        AskedOperations::Yes => context.authorized_operations(Resource::Group(group_id)),
        AskedOperations::No => NOT_ASKED,
    }
}

/// Whether the client asks for the operations that it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedOperations {
    Yes,
    No,
}

impl From<bool> for AskedOperations {
    fn from(is_asked: bool) -> Self {
        if is_asked { Self::Yes } else { Self::No }
    }
}

/// Names of states or types that a client filters by, whatever their case; none = all.
#[derive(Debug)]
pub(super) struct Filter(BTreeSet<String>);

impl Filter {
    pub(super) fn new(names: &[StrBytes]) -> Self {
        Self(names.iter().map(|name| name.to_lowercase()).collect())
    }

    pub(super) fn takes(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains(&name.to_lowercase())
    }
}
