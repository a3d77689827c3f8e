//! What stops a statement: its client, its timeout.

use std::sync::Arc;
use std::time::Duration;

use strandline_storage::seam::Clock;
use tokio::sync::watch;

use crate::error::EngineError;

/// The limits of one statement, counted from when they were made.
#[derive(Debug)]
pub(crate) struct Limits {
    cancel: watch::Receiver<u64>,
    clock: Arc<dyn Clock>,
    deadline: Option<Duration>,
}

impl Limits {
    /// `cancel` has to be subscribed when the statement begins: what came before does not concern it.
    pub(crate) fn new(
        cancel: watch::Receiver<u64>,
        clock: Arc<dyn Clock>,
        timeout: Option<Duration>,
    ) -> Self {
        let deadline = timeout.map(|timeout| clock.monotonic() + timeout);
        Self { cancel, clock, deadline }
    }

    /// Runs `work` until it ends or is stopped; stopped work is dropped before this returns.
    ///
    /// # Errors
    /// Those of the work, and what stopped it.
    pub(crate) async fn run<T>(
        &mut self,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let (clock, deadline) = (self.clock.clone(), self.deadline);
        let timeout = async move {
            match deadline {
                Some(deadline) => clock.sleep(deadline.saturating_sub(clock.monotonic())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(()) = self.cancel.changed() => Err(EngineError::canceled()),
            () = timeout => Err(EngineError::timed_out()),
            outcome = work => outcome,
        }
    }
}
