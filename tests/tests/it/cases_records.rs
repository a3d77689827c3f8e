//! What a record is made of comes back as it was sent: times, keys, values, headers, sizes.

use std::io::Write;
use std::time::Instant;

use strandline_storage::format::Compression;

use crate::raw::{FetchLimits, RawClient, RawRecord, batch, records, seal};
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::{Sql, cells};

/// Bytes that may be null.
type Nullable<'a> = Option<&'a [u8]>;

const CORRUPT_MESSAGE: i16 = 2;
const MESSAGE_TOO_LARGE: i16 = 10;

/// Reported as redpanda#11922, kafka_protocol PR#60.
#[tokio::test(flavor = "multi_thread")]
async fn log_append_time_is_the_time_of_every_record() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let sent = [RawRecord::at(2, "a"), RawRecord::at(3, "b"), RawRecord::at(1, "c")];
    let answer = client.produce("stamped", 0, batch(Compression::Gzip, &sent));
    assert_eq!(answer.error_code, 0);
    let stamp = answer.log_append_time_ms;
    assert!(stamp > 1_700_000_000_000, "{stamp}");
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let data = client.fetch("stamped", 0, FetchLimits::from(0));
        let header = data.records.clone().expect("records were fetched");
        assert_eq!(header[22] & 0x08, 0x08, "attribute bit 3");
        let times: Vec<Option<i64>> = records(&data).iter().map(|record| record.timestamp).collect();
        assert_eq!(times, [Some(stamp); 3]);
        assert_eq!(client.list_offset("stamped", 0, stamp), (0, stamp));
        assert_eq!(client.list_offset("stamped", 0, stamp + 1), (-1, -1));
        let sql = Sql::connect(server).await;
        assert_eq!(sql.text("SELECT count(DISTINCT ts) FROM stamped").await, "1");
        assert_eq!(sql.text("SELECT count(*) FROM stamped WHERE ts > '2023-01-01'").await, "3");
    })
    .await;
}

/// Reported as kafka-backup#155, druid PR#16192.
#[tokio::test(flavor = "multi_thread")]
async fn null_empty_and_text_headers_stay_three_things() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("headers", 1, &[]);
    let headers: Vec<(&[u8], Option<&[u8]>)> =
        vec![(b"a", None), (b"b", Some(b"")), (b"c", Some(b"x")), (b"c", Some(b"y"))];
    let record = RawRecord { headers: headers.clone(), ..RawRecord::at(1_700_000_000_000, "v") };
    client.produce_ok("headers", 0, batch(Compression::None, &[record]));
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let fetched = records(&client.fetch("headers", 0, FetchLimits::from(0)));
        let found: Vec<(&[u8], Option<&[u8]>)> =
            fetched[0].headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        assert_eq!(found, headers);
        let sql = Sql::connect(server).await;
        let values = sql
            .rows("SELECT header(_headers, 'a'), header(_headers, 'b'), header(_headers, 'c') FROM headers")
            .await;
        assert_eq!(values[0][0], None);
        assert_eq!(values[0][1..2], cells(&[""]));
        assert!(values[0][2].is_some(), "{values:?}");
    })
    .await;
}

/// Reported as trino PR#16962, ksql#2186.
#[tokio::test(flavor = "multi_thread")]
async fn tombstones_null_keys_and_empty_texts_are_rows() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("nulls", 1, &[]);
    let pairs: [(Nullable<'_>, Nullable<'_>); 6] = [
        (Some(b"k1"), Some(b"v")),
        (Some(b"k1"), None),
        (None, Some(b"v")),
        (None, None),
        (Some(b""), Some(b"v")),
        (Some(b"k2"), Some(b"")),
    ];
    let sent: Vec<RawRecord<'_>> = pairs
        .iter()
        .map(|(key, value)| RawRecord { timestamp: Some(1), key: *key, value: *value, headers: Vec::new() })
        .collect();
    client.produce_ok("nulls", 0, batch(Compression::Zstd, &sent));
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let fetched = records(&client.fetch("nulls", 0, FetchLimits::from(0)));
        let found: Vec<(Nullable<'_>, Nullable<'_>)> =
            fetched.iter().map(|record| (record.key.as_deref(), record.value.as_deref())).collect();
        assert_eq!(found, pairs);
        let sql = Sql::connect(server).await;
        for (condition, count) in [
            ("true", "6"),
            ("_value IS NULL", "2"),
            ("_key IS NULL", "2"),
            ("_key = ''", "1"),
            ("length(_value) = 0", "1"),
        ] {
            let statement = format!("SELECT count(*) FROM nulls WHERE {condition}");
            assert_eq!(sql.text(&statement).await, count, "{condition}");
        }
    })
    .await;
}

