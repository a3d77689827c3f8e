//! A gateway to test against, and a client that speaks single frames.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, FetchRequest, FetchResponse, ProduceRequest, ProduceResponse, RequestHeader,
    TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use strandline_kafka_gateway::{GatewaySettings, Listener, ListenerSettings, serve};
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{Log, LogSettings};
use strandline_storage::object::{LogStore, ObjectStoreBackend};
use strandline_storage::seam::Seams;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway on free ports of loopback.
pub(crate) struct TestGateway {
    /// Of its first port.
    pub(crate) address: SocketAddr,
    /// Of all of them.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) log: Log,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Settings for tests: groups do not wait for more members.
pub(crate) fn settings() -> GatewaySettings {
    GatewaySettings { group_initial_rebalance_delay: Duration::ZERO, ..GatewaySettings::default() }
}

impl TestGateway {
    pub(crate) async fn start() -> Self {
        Self::start_with(settings()).await
    }

    pub(crate) async fn start_with(settings: GatewaySettings) -> Self {
        Self::start_on(Arc::new(ObjectStoreBackend::memory()), settings).await
    }

    /// Over a log of several shards.
    pub(crate) async fn start_over(shards: u32) -> Self {
        let store = Arc::new(ObjectStoreBackend::memory());
        let log_settings = LogSettings { shards, ..LogSettings::default() };
        let log = Log::open(store, log_settings, Seams::system()).await.unwrap();
        Self::start_with_log(log, settings()).await
    }

    pub(crate) async fn start_on(store: Arc<dyn LogStore>, settings: GatewaySettings) -> Self {
        let log = Log::open(store, LogSettings::default(), Seams::system()).await.unwrap();
        Self::start_with_log(log, settings).await
    }

    /// With several ports, or ports with settings.
    pub(crate) async fn start_listening(ports: Vec<ListenerSettings>, settings: GatewaySettings) -> Self {
        let store = Arc::new(ObjectStoreBackend::memory());
        let log = Log::open(store, LogSettings::default(), Seams::system()).await.unwrap();
        Self::serve(log, ports, settings).await
    }

    async fn start_with_log(log: Log, settings: GatewaySettings) -> Self {
        Self::serve(log, vec![ListenerSettings::default()], settings).await
    }

    pub(crate) async fn serve(log: Log, ports: Vec<ListenerSettings>, settings: GatewaySettings) -> Self {
        let mut listeners = Vec::new();
        for settings in ports {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listeners.push(Listener { socket, settings });
        }
        let addresses: Vec<_> = listeners.iter().map(|one| one.socket.local_addr().unwrap()).collect();
        let (shutdown, stop) = oneshot::channel::<()>();
        let served_log = log.clone();
        let served = tokio::spawn(async move {
            let stopped = async move { stop.await.unwrap_or(()) };
            serve(listeners, served_log, settings, stopped).await.unwrap();
        });
        Self { address: addresses[0], addresses, log, shutdown, served }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).await.unwrap())
    }

    /// A connection to one of its ports.
    pub(crate) async fn connect_to(&self, port: usize) -> Client {
        Client::over(TcpStream::connect(self.addresses[port]).await.unwrap())
    }

    /// Waits until partition 0 of a topic has a record.
    pub(crate) async fn until_written(&self, topic: &str) {
        let id = self.log.snapshot().topic(topic).unwrap().id;
        let partition = TopicPartition::new(id, 0);
        let mut changes = self.log.changes(&[partition]);
        while self.log.snapshot().partition(partition).unwrap().bounds().high_watermark == 0 {
            within(changes.changed()).await;
        }
    }

    /// Stops the gateway and waits until it has.
    pub(crate) async fn stop(self) {
        let _ = self.shutdown.send(());
        within(self.served).await.unwrap();
    }
}

/// Waits for something with a bound.
pub(crate) async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("it happens within the patience of the tests")
}

/// A connection's bytes, with or without TLS.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// One connection.
pub(crate) struct Client {
    pub(crate) socket: Box<dyn Socket>,
    correlation_id: i32,
}

impl Client {
    pub(crate) fn over(socket: impl Socket + 'static) -> Self {
        Self { socket: Box::new(socket), correlation_id: 0 }
    }

