//! What the fuzz target of the Kafka port runs: any bytes as all that a client sends, through the listener, the
//! frames and the handlers into a log in memory. Without a fuzzer its corpus runs as a test of the gateway, as it
//! is and damaged (`kafka-gateway/tests/abuse`), which takes in this file as a module of its own.
//!
//!     cargo +nightly fuzz run kafka_connection
//!
//! The first byte of an input says how the client comes in ([`Way`]); the rest is what it sends, frames with their
//! lengths or anything else.
//!
//! Invariant: the connection of a client that has sent all it has ends within [`PATIENCE`], what it was answered are
//! whole frames, and another client is served as before.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{
    FetchRequest, RequestHeader, SaslAuthenticateRequest, SaslHandshakeRequest, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use strandline_kafka_gateway::{
    Authentication, GatewaySettings, Listener, ListenerSettings, SaslMechanism, serve,
};
use strandline_storage::access::{
    Access, AccessChange, Authorizer, ScramCredential, ScramMechanism, User, WithoutRules,
};
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CreateTopic, Log, LogSettings, PartitionAppend};
use strandline_storage::object::ObjectStoreBackend;
use strandline_storage::seam::{Seams, SeededRng, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

/// Nothing takes longer.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// A topic of two partitions, with three records in the first.
pub const TOPIC: &str = "t";
/// The topic that the other client reads, whose name no input has.
const WITNESSED: &str = "a-topic-that-no-client-but-the-witness-knows";
/// May do everything that no rule is on, like clients of the open port.
pub const USER: (&str, &str) = ("user", "pencil");
/// May do everything.
const WITNESS: (&str, &str) = ("witness", "crayon");
/// Ids of topics and members are the same in every run, so that a corpus can hold them.
const SEED: u64 = 1;

/// How a client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through a port that lets anyone in.
    Open,
    /// Through one that asks who it is.
    Stranger,
    /// The same, after it has logged in.
    LoggedIn,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Open, Self::Stranger, Self::LoggedIn];

    fn of(byte: u8) -> Self {
        Self::ALL[usize::from(byte) % Self::ALL.len()]
    }
}

/// A gateway over a log in memory, and a client that sees whether it is harmed.
pub struct Target {
    pub log: Log,
    open: SocketAddr,
    asking: SocketAddr,
    witness: Mutex<TcpStream>,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Target {
    pub async fn start() -> Self {
        let log = new_log().await;
        let ports = [Authentication::None, Authentication::Sasl(SaslMechanism::ALL.to_vec())];
        let mut listeners = Vec::new();
        for authentication in ports {
            let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback is free");
            let settings = ListenerSettings { authentication, ..ListenerSettings::default() };
            listeners.push(Listener { socket, settings });
        }
        let address = |at: usize| listeners[at].socket.local_addr().expect("a listener has an address");
        let (open, asking) = (address(0), address(1));
        let (shutdown, stop) = oneshot::channel::<()>();
        let served_log = log.clone();
        let served = tokio::spawn(async move {
            let stopped = async move { stop.await.unwrap_or(()) };
            serve(listeners, served_log, settings(), stopped).await.expect("there are listeners");
        });
        let witness = logged_in(asking, WITNESS).await;
        Self { log, open, asking, witness: Mutex::new(witness), shutdown, served }
    }

    /// Lets a client send an input, and gives the frames that it is answered, without their lengths.
    pub async fn run(&self, input: &[u8]) -> Vec<Bytes> {
        let Some((way, sent)) = input.split_first() else { return Vec::new() };
        let mut socket = match Way::of(*way) {
            Way::Open => connect(self.open).await,
            Way::Stranger => connect(self.asking).await,
            Way::LoggedIn => logged_in(self.asking, USER).await,
        };
        let answered = within(converse(&mut socket, sent)).await;
        self.check_witness().await;
        answered
    }

    async fn check_witness(&self) {
        let partition = FetchPartition::default().with_partition_max_bytes(1_000_000);
        let topic = FetchTopic::default().with_topic(name(WITNESSED)).with_partitions(vec![partition]);
        let request = FetchRequest::default().with_max_bytes(1_000_000).with_topics(vec![topic]);
        let fetched = within(call(&mut *self.witness.lock().await, 4, &request)).await;
        let partition = &fetched.responses[0].partitions[0];
        assert_eq!((partition.error_code, partition.high_watermark), (0, 3), "another client is harmed");
    }

    /// Ends it; what is in flight is answered before.
    pub async fn stop(self) {
        // An error says that it has ended, and the next line why.
        let _ = self.shutdown.send(());
        within(self.served).await.expect("the gateway ends without a panic");
        self.log.close().await;
    }
}

fn settings() -> GatewaySettings {
    let authorizer =
        Authorizer { super_users: vec![WITNESS.0.to_owned()], without_rules: WithoutRules::Allow };
    GatewaySettings {
        authorizer: Some(authorizer),
        group_initial_rebalance_delay: Duration::ZERO,
        failed_authentication_delay: Duration::ZERO,
        ..GatewaySettings::default()
    }
}

async fn new_log() -> Log {
    let seams = Seams {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SeededRng::new(SEED)),
        failpoints: None,
    };
    let store = Arc::new(ObjectStoreBackend::memory());
    let log = Log::open(store, LogSettings::default(), seams).await.expect("a log in memory opens");
    for (name, partitions) in [(TOPIC, 2), (WITNESSED, 1)] {
        let topic = CreateTopic { name: name.to_owned(), partitions, configs: Default::default() };
        let created = log.create_topic(topic).await.expect("there is no such topic yet");
        let topic_partition = TopicPartition::new(created.id, 0);
        let append = PartitionAppend { topic_partition, batch: batch() };
        let appended = log.submit(vec![append]).await.await;
        assert!(appended.iter().all(Result::is_ok), "a log in memory takes a batch: {appended:?}");
    }
    for user in [USER, WITNESS] {
        put_user(&log, user).await;
    }
    log
}

