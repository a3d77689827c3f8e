//! Faults that users of other systems reported, each in memory, read back from WAL objects, and from
//! segments.

use datafusion::arrow::array::{Array, AsArray};

use super::fixture::{Fixture, T, TestRecord, bytes, integers, record, row_count, texts};
use crate::format::Compression;
use crate::table::ColumnFormat;

/// Bytes of a key or value, `None` for null.
type Nullable<'a> = Option<&'a [u8]>;
/// Whether a timestamp passes a filter.
type TimeTest = Box<dyn Fn(i64) -> bool>;

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[tokio::test]
async fn tombstones_and_null_keys_are_rows() {
    let written = Fixture::new(1).await;
    let pairs: [(Nullable<'_>, Nullable<'_>); 6] = [
        (Some(b"k1"), Some(b"v")),
        (Some(b"k1"), None),
        (None, Some(b"v")),
        (None, None),
        (Some(b""), Some(b"v")),
        (Some(b"k2"), Some(b"")),
    ];
    let records = pairs.map(|(key, value)| TestRecord {
        timestamp: Some(T),
        key: key.map(<[u8]>::to_vec),
        value: value.map(<[u8]>::to_vec),
    });
    written.append(0, Compression::Lz4, &records).await;
    for fixture in &written.three_ways().await {
        assert_eq!(fixture.integer("SELECT count(*) FROM t").await, Some(6));
        assert_eq!(fixture.integer("SELECT count(*) FROM t WHERE _value IS NULL").await, Some(2));
        assert_eq!(fixture.integer("SELECT count(*) FROM t WHERE length(_value) = 0").await, Some(1));
        assert_eq!(fixture.integer("SELECT count(*) FROM t WHERE _key IS NULL").await, Some(2));
        assert_eq!(fixture.integer("SELECT count(*) FROM t WHERE _key = ''").await, Some(1));
        let rows = fixture.query("SELECT _key, _value, _key_bytes, _value_bytes FROM t").await;
        let keys = pairs.map(|(key, _)| key.map(<[u8]>::to_vec));
        let values = pairs.map(|(_, value)| value.map(<[u8]>::to_vec));
        assert_eq!(bytes(&rows, 2), keys);
        assert_eq!(bytes(&rows, 3), values);
        let as_bytes = |column| -> Vec<_> {
            texts(&rows, column).into_iter().map(|value| value.map(String::into_bytes)).collect()
        };
        assert_eq!((as_bytes(0), as_bytes(1)), (keys.to_vec(), values.to_vec()));
    }
}

