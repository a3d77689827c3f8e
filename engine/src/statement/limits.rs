//! What stops a statement: its client, its timeout.
//!
//! Invariant: whoever waits for a statement is answered at once, whatever its threads are doing. They
//! are told by a flag, which long steps look at in between.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use strandline_storage::seam::Clock;
use tokio::sync::watch;

use crate::error::EngineError;
use crate::telemetry::QueryOutcome;

/// Why a statement was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Canceled,
    TimedOut,
    /// Nobody waits for it any more.
    Dropped,
}

impl StopReason {
    pub(crate) fn outcome(self) -> QueryOutcome {
        match self {
            Self::Canceled => QueryOutcome::Canceled,
            Self::TimedOut => QueryOutcome::TimedOut,
            Self::Dropped => QueryOutcome::Dropped,
        }
    }
}

impl From<StopReason> for EngineError {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::TimedOut => Self::timed_out(),
            StopReason::Canceled | StopReason::Dropped => Self::canceled(),
        }
    }
}

/// Tells all that works for a statement to stop. The first reason counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<OnceLock<StopReason>>);

impl StopFlag {
    pub(crate) fn set(&self, reason: StopReason) {
        // A second reason changes nothing.
        let _ = self.0.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.0.get().copied()
    }

    /// Sets the flag when it is dropped, unless what it guards has ended before.
    pub(crate) fn guard(&self) -> StopGuard {
        StopGuard(Some(self.clone()))
    }
}

/// Stops the statement when the one who waits for it goes away.
#[derive(Debug)]
pub(crate) struct StopGuard(Option<StopFlag>);

impl StopGuard {
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(flag) = &self.0 {
            flag.set(StopReason::Dropped);
        }
    }
}

/// The limits of one statement, counted from when they were made. Copies are of the same statement.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    cancel: watch::Receiver<u64>,
    clock: Arc<dyn Clock>,
    deadline: Option<Duration>,
    flag: StopFlag,
}

impl Limits {
    /// `cancel` has to be subscribed when the statement begins: what came before does not concern it.
    pub(crate) fn new(
        cancel: watch::Receiver<u64>,
        clock: Arc<dyn Clock>,
        timeout: Option<Duration>,
    ) -> Self {
        let deadline = timeout.map(|timeout| clock.monotonic() + timeout);
        Self { cancel, clock, deadline, flag: StopFlag::default() }
    }

    pub(crate) fn flag(&self) -> &StopFlag {
        &self.flag
    }

    /// Ends when the statement has to stop.
    pub(crate) async fn stopped(mut self) -> EngineError {
        let (clock, deadline) = (self.clock.clone(), self.deadline);
        let timeout = async move {
            match deadline {
                Some(deadline) => clock.sleep(deadline.saturating_sub(clock.monotonic())).await,
                None => std::future::pending().await,
            }
        };
        let reason = tokio::select! {
            biased;
            Ok(()) = self.cancel.changed() => StopReason::Canceled,
            () = timeout => StopReason::TimedOut,
        };
        self.flag.set(reason);
        reason.into()
    }

    /// Runs `work` until it ends or is stopped; stopped work is dropped before this returns.
    ///
    /// # Errors
    /// Those of the work, and what stopped it.
    pub(crate) async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        tokio::select! {
            biased;
            error = self.clone().stopped() => Err(error),
            outcome = work => outcome,
        }
    }
}
