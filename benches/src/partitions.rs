//! `partitions`: what many partitions cost that nobody writes to: their creation, Metadata, a fetch session over all
//! of them, memory, CPU, and a restart.
//!
//! Asserted: a poll of the session that finds nothing names no partition, one that finds a record names its
//! partition alone, and after a restart all partitions are there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::Args;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, FetchRequest, FetchResponse, MetadataRequest, ProduceRequest,
};
use serde_json::{Value, json};

use crate::idle::{Cpu, watch};
use crate::measure::{Stopwatch, median, milliseconds, rounded};
use crate::place::{Place, PlaceArgs};
use crate::process::ServerProcess;
use crate::wire::{Connection, decode, topic_name};
use crate::workload::{self, BatchShape};

const CREATE_TOPICS_VERSION: i16 = 5;
const METADATA_VERSION: i16 = 12;
const FETCH_VERSION: i16 = 12;
const PRODUCE_VERSION: i16 = 9;
/// How long a consumer waits for records unless it is told otherwise.
const POLL_WAIT: Duration = Duration::from_millis(500);
const SAMPLES: usize = 20;
const CREATE_TIMEOUT_MS: i32 = 60_000;
/// An answer that names no partition.
const EMPTY_ANSWER_BYTES_MAX: usize = 64;
/// Of the server when no client is there.
const CPU_PERCENT_MAX: f64 = 1.0;

/// Create many partitions and measure what they cost to have.
#[derive(Clone, Debug, Args)]
pub struct PartitionsArgs {
    /// The strandline binary
    binary: PathBuf,

    #[arg(long, default_value_t = 10)]
    topics: i32,

    /// Partitions of each topic
    #[arg(long, default_value_t = 1000)]
    partitions: i32,

    /// How long to watch a session, and then the server alone, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,

    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn run(args: &PartitionsArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let data = place.path("data");
    let server = ServerProcess::start(&args.binary, &data, &[]).await?;
    let asked = args.clone();
    let measured = tokio::task::spawn_blocking(move || Clients { asked, server }.measure());
    let (mut server, clients) = measured.await.context("running the clients")??;
    let idle = watch(&server, args.seconds).await?;
    let resident = server.resident_megabytes()?;
    server.kill().await?;
    let start = Stopwatch::default();
    let mut server = ServerProcess::start(&args.binary, &data, &[]).await?;
    let restart = start.elapsed();
    let (kafka, asked) = (server.kafka, args.clone());
    let found = tokio::task::spawn_blocking(move || metadata(&mut Connection::open(kafka)?, &asked));
    found.await.context("asking for the topics")??;
    server.kill().await?;
    ensure!(idle.percent() <= CPU_PERCENT_MAX, "a server without clients takes {} % CPU", idle.percent());
    Ok(json!({
        "measurement": "partitions",
        "topics": args.topics,
        "partitions": args.topics * args.partitions,
        "create_ms": milliseconds(clients.create),
        "metadata_bytes": clients.metadata_bytes,
        "metadata_p50_ms": milliseconds(clients.metadata),
        "first_fetch_request_and_answer_ms": milliseconds(clients.first_fetch),
        "first_fetch_bytes": clients.first_fetch_bytes,
        "empty_poll_bytes": clients.session.empty_bytes,
        "empty_poll_p50_ms_beyond_its_wait": milliseconds(clients.session.beyond_wait),
        "empty_polls": clients.session.polls,
        "session_cpu_percent": rounded(clients.session.cpu.percent()),
        "record_to_poll_p50_ms": milliseconds(clients.woken),
        "idle_cpu_percent": rounded(idle.percent()),
        "resident_mb_before": rounded(clients.resident_before),
        "resident_mb": rounded(resident),
        "restart_ms": milliseconds(restart),
        "limits": { "idle_cpu_percent": CPU_PERCENT_MAX, "empty_poll_bytes": EMPTY_ANSWER_BYTES_MAX },
    }))
}

fn name(topic: i32) -> String {
    format!("topic-{topic:04}")
}

/// Asks for all topics; gives how long the answer took, and its bytes.
fn metadata(connection: &mut Connection, asked: &PartitionsArgs) -> Result<(Duration, usize)> {
    let request = MetadataRequest::default().with_topics(None);
    let watch = Stopwatch::default();
    let (id, answer) = connection.exchange(METADATA_VERSION, &request)?;
    let (elapsed, bytes) = (watch.elapsed(), answer.len());
    let answer = decode::<MetadataRequest>(METADATA_VERSION, id, answer)?;
    let partitions: usize = answer.topics.iter().map(|topic| topic.partitions.len()).sum();
    let expected = usize::try_from(asked.topics * asked.partitions)?;
    ensure!(partitions == expected, "{partitions} partitions are there, not {expected}");
    Ok((elapsed, bytes))
}

/// What clients saw.
struct Measured {
    create: Duration,
    metadata: Duration,
    metadata_bytes: usize,
    first_fetch: Duration,
    first_fetch_bytes: usize,
    session: SessionMeasured,
    woken: Duration,
    resident_before: f64,
}

struct SessionMeasured {
    polls: usize,
    empty_bytes: usize,
    beyond_wait: Duration,
    cpu: Cpu,
}

/// All of it blocks.
struct Clients {
    asked: PartitionsArgs,
    server: ServerProcess,
}

impl Clients {
    fn measure(self) -> Result<(ServerProcess, Measured)> {
        let resident_before = self.server.resident_megabytes()?;
        let mut connection = Connection::open(self.server.kafka)?;
        let create = self.create(&mut connection)?;
        let samples = (0..SAMPLES).map(|_| metadata(&mut connection, &self.asked));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        let metadata_bytes = samples[0].1;
        let metadata = median(samples.into_iter().map(|(elapsed, _)| elapsed).collect());
        let (mut session, first_fetch, first_fetch_bytes) = Session::open(connection, &self.asked)?;
        let idle = self.watch_session(&mut session)?;
        let woken = self.wake(&mut session)?;
        let measured = Measured {
            create,
            metadata,
            metadata_bytes,
            first_fetch,
            first_fetch_bytes,
            session: idle,
            woken,
            resident_before,
        };
        Ok((self.server, measured))
    }

