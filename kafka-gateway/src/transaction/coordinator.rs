//! The shell around transactional ids: has decisions taken in the log, completes what is prepared,
//! aborts what takes too long, and forgets what is not used any more.
//!
//! Invariant: nothing of a transaction is kept here. What a request began and did not end, because
//! its client has gone or the process was killed, is found in the log and ended from there.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, join_all, select};
use strandline_storage::format::event::TransactionResult;
use strandline_storage::format::{Producer, TransactionalId};
use strandline_storage::log::{EndTransactionError, Log, TransactionalIdView};
use tokio::sync::Notify;

use super::end::{complete, end, expire, expires_at_ms, missing_markers, time_out};
use super::init::Initialized;
use super::{
    AddGroup, AddPartitions, CommitOffsets, Decided, Ended, Init, TransactionError, TransactionLimits,
};
use crate::settings::GatewaySettings;
use crate::telemetry;

/// How long it takes until something is tried again that the log did not take.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// So many transactional ids are looked after at once.
const AT_ONCE_MAX: usize = 64;

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
    /// Transactional ids whose requests did not come to their ends.
    unfinished: Mutex<BTreeSet<String>>,
}

/// A request about a transactional id that may leave a transaction behind, open or prepared.
struct Unfinished<'a> {
    coordinator: &'a TransactionCoordinator,
    name: &'a str,
    is_finished: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.coordinator.lock_unfinished().insert(self.name.to_owned());
            self.coordinator.earlier.notify_one();
        }
    }
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
            unfinished: Mutex::default(),
        }
    }

    /// Gives out the producer of a transactional id, and aborts the transaction that the one before
    /// left open.
    pub(crate) async fn init(&self, name: &str, init: Init) -> Result<Producer, TransactionError> {
        for _ in 0..INIT_ATTEMPTS {
            let (init, limits, of) = (init.clone(), self.limits, name.to_owned());
            let decide = move |view: &TransactionalIdView<'_>| init.decide(view, &of, &limits);
            let ended = |initialized: &Initialized| match initialized {
                Initialized::Ready(_) => Ended::Complete,
                Initialized::Aborted(ended) => *ended,
            };
            if let Initialized::Ready(producer) = self.update_to_end(name, decide, ended).await? {
                return Ok(producer);
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
        let decide = move |view: &TransactionalIdView<'_>| add.decide(view, &limits);
        let deadline_ms = self.update_to_end(name, decide, |_| Ended::Complete).await?;
        self.wake_by(deadline_ms);
        Ok(())
    }

    pub(crate) async fn add_group(&self, name: &str, add: AddGroup) -> Result<(), TransactionError> {
        let limits = self.limits;
        let decide = move |view: &TransactionalIdView<'_>| add.decide(view, &limits);
        let deadline_ms = self.update_to_end(name, decide, |_| Ended::Complete).await?;
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
        let decide = move |view: &TransactionalIdView<'_>| end(view, producer, result);
        self.update_to_end(name, decide, |ended| *ended).await?;
        self.failpoint("transaction.ended");
        telemetry::transaction_ended(result);
        Ok(())
    }

    /// Has a decision taken that may begin or end a transaction, and completes the end. If that does not
    /// come about, because the log is slow or the client has gone, the coordinator looks after it.
    async fn update_to_end<T: Send + 'static>(
        &self,
        name: &str,
        decide: impl FnOnce(&TransactionalIdView<'_>) -> Decided<T> + Send + 'static,
        ended: impl Fn(&T) -> Ended + Send,
    ) -> Result<T, TransactionError> {
        let mut unfinished = Unfinished { coordinator: self, name, is_finished: false };
        let decided = self.update(name, decide).await;
        unfinished.is_finished = match &decided {
            Ok(answer) if ended(answer) == Ended::Prepared => {
                self.within_timeout(self.complete(name)).await == Some(Ok(()))
            }
            Ok(_) => true,
            Err(error) => !error.is_undecided(),
        };
        decided
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
        let mut failed = false;
        for some in self.all_due().chunks(AT_ONCE_MAX) {
            let doing: Vec<_> = some.iter().map(|(name, due)| self.do_due(name, *due).boxed()).collect();
            for ((name, _), done) in some.iter().zip(join_all(doing).await) {
                if let Err(error) = done {
                    tracing::warn!(transactional_id = name, %error, "what is due is tried again");
                    failed = true;
                }
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

    /// What is due now. The unfinished may have been decided by commits that are not durable yet: what
    /// is done about them is done after those.
    fn all_due(&self) -> Vec<(String, Due)> {
        let now_ms = self.log.seams().clock.now_ms();
        let unfinished: Vec<_> = self.lock_unfinished().iter().cloned().collect();
        let snapshot = self.log.snapshot();
        let due = snapshot.transactional_ids().filter_map(|current| {
            let (at_ms, due) = self.due(current);
            (at_ms <= now_ms).then(|| (current.name.clone(), due))
        });
        due.chain(unfinished.into_iter().map(|name| (name, Due::Completion))).collect()
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
        let Some(missing) = self.update(name, missing_markers).await? else {
            self.lock_unfinished().remove(name);
            return Ok(());
        };
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
        self.update(name, complete).await?;
        self.lock_unfinished().remove(name);
        Ok(())
    }

    fn failpoint(&self, name: &str) {
        self.log.seams().failpoint(name);
    }

    fn lock_unfinished(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unfinished.lock().expect("no holder of the lock panics")
    }

    fn lock_timer(&self) -> MutexGuard<'_, Option<i64>> {
        self.timer_at_ms.lock().expect("no holder of the lock panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use strandline_storage::format::TransactionState;
    use strandline_storage::log::{CreateTopic, LogSettings};
    use strandline_storage::object::ObjectStoreBackend;
    use strandline_storage::seam::Seams;

    use super::*;

    const NAME: &str = "t";

    async fn log(shards: u32) -> Log {
        let store = Arc::new(ObjectStoreBackend::memory());
        let settings = LogSettings { shards, ..LogSettings::default() };
        Log::open(store, settings, Seams::system()).await.unwrap()
    }

    async fn until(log: &Log, expected: TransactionState) {
        let reached = async {
            let mut pause = tokio::time::interval(Duration::from_millis(2));
            while log.snapshot().transactional_id(NAME).is_none_or(|current| current.state != expected) {
                pause.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap();
    }

    #[tokio::test]
    async fn what_a_request_began_that_was_given_up_is_ended_all_the_same() {
        let log = log(4).await;
        let create = CreateTopic { name: "t".to_owned(), partitions: 8, configs: Default::default() };
        let topic = log.create_topic(create).await.unwrap();
        let coordinator = TransactionCoordinator::new(log.clone(), &GatewaySettings::default());
        let add = |producer| AddPartitions { producer, partitions: topic.partitions().collect() };
        let init = |timeout_ms| Init { expected: None, timeout_ms, fresh_producer_id: 1 };
        let requests = async {
            let producer = coordinator.init(NAME, init(60_000)).await.unwrap();
            coordinator.add_partitions(NAME, add(producer)).await.unwrap();
            assert!(coordinator.end(NAME, producer, TransactionResult::Commit).now_or_never().is_none());
            until(&log, TransactionState::CompleteCommit).await;
            let producer = coordinator.init(NAME, init(20)).await.unwrap();
            assert!(coordinator.add_partitions(NAME, add(producer)).now_or_never().is_none());
            until(&log, TransactionState::CompleteAbort).await;
        };
        tokio::select! {
            () = coordinator.run() => unreachable!("the coordinator never ends"),
            () = requests => (),
        }
        assert!(coordinator.lock_unfinished().is_empty());
    }
}
