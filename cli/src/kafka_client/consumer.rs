//! Reads a topic's partitions from given offsets on, waiting on the server for what is to come.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{BrokerId, FetchRequest};
use strandline_storage::format::{DecompressionBudget, Records, split_batches};

use super::admin::{Admin, PartitionRange, TopicSummary, topic_name};
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::{ClientError, ErrorCode};

const FETCH_VERSION: i16 = 11;
/// The server answers earlier as soon as there is something.
const WAIT_MS: i32 = 5_000;
const FETCH_BYTES_MAX: i32 = 8 << 20;
const PARTITION_BYTES_MAX: i32 = 1 << 20;
const READ_COMMITTED: i8 = 1;
/// What the batches of one partition in one answer may unpack to.
const DECOMPRESSED_BYTES_MAX: usize = 512 << 20;

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    Earliest,
    Latest,
    /// The same offset in every partition.
    Offset(i64),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
}

#[derive(Debug)]
pub struct Consumer {
    connection: Connection,
    topic: String,
    /// The next offset to read, by partition.
    positions: BTreeMap<i32, i64>,
}

/// A record as it was stored, with where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since the Unix epoch.
    pub timestamp: Option<i64>,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

impl Consumer {
    pub async fn open(endpoint: &Endpoint, topic: &str, start: StartAt) -> Result<Self, ClientError> {
        let mut admin = Admin::connect(endpoint).await?;
        let topic = admin.topic(topic).await?;
        let positions = start_positions(&mut admin, &topic, start).await?;
        let connection = Connection::open(endpoint).await?;
        Ok(Self { connection, topic: topic.name, positions })
    }

    /// The next records; none when nothing came for a while.
    pub async fn fetch(&mut self) -> Result<Vec<ConsumedRecord>, ClientError> {
        let request = self.request();
        let response = self.connection.call(FETCH_VERSION, &request).await?;
        let mut records = Vec::new();
        for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
            self.take(partition, &mut records)?;
        }
        Ok(records)
    }

    fn request(&self) -> FetchRequest {
        let partitions = self.positions.iter().map(|(partition, offset)| {
            FetchPartition::default()
                .with_partition(*partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(PARTITION_BYTES_MAX)
        });
        let topic =
            FetchTopic::default().with_topic(topic_name(&self.topic)).with_partitions(partitions.collect());
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(WAIT_MS)
            .with_min_bytes(1)
            .with_max_bytes(FETCH_BYTES_MAX)
            .with_isolation_level(READ_COMMITTED)
            .with_session_epoch(-1)
            .with_topics(vec![topic])
    }

    fn take(&mut self, data: &PartitionData, records: &mut Vec<ConsumedRecord>) -> Result<(), ClientError> {
        let partition = data.partition_index;
        let position = self.positions.get(&partition).copied().unwrap_or(0);
        if let Some(code) = ErrorCode::of(data.error_code) {
            return Err(self.fetch_error(code, partition, position));
        }
        let bytes = data.records.clone().unwrap_or_default();
        let next = read_batches(bytes, partition, position, records)
            .map_err(|reason| ClientError::UnreadableBatch { partition, offset: position, reason })?;
        self.positions.insert(partition, next);
        Ok(())
    }

    fn fetch_error(&self, code: ErrorCode, partition: i32, position: i64) -> ClientError {
        if code.is(ResponseError::UnknownTopicOrPartition) {
            return ClientError::UnknownTopic(self.topic.clone());
        }
        let what = format!("topic \"{}\", partition {partition}, offset {position}", self.topic);
        ClientError::refused(what, code, None)
    }
}

async fn start_positions(
    admin: &mut Admin,
    topic: &TopicSummary,
    start: StartAt,
) -> Result<BTreeMap<i32, i64>, ClientError> {
    let positions = match start {
        StartAt::Earliest => ranged(admin, topic, |range| range.earliest).await?,
        StartAt::Latest => ranged(admin, topic, |range| range.latest).await?,
        StartAt::Offset(offset) => topic.partitions.iter().map(|partition| (*partition, offset)).collect(),
        StartAt::Timestamp(timestamp) => admin.offsets_at(topic, timestamp).await?,
    };
    Ok(positions.into_iter().collect())
}

async fn ranged(
    admin: &mut Admin,
    topic: &TopicSummary,
    end: impl Fn(&PartitionRange) -> i64,
) -> Result<Vec<(i32, i64)>, ClientError> {
    Ok(admin.ranges(topic).await?.iter().map(|range| (range.partition, end(range))).collect())
}

/// Adds the records of whole batches that stand at `position` or later, and says where to go on.
fn read_batches(
    bytes: Bytes,
    partition: i32,
    position: i64,
    records: &mut Vec<ConsumedRecord>,
) -> Result<i64, String> {
    let mut budget = DecompressionBudget::new(DECOMPRESSED_BYTES_MAX);
    let mut next = position;
    for batch in split_batches(bytes) {
        let (header, batch) = batch.map_err(|error| error.to_string())?;
        next = next.max(header.next_offset());
        if header.is_control() {
            continue;
        }
        let decoded = Records::decode(&batch, &mut budget).map_err(|error| error.to_string())?;
        for record in decoded.iter() {
            let record = record.map_err(|error| error.to_string())?;
            if record.offset >= position {
                records.push(ConsumedRecord {
                    partition,
                    offset: record.offset,
                    timestamp: record.timestamp,
                    key: record.key.map(Bytes::copy_from_slice),
                    value: record.value.map(Bytes::copy_from_slice),
                    headers: owned_headers(&record),
                });
            }
        }
    }
    Ok(next)
}

fn owned_headers(record: &strandline_storage::format::Record<'_>) -> Vec<(Bytes, Option<Bytes>)> {
    let headers = record.headers.iter();
    headers.map(|(key, value)| (Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice))).collect()
}

#[cfg(test)]
mod tests {
    use strandline_storage::format::{BatchBuilder, BatchOptions, Compression, set_base_offset};

    use super::*;

    fn batch(base_offset: i64, values: &[&str]) -> Bytes {
        let options = BatchOptions { compression: Compression::Lz4, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        for value in values {
            builder.append(Some(7), None, Some(value.as_bytes()), &[]).expect("it fits");
        }
        let mut batch = builder.finish().to_vec();
        set_base_offset(&mut batch, base_offset);
        batch.into()
    }

    #[test]
    fn records_before_the_position_are_skipped() {
        let bytes = [batch(10, &["a", "b", "c"]), batch(13, &["d"])].concat();
        let mut records = Vec::new();
        let next = read_batches(bytes.into(), 0, 11, &mut records).expect("the batches are whole");
        let offsets: Vec<i64> = records.iter().map(|record| record.offset).collect();
        assert_eq!((offsets.as_slice(), next), ([11, 12, 13].as_slice(), 14));
    }

    #[test]
    fn nothing_fetched_leaves_the_position_where_it_was() {
        assert_eq!(read_batches(Bytes::new(), 0, 11, &mut Vec::new()), Ok(11));
    }
}
