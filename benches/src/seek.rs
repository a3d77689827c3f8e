//! `seek`: what finding the first record at or after a time costs on a short and on a long
//! partition, when no record is in memory. All of it is compacted.
//!
//! Asserted: the very first lookup of a partition reads an index and a block, another one at most a
//! block, a repeated one nothing, and the offset is the right one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use serde_json::{Value, json};
use strandline_storage::log::{Block, Isolation, PartitionView};
use strandline_storage::object::CountingStore;

use crate::measure::{Stopwatch, median, microseconds, rounded};
use crate::place::{Place, PlaceArgs};
use crate::server::{Server, create_topic, fill, open_log, without_tail};
use crate::wire::{Connection, topic_name};
use crate::workload::{FIRST_TIMESTAMP, timed_batch};

const TOPIC: &str = "sought";
const LIST_OFFSETS_VERSION: i16 = 7;
/// Lookups of each kind: their blocks all fit the cache, so that a repeated one finds its own.
const LOOKUPS_MAX: usize = 250;

/// Look up times on partitions whose records are all beyond the tail.
#[derive(Clone, Debug, Args)]
pub struct SeekArgs {
    /// Batches of the long partition
    #[arg(long, default_value_t = 100_000)]
    batches: i64,

    /// Batches of the short partition
    #[arg(long, default_value_t = 1_000)]
    short_batches: i64,

    /// Records of each batch
    #[arg(long, default_value_t = 10)]
    records: i64,

    /// Bytes of each record's value
    #[arg(long, default_value_t = 256)]
    record_bytes: usize,

    #[command(flatten)]
    place: PlaceArgs,
}

/// The medians of one partition.
struct Medians {
    blocks: usize,
    first: Duration,
    repeated: Duration,
    list_offsets_first: Duration,
    list_offsets_repeated: Duration,
}

/// What a lookup may ask of the store.
#[derive(Clone, Copy)]
enum Reads {
    AtMostTwo,
    AtMostOne,
    None,
}

pub async fn run(args: &SeekArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let short = measure(&place, "short", args.short_batches, args).await?;
    let long = measure(&place, "long", args.batches, args).await?;
    let ratio = |of: fn(&Medians) -> Duration| rounded(of(&long).as_secs_f64() / of(&short).as_secs_f64());
    Ok(json!({
        "measurement": "seek",
        "records_per_batch": args.records,
        "record_bytes": args.record_bytes,
        "short": partition_report(args.short_batches, &short),
        "long": partition_report(args.batches, &long),
        "ratios": {
            "first": ratio(|medians| medians.first),
            "repeated": ratio(|medians| medians.repeated),
            "list_offsets_first": ratio(|medians| medians.list_offsets_first),
            "list_offsets_repeated": ratio(|medians| medians.list_offsets_repeated),
        },
        "object_reads": { "very_first_at_most": 2, "first_at_most": 1, "repeated": 0 },
    }))
}

fn partition_report(batches: i64, medians: &Medians) -> Value {
    json!({
        "batches": batches,
        "blocks": medians.blocks,
        "first_p50_us": microseconds(medians.first),
        "repeated_p50_us": microseconds(medians.repeated),
        "list_offsets_first_p50_us": microseconds(medians.list_offsets_first),
        "list_offsets_repeated_p50_us": microseconds(medians.list_offsets_repeated),
    })
}

async fn measure(place: &Place, name: &str, batches: i64, args: &SeekArgs) -> Result<Medians> {
    let store = Arc::new(CountingStore::new(place.store(name)?));
    let log = open_log(store.clone(), without_tail()).await?;
    let partition = create_topic(&log, TOPIC, 1).await?;
    let value = vec![b'x'; args.record_bytes];
    let batch = |number| timed_batch(number * args.records, args.records, &value);
    fill(&log, partition, (0..batches).map(batch)).await?;
    log.compact_now().await.context("compacting the log")?;
    let view = log.snapshot().partition(partition).context("the partition was created")?;
    let probe = Probe { store };
    probe.look_up_all(&view, &[0], Reads::AtMostTwo).await?;
    let blocks = blocks_of(&view).await?;
    let (direct, requested) = offsets_to_find(&blocks);

    let first = probe.look_up_all(&view, &direct, Reads::AtMostOne).await?;
    let repeated = probe.look_up_all(&view, &direct, Reads::None).await?;
    let server = Server::start(log).await?;
    let address = server.address;
    let (list_offsets_first, list_offsets_repeated) = tokio::task::spawn_blocking(move || {
        let first = probe.request_all(address, &requested, Reads::AtMostOne)?;
        anyhow::Ok((first, probe.request_all(address, &requested, Reads::None)?))
    })
    .await
    .context("running the client")??;
    server.stop().await?;
    Ok(Medians { blocks: blocks.len(), first, repeated, list_offsets_first, list_offsets_repeated })
}

