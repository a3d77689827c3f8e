//! An idempotent producer: batches in order, up to five on their way, each delivered once.
//!
//! Invariant: batches of a partition are sent in the order of their sequence numbers, and after a
//! failure all that are not acknowledged are sent again, the oldest first. The server recognises
//! those that it has. Five is the number of batches that it remembers for each partition.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProducerId};
use strandline_storage::format::{BatchBuilder, BatchError, BatchOptions, Compression, ProducerIdentity};
use strandline_storage::seam::Seams;

use super::admin::topic_name;
use super::connection::{Answer, Connection};
use super::endpoint::Endpoint;
use super::error::{ClientError, ErrorCode};

const PRODUCE_VERSION: i16 = 9;
const INIT_PRODUCER_ID_VERSION: i16 = 2;
const IN_FLIGHT_MAX: usize = 5;
const REQUEST_TIMEOUT_MS: i32 = 30_000;
/// How long the oldest batch is tried before giving up.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub struct ProducerOptions {
    pub endpoint: Endpoint,
    pub topic: String,
    pub compression: Compression,
}

#[derive(Debug)]
pub struct Producer {
    options: ProducerOptions,
    seams: Seams,
    connection: Connection,
    producer_id: i64,
    producer_epoch: i16,
    /// The next sequence number, by partition.
    sequences: BTreeMap<i32, i32>,
    in_flight: VecDeque<InFlight>,
}

/// A batch that is being filled, with the number of the line that each record came from.
#[derive(Debug)]
pub struct OpenBatch {
    partition: i32,
    builder: BatchBuilder,
    lines: Vec<u64>,
}

