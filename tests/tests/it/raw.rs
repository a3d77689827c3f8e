//! The Kafka protocol spoken byte by byte, for what client libraries would not send.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, ProduceRequest,
    RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use strandline_storage::format::{
    BatchBuilder, BatchOptions, Compression, DecompressionBudget, Records, split_batches,
};

const READ_BOUND: Duration = Duration::from_secs(30);
const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;

/// A connection that sends one request at a time.
pub struct RawClient {
    stream: TcpStream,
}

/// A record to be put into a batch by hand.
#[derive(Clone, Debug, Default)]
pub struct RawRecord<'a> {
    pub timestamp: Option<i64>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl<'a> RawRecord<'a> {
    pub fn at(timestamp: i64, value: &'a str) -> Self {
        Self { timestamp: Some(timestamp), value: Some(value.as_bytes()), ..Self::default() }
    }
}

/// One batch of the records, as a producer sends it.
pub fn batch(compression: Compression, records: &[RawRecord<'_>]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    for record in records {
        builder
            .append(record.timestamp, record.key, record.value, &record.headers)
            .expect("the batch has room");
    }
    builder.finish()
}

/// Puts the right CRC into a batch that was changed after it was built.
pub fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

pub fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

impl RawClient {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(READ_BOUND)).expect("a bound can be set");
        stream.set_nodelay(true).expect("small requests leave at once");
        Self { stream }
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// The socket, for reading what no client library would.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Waits for the server to close the connection; answers before that are an error.
    pub fn expect_closed(mut self) {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            other => panic!("the connection is not closed: {other:?}"),
        }
    }

    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let frame = frame(version, request);
        self.send_bytes(&frame);
        self.answer::<R>(version)
    }

    fn answer<R: Request>(&mut self, version: i16) -> R::Response {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("the server answers in time");
        let length = usize::try_from(i32::from_be_bytes(length)).expect("a length is not negative");
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the whole answer arrives");
        let mut body = Bytes::from(body);
        ResponseHeader::decode(&mut body, R::Response::header_version(version)).expect("a header");
        R::Response::decode(&mut body, version).expect("an answer of the version that was asked")
    }

    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(key, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string((*key).to_owned()))
                .with_value(Some(StrBytes::from_string((*value).to_owned())))
        });
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        let response = self.call(5, &request);
        assert_eq!(response.topics[0].error_code, 0, "{name}: {:?}", response.topics[0].error_message);
    }

    /// Produces one batch and gives the answer of its partition.
    pub fn produce(&mut self, topic: &str, partition: i32, batch: Bytes) -> PartitionProduceResponse {
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
        let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
        let request =
            ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
        let mut response = self.call(9, &request);
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Produces one batch, which has to be accepted, and gives its base offset.
    pub fn produce_ok(&mut self, topic: &str, partition: i32, batch: Bytes) -> i64 {
        let response = self.produce(topic, partition, batch);
        assert_eq!(response.error_code, 0, "{topic}: {:?}", response.error_message);
        response.base_offset
    }

    /// Deletes the records below an offset, and gives the log start.
    pub fn delete_records(&mut self, topic: &str, partition: i32, before: i64) -> i64 {
        let asked = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(before);
        let topic = DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        let response = self.call(2, &request);
        let answer = &response.topics[0].partitions[0];
        assert_eq!(answer.error_code, 0, "DeleteRecords before {before}");
        answer.low_watermark
    }

    /// The last stable offset.
    pub fn list_committed_end(&mut self, topic: &str, partition: i32) -> i64 {
        self.list_committed_offset(topic, partition, -1).0
    }

    /// Offset and timestamp that ListOffsets answers to who reads committed.
    pub fn list_committed_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> (i64, i64) {
        self.list(topic, partition, timestamp, READ_COMMITTED)
    }

    /// Offset and timestamp that ListOffsets answers.
    pub fn list_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> (i64, i64) {
        self.list(topic, partition, timestamp, READ_UNCOMMITTED)
    }

    fn list(&mut self, topic: &str, partition: i32, timestamp: i64, isolation_level: i8) -> (i64, i64) {
        let asked = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_current_leader_epoch(-1)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(isolation_level)
            .with_topics(vec![topic]);
        let response = self.call(7, &request);
        let answer = &response.topics[0].partitions[0];
        assert_eq!(answer.error_code, 0, "ListOffsets at {timestamp}");
        (answer.offset, answer.timestamp)
    }

    pub fn fetch(&mut self, topic: &str, partition: i32, limits: FetchLimits) -> PartitionData {
        self.fetch_as(topic, partition, limits, READ_UNCOMMITTED)
    }

    /// What there is for who reads committed.
    pub fn fetch_committed(&mut self, topic: &str, partition: i32, limits: FetchLimits) -> PartitionData {
        self.fetch_as(topic, partition, limits, READ_COMMITTED)
    }

    fn fetch_as(
        &mut self,
        topic: &str,
        partition: i32,
        limits: FetchLimits,
        isolation_level: i8,
    ) -> PartitionData {
        let asked = FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(limits.from)
            .with_partition_max_bytes(limits.bytes_max);
        let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![asked]);
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(limits.wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(limits.bytes_max)
            .with_isolation_level(isolation_level)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let mut response = self.call(11, &request);
        response.responses.remove(0).partitions.remove(0)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    pub from: i64,
    pub bytes_max: i32,
    pub wait_ms: i32,
}

impl FetchLimits {
    pub fn from(from: i64) -> Self {
        Self { from, bytes_max: 50 << 20, wait_ms: 500 }
    }
}

/// The whole frame of a request.
pub fn frame<R: Request>(version: i16, request: &R) -> Vec<u8> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(1)
        .with_client_id(Some(StrBytes::from_static_str("raw")));
    let mut body = BytesMut::new();
    header.encode(&mut body, R::header_version(version)).expect("the header fits the version");
    request.encode(&mut body, version).expect("the request fits the version");
    let length = i32::try_from(body.len()).expect("a test's request is small");
    [&length.to_be_bytes()[..], &body].concat()
}

/// A record that was fetched, with everything that has to survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedRecord {
    pub offset: i64,
    pub timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The records of fetched batches.
pub fn records(data: &PartitionData) -> Vec<FetchedRecord> {
    let mut budget = DecompressionBudget::new(1 << 30);
    let bytes = data.records.clone().unwrap_or_default();
    let mut found = Vec::new();
    for batch in split_batches(bytes) {
        let (_, batch) = batch.expect("batches are whole");
        let decoded = Records::decode(&batch, &mut budget).expect("the batch decodes");
        for record in decoded.iter() {
            let record = record.expect("the record decodes");
            found.push(FetchedRecord {
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                    .collect(),
            });
        }
    }
    found
}
