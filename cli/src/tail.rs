//! `strandline tail`: a topic's records as they come.

use std::borrow::Cow;
use std::io::{self, Write};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use strandline_storage::seam::Seams;

use crate::args::{TailArgs, TailFormat, TailFrom};
use crate::failure::Failure;
use crate::kafka_client::{ConsumedRecord, Consumer, Endpoint, StartAt};

/// `strandline tail`. Ctrl-C is a clean end.
pub async fn run(args: TailArgs) -> Result<(), Failure> {
    tokio::select! {
        result = follow(&args) => result,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.map_err(|error| Failure::failed(format!("cannot wait for Ctrl-C: {error}")))
        }
    }
}

async fn follow(args: &TailArgs) -> Result<(), Failure> {
    let start = start_at(args.from, &Seams::system());
    let mut consumer = Consumer::open(&Endpoint::of(&args.bootstrap)?, &args.topic, start).await?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let mut records = consumer.fetch().await?;
        records.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        print_records(&records, args.format)?;
        left -= records.len() as u64;
    }
    Ok(())
}

fn start_at(from: TailFrom, seams: &Seams) -> StartAt {
    match from {
        TailFrom::Beginning => StartAt::Earliest,
        TailFrom::End => StartAt::Latest,
        TailFrom::Offset(offset) => StartAt::Offset(offset),
        TailFrom::Time(epoch_ms) => StartAt::Timestamp(epoch_ms.max(0)),
        TailFrom::Ago(duration) => {
            StartAt::Timestamp(seams.clock.now_ms().saturating_sub(duration.as_millis()).max(0))
        }
    }
}

fn print_records(records: &[ConsumedRecord], format: TailFormat) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    for record in records {
        match format {
            TailFormat::Value => out.write_all(record.value.as_deref().unwrap_or(b"null"))?,
            TailFormat::Json => write!(out, "{}", as_json(record))?,
        }
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Key and value as text, with U+FFFD for bytes that are none. A JSON value stays a text: it is shown
/// as it was written.
fn as_json(record: &ConsumedRecord) -> Value {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(key, value)| json!({"key": String::from_utf8_lossy(key), "value": text(value.as_ref())}))
        .collect();
    let mut object = Map::new();
    object.insert("ts".to_owned(), json!(record.timestamp.map(rfc3339)));
    object.insert("partition".to_owned(), json!(record.partition));
    object.insert("offset".to_owned(), json!(record.offset));
    object.insert("key".to_owned(), json!(text(record.key.as_ref())));
    object.insert("value".to_owned(), json!(text(record.value.as_ref())));
    object.insert("headers".to_owned(), json!(headers));
    Value::Object(object)
}

fn text(bytes: Option<&Bytes>) -> Option<Cow<'_, str>> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes))
}

fn rfc3339(timestamp_ms: i64) -> String {
    use chrono::{DateTime, SecondsFormat, Utc};
    let time = DateTime::<Utc>::from_timestamp_millis(timestamp_ms);
    time.map_or_else(|| timestamp_ms.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_stay_apart_in_json() {
        let record = ConsumedRecord {
            partition: 1,
            offset: 7,
            timestamp: Some(0),
            key: None,
            value: Some(Bytes::new()),
            headers: vec![(Bytes::from_static(b"h"), None)],
        };
        let expected = json!({
            "ts": "1970-01-01T00:00:00.000Z", "partition": 1, "offset": 7, "key": null, "value": "",
            "headers": [{"key": "h", "value": null}]
        });
        assert_eq!(as_json(&record), expected);
    }
}
