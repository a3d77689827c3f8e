//! A transactional producer that speaks single frames, so that each request is where the test wants it.

use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::format::{BatchBuilder, BatchKind, BatchOptions, ProducerIdentity};

use crate::raw::{RawClient, topic_name};

const CONCURRENT_TRANSACTIONS: i16 = 51;

/// Records of one batch.
pub const RECORDS_PER_BATCH: i32 = 3;

#[derive(Clone, Copy)]
pub struct RawProducer {
    pub producer_id: i64,
    producer_epoch: i16,
    /// Of the next batch, in each partition that it goes to.
    base_sequence: i32,
    base_timestamp: i64,
}

fn name() -> TransactionalId {
    TransactionalId(StrBytes::from_static_str("raw"))
}

impl RawProducer {
    pub fn init(raw: &mut RawClient) -> Self {
        // Longer than any test, with all its restarts.
        const TRANSACTION_TIMEOUT_MS: i32 = 600_000;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(name()))
            .with_transaction_timeout_ms(TRANSACTION_TIMEOUT_MS)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let answer = raw.call(4, &request);
        assert_eq!(answer.error_code, 0);
        let (producer_id, producer_epoch) = (answer.producer_id.0, answer.producer_epoch);
        Self { producer_id, producer_epoch, base_sequence: 0, base_timestamp: 0 }
    }

    /// With records whose times are this and their sequence. Without it they are from 1970.
    #[must_use]
    pub fn with_times_from(self, base_timestamp: i64) -> Self {
        Self { base_timestamp, ..self }
    }

    /// Adds all partitions of a topic to the transaction, and a batch to each.
    pub fn produce(&self, raw: &mut RawClient, topic: &str, partitions: i32) {
        let added = AddPartitionsToTxnTopic::default()
            .with_name(topic_name(topic))
            .with_partitions((0..partitions).collect());
        let add = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(name())
            .with_v3_and_below_producer_id(self.producer_id.into())
            .with_v3_and_below_producer_epoch(self.producer_epoch)
            .with_v3_and_below_topics(vec![added]);
        let added = raw.call(3, &add);
        let results = &added.results_by_topic_v3_and_below[0].results_by_partition;
        assert!(results.iter().all(|result| result.partition_error_code == 0), "{results:?}");
        let data = (0..partitions).map(|partition| {
            PartitionProduceData::default().with_index(partition).with_records(Some(self.batch()))
        });
        let topic =
            TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(data.collect());
        let produce = ProduceRequest::default()
            .with_transactional_id(Some(name()))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let results = &raw.call(9, &produce).responses[0].partition_responses;
        assert!(results.iter().all(|result| result.error_code == 0), "{results:?}");
    }

    /// The producer after a batch.
    #[must_use]
    pub fn next(self) -> Self {
        Self { base_sequence: self.base_sequence + RECORDS_PER_BATCH, ..self }
    }

    fn batch(&self) -> Bytes {
        let RawProducer { producer_id, producer_epoch, base_sequence, base_timestamp } = *self;
        let producer = Some(ProducerIdentity { producer_id, producer_epoch, base_sequence });
        let options = BatchOptions { producer, kind: BatchKind::Transactional, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        for sequence in base_sequence..base_sequence + RECORDS_PER_BATCH {
            let value = format!("v-{sequence}");
            let timestamp = base_timestamp + i64::from(sequence);
            let appended = builder.append(Some(timestamp), None, Some(value.as_bytes()), &[]);
            appended.expect("a small record");
        }
        builder.finish()
    }

    pub fn end_request(&self, committed: bool) -> EndTxnRequest {
        EndTxnRequest::default()
            .with_transactional_id(name())
            .with_producer_id(self.producer_id.into())
            .with_producer_epoch(self.producer_epoch)
            .with_committed(committed)
    }

    /// Ends the transaction as a client does: again while it is told to.
    pub fn end(&self, raw: &mut RawClient, committed: bool) -> i16 {
        loop {
            match raw.call(3, &self.end_request(committed)).error_code {
                CONCURRENT_TRANSACTIONS => {}
                code => return code,
            }
        }
    }
}
