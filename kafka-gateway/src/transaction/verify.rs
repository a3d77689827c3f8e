//! Whether a producer may write to a partition in its transaction (KIP-890).

use strandline_storage::format::{Producer, TransactionalId};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::BatchPlace;

use super::TransactionError;

/// Checks a batch of a transactional id against its state.
pub(crate) fn verify(
    current: Option<&TransactionalId>,
    producer: Producer,
    partition: TopicPartition,
) -> Result<(), TransactionError> {
    let known = current.filter(|current| current.producer.producer_id == producer.producer_id);
    let current = known.ok_or(TransactionError::InvalidProducerIdMapping)?;
    match current.place_of(producer, partition) {
        BatchPlace::InTransaction => Ok(()),
        BatchPlace::StaleProducer => Err(TransactionError::ProducerFenced),
        BatchPlace::NotAdded if current.state.is_prepared() => Err(TransactionError::ConcurrentTransactions),
        BatchPlace::NotAdded => Err(TransactionError::InvalidState),
    }
}
