//! The shell around transactional ids: has decisions taken in the log, completes what is prepared,
//! aborts what takes too long, and forgets what is not used any more.
//!
//! Invariant: nothing of a transaction is kept here. What a request began and did not end, because
//! its client has gone or the process was killed, is found in the log and ended from there.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures::future::{Either, select};
use strandline_storage::format::event::TransactionResult;
use strandline_storage::format::{Producer, TransactionalId};
use strandline_storage::log::{EndTransactionError, Log, TransactionalIdView};
use tokio::sync::{Notify, watch};

use super::end::{complete, end, expire, expires_at_ms, missing_markers, time_out};
use super::init::Initialized;
use super::{
    AddGroup, AddPartitions, CommitOffsets, Decided, Ended, Init, TransactionError, TransactionLimits,
};
use crate::settings::GatewaySettings;
use crate::telemetry;

/// How long it takes until something is tried again that the log did not take.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Asking again after the open transaction was aborted is enough, unless another one begins.
const INIT_ATTEMPTS: usize = 2;

#[derive(Debug)]
pub(crate) struct TransactionCoordinator {
    log: Log,
    limits: TransactionLimits,
    expiration_ms: i64,
    commit_timeout: Duration,
    /// What the timer waits for; `None` while it waits for nothing.
    timer_at_ms: Mutex<Option<i64>>,
    /// Told when there is something to do before that.
    earlier: Notify,
    /// Counts looks at what is to be done.
    sweeps: watch::Sender<u64>,
}

/// What a transactional id waits for.
#[derive(Clone, Copy, Debug)]
enum Due {
    Completion,
    Timeout,
    Expiry,
}

impl TransactionCoordinator {
    pub(crate) fn new(log: Log, settings: &GatewaySettings) -> Self {
        let limits = TransactionLimits {
            timeout_max_ms: i32::try_from(settings.transaction_timeout_max.as_millis()).unwrap_or(i32::MAX),
            ids_max: settings.transactional_ids_max,
            partitions_max: settings.transaction_partitions_max,
            offset_bytes_max: settings.transaction_offset_bytes_max,
        };
        let expiration_ms = settings.transactional_id_expiration.as_millis();
        Self {
            log,
            limits,
            expiration_ms: i64::try_from(expiration_ms).unwrap_or(i64::MAX),
            commit_timeout: settings.offset_commit_timeout,
            timer_at_ms: Mutex::default(),
            earlier: Notify::new(),
            sweeps: watch::Sender::new(0),
        }
    }

    /// Gives out the producer of a transactional id, and aborts the transaction that the one before
    /// left open.
    pub(crate) async fn init(&self, name: &str, init: Init) -> Result<Producer, TransactionError> {
        for _ in 0..INIT_ATTEMPTS {
            let (init, limits, of) = (init.clone(), self.limits, name.to_owned());
            match self.update(name, move |view| init.decide(view, &of, &limits)).await? {
                Initialized::Ready(producer) => return Ok(producer),
                Initialized::Aborted(ended) => self.completed(name, ended).await,
            }
        }
        Err(TransactionError::ConcurrentTransactions)
    }

    pub(crate) async fn add_partitions(
        &self,
        name: &str,
        add: AddPartitions,
    ) -> Result<(), TransactionError> {
        let limits = self.limits;
        let deadline_ms = self.update(name, move |view| add.decide(view, &limits)).await?;
        self.wake_by(deadline_ms);
        Ok(())
    }

    pub(crate) async fn add_group(&self, name: &str, add: AddGroup) -> Result<(), TransactionError> {
        let limits = self.limits;
        let deadline_ms = self.update(name, move |view| add.decide(view, &limits)).await?;
        self.wake_by(deadline_ms);
        Ok(())
    }

    pub(crate) async fn commit_offsets(
        &self,
        name: &str,
        commit: CommitOffsets,
    ) -> Result<(), TransactionError> {
        let limits = self.limits;
        self.update(name, move |view| commit.decide(view, &limits)).await
    }

    /// Ends a transaction. What is decided is as good as done, so the answer does not depend on how
    /// long the other shards take.
    pub(crate) async fn end(
        &self,
        name: &str,
        producer: Producer,
        result: TransactionResult,
    ) -> Result<(), TransactionError> {
        self.failpoint("transaction.before_end");
        let ended = self.update(name, move |view| end(view, producer, result)).await?;
        self.failpoint("transaction.decided");
        telemetry::transaction_ended(result);
        self.completed(name, ended).await;
        Ok(())
    }

    /// Waits until a transaction that is decided is completed, but not for ever.
    async fn completed(&self, name: &str, ended: Ended) {
        if ended == Ended::Complete {
            return;
        }
        let mut sweeps = self.sweeps.subscribe();
        self.earlier.notify_one();
        let is_prepared = || {
            let snapshot = self.log.snapshot();
            snapshot.transactional_id(name).is_some_and(|current| current.state.is_prepared())
        };
        let completed = async {
            // The sender is in this very struct.
            while is_prepared() && sweeps.changed().await.is_ok() {}
        };
        let _ = self.within_timeout(completed).await;
    }