    /// Sends a request; gives its correlation id.
    pub(crate) async fn send<R: Request + Encodable + HeaderVersion>(
        &mut self,
        version: i16,
        request: &R,
    ) -> i32 {
        self.correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("test")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).unwrap();
        request.encode(&mut frame, version).unwrap();
        self.send_frame(&frame).await;
        self.correlation_id
    }

    pub(crate) async fn send_frame(&mut self, frame: &[u8]) {
        let mut bytes = BytesMut::new();
        bytes.put_u32(u32::try_from(frame.len()).unwrap());
        bytes.put_slice(frame);
        self.socket.write_all(&bytes).await.unwrap();
        self.socket.flush().await.unwrap();
    }

    /// Receives the next answer, which must be to this request.
    pub(crate) async fn receive<R>(&mut self, version: i16, correlation_id: i32) -> R::Response
    where
        R: Request,
        R::Response: Decodable + HeaderVersion,
    {
        let mut frame = self.receive_frame().await.expect("the connection is open");
        assert_eq!(frame.get_i32(), correlation_id);
        if R::Response::header_version(version) >= 1 {
            assert_eq!(frame.get_u8(), 0, "the header has no tagged fields");
        }
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert!(!frame.has_remaining(), "the answer is read to its end");
        response
    }

    pub(crate) async fn call<R>(&mut self, version: i16, request: &R) -> R::Response
    where
        R: Request + Encodable + HeaderVersion,
        R::Response: Decodable + HeaderVersion,
    {
        let correlation_id = self.send(version, request).await;
        self.receive::<R>(version, correlation_id).await
    }

    /// The next frame; `None` when the gateway has closed the connection.
    pub(crate) async fn receive_frame(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        if within(self.socket.read_exact(&mut length)).await.is_err() {
            return None;
        }
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        within(self.socket.read_exact(&mut frame)).await.unwrap();
        Some(frame.into())
    }

    pub(crate) async fn assert_closed(&mut self) {
        assert_eq!(self.receive_frame().await, None);
    }

    pub(crate) async fn create_topic(&mut self, name: &str, partitions: i32) {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let response = self.call(5, &request).await;
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    /// Produces one batch and gives the answer of its partition.
    pub(crate) async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> PartitionProduceResponse {
        let request = produce_request(topic, partition, batch);
        single(self.call::<ProduceRequest>(8, &request).await)
    }

    /// Fetches one partition once.
    pub(crate) async fn fetch(&mut self, topic: &str, partition: i32, fetch: Fetch) -> PartitionData {
        let request = fetch_request(topic, partition, fetch);
        fetched(self.call::<FetchRequest>(11, &request).await)
    }
}

/// The numbers of a fetch.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) offset: i64,
    pub(crate) max_wait_ms: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
}

impl Fetch {
    /// All from an offset on, without waiting.
    pub(crate) fn from(offset: i64) -> Self {
        Self { offset, max_wait_ms: 0, min_bytes: 1, max_bytes: 10_000_000 }
    }
}

pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

pub(crate) fn produce_request(topic: &str, partition: i32, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(20_000).with_topic_data(vec![topic])
}

pub(crate) fn single(response: ProduceResponse) -> PartitionProduceResponse {
    response.responses[0].partition_responses[0].clone()
}

pub(crate) fn fetch_request(topic: &str, partition: i32, fetch: Fetch) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(fetch.offset)
        .with_partition_max_bytes(fetch.max_bytes);
    let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(fetch.max_wait_ms)
        .with_min_bytes(fetch.min_bytes)
        .with_max_bytes(fetch.max_bytes)
        .with_topics(vec![topic])
}

/// Names the topics of a request as its version does: by id from 13 on.
pub(crate) fn name_topics(request: &mut FetchRequest, version: i16, id: Uuid) {
    for topic in &mut request.topics {
        if version >= 13 {
            (topic.topic, topic.topic_id) = (TopicName::default(), id);
        }
    }
}

pub(crate) fn fetched(response: FetchResponse) -> PartitionData {
    response.responses[0].partitions[0].clone()
}

/// A batch of records with these timestamps and values.
pub(crate) fn batch_with(options: BatchOptions, records: &[(i64, &[u8])]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for (timestamp, value) in records {
        builder.append(Some(*timestamp), None, Some(value), &[]).unwrap();
    }
    builder.finish()
}

/// A batch of records without compression.
pub(crate) fn batch(records: &[(i64, &[u8])]) -> Bytes {
    batch_with(BatchOptions::default(), records)
}

/// The head of a request of any key and version, with nothing after it.
pub(crate) fn bare_head(key: i16, version: i16) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_i16(key);
    frame.put_i16(version);
    frame.put_i32(77);
    frame.put_i16(-1);
    frame
}

/// The number of an API's key.
pub(crate) fn key(api: ApiKey) -> i16 {
    api as i16
}