impl OpenBatch {
    pub fn append(
        &mut self,
        line: u64,
        timestamp: i64,
        key: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(), BatchError> {
        self.builder.append(Some(timestamp), key, Some(value), &[])?;
        self.lines.push(line);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The size in bytes before compression.
    pub fn size_estimate(&self) -> usize {
        self.builder.size_estimate()
    }

    /// The batch, which has at least one record.
    pub fn finish(self) -> BuiltBatch {
        BuiltBatch { partition: self.partition, bytes: self.builder.finish(), lines: self.lines }
    }
}

/// A batch ready to be sent.
#[derive(Debug)]
pub struct BuiltBatch {
    pub partition: i32,
    pub bytes: Bytes,
    pub lines: Vec<u64>,
}

#[derive(Debug)]
struct InFlight {
    batch: BuiltBatch,
    /// None while the connection is being replaced.
    answer: Option<Answer<ProduceRequest>>,
}

/// What became of a batch.
#[derive(Debug)]
pub enum Delivery {
    Acknowledged {
        partition: i32,
        base_offset: i64,
        records: u64,
    },
    /// The server refused it; by line and reason.
    Rejected(Vec<(u64, String)>),
}

impl Producer {
    pub async fn connect(options: ProducerOptions, seams: Seams) -> Result<Self, ClientError> {
        let mut connection = Connection::open(&options.endpoint).await?;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(REQUEST_TIMEOUT_MS)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let response = connection.call(INIT_PRODUCER_ID_VERSION, &request).await?;
        if let Some(code) = ErrorCode::of(response.error_code) {
            return Err(ClientError::refused("no producer id was given", code, None));
        }
        Ok(Self {
            options,
            seams,
            connection,
            producer_id: response.producer_id.0,
            producer_epoch: response.producer_epoch,
            sequences: BTreeMap::new(),
            in_flight: VecDeque::new(),
        })
    }

    /// Begins a batch. The batch before it of the same partition has to be sent or dropped first.
    pub fn open_batch(&self, partition: i32) -> OpenBatch {
        let producer = ProducerIdentity {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.sequences.get(&partition).copied().unwrap_or(0),
        };
        let options = BatchOptions {
            compression: self.options.compression,
            producer: Some(producer),
            ..BatchOptions::default()
        };
        OpenBatch { partition, builder: BatchBuilder::new(options), lines: Vec::new() }
    }

    /// Sends a batch; waits for the oldest one when five are on their way.
    pub async fn send(&mut self, batch: BuiltBatch) -> Result<Option<Delivery>, ClientError> {
        let settled = match self.in_flight.len() {
            IN_FLIGHT_MAX.. => self.settle().await?,
            _ => None,
        };
        let sequence = self.sequences.entry(batch.partition).or_insert(0);
        *sequence = advance(*sequence, batch.lines.len());
        let answer = self.connection.send(PRODUCE_VERSION, &self.request(&batch)).await.ok();
        self.in_flight.push_back(InFlight { batch, answer });
        Ok(settled)
    }

    /// Waits until it is known what became of the oldest batch; None when all are settled.
    pub async fn settle(&mut self) -> Result<Option<Delivery>, ClientError> {
        let clock = self.seams.clock.clone();
        let deadline = clock.monotonic() + DELIVERY_TIMEOUT;
        while let Some(oldest) = self.in_flight.front_mut() {
            let error = match oldest.answer.take() {
                Some(answer) => match outcome(answer).await {
                    Ok(response) => match ErrorCode::of(response.error_code) {
                        None => return Ok(self.acknowledge(&response)),
                        Some(code) if code.is_retriable() => refusal(&self.options.topic, code, &response),
                        Some(code) => return Ok(self.reject(code, &response)),
                    },
                    Err(error) => error,
                },
                None => ClientError::Lost { address: self.options.endpoint.address.clone() },
            };
            if clock.monotonic() >= deadline {
                return Err(error);
            }
            clock.sleep(RETRY_PAUSE).await;
            self.send_again().await;
        }
        Ok(None)
    }

    /// Sends all that is not acknowledged on a new connection. If that fails, the next turn of
    /// [`settle`](Self::settle) tries again.
    async fn send_again(&mut self) {
        for sent in &mut self.in_flight {
            sent.answer = None;
        }
        let Ok(connection) = Connection::open(&self.options.endpoint).await else { return };
        self.connection = connection;
        for position in 0..self.in_flight.len() {
            let request = self.request(&self.in_flight[position].batch);
            let Ok(answer) = self.connection.send(PRODUCE_VERSION, &request).await else { return };
            self.in_flight[position].answer = Some(answer);
        }
    }

    fn request(&self, batch: &BuiltBatch) -> ProduceRequest {
        let data = PartitionProduceData::default()
            .with_index(batch.partition)
            .with_records(Some(batch.bytes.clone()));
        let topic = TopicProduceData::default()
            .with_name(topic_name(&self.options.topic))
            .with_partition_data(vec![data]);
        ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(REQUEST_TIMEOUT_MS)
            .with_topic_data(vec![topic])
    }

    fn acknowledge(&mut self, response: &PartitionProduceResponse) -> Option<Delivery> {
        let batch = self.in_flight.pop_front()?.batch;
        Some(Delivery::Acknowledged {
            partition: batch.partition,
            base_offset: response.base_offset,
            records: batch.lines.len() as u64,
        })
    }

    fn reject(&mut self, code: ErrorCode, response: &PartitionProduceResponse) -> Option<Delivery> {
        let batch = self.in_flight.pop_front()?.batch;
        let message = response.error_message.as_deref();
        let whole = message.map_or_else(|| code.to_string(), |message| format!("{code}: {message}"));
        let reason = |position: usize| {
            let own = response
                .record_errors
                .iter()
                .find(|error| usize::try_from(error.batch_index) == Ok(position));
            own.and_then(|error| error.batch_index_error_message.as_deref()).unwrap_or(&whole).to_owned()
        };
        let lines = batch.lines.iter().enumerate().map(|(position, line)| (*line, reason(position)));
        Some(Delivery::Rejected(lines.collect()))
    }
}

/// The answer of the one partition that was asked.
async fn outcome(answer: Answer<ProduceRequest>) -> Result<PartitionProduceResponse, ClientError> {
    let response = answer.answer().await?;
    let partitions = response.responses.into_iter().flat_map(|topic| topic.partition_responses);
    Ok(partitions.into_iter().next().unwrap_or_else(|| {
        // An answer that names no partition says nothing of it: as if none had come.
        PartitionProduceResponse::default()
            .with_error_code(kafka_protocol::ResponseError::RequestTimedOut.code())
    }))
}

fn refusal(topic: &str, code: ErrorCode, response: &PartitionProduceResponse) -> ClientError {
    let what = format!("topic \"{topic}\", partition {}", response.index);
    ClientError::refused(what, code, response.error_message.as_deref())
}

/// Sequence numbers run from 0 to `i32::MAX` and begin again.
fn advance(sequence: i32, records: usize) -> i32 {
    let next = (i64::from(sequence) + records as i64) % (i64::from(i32::MAX) + 1);
    i32::try_from(next).expect("the remainder is below the modulus")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_to_zero_after_the_largest() {
        assert_eq!(advance(0, 3), 3);
        assert_eq!(advance(i32::MAX, 1), 0);
        assert_eq!(advance(i32::MAX - 1, 4), 2);
    }
}
