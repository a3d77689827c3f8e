//! Payloads that do not fit: nothing is lost, nothing spoils the rest of a query.

use strandline_storage::format::Compression;

use crate::raw::{RawClient, RawRecord, batch};
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::{Sql, cells};

const T: i64 = 1_700_000_000_000;

fn produce_values(server: &Server, topic: &str, values: &[&[u8]]) {
    let mut client = RawClient::connect(server.kafka);
    client.create_topic(topic, 1, &[]);
    let records: Vec<RawRecord<'_>> = values
        .iter()
        .map(|value| RawRecord { timestamp: Some(T), value: Some(value), ..RawRecord::default() })
        .collect();
    client.produce_ok(topic, 0, batch(Compression::None, &records));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_field_of_many_types_loses_nothing() {
    let mut server = Server::start();
    let values: [&[u8]; 5] = [
        br#"{"level": false}"#,
        br#"{"level": "false"}"#,
        br#"{"level": 0}"#,
        br#"{"level": {"a": 1}}"#,
        br#"{"level": [1]}"#,
    ];
    produce_values(&server, "polymorphic", &values);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        assert_eq!(sql.text("SELECT count(*) FROM polymorphic").await, "5");
        let texts = sql.column("SELECT _value ->> 'level' FROM polymorphic ORDER BY _offset").await;
        assert_eq!(texts[..3], cells(&["false", "false", "0"]));
        let nested: Vec<String> = texts[3..].iter().flatten().map(|text| text.replace(' ', "")).collect();
        assert_eq!(nested, [r#"{"a":1}"#, "[1]"]);
        let offsets = sql.column("SELECT _offset FROM polymorphic WHERE _value ->> 'level' = '0'").await;
        assert_eq!(offsets, cells(&["2"]));
        assert_eq!(sql.rows("SELECT level FROM polymorphic").await.len(), 5);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_of_any_size_stay_exact() {
    let mut server = Server::start();
    let numbers = [
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "327267367867168100000",
    ];
    let lines: Vec<String> = numbers.iter().map(|number| format!("{{\"n\": {number}}}")).collect();
    let values: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    produce_values(&server, "big", &values);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        assert_eq!(sql.column("SELECT n FROM big ORDER BY _offset").await, cells(&numbers));
        for (offset, number) in numbers.iter().enumerate() {
            let statement = format!("SELECT _offset FROM big WHERE n = {number}");
            assert_eq!(sql.column(&statement).await, cells(&[&offset.to_string()]), "{number}");
        }
        let ordered = sql.column("SELECT _offset FROM big ORDER BY n").await;
        assert_eq!(ordered, cells(&["2", "0", "1", "3", "4"]));
        assert_eq!(sql.text("SELECT sum(n) FROM big").await, sum(&numbers));
    })
    .await;
}

fn sum(numbers: &[&str]) -> String {
    let numbers = numbers.iter().map(|number| number.parse::<i128>().expect("it fits"));
    numbers.sum::<i128>().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_beyond_every_type_keeps_its_row_and_its_text() {
    let mut server = Server::start();
    produce_values(&server, "beyond", &[br#"{"n": 1}"#, br#"{"n": 1e400}"#, br#"{"n": 2}"#]);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        assert_eq!(sql.rows("SELECT n FROM beyond").await.len(), 3);
        let text = sql.text("SELECT _value FROM beyond WHERE _offset = 1").await;
        assert_eq!(text, r#"{"n": 1e400}"#);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_does_not_decode_spoils_no_other() {
    let mut server = Server::start();
    let deep = "[".repeat(100_000);
    let values: [&[u8]; 6] = [
        br#"{"a": 1, "b": "x"}"#,
        b"\xab\xbb",
        br#"{"a": 2, "b": "#,
        deep.as_bytes(),
        b"{\"a\": 4, \"b\": \"nul \\u0000 inside\"}",
        br#"{"a": 3, "b": "y"}"#,
    ];
    produce_values(&server, "spoiled", &values);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        assert_eq!(sql.text("SELECT count(*) FROM spoiled").await, "6");
        let a = sql.column("SELECT a FROM spoiled ORDER BY _offset").await;
        let one = |text: &str| Some(text.to_owned());
        assert_eq!(a, [one("1"), None, None, None, one("4"), one("3")]);
        assert_eq!(sql.rows("SELECT _value, b FROM spoiled").await.len(), 6);
        let bad = sql.column("SELECT _offset FROM spoiled WHERE _error IS NOT NULL ORDER BY _offset").await;
        assert_eq!(bad, cells(&["1", "2", "3"]));
        let found = sql.column("SELECT _offset FROM spoiled WHERE _value LIKE '%\"y\"%'").await;
        assert_eq!(found, cells(&["5"]));
        assert_eq!(sql.text("SELECT _value_bytes FROM spoiled WHERE _offset = 1").await, r"\xabbb");
        let found = sql.client().query("SELECT a FROM spoiled WHERE b = $1", &[&"a\0b"]).await;
        let error = found.expect_err("a text cannot hold NUL");
        assert_eq!(error.code().map(|code| code.code()), Some("22021"));
        assert_eq!(sql.text("SELECT 1").await, "1");
    })
    .await;
}

/// Reported as geomesa#7334, ksql PR#8740, redpanda console PR#2589.
#[tokio::test(flavor = "multi_thread")]
async fn topics_and_partitions_without_records_answer_at_once() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("never", 1, &[]);
    client.create_topic("sparse", 3, &[]);
    client.produce_ok("sparse", 1, batch(Compression::None, &[RawRecord::at(T, "v")]));
    client.create_topic("trimmed", 1, &[]);
    client.produce_ok(
        "trimmed",
        0,
        batch(Compression::None, &[RawRecord::at(T, "v"), RawRecord::at(T, "w")]),
    );
    assert_eq!(client.delete_records("trimmed", 0, 2), 2);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        for (topic, rows) in [("never", 0), ("sparse", 1), ("trimmed", 0)] {
            assert_eq!(sql.text(&format!("SELECT count(*) FROM {topic}")).await, rows.to_string());
            assert_eq!(sql.rows(&format!("SELECT * FROM {topic}")).await.len(), rows);
            let last = sql.rows(&format!("SELECT * FROM {topic} ORDER BY ts DESC LIMIT 1")).await;
            assert_eq!(last.len(), rows);
            let greatest = sql.value(&format!("SELECT max(ts) FROM {topic}")).await;
            assert_eq!(greatest.is_some(), rows > 0, "{topic}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_counts_agree_with_filters() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("filtered", 1, &[]);
    for step in 0..20 {
        let key: &[u8] = if step == 19 { b"x" } else { b"o" };
        let records: Vec<RawRecord<'_>> = (0..10)
            .map(|inner| RawRecord { key: Some(key), ..RawRecord::at(T + step * 10 + inner, "v") })
            .collect();
        client.produce_ok("filtered", 0, batch(Compression::None, &records));
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        assert_eq!(sql.rows("SELECT _offset FROM filtered WHERE _key = 'x' LIMIT 1").await.len(), 1);
        assert_eq!(sql.text("SELECT count(*) FROM filtered WHERE _key = 'x'").await, "10");
        // The bound cuts through a batch.
        let condition = "ts >= '2023-11-14 22:13:20.055Z' AND ts < '2023-11-14 22:13:20.105Z'";
        assert_eq!(sql.text(&format!("SELECT count(*) FROM filtered WHERE {condition}")).await, "50");
        assert_eq!(sql.rows(&format!("SELECT _offset FROM filtered WHERE {condition}")).await.len(), 50);
        let last = sql.column("SELECT _offset FROM filtered ORDER BY _offset DESC LIMIT 3").await;
        assert_eq!(last, cells(&["199", "198", "197"]));
    })
    .await;
}
