//! `memory`: the memory of a server while many times what it may keep is written, tailed, and read by a
//! consumer that is far behind.
//!
//! Asserted: afterwards the newest records are fetched without a read of the store, so the consumer
//! that is far behind has not driven them out of memory.

use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use clap::Args;
use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use serde_json::{Value, json};
use strandline_storage::format::BatchHeader;

use crate::consumer::{self, Plan};
use crate::generator::{self, Load};
use crate::measure::rounded;
use crate::place::{Place, PlaceArgs};
use crate::process::ServerProcess;
use crate::wire::{Connection, topic_name};
use crate::workload::{self, BatchShape};

const TOPIC: &str = "memory";
const CREATE_TOPICS_VERSION: i16 = 5;
const MIB: u64 = 1024 * 1024;
/// The bounds of the server.
const TAIL_MIB: u64 = 32;
const CACHE_MIB: u64 = 32;
const PENDING_MIB: u64 = 32;
/// One compaction holds as much of the WAL at most.
const COMPACTION_INPUT_MIB: u64 = 128;
/// The newest records that are fetched from memory in the end: well within the tail.
const NEWEST_BYTES: u64 = 16 * MIB;
const FETCH_MAX_BYTES: i32 = 4 * 1024 * 1024;
/// A compaction may come between; then it is tried again.
const TRIES: usize = 5;

const SETTINGS: [(&str, &str); 5] = [
    ("STRANDLINE_STORAGE_TAIL_BYTES_MAX", "32MiB"),
    ("STRANDLINE_STORAGE_CACHE_BYTES_MAX", "32MiB"),
    ("STRANDLINE_STORAGE_PENDING_BYTES_MAX", "32MiB"),
    ("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "1h"),
    ("STRANDLINE_LOG", "warn"),
];

/// Write and read many times the bounds of a server's memory.
#[derive(Clone, Debug, Args)]
pub struct MemoryArgs {
    /// The strandline binary
    binary: PathBuf,

    /// How many times the tail and the cache together is written
    #[arg(long, default_value_t = 10)]
    times: u64,

    /// Bytes of each batch, at most
    #[arg(long, default_value_t = 64 * 1024)]
    batch_bytes: usize,

    #[command(flatten)]
    place: PlaceArgs,
}

/// What was seen.
struct Measured {
    tailed_bytes: u64,
    behind_bytes: u64,
    peak_resident_megabytes: f64,
    tries: usize,
}

pub async fn run(args: &MemoryArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let server = ServerProcess::start(&args.binary, &place.path("data"), &SETTINGS).await?;
    let idle = server.resident_megabytes()?;
    let batch = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: args.batch_bytes })?;
    let bytes = args.times * (TAIL_MIB + CACHE_MIB) * MIB;
    let measured = tokio::task::spawn_blocking(move || Clients::new(server, batch)?.measure(bytes));
    let (mut server, measured) = measured.await.context("running the clients")??;
    server.kill().await?;
    let bounds_mib = TAIL_MIB + CACHE_MIB + PENDING_MIB + COMPACTION_INPUT_MIB;
    let limit = idle + (bounds_mib * MIB) as f64 / 1e6;
    Ok(json!({
        "measurement": "memory",
        "bounds_mib": { "tail": TAIL_MIB, "cache": CACHE_MIB, "pending": PENDING_MIB },
        "megabytes_written_and_tailed": rounded(measured.tailed_bytes as f64 / 1e6),
        "megabytes_read_far_behind": rounded(measured.behind_bytes as f64 / 1e6),
        "idle_resident_mb": rounded(idle),
        "peak_resident_mb": rounded(measured.peak_resident_megabytes),
        "newest_bytes_fetched_without_a_read": NEWEST_BYTES,
        "tries": measured.tries,
        "limits": { "idle_and_bounds_and_compaction_mb": rounded(limit) },
        "ratio": rounded(measured.peak_resident_megabytes / limit),
    }))
}

/// A producer and consumers of one topic. All of it blocks.
struct Clients {
    server: ServerProcess,
    batch: Bytes,
    records_per_batch: i64,
    /// Of the next batch that is produced.
    next_offset: i64,
}

impl Clients {
    fn new(server: ServerProcess, batch: Bytes) -> Result<Self> {
        let topic = CreatableTopic::default()
            .with_name(topic_name(TOPIC))
            .with_num_partitions(1)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let mut connection = Connection::open(server.kafka)?;
        connection.call(CREATE_TOPICS_VERSION, &request, |response| {
            let refused = response.topics.iter().find(|topic| topic.error_code != 0);
            ensure!(refused.is_none(), "the topic was not created");
            Ok(())
        })?;
        let records_per_batch = BatchHeader::parse(&batch)?.next_offset();
        Ok(Self { server, batch, records_per_batch, next_offset: 0 })
    }

    fn measure(mut self, bytes: u64) -> Result<(ServerProcess, Measured)> {
        let (first, _) = self.produce(bytes / 2, 0)?;
        let half = self.next_offset;
        let (second, behind) = self.produce(bytes / 2, half)?;
        let again = self.fetch(0, self.next_offset)?;
        let peak_resident_megabytes = self.server.peak_resident_megabytes()?;
        let tries = self.check_newest()?;
        let measured = Measured {
            tailed_bytes: first + second,
            behind_bytes: behind + again,
            peak_resident_megabytes,
            tries,
        };
        Ok((self.server, measured))
    }

    /// Produces so many bytes, while one consumer follows and another reads what is below `behind`;
    /// gives the bytes of both.
    fn produce(&mut self, bytes: u64, behind: i64) -> Result<(u64, u64)> {
        let load = Load::new(TOPIC, self.batch.clone(), 1, bytes);
        let batches = i64::try_from(load.bytes() / self.batch.len() as u64)?;
        let from = self.next_offset;
        let end = from + batches * self.records_per_batch;
        let panicked = |_| anyhow!("a client panicked");
        let read = thread::scope(|scope| {
            let producer = scope.spawn(|| generator::run(self.server.kafka, &load));
            let tail = scope.spawn(|| self.fetch(from, end));
            let far = scope.spawn(|| self.fetch(0, behind));
            producer.join().map_err(panicked)??;
            anyhow::Ok((tail.join().map_err(panicked)??, far.join().map_err(panicked)??))
        })?;
        self.next_offset = end;
        Ok(read)
    }

    /// Fetches a range; gives its bytes.
    fn fetch(&self, from: i64, end: i64) -> Result<u64> {
        let plan = Plan { address: self.server.kafka, topic: TOPIC, max_bytes: FETCH_MAX_BYTES, from, end };
        Ok(consumer::fetch_all(&plan)?.rate.bytes)
    }

    /// Produces a little more, reads everything before it, and then fetches the little: no object is
    /// read for it. Gives how often that was tried.
    fn check_newest(&mut self) -> Result<usize> {
        for attempt in 1..=TRIES {
            let compacted = self.compacted()?;
            let newest = self.next_offset;
            self.produce(NEWEST_BYTES, 0)?;
            self.fetch(0, newest)?;
            let before = self.reads()?;
            self.fetch(newest, self.next_offset)?;
            let reads = self.reads()? - before;
            if self.compacted()? == compacted {
                ensure!(reads == 0.0, "fetching the newest records took {reads} reads of the store");
                return Ok(attempt);
            }
        }
        bail!("the log was compacted meanwhile, {TRIES} times");
    }

    fn reads(&self) -> Result<f64> {
        self.server.metric("strandline_object_requests_total", "verb=\"get\"")
    }

    fn compacted(&self) -> Result<f64> {
        self.server.metric("strandline_compaction_bytes_total", "")
    }
}
