//! A load of produce requests: one request, encoded once, sent again and again with some in flight per
//! connection. The same generator drives the log and the broker that does nothing.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use strandline_storage::seam::{Clock, SystemClock};
use tokio::runtime::Handle;

use crate::measure::{Rate, Stopwatch};
use crate::wire::{self, Connection, topic_name};

/// As many as a producer may have in flight that keeps its order.
pub const IN_FLIGHT_MAX: u64 = 5;
pub const VERSION: i16 = 9;
/// All requests have the same one: answers come in order, and the request is encoded once.
pub const CORRELATION_ID: i32 = 1;
const ACKS_ALL: i16 = -1;
const TIMEOUT_MS: i32 = 60_000;

/// What to produce.
#[derive(Clone, Debug)]
pub struct Load {
    topic: String,
    pub batch: Bytes,
    pub connections: u16,
    /// Requests of one connection that are not answered yet.
    in_flight: u64,
    /// Each of one batch.
    requests_per_connection: u64,
}

impl Load {
    /// A load of at least `bytes`, spread over connections of equal share.
    pub fn new(topic: &str, batch: Bytes, connections: u16, bytes: u64) -> Self {
        let connections = connections.max(1);
        let requests_per_connection = bytes.div_ceil(u64::from(connections) * batch.len() as u64);
        let (topic, in_flight) = (topic.to_owned(), IN_FLIGHT_MAX);
        Self { topic, batch, connections, in_flight, requests_per_connection }
    }

    /// The same load with so many requests of each connection in flight.
    pub fn with_in_flight(self, in_flight: u64) -> Self {
        Self { in_flight, ..self }
    }

    pub fn bytes(&self) -> u64 {
        self.batch.len() as u64 * self.requests_per_connection * u64::from(self.connections)
    }

    fn request(&self, partition: u16) -> Result<Bytes> {
        let data = PartitionProduceData::default()
            .with_index(i32::from(partition))
            .with_records(Some(self.batch.clone()));
        let topic =
            TopicProduceData::default().with_name(topic_name(&self.topic)).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(ACKS_ALL)
            .with_timeout_ms(TIMEOUT_MS)
            .with_topic_data(vec![topic]);
        wire::encode(VERSION, CORRELATION_ID, &request)
    }
}

/// Produces the whole load; ends when everything is acknowledged. Blocks.
pub fn run(address: SocketAddr, load: &Load) -> Result<Rate> {
    let requests: Vec<Bytes> =
        (0..load.connections).map(|partition| load.request(partition)).collect::<Result<_>>()?;
    let count = load.requests_per_connection;
    let watch = Stopwatch::default();
    thread::scope(|scope| {
        let connections: Vec<_> = requests
            .iter()
            .map(|request| {
                scope.spawn(move || drive(Connection::open(address)?, request, count, load.in_flight))
            })
            .collect();
        connections.into_iter().try_for_each(|connection| {
            connection.join().map_err(|_| anyhow!("a thread of the generator panicked"))?
        })
    })?;
    Ok(Rate { bytes: load.bytes(), elapsed: watch.elapsed() })
}

fn drive(mut connection: Connection, request: &[u8], count: u64, in_flight: u64) -> Result<()> {
    for sent in 0..count {
        if sent >= in_flight {
            receive(&mut connection)?;
        }
        connection.send(request)?;
    }
    (0..count.min(in_flight)).try_for_each(|_| receive(&mut connection))
}

/// Sends one request at a time, each when `pace` has passed since the one before was due, until `ends`
/// says so of the number sent; gives how long each took. The time of one that is late because the one
/// before took long counts from when it was due. Blocks; must be called within a runtime.
pub fn latencies(
    address: SocketAddr,
    load: &Load,
    pace: Duration,
    ends: impl Fn(usize) -> bool,
) -> Result<Vec<Duration>> {
    let runtime = Handle::current();
    let mut connection = Connection::open(address)?;
    let request = load.request(0)?;
    let clock = SystemClock::default();
    let (mut samples, mut due) = (Vec::new(), clock.monotonic());
    while !ends(samples.len()) {
        let now = clock.monotonic();
        let begun = if now < due {
            runtime.block_on(clock.sleep(due - now));
            clock.monotonic()
        } else {
            due
        };
        connection.send(&request)?;
        receive(&mut connection)?;
        samples.push(clock.monotonic() - begun);
        // Without a pace, the next one is due when this one is answered.
        due = if pace.is_zero() { clock.monotonic() } else { due + pace };
    }
    Ok(samples)
}

fn receive(connection: &mut Connection) -> Result<()> {
    connection
        .receive::<ProduceRequest, _>(VERSION, CORRELATION_ID, check)
        .context("waiting for an acknowledgement")
}

fn check(response: ProduceResponse) -> Result<()> {
    for partition in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
        let code = partition.error_code;
        ensure!(code == 0, "partition {} answered error {code}", partition.index);
    }
    Ok(())
}