    fn create(&self, connection: &mut Connection) -> Result<Duration> {
        let topics = (0..self.asked.topics).map(|topic| {
            CreatableTopic::default()
                .with_name(topic_name(&name(topic)))
                .with_num_partitions(self.asked.partitions)
                .with_replication_factor(1)
        });
        let request =
            CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(CREATE_TIMEOUT_MS);
        let watch = Stopwatch::default();
        connection.call(CREATE_TOPICS_VERSION, &request, |answer| {
            let refused = answer.topics.iter().find(|topic| topic.error_code != 0);
            ensure!(refused.is_none(), "a topic was not created: {refused:?}");
            Ok(())
        })?;
        Ok(watch.elapsed())
    }

    /// Polls a session in which nothing happens.
    fn watch_session(&self, session: &mut Session) -> Result<SessionMeasured> {
        let cpu_before = self.server.cpu_seconds()?;
        let (watch, mut beyond_wait, mut empty_bytes) = (Stopwatch::default(), Vec::new(), 0);
        while watch.elapsed() < Duration::from_secs(self.asked.seconds) {
            let poll = Stopwatch::default();
            let (bytes, answer) = session.poll(Vec::new())?;
            beyond_wait.push(poll.elapsed().saturating_sub(POLL_WAIT));
            ensure!(answer.responses.is_empty(), "an answer without records names partitions");
            empty_bytes = empty_bytes.max(bytes);
        }
        ensure!(empty_bytes <= EMPTY_ANSWER_BYTES_MAX, "an empty answer has {empty_bytes} bytes");
        let seconds = self.server.cpu_seconds()? - cpu_before;
        let cpu = Cpu { seconds, elapsed_seconds: watch.elapsed().as_secs_f64() };
        Ok(SessionMeasured { polls: beyond_wait.len(), empty_bytes, beyond_wait: median(beyond_wait), cpu })
    }

