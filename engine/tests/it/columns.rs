//! Inference as statements see it: what was just produced, pins, restarts, readers.

use bytes::Bytes;
use strandline_engine::NoticeSeverity;
use strandline_storage::format::{BatchBuilder, BatchOptions};

use crate::fixture::{Fixture, lines, run};

const PINNED: &str = "SELECT \"column\", type, pinned, misfits FROM strandline.columns WHERE topic = 't'";

fn values(count: usize, value: &str) -> impl Iterator<Item = String> {
    std::iter::repeat_n(value.to_owned(), count)
}

#[tokio::test]
async fn a_query_right_after_a_produce_sees_its_columns() {
    let fixture = Fixture::new().await;
    fixture.create("t").await;
    assert_eq!(fixture.query("SELECT * FROM t").await.len(), 0);
    for round in 0..5 {
        fixture.append("t", [format!(r#"{{"c{round}":{round}}}"#)]).await;
        let sql = format!("SELECT c{round} FROM t WHERE c{round} IS NOT NULL");
        assert_eq!(fixture.value(&sql).await, Some(round.to_string()));
    }
}

#[tokio::test]
async fn a_type_is_pinned_after_its_sample_and_survives_a_restart() {
    let fixture = Fixture::new().await;
    fixture.topic("t", values(1_000, r#"{"a":1}"#)).await;
    assert_eq!(lines(&fixture.query(PINNED).await), ["a|bigint|true|0"]);
    fixture.append("t", [r#"{"a":"x","b":true}"#]).await;
    let expected = ["a|bigint|true|1", "b|boolean|false|0"];
    assert_eq!(lines(&fixture.query(PINNED).await), expected);
    let null = "SELECT count(*) FROM t WHERE a IS NULL AND _value ->> 'a' = 'x'";
    assert_eq!(fixture.value(null).await.as_deref(), Some("1"));
    let fixture = fixture.restart().await;
    assert_eq!(lines(&fixture.query(PINNED).await), expected);
}

#[tokio::test]
async fn a_provisional_type_changes_with_the_sample() {
    let fixture = Fixture::new().await;
    fixture.topic("t", [r#"{"a":1}"#]).await;
    assert_eq!(lines(&fixture.query(PINNED).await), ["a|bigint|false|0"]);
    fixture.append("t", [r#"{"a":1.5}"#]).await;
    assert_eq!(lines(&fixture.query(PINNED).await), ["a|double precision|false|0"]);
    fixture.append("t", [r#"{"a":"x"}"#]).await;
    assert_eq!(lines(&fixture.query(PINNED).await), ["a|text|false|0"]);
    assert_eq!(lines(&fixture.query("SELECT a FROM t ORDER BY _offset").await), ["1", "1.5", "x"]);
}

#[tokio::test]
async fn a_declared_format_needs_no_records() {
    let fixture = Fixture::new().await;
    fixture.create_with("bytes", 1, &[("value.format", "bytes")]).await;
    fixture.append("bytes", [b"\x00\xff"]).await;
    assert_eq!(fixture.value("SELECT _value FROM bytes").await.as_deref(), Some("00ff"));
    fixture.create_with("forced_text", 1, &[("value.format", "text")]).await;
    fixture.append("forced_text", [r#"{"a":1}"#]).await;
    let star = run(&fixture.session(), "SELECT * FROM forced_text").await.unwrap();
    assert_eq!(star.columns.last().unwrap().name, "_value");
    fixture.create_with("forced_json", 1, &[("value.format", "json")]).await;
    fixture.append("forced_json", ["x", "y", r#"{"a":1}"#]).await;
    assert_eq!(
        lines(&fixture.query("SELECT a FROM forced_json ORDER BY _offset").await),
        ["NULL", "NULL", "1"]
    );
}

#[tokio::test]
async fn a_member_named_as_a_system_column_is_reached_through_the_value() {
    let fixture = Fixture::new().await;
    fixture.topic("t", [r#"{"ts":"mine","_offset":99,"a":1}"#]).await;
    let sql = "SELECT _offset, _value ->> 'ts', _value ->> '_offset' FROM t";
    assert_eq!(lines(&fixture.query(sql).await), ["0|mine|99"]);
    let noted = "SELECT \"column\" FROM strandline.columns WHERE topic = 't' AND note IS NOT NULL";
    assert_eq!(lines(&fixture.query(noted).await), ["ts", "_offset"]);
}

#[tokio::test]
async fn a_reader_infers_in_memory_and_says_so() {
    let fixture = Fixture::new().await;
    fixture.topic("t", values(10, r#"{"a":1}"#)).await;
    // Nothing has asked for the columns yet, so the reader may find none of them pinned.
    let reader = fixture.reader().await;
    let answer = run(&reader.session(), "SELECT sum(a) FROM t").await.unwrap();
    assert_eq!(lines(&answer.rows), ["10"]);
    let stored =
        reader.log.snapshot().schema(reader.log.snapshot().topic("t").unwrap().id, "columns").is_some();
    match answer.notices.as_slice() {
        [notice] => assert_eq!(notice.severity, NoticeSeverity::Notice),
        [] => assert!(stored, "no notice although nothing was stored"),
        more => panic!("{more:?}"),
    }
}

#[tokio::test]
async fn columns_of_every_partition_are_found() {
    let fixture = Fixture::new().await;
    fixture.create_with("t", 4, &[]).await;
    for partition in 0..4 {
        fixture.append_batch("t", partition, batch(&format!(r#"{{"p{partition}":{partition}}}"#))).await;
    }
    let rows = "SELECT _partition, p0, p1, p2, p3 FROM t ORDER BY _partition";
    let expected = ["0|0|NULL|NULL|NULL", "1|NULL|1|NULL|NULL", "2|NULL|NULL|2|NULL", "3|NULL|NULL|NULL|3"];
    assert_eq!(lines(&fixture.query(rows).await), expected);
    let sql = "SELECT max(p0), max(p1), max(p2), max(p3) FROM t";
    assert_eq!(lines(&fixture.query(sql).await), ["0|1|2|3"]);
}

#[tokio::test]
async fn a_topic_made_again_begins_without_columns() {
    let fixture = Fixture::new().await;
    fixture.topic("t", [r#"{"old":1}"#]).await;
    assert_eq!(fixture.value("SELECT old FROM t").await.as_deref(), Some("1"));
    let topic_id = fixture.log.snapshot().topic("t").unwrap().id;
    fixture.log.delete_topic(topic_id).await.unwrap();
    fixture.topic("t", [r#"{"new":2}"#]).await;
    assert_eq!(fixture.value("SELECT new FROM t").await.as_deref(), Some("2"));
    fixture.error("SELECT old FROM t").await;
}

fn batch(value: &str) -> Bytes {
    let mut batch = BatchBuilder::new(BatchOptions::default());
    batch.append(None, None, Some(value.as_bytes()), &[]).unwrap();
    batch.finish()
}