/// All blocks; their indexes are in memory from then on.
async fn blocks_of(view: &PartitionView) -> Result<Vec<Block>> {
    ensure!(view.tail().len() == 0, "all blocks are compacted");
    let mut blocks = Vec::new();
    for slice in view.slices() {
        blocks.extend_from_slice(&view.slice_blocks(slice).await.context("reading the index of a slice")?);
    }
    Ok(blocks)
}

/// One offset in the middle of each of some blocks, for the log and for the Kafka port: no block is
/// in both, so that each is read for the first time once. The first block has been read.
fn offsets_to_find(blocks: &[Block]) -> (Vec<i64>, Vec<i64>) {
    let step = blocks.len().div_ceil(2 * LOOKUPS_MAX).max(1);
    let unread = blocks.iter().skip(1);
    let middles = unread.step_by(step).map(|block| (block.base_offset + block.next_offset) / 2);
    let (direct, requested): (Vec<_>, Vec<_>) = middles.enumerate().partition(|(index, _)| index % 2 == 0);
    let offsets = |chosen: Vec<(usize, i64)>| chosen.into_iter().map(|(_, offset)| offset).collect();
    (offsets(direct), offsets(requested))
}

/// Looks up times and counts what the store is asked for.
struct Probe {
    store: Arc<CountingStore>,
}

impl Probe {
    async fn look_up_all(&self, view: &PartitionView, offsets: &[i64], reads: Reads) -> Result<Duration> {
        let mut samples = Vec::with_capacity(offsets.len());
        for offset in offsets {
            let before = self.store.counts().gets;
            let watch = Stopwatch::default();
            let found = view.lookup_time(FIRST_TIMESTAMP + offset, Isolation::ReadCommitted).await;
            samples.push(watch.elapsed());
            let found = found.context("looking up a time")?.context("the time has a record")?;
            check(*offset, found.offset)?;
            self.check_reads(before, reads)?;
        }
        Ok(median(samples))
    }

    fn request_all(&self, address: SocketAddr, offsets: &[i64], reads: Reads) -> Result<Duration> {
        let mut connection = Connection::open(address)?;
        let mut samples = Vec::with_capacity(offsets.len());
        for offset in offsets {
            let request = list_offsets(FIRST_TIMESTAMP + offset);
            let before = self.store.counts().gets;
            let watch = Stopwatch::default();
            let found = connection.call(LIST_OFFSETS_VERSION, &request, |response| {
                let mut topics = response.topics.into_iter().flat_map(|topic| topic.partitions);
                topics.next().context("the answer has the partition")
            })?;
            samples.push(watch.elapsed());
            ensure!(found.error_code == 0, "offset {offset} answered error {}", found.error_code);
            check(*offset, found.offset)?;
            self.check_reads(before, reads)?;
        }
        Ok(median(samples))
    }

    fn check_reads(&self, before: u64, reads: Reads) -> Result<()> {
        let objects = self.store.counts().gets - before;
        let max = match reads {
            Reads::AtMostTwo => 2,
            Reads::AtMostOne => 1,
            Reads::None => 0,
        };
        ensure!(objects <= max, "a lookup read {objects} objects, more than {max}");
        Ok(())
    }
}

fn check(expected: i64, found: i64) -> Result<()> {
    ensure!(found == expected, "the lookup found offset {found}, not {expected}");
    Ok(())
}

fn list_offsets(timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![partition]);
    ListOffsetsRequest::default().with_isolation_level(1).with_topics(vec![topic])
}
