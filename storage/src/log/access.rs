//! Users, rules and quotas of the log: what they are, and how they change.
//!
//! Invariant: a change is decided on what all changes before it lead to, and answered when it is
//! durable.

use std::sync::Arc;

use super::change::Change;
use super::error::WriteError;
use super::handle::Log;
use crate::access::{Access, AccessChange, AccessError};
use crate::format::Event;

impl Log {
    /// Users, rules and quotas as they are now, without what is not durable yet.
    pub fn access(&self) -> Arc<Access> {
        self.first().shared.durable().access.clone()
    }

    /// Changes users, rules and quotas: `edit` says how, from what they are when the change is committed.
    /// All of it becomes durable together.
    ///
    /// # Errors
    /// What `edit` refuses; a change out of its bounds; a log that does not take it.
    pub async fn change_access<T, E>(
        &self,
        edit: impl FnOnce(&Access) -> Result<(Vec<AccessChange>, T), E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + From<AccessError> + Send + 'static,
    {
        let change = Change::any_place(move |state, _| {
            let (changes, answer) = edit(&state.access)?;
            let (_, effective) = state.access.with_changes(changes)?;
            Ok((effective.into_iter().map(Event::AccessChanged).collect(), answer))
        });
        self.first().change(change).await
    }
}
