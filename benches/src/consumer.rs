//! A consumer as clients are: one request at a time, the next one from where the last answer ended.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use strandline_storage::format::split_batches;

use crate::measure::{Rate, Stopwatch};
use crate::wire::{Connection, topic_name};

const VERSION: i16 = 12;
const MAX_WAIT_MS: i32 = 5000;

/// What to fetch of partition 0.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub address: SocketAddr,
    pub topic: &'static str,
    pub max_bytes: i32,
    pub from: i64,
    /// The offset to stop at, exclusive.
    pub end: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Consumed {
    /// Of whole batches.
    pub rate: Rate,
    pub requests: u64,
}

/// What one answer held.
struct Answer {
    bytes: u64,
    next_offset: i64,
}

/// Fetches all of it, and waits for what is not there yet. Blocks.
pub fn fetch_all(plan: &Plan) -> Result<Consumed> {
    let mut connection = Connection::open(plan.address)?;
    let watch = Stopwatch::default();
    let (mut offset, mut bytes, mut requests) = (plan.from, 0, 0);
    while offset < plan.end {
        let request = request(plan, offset);
        let read = |response| read(response, offset);
        let answer = connection.call(VERSION, &request, read)?;
        (offset, bytes, requests) = (answer.next_offset, bytes + answer.bytes, requests + 1);
    }
    Ok(Consumed { rate: Rate { bytes, elapsed: watch.elapsed() }, requests })
}

fn request(plan: &Plan, offset: i64) -> FetchRequest {
    let partition =
        FetchPartition::default().with_fetch_offset(offset).with_partition_max_bytes(plan.max_bytes);
    let topic = FetchTopic::default().with_topic(topic_name(plan.topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(MAX_WAIT_MS)
        .with_min_bytes(1)
        .with_max_bytes(plan.max_bytes)
        .with_topics(vec![topic])
}

/// Looks at the head of each batch, which is the least that a client has to do.
fn read(response: FetchResponse, offset: i64) -> Result<Answer> {
    let mut topics = response.responses.into_iter().flat_map(|topic| topic.partitions);
    let partition = topics.next().context("the answer has the partition")?;
    ensure!(partition.error_code == 0, "offset {offset} answered error {}", partition.error_code);
    let records = partition.records.unwrap_or_default();
    let mut answer = Answer { bytes: records.len() as u64, next_offset: offset };
    for batch in split_batches(records) {
        let (header, _) = batch.with_context(|| format!("reading batches from offset {offset}"))?;
        let expected = answer.next_offset;
        ensure!(header.base_offset == expected, "offset {} follows, not {expected}", header.base_offset);
        answer.next_offset = header.next_offset();
    }
    ensure!(answer.next_offset > offset, "nothing came at offset {offset}");
    Ok(answer)
}
