//! Stops the running statement of a session from elsewhere.
//!
//! Invariant: a cancel concerns what runs when it comes, never a statement that begins later.

use tokio::sync::watch;

/// Where a session's cancels arrive.
#[derive(Debug)]
pub(crate) struct CancelSource(watch::Sender<u64>);

impl Default for CancelSource {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl CancelSource {
    /// For a statement that begins now.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    pub(crate) fn handle(&self) -> CancelHandle {
        CancelHandle(self.0.clone())
    }
}

/// Stops the running statement of one session.
#[derive(Clone, Debug)]
pub struct CancelHandle(watch::Sender<u64>);

impl CancelHandle {
    /// Stops the statement that runs now, if one does.
    pub fn cancel(&self) {
        self.0.send_modify(|cancels| *cancels += 1);
    }
}