    async fn update<T: Send + 'static>(
        &self,
        name: &str,
        decide: impl FnOnce(&TransactionalIdView<'_>) -> Decided<T> + Send + 'static,
    ) -> Result<T, TransactionError> {
        let updated = self.within_timeout(self.log.update_transactional_id(name, decide)).await;
        updated.unwrap_or(Err(TransactionError::TimedOut))
    }

    /// `None`: it takes longer. What the log was given is not taken back.
    async fn within_timeout<F: Future>(&self, work: F) -> Option<F::Output> {
        let sleep = self.log.seams().clock.sleep(self.commit_timeout);
        match select(std::pin::pin!(work), sleep).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Makes the timer look again if this comes before what it waits for.
    fn wake_by(&self, deadline_ms: Option<i64>) {
        let Some(deadline_ms) = deadline_ms else { return };
        let mut timer_at_ms = self.lock_timer();
        if timer_at_ms.is_none_or(|timer_at_ms| deadline_ms < timer_at_ms) {
            *timer_at_ms = Some(deadline_ms);
            self.earlier.notify_one();
        }
    }

    /// Does what is due; never ends.
    pub(crate) async fn run(&self) {
        loop {
            let next = self.sweep().await;
            self.sweeps.send_modify(|sweeps| *sweeps += 1);
            let earlier = self.earlier.notified();
            match next {
                None => earlier.await,
                Some(wait) => tokio::select! {
                    () = earlier => (),
                    () = self.log.seams().clock.sleep(wait) => (),
                },
            }
        }
    }

    /// Does what is due now; gives the time until the next is.
    async fn sweep(&self) -> Option<Duration> {
        let now_ms = self.log.seams().clock.now_ms();
        let mut failed = false;
        for (name, due) in self.due_by(now_ms) {
            if let Err(error) = self.do_due(&name, due).await {
                tracing::warn!(transactional_id = name, %error, "what is due is tried again");
                failed = true;
            }
        }
        if failed {
            return Some(RETRY_PAUSE);
        }
        let mut timer_at_ms = self.lock_timer();
        let snapshot = self.log.snapshot();
        *timer_at_ms = snapshot.transactional_ids().map(|current| self.due(current).0).min();
        let wait_ms = (*timer_at_ms)?.saturating_sub(self.log.seams().clock.now_ms());
        Some(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)))
    }

    fn due_by(&self, now_ms: i64) -> Vec<(String, Due)> {
        let snapshot = self.log.snapshot();
        let due = snapshot.transactional_ids().filter_map(|current| {
            let (at_ms, due) = self.due(current);
            (at_ms <= now_ms).then(|| (current.name.clone(), due))
        });
        due.collect()
    }

    /// When something is to be done about a transactional id, and what.
    fn due(&self, current: &TransactionalId) -> (i64, Due) {
        if let Some(deadline_ms) = current.deadline_ms() {
            return (deadline_ms, Due::Timeout);
        }
        match expires_at_ms(current, self.expiration_ms) {
            Some(expires_at_ms) => (expires_at_ms, Due::Expiry),
            None => (i64::MIN, Due::Completion),
        }
    }

    async fn do_due(&self, name: &str, due: Due) -> Result<(), TransactionError> {
        match due {
            Due::Completion => self.complete(name).await,
            Due::Timeout => self.time_out(name).await,
            Due::Expiry => {
                let expiration_ms = self.expiration_ms;
                self.update(name, move |view| expire(view, expiration_ms)).await
            }
        }
    }

    async fn time_out(&self, name: &str) -> Result<(), TransactionError> {
        let Some(ended) = self.update(name, time_out).await? else { return Ok(()) };
        tracing::info!(transactional_id = name, "a transaction took too long and was aborted");
        telemetry::transaction_ended(TransactionResult::Abort);
        match ended {
            Ended::Complete => Ok(()),
            Ended::Prepared => self.complete(name).await,
        }
    }

    /// Writes the markers that are missing in other shards, and then all that is left.
    async fn complete(&self, name: &str) -> Result<(), TransactionError> {
        let Some(missing) = self.update(name, missing_markers).await? else { return Ok(()) };
        self.failpoint("transaction.prepared");
        let partitions = missing.partitions.clone();
        let ended = self.within_timeout(self.log.end_transaction(missing)).await;
        let ended = ended.ok_or(TransactionError::TimedOut)??;
        for (id, marked) in partitions.iter().zip(&ended.partitions) {
            // A topic that is gone needs no marker.
            if let Err(error) = marked
                && !matches!(error, EndTransactionError::UnknownTopicPartition(_))
            {
                let (topic_id, partition) = (id.topic_id, id.partition);
                tracing::warn!(transactional_id = name, %topic_id, partition, %error, "no marker");
            }
        }
        self.failpoint("transaction.marked");
        self.update(name, complete).await
    }

    fn failpoint(&self, name: &str) {
        self.log.seams().failpoint(name);
    }

    fn lock_timer(&self) -> MutexGuard<'_, Option<i64>> {
        self.timer_at_ms.lock().expect("no holder of the lock panics")
    }
}
