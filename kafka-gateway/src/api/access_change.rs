//! What the APIs that change users, rules and quotas have in common.
//!
//! Invariant: each item of a request is decided on what the items before it lead to, and succeeds or fails
//! alone; those that succeed become durable together.

use strandline_storage::access::{Access, AccessChange, AccessError};
use strandline_storage::log::WriteError;
use thiserror::Error;

use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

/// The requests have no timeout of their own.
const TIMEOUT_MS: i32 = 30_000;

/// What is to become of users, rules and quotas.
pub(super) struct Draft {
    pub(super) access: Access,
    changes: Vec<AccessChange>,
}

impl Draft {
    pub(super) fn new(access: &Access) -> Self {
        Self { access: access.clone(), changes: Vec::new() }
    }

    /// Takes one more change, unless it is out of bounds.
    pub(super) fn change(&mut self, change: AccessChange) -> Result<(), AccessError> {
        self.change_all(vec![change])
    }

    /// Takes some more changes, unless one of them is out of bounds.
    pub(super) fn change_all(&mut self, changes: Vec<AccessChange>) -> Result<(), AccessError> {
        let (access, effective) = self.access.with_changes(changes)?;
        self.access = access;
        self.changes.extend(effective);
        Ok(())
    }
}

/// Why nothing was changed.
#[derive(Debug, Error)]
enum ChangeError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// Commits what `edit` drafts; gives what it answers when that is durable.
pub(super) async fn commit<T: Send + 'static>(
    context: &Context,
    edit: impl FnOnce(&mut Draft) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let changed = context.log().change_access(move |access| {
        let mut draft = Draft::new(access);
        let answer = edit(&mut draft);
        Ok::<_, ChangeError>((draft.changes, answer))
    });
    match context.within(TIMEOUT_MS, changed).await {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err((code(&error), error.to_string())),
        None => Err((ErrorCode::RequestTimedOut, "not changed yet, and may be later".to_owned())),
    }
}

fn code(error: &ChangeError) -> ErrorCode {
    match error {
        ChangeError::Write(error) => ErrorCode::from(error),
        ChangeError::Access(error) => ErrorCode::from(error),
    }
}
