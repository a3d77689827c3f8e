//! The same load from librdkafka, the client under most languages: with its own batching, framing
//! and threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use crate::measure::{Rate, Stopwatch};

/// No run waits longer for its last acknowledgement.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_TIMEOUT: Duration = Duration::from_millis(10);
/// How many records are handed over between two looks at what was delivered.
const RECORDS_PER_POLL: u64 = 256;

#[derive(Debug, Default)]
struct Deliveries {
    delivered: AtomicU64,
    failed: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Counting(Arc<Deliveries>);

impl ClientContext for Counting {}

impl ProducerContext for Counting {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.0.delivered } else { &self.0.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Produces records of `record_bytes` until their values are `bytes`; ends when all are delivered.
/// Blocks.
pub fn produce(address: SocketAddr, topic: &str, record_bytes: usize, bytes: u64) -> Result<Rate> {
    let counting = Counting::default();
    let producer: BaseProducer<Counting> = ClientConfig::new()
        .set("bootstrap.servers", address.to_string())
        .set("acks", "all")
        .set("linger.ms", "5")
        .create_with_context(counting.clone())
        .context("making a producer")?;
    let value = vec![b'x'; record_bytes.max(1)];
    let records = bytes.div_ceil(value.len() as u64);
    // The connection is made outside of the measurement.
    producer.client().fetch_metadata(Some(topic), FLUSH_TIMEOUT).context("fetching metadata")?;
    let watch = Stopwatch::default();
    for number in 0..records {
        send(&producer, topic, &value)?;
        if number % RECORDS_PER_POLL == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(FLUSH_TIMEOUT).context("waiting for the last deliveries")?;
    let elapsed = watch.elapsed();
    let (delivered, failed) =
        (counting.0.delivered.load(Ordering::Relaxed), counting.0.failed.load(Ordering::Relaxed));
    ensure!(delivered == records && failed == 0, "{delivered} of {records} delivered, {failed} failed");
    Ok(Rate { bytes: records * value.len() as u64, elapsed })
}

/// Hands a record over; waits while the producer's queue is full.
fn send(producer: &BaseProducer<Counting>, topic: &str, value: &[u8]) -> Result<()> {
    loop {
        let record = BaseRecord::<(), [u8]>::to(topic).payload(value);
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                producer.poll(POLL_TIMEOUT);
            }
            Err((error, _)) => bail!("handing over a record: {error}"),
        }
    }
}
