//! The topic `demo`: generated JSON log events, so that the first SELECT shows rows.
//!
//! Invariant: ten events a second and [`EVENTS_MAX`] in all, counted over restarts by the topic's end.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CreateTopic, CreateTopicError, Log, PartitionAppend};
use strandline_storage::seam::Rng;

const TOPIC: &str = "demo";
const EVENTS_PER_TICK: i64 = 10;
const TICK: Duration = Duration::from_secs(1);
/// What the first look finds: a minute's worth.
const FIRST_EVENTS: i64 = 600;
const EVENTS_MAX: i64 = 100_000;

const SERVICES: [&str; 5] = ["checkout", "search", "login", "catalog", "payments"];
const LEVELS: [&str; 10] =
    ["info", "info", "info", "info", "info", "info", "debug", "debug", "warn", "error"];
const REGIONS: [&str; 3] = ["eu-west", "us-east", "ap-south"];

/// Writes the first events; the rest come from [`run`].
pub async fn prepare(log: &Log) -> anyhow::Result<()> {
    let topic = CreateTopic { name: TOPIC.to_owned(), partitions: 1, configs: BTreeMap::new() };
    match log.create_topic(topic).await {
        Ok(_) => append(log, FIRST_EVENTS).await,
        Err(CreateTopicError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes events until there are enough or the log takes no more.
pub async fn run(log: Log) {
    let clock = log.seams().clock.clone();
    while next_offset(&log).is_some_and(|next| next < EVENTS_MAX) {
        clock.sleep(TICK).await;
        if let Err(error) = append(&log, EVENTS_PER_TICK).await {
            tracing::warn!("no more demo events: {error}");
            return;
        }
    }
}

fn partition(log: &Log) -> Option<TopicPartition> {
    let topic_id = log.snapshot().topic(TOPIC)?.id;
    Some(TopicPartition { topic_id, partition: 0 })
}

fn next_offset(log: &Log) -> Option<i64> {
    let snapshot = log.snapshot();
    Some(snapshot.partition(partition(log)?)?.bounds().log_end_offset)
}

async fn append(log: &Log, count: i64) -> anyhow::Result<()> {
    let topic_partition = partition(log).ok_or_else(|| anyhow::anyhow!("topic \"{TOPIC}\" was deleted"))?;
    let batch = batch(log, count)?;
    for appended in log.append(vec![PartitionAppend { topic_partition, batch }]).await {
        appended?;
    }
    Ok(())
}

/// Events spread evenly over the time up to now.
fn batch(log: &Log, count: i64) -> anyhow::Result<Bytes> {
    let seams = log.seams();
    let now_ms = seams.clock.now_ms();
    let spacing_ms = 1000 / EVENTS_PER_TICK;
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for position in 0..count {
        let timestamp = now_ms - (count - 1 - position) * spacing_ms;
        let event = event(seams.rng.as_ref());
        builder.append(Some(timestamp), Some(event.service.as_bytes()), Some(event.json.as_bytes()), &[])?;
    }
    Ok(builder.finish())
}

struct Event {
    service: &'static str,
    json: String,
}

fn event(rng: &dyn Rng) -> Event {
    let random = rng.bytes16();
    let pick =
        |position: usize, choices: &[&'static str]| choices[usize::from(random[position]) % choices.len()];
    let number = |position: usize| u32::from(u16::from_le_bytes([random[position], random[position + 1]]));
    let (service, level) = (pick(0, &SERVICES), pick(1, &LEVELS));
    let (message, status) = match level {
        "error" => ("request failed", 500),
        "warn" => ("slow request", 200),
        "debug" => ("cache looked up", 200),
        _ => ("request served", 200),
    };
    let duration_ms = f64::from(number(3) % 40_000) / 100.0;
    let json = json!({
        "level": level,
        "service": service,
        "message": message,
        "status": status,
        "duration_ms": duration_ms,
        "user_id": 1000 + number(5) % 500,
        "region": pick(2, &REGIONS),
        "request": {"method": "GET", "path": format!("/{service}/{}", number(7) % 100)},
    });
    Event { service, json: json.to_string() }
}

#[cfg(test)]
mod tests {
    use strandline_storage::seam::SeededRng;

    use super::*;

    #[test]
    fn events_are_json_objects_with_the_fields_that_the_tour_uses() {
        let rng = SeededRng::new(1);
        for _ in 0..100 {
            let event = event(&rng);
            let value: serde_json::Value = serde_json::from_str(&event.json).expect("it is JSON");
            for field in
                ["level", "service", "message", "status", "duration_ms", "user_id", "region", "request"]
            {
                assert!(!value[field].is_null(), "{field} in {}", event.json);
            }
        }
    }
}