/// Three records.
pub fn batch() -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (timestamp, value) in [(1, "a"), (2, "b"), (3, "c")] {
        builder.append(Some(timestamp), Some(b"key"), Some(value.as_bytes()), &[]).expect("it is small");
    }
    builder.finish()
}

async fn put_user(log: &Log, (name, password): (&str, &str)) {
    let salt = b"the salt of it".to_vec();
    let credential = ScramCredential::derive(ScramMechanism::Sha256, password, salt, 4096);
    let user = User { name: name.to_owned(), credentials: vec![credential] };
    let edit = |_: &Access| Ok::<_, Box<dyn Error + Send + Sync>>((vec![AccessChange::PutUser(user)], ()));
    log.change_access(edit).await.expect("a log in memory takes a user");
}

/// Waits for something with a bound.
pub async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("nothing takes so long")
}

async fn connect(address: SocketAddr) -> TcpStream {
    within(TcpStream::connect(address)).await.expect("the gateway accepts connections")
}

async fn logged_in(address: SocketAddr, (user, password): (&str, &str)) -> TcpStream {
    let mut socket = connect(address).await;
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    assert_eq!(within(call(&mut socket, 1, &request)).await.error_code, 0);
    let token = format!("\0{user}\0{password}");
    let request = SaslAuthenticateRequest::default().with_auth_bytes(token.into());
    assert_eq!(within(call(&mut socket, 0, &request)).await.error_code, 0);
    socket
}

/// Sends everything and then no more, and reads until the gateway has closed the connection.
async fn converse(socket: &mut TcpStream, sent: &[u8]) -> Vec<Bytes> {
    let (mut reading, mut writing) = socket.split();
    let send = async {
        // The gateway may have closed the connection before it has read all of it.
        if writing.write_all(sent).await.is_ok() {
            let _ = writing.shutdown().await;
        }
    };
    let mut received = Vec::new();
    let (read, ()) = tokio::join!(reading.read_to_end(&mut received), send);
    let (frames, rest) = split_frames(received.into());
    // A connection that is reset in the middle of what was sent loses what is on its way back.
    assert!(read.is_err() || rest.is_empty(), "an answer ends after {} bytes", rest.len());
    frames
}

/// The whole frames at the front of bytes, without their lengths, and what is left.
pub fn split_frames(mut bytes: Bytes) -> (Vec<Bytes>, Bytes) {
    let mut frames = Vec::new();
    while let Some(length) = bytes.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
        && let Some(frame) = bytes.get(4..4 + length)
    {
        frames.push(bytes.slice_ref(frame));
        bytes.advance(4 + length);
    }
    (frames, bytes)
}

fn name(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

/// A request in its frame, with the length.
pub fn frame<R>(version: i16, correlation_id: i32, request: &R) -> Bytes
where
    R: Request + Encodable + HeaderVersion,
{
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("c")));
    let mut frame = BytesMut::new();
    frame.put_u32(0);
    header.encode(&mut frame, R::header_version(version)).expect("every version has a header");
    let encoded = request.encode(&mut frame, version);
    assert!(encoded.is_ok(), "api {} version {version}: {encoded:?}", R::KEY);
    let length = u32::try_from(frame.len() - 4).expect("a request is small");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// Sends a request and reads its answer.
async fn call<R>(socket: &mut TcpStream, version: i16, request: &R) -> R::Response
where
    R: Request + Encodable + HeaderVersion,
    R::Response: Decodable + HeaderVersion,
{
    socket.write_all(&frame(version, 1, request)).await.expect("the connection is open");
    let length = socket.read_u32().await.expect("the request is answered");
    let mut answer = vec![0; length as usize];
    socket.read_exact(&mut answer).await.expect("an answer is as long as it says");
    let mut answer = Bytes::from(answer);
    answer.advance(if R::Response::header_version(version) >= 1 { 5 } else { 4 });
    R::Response::decode(&mut answer, version).expect("an answer has the form of its version")
}
