//! What a session may do with which topics and groups.
//!
//! Invariant: rules are looked at once for each statement, when it is planned and again when it is run,
//! so one that was changed holds for the next statement of a session that is open.

use std::sync::Arc;

use strandline_storage::access::{Access, AccessRequest, Authorizer, Operation, ResourceKind};

use crate::error::{EngineError, ErrorKind};

/// What a session may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Everything: nobody has to prove who they are.
    #[default]
    All,
    /// What the rules of the log allow.
    Rules(Principal),
}

/// Somebody who has proven who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// As rules name it, such as `User:alice`.
    pub name: String,
    /// The address that it comes from.
    pub host: String,
    pub authorizer: Arc<Authorizer>,
}

/// What one statement may do.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    permissions: Permissions,
    access: Arc<Access>,
}

impl Grants {
    pub(crate) fn new(permissions: Permissions, access: Arc<Access>) -> Self {
        Self { permissions, access }
    }

    pub(crate) fn may(&self, operation: Operation, resource_kind: ResourceKind, resource_name: &str) -> bool {
        let Permissions::Rules(Principal { name, host, authorizer }) = &self.permissions else { return true };
        let request = AccessRequest { principal: name, host, operation, resource_kind, resource_name };
        authorizer.allows(&self.access, &request)
    }

    /// Whether a topic is there, as far as the session may know.
    pub(crate) fn shows_topic(&self, topic: &str) -> bool {
        self.may(Operation::Describe, ResourceKind::Topic, topic)
    }

    /// Whether what others do is shown as well.
    pub(crate) fn shows_everything(&self) -> bool {
        match &self.permissions {
            Permissions::All => true,
            Permissions::Rules(principal) => principal.authorizer.is_super_user(&principal.name),
        }
    }

    /// # Errors
    /// A topic that the session may not read.
    pub(crate) fn expect_readable<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), EngineError> {
        let mut topics = topics.into_iter();
        match topics.find(|topic| !self.may(Operation::Read, ResourceKind::Topic, topic)) {
            Some(topic) => {
                let message = format!("permission denied for table {topic}");
                Err(EngineError::new(ErrorKind::PermissionDenied, message))
            }
            None => Ok(()),
        }
    }
}