#[tokio::test]
async fn headers_keep_null_empty_repeats_and_order() {
    let written = Fixture::new(1).await;
    let headers: [(&[u8], Nullable<'_>); 5] = [
        (b"a", None),
        (b"b", Some(b"")),
        (b"c", Some(b"x")),
        (b"a", Some(b"\xff\x00")),
        (b"\xff", Some(b"y")),
    ];
    written.append_with_headers(0, &headers).await;
    written.append_with_headers(0, &[]).await;
    for fixture in &written.three_ways().await {
        let rows = fixture.query("SELECT _headers FROM t ORDER BY _offset").await;
        let lists: Vec<_> = rows.iter().flat_map(|batch| batch.column(0).as_list::<i32>().iter()).collect();
        let first = lists[0].as_ref().unwrap().as_struct();
        let keys: Vec<_> = first.column(0).as_string::<i32>().iter().flatten().collect();
        let values: Vec<_> = first.column(1).as_binary::<i32>().iter().collect();
        assert_eq!(keys, ["a", "b", "c", "a", "\u{fffd}"]);
        assert_eq!(values, headers.map(|(_, value)| value));
        assert_eq!(lists[1].as_ref().map(|list| list.len()), Some(0));
    }
}

#[tokio::test]
async fn log_append_time_is_the_time_of_every_record_of_a_batch() {
    let written = Fixture::with_configs(1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let old: Vec<_> = [2, 1, 3].map(|timestamp| record(timestamp, "k", "v")).into();
    written.append(0, Compression::Gzip, &old).await;
    for fixture in &written.three_ways().await {
        let rows = fixture.query("SELECT ts, _append_ts FROM t").await;
        let (timestamps, append_times) = (integers(&rows, 0), integers(&rows, 1));
        assert!(timestamps[0] > Some(T), "the records carry the time of the client");
        assert_eq!(timestamps, [timestamps[0]; 3]);
        assert_eq!(timestamps, append_times);
        assert_eq!(fixture.integer("SELECT min(ts) FROM t").await, timestamps[0]);
        assert_eq!(fixture.integer("SELECT count(*) FROM t WHERE ts = _append_ts").await, Some(3));
    }
}

/// Reported as trino#13167, trino#10494.
#[tokio::test]
async fn time_filters_work_before_inside_and_after_the_data() {
    let written = Fixture::new(2).await;
    for batch in 0..3 {
        let records: Vec<_> = (0..10).map(|i| record(T + batch * 10 + i, "k", "v")).collect();
        written.append(0, Compression::Zstd, &records).await;
    }
    let times = || T..T + 30;
    for fixture in &written.three_ways().await {
        for bound in [T - 1, T, T + 1, T + 14, T + 29, T + 30] {
            let literal = format!("arrow_cast({bound}, 'Timestamp(ms, \"UTC\")')");
            let filters: [(String, TimeTest); 5] = [
                (format!("ts < {literal}"), Box::new(move |t| t < bound)),
                (format!("ts <= {literal}"), Box::new(move |t| t <= bound)),
                (format!("ts > {literal}"), Box::new(move |t| t > bound)),
                (format!("ts >= {literal}"), Box::new(move |t| t >= bound)),
                (
                    format!("ts BETWEEN {literal} AND {literal} + INTERVAL '12 milliseconds'"),
                    Box::new(move |t| (bound..=bound + 12).contains(&t)),
                ),
            ];
            for (filter, passes) in filters {
                let expected = times().filter(|t| passes(*t)).count();
                let rows = fixture.query(&format!("SELECT ts FROM t WHERE {filter}")).await;
                assert_eq!(row_count(&rows), expected, "{filter}");
                let rows = fixture.query(&format!("SELECT * FROM t WHERE {filter} LIMIT 10")).await;
                assert_eq!(row_count(&rows), expected.min(10), "{filter}");
                let filter = format!("{filter} AND _partition = 1");
                let rows = fixture.query(&format!("SELECT * FROM t WHERE {filter}")).await;
                assert_eq!(row_count(&rows), 0, "{filter}");
            }
        }
    }
}

#[tokio::test]
async fn empty_topics_and_partitions_answer_at_once() {
    let never_written = Fixture::new(3).await;
    let one_of_three = Fixture::new(3).await;
    one_of_three.append(1, Compression::None, &[record(T, "k", "v")]).await;
    for (fixture, rows) in [(&never_written, 0), (&one_of_three, 1)] {
        for fixture in &fixture.three_ways().await {
            assert_eq!(row_count(&fixture.query("SELECT * FROM t").await), rows);
            assert_eq!(fixture.integer("SELECT count(*) FROM t").await, Some(rows as i64));
            assert_eq!(fixture.integer("SELECT max(ts) FROM t").await, (rows > 0).then_some(T));
            let newest = fixture.query("SELECT ts FROM t ORDER BY ts DESC LIMIT 1").await;
            assert_eq!(row_count(&newest), rows);
            let last = fixture.query("SELECT ts FROM t ORDER BY _partition, _offset DESC LIMIT 1").await;
            assert_eq!(row_count(&last), rows);
        }
    }
}

#[tokio::test]
async fn a_limit_finds_the_only_match_in_the_last_of_many_objects() {
    let written = Fixture::new(1).await;
    for i in 0..20 {
        let records: Vec<_> = (0..10).map(|j| record(T + i * 10 + j, "other", "v")).collect();
        written.append(0, Compression::Snappy, &records).await;
    }
    written.append(0, Compression::Snappy, &[record(T + 5, "x", "found")]).await;
    for fixture in &written.three_ways().await {
        let rows = fixture.query("SELECT _value FROM t WHERE _key = 'x' LIMIT 1").await;
        assert_eq!(texts(&rows, 0), [text("found")]);
        let cut = format!("ts >= arrow_cast({}, 'Timestamp(ms, \"UTC\")')", T + 55);
        let fetched = row_count(&fixture.query(&format!("SELECT ts FROM t WHERE {cut}")).await);
        assert_eq!(fetched, 145);
        let count = fixture.integer(&format!("SELECT count(*) FROM t WHERE {cut}")).await;
        assert_eq!(count, Some(145));
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_spoil_only_themselves() {
    let mut written = Fixture::new(1).await;
    // Long enough to be shared with the batch.
    let good = "x".repeat(5000);
    let mut records = [record(T, "a", &good), record(T, "b", "bad"), record(T, "c", "ok")];
    records[1].value = Some(b"\xab\xbb tail".to_vec());
    records[2].key = Some(b"\xff".to_vec());
    written.append(0, Compression::None, &records).await;
    let lossy = text("\u{fffd}\u{fffd} tail");
    for fixture in &written.three_ways().await {
        let rows = fixture.query("SELECT _value, _value_bytes, _key FROM t").await;
        assert_eq!(texts(&rows, 0), [text(&good), lossy.clone(), text("ok")]);
        assert_eq!(bytes(&rows, 1)[1].as_deref(), Some(&b"\xab\xbb tail"[..]));
        assert_eq!(texts(&rows, 2)[2], text("\u{fffd}"));
        let like = fixture.query("SELECT _value FROM t WHERE _value LIKE '%tail'").await;
        assert_eq!(texts(&like, 0), std::slice::from_ref(&lossy));
    }
    written.key_format = ColumnFormat::Bytes;
    let rows = written.query("SELECT _key FROM t WHERE _key = X'ff'").await;
    assert_eq!(bytes(&rows, 0), [Some(b"\xff".to_vec())]);
}

#[tokio::test]
async fn records_without_a_timestamp_are_null_and_sort_as_such() {
    let written = Fixture::new(1).await;
    let missing = TestRecord { value: Some(b"none".to_vec()), ..TestRecord::default() };
    written.append(0, Compression::None, &[record(T, "k", "a"), missing, record(T - 5, "k", "b")]).await;
    for fixture in &written.three_ways().await {
        let newest = fixture.query("SELECT ts FROM t ORDER BY ts DESC LIMIT 2").await;
        assert_eq!(integers(&newest, 0), [None, Some(T)]);
        let oldest = fixture.query("SELECT ts FROM t ORDER BY ts LIMIT 2").await;
        assert_eq!(integers(&oldest, 0), [Some(T - 5), Some(T)]);
        assert_eq!(fixture.integer("SELECT count(ts) FROM t").await, Some(2));
    }
}