/// Reported as kafka-node#96, pykafka#102, kafka-rest#111.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_larger_than_every_limit_is_fetched_whole() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("large", 1, &[("max.message.bytes", "6000000")]);
    let large = "x".repeat(5_000_000);
    client.produce_ok("large", 0, batch(Compression::None, &[RawRecord::at(1, &large)]));
    client.produce_ok("large", 0, batch(Compression::None, &[RawRecord::at(2, "small")]));
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let limits = FetchLimits { bytes_max: 1024, ..FetchLimits::from(0) };
        let fetched = records(&client.fetch("large", 0, limits));
        assert_eq!(fetched.len(), 1);
        assert_eq!(fetched[0].value.as_ref().map(Vec::len), Some(large.len()));
        let fetched = records(&client.fetch("large", 0, FetchLimits { from: 1, ..limits }));
        assert_eq!(fetched[0].value.as_deref(), Some(b"small".as_slice()));
        let sql = Sql::connect(server).await;
        assert_eq!(sql.text("SELECT length(_value) FROM large WHERE _offset = 0").await, "5000000");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_beyond_the_topics_limit_is_refused_and_takes_no_offset() {
    let server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("limited", 1, &[("max.message.bytes", "1000")]);
    let large = "x".repeat(1000);
    let refused = client.produce("limited", 0, batch(Compression::None, &[RawRecord::at(1, &large)]));
    assert_eq!(refused.error_code, MESSAGE_TOO_LARGE);
    assert_eq!(client.produce_ok("limited", 0, batch(Compression::None, &[RawRecord::at(1, "v")])), 0);
}

/// Reported as nisshi#67, kafka-protocol-rs#79, kafka-backup#152.
#[tokio::test(flavor = "multi_thread")]
async fn both_snappy_dialects_are_read_and_bad_snappy_is_refused() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("snappy", 1, &[]);
    let plain = batch(Compression::None, &[RawRecord::at(1, "framed")]);
    client.produce_ok("snappy", 0, with_snappy_body(&plain, &xerial(&plain[61..])));
    client.produce_ok("snappy", 0, batch(Compression::Snappy, &[RawRecord::at(2, "raw")]));
    let refused = client.produce("snappy", 0, with_snappy_body(&plain, b"\xff\xff not snappy"));
    assert_eq!(refused.error_code, CORRUPT_MESSAGE);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        let values = sql.column("SELECT _value FROM snappy ORDER BY _offset").await;
        assert_eq!(values, cells(&["framed", "raw"]));
    })
    .await;
}

/// The batch with another body, marked as snappy.
fn with_snappy_body(batch: &[u8], body: &[u8]) -> bytes::Bytes {
    let mut changed = [&batch[..61], body].concat();
    let length = i32::try_from(changed.len() - 12).expect("a small batch");
    changed[8..12].copy_from_slice(&length.to_be_bytes());
    changed[22] = 2;
    seal(&mut changed);
    changed.into()
}

/// The framing of the Java client around one block. The block is stored, not compressed: a literal
/// is the whole of it.
fn xerial(body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 60, "one literal of one tag byte");
    let length = u8::try_from(body.len()).expect("it is short");
    let mut block = vec![length, (length - 1) << 2];
    block.extend_from_slice(body);
    let mut framed = Vec::new();
    let header: [&[u8]; 3] = [b"\x82SNAPPY\0", &1_i32.to_be_bytes(), &1_i32.to_be_bytes()];
    for part in header {
        framed.write_all(part).expect("memory takes bytes");
    }
    let block_length = i32::try_from(block.len()).expect("it is short");
    framed.extend_from_slice(&block_length.to_be_bytes());
    framed.extend_from_slice(&block);
    framed
}

/// Reported as nisshi#668, redpanda#1115.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_answers_at_once_with_data_waits_without_and_wakes_for_new() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("waiting", 1, &[]);
    client.produce_ok("waiting", 0, batch(Compression::None, &[RawRecord::at(1, "first")]));
    let (patient, idle) = (FetchLimits { wait_ms: 20_000, ..FetchLimits::from(0) }, FetchLimits::from(1));
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let clock = stopwatch();
        assert_eq!(records(&client.fetch("waiting", 0, patient)).len(), 1);
        assert!(clock() < 10_000, "data were there");
        let clock = stopwatch();
        let end = client.list_offset("waiting", 0, -1).0;
        assert!(records(&client.fetch("waiting", 0, FetchLimits { from: end, ..idle })).is_empty());
        assert!(clock() >= 450, "an empty answer waits for max_wait");
    })
    .await;
    let (address, end) = (server.kafka, RawClient::connect(server.kafka).list_offset("waiting", 0, -1).0);
    let waiting = std::thread::spawn(move || {
        let limits = FetchLimits { from: end, ..patient };
        records(&RawClient::connect(address).fetch("waiting", 0, limits))
    });
    RawClient::connect(server.kafka).produce_ok(
        "waiting",
        0,
        batch(Compression::None, &[RawRecord::at(2, "second")]),
    );
    let woken = waiting.join().expect("the fetch answers");
    assert_eq!(woken[0].value.as_deref(), Some(b"second".as_slice()));
}

/// Milliseconds since now.
fn stopwatch() -> impl Fn() -> u128 {
    #[expect(clippy::disallowed_methods, reason = "a real server answers in real time")]
    let start = Instant::now();
    move || start.elapsed().as_millis()
}