    /// From a record on its way to the server to the answer of the poll that waits for it.
    fn wake(&self, session: &mut Session) -> Result<Duration> {
        let batch = workload::batch(BatchShape { record_bytes: 100, batch_bytes_max: 200 })?;
        let mut producer = Connection::open(self.server.kafka)?;
        let mut samples = Vec::new();
        let mut seen = Vec::new();
        for sample in 0..SAMPLES {
            let partition = i32::try_from(sample)? % self.asked.partitions;
            session.ask(std::mem::take(&mut seen))?;
            let watch = Stopwatch::default();
            produce(&mut producer, partition, batch.clone())?;
            let (_, answer) = session.answer()?;
            samples.push(watch.elapsed());
            let named = answer.responses.iter().flat_map(|topic| &topic.partitions);
            let named: Vec<_> = named.map(|one| (one.partition_index, one.high_watermark)).collect();
            let [(found, next)] = named[..] else {
                anyhow::bail!("one partition has records, not {named:?}")
            };
            ensure!(found == partition, "partition {partition} was written to, not {found}");
            seen.push(fetch_partition(partition, next));
        }
        Ok(median(samples))
    }
}

fn produce(connection: &mut Connection, partition: i32, batch: Bytes) -> Result<()> {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
    let topic = TopicProduceData::default().with_name(topic_name(&name(0))).with_partition_data(vec![data]);
    let request =
        ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(vec![topic]);
    connection.call(PRODUCE_VERSION, &request, |answer| {
        let code = answer.responses[0].partition_responses[0].error_code;
        ensure!(code == 0, "a batch was refused with error {code}");
        Ok(())
    })
}

fn fetch_partition(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1024 * 1024)
}

/// A fetch session over all partitions.
struct Session {
    connection: Connection,
    id: i32,
    epoch: i32,
}

impl Session {
    /// Opens it with the first fetch; gives how long that took, and its bytes.
    fn open(connection: Connection, asked: &PartitionsArgs) -> Result<(Self, Duration, usize)> {
        let topics = (0..asked.topics).map(|topic| {
            let partitions = (0..asked.partitions).map(|partition| fetch_partition(partition, 0));
            FetchTopic::default().with_topic(topic_name(&name(topic))).with_partitions(partitions.collect())
        });
        let mut session = Self { connection, id: 0, epoch: 0 };
        let request = session.request(topics.collect()).with_max_wait_ms(0);
        let watch = Stopwatch::default();
        let (id, answer) = session.connection.exchange(FETCH_VERSION, &request)?;
        let (elapsed, bytes) = (watch.elapsed(), answer.len());
        let answer = decode::<FetchRequest>(FETCH_VERSION, id, answer)?;
        ensure!(answer.session_id != 0, "the server gave no session");
        (session.id, session.epoch) = (answer.session_id, 1);
        Ok((session, elapsed, bytes))
    }

    fn request(&self, topics: Vec<FetchTopic>) -> FetchRequest {
        FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(POLL_WAIT.as_millis() as i32)
            .with_min_bytes(1)
            .with_max_bytes(50 * 1024 * 1024)
            .with_session_id(self.id)
            .with_session_epoch(self.epoch)
            .with_topics(topics)
    }

    /// Waits for records; gives the bytes of the answer and what it says.
    fn poll(&mut self, changed: Vec<FetchPartition>) -> Result<(usize, FetchResponse)> {
        self.ask(changed)?;
        self.answer()
    }

    /// Asks for what is new, with other positions for partitions of the first topic.
    fn ask(&mut self, changed: Vec<FetchPartition>) -> Result<()> {
        let topic = FetchTopic::default().with_topic(topic_name(&name(0))).with_partitions(changed);
        let topics = if topic.partitions.is_empty() { Vec::new() } else { vec![topic] };
        let request = self.request(topics);
        self.connection.ask(FETCH_VERSION, &request)
    }

    fn answer(&mut self) -> Result<(usize, FetchResponse)> {
        let (id, answer) = self.connection.answer()?;
        let bytes = answer.len();
        let answer = decode::<FetchRequest>(FETCH_VERSION, id, answer)?;
        ensure!(answer.error_code == 0, "the session ended with error {}", answer.error_code);
        self.epoch += 1;
        Ok((bytes, answer))
    }
}
