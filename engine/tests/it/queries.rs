//! SELECT, EXPLAIN and SHOW over topics and system tables.

use strandline_engine::ErrorKind;
use strandline_storage::table::ScanCounter;

use crate::fixture::{Fixture, lines, run};

async fn events() -> Fixture {
    let fixture = Fixture::new().await;
    let value =
        |id: i32| format!(r#"{{"id":{id},"level":"{}","ratio":{id}.5}}"#, ["info", "warn"][id as usize % 2]);
    fixture.topic("events", (0..10).map(value)).await;
    fixture
}

#[tokio::test]
async fn a_time_range_selects_its_rows() {
    let fixture = events().await;
    let from = "SELECT _offset, id FROM events WHERE ts >= '2023-11-14T22:13:27Z' ORDER BY ts";
    assert_eq!(lines(&fixture.query(from).await), ["7|7", "8|8", "9|9"]);
    let between = "SELECT count(*) FROM events \
                   WHERE ts BETWEEN '2023-11-14T22:13:21Z' AND '2023-11-14T22:13:23Z'";
    assert_eq!(fixture.value(between).await.as_deref(), Some("3"));
    let none = "SELECT count(*), max(id) FROM events WHERE ts > '2030-01-01T00:00:00Z'";
    assert_eq!(lines(&fixture.query(none).await), ["0|NULL"]);
}

#[tokio::test]
async fn json_columns_have_types_and_operators_reach_the_rest() {
    let fixture = events().await;
    let typed = "SELECT level, sum(id), avg(ratio) FROM events GROUP BY level ORDER BY level";
    assert_eq!(lines(&fixture.query(typed).await), ["info|20|4.5", "warn|25|5.5"]);
    let by_operator = "SELECT _value ->> 'level', (_value ->> 'id')::int + 1 FROM events WHERE _offset = 3";
    assert_eq!(lines(&fixture.query(by_operator).await), ["warn|4"]);
    let missing = "SELECT _value -> 'nope' FROM events WHERE _offset = 3";
    assert_eq!(fixture.value(missing).await, None);
}

#[tokio::test]
async fn nested_json_is_kept_as_written_and_walked_through() {
    let fixture = Fixture::new().await;
    let value = r#"{"request":{"hg.nginx.org":{"1xx" : [10, {"a":"b"}]}},"tags":["x", "y"]}"#;
    fixture.topic("nginx", [value]).await;
    let sql = r#"SELECT request, request -> 'hg.nginx.org' -> '1xx' -> 1 ->> 'a', tags ->> -1,
                 _value #>> '{request,hg.nginx.org,1xx,0}' FROM nginx"#;
    let expected = r#"{"hg.nginx.org":{"1xx" : [10, {"a":"b"}]}}|b|y|10"#;
    assert_eq!(lines(&fixture.query(sql).await), [expected]);
    let grouped = "SELECT tags, count(*) FROM nginx GROUP BY tags";
    assert_eq!(lines(&fixture.query(grouped).await), [r#"["x", "y"]|1"#]);
}

#[tokio::test]
async fn a_star_shows_the_columns_of_a_topic_and_nothing_hidden() {
    let fixture = events().await;
    let session = fixture.session();
    let names = |answer: &crate::fixture::Answer| -> Vec<String> {
        answer.columns.iter().map(|column| column.name.clone()).collect()
    };
    let star = run(&session, "SELECT * FROM events LIMIT 1").await.unwrap();
    assert_eq!(names(&star), ["ts", "_partition", "_offset", "_key", "id", "level", "ratio"]);
    fixture.topic("lines", ["127.0.0.1 - - GET /", "127.0.0.1 - - GET /a"]).await;
    let star = run(&session, "SELECT * FROM lines").await.unwrap();
    assert_eq!(names(&star), ["ts", "_partition", "_offset", "_key", "_value"]);
}

#[tokio::test]
async fn counting_a_topic_reads_no_payload() {
    let fixture = events().await;
    fixture.query("SELECT id FROM events LIMIT 0").await;
    let before = fixture.engine.scan_counters().get(ScanCounter::BlocksRead);
    assert_eq!(fixture.value("SELECT count(*) FROM events").await.as_deref(), Some("10"));
    assert_eq!(fixture.engine.scan_counters().get(ScanCounter::BlocksRead), before);
}

#[tokio::test]
async fn an_empty_topic_has_no_rows_and_one_count() {
    let fixture = Fixture::new().await;
    fixture.create_with("empty", 3, &[]).await;
    assert_eq!(fixture.query("SELECT * FROM empty").await.len(), 0);
    assert_eq!(lines(&fixture.query("SELECT count(*), max(ts) FROM empty").await), ["0|NULL"]);
    assert_eq!(fixture.query("SELECT * FROM empty ORDER BY ts DESC LIMIT 1").await.len(), 0);
}

#[tokio::test]
async fn explain_shows_a_plan_in_one_column() {
    let fixture = events().await;
    let session = fixture.session();
    let plan = run(&session, "EXPLAIN SELECT count(*) FROM events WHERE id > 3").await.unwrap();
    assert_eq!(plan.columns[0].name, "QUERY PLAN");
    assert!(plan.rows.len() > 1, "{:?}", plan.rows);
    let analyzed = run(&session, "EXPLAIN ANALYZE SELECT id FROM events").await.unwrap();
    let text = lines(&analyzed.rows).join("\n");
    assert!(text.contains("Execution Time: ") && text.contains("Rows: 10"), "{text}");
}

#[tokio::test]
async fn system_tables_describe_the_log() {
    let fixture = events().await;
    let topics = "SELECT topic, partitions, value_format, payload_columns, records FROM strandline.topics";
    assert_eq!(lines(&fixture.query(topics).await), ["events|1|json|3|10"]);
    let columns = "SELECT \"column\", type, pinned FROM strandline.columns WHERE topic = 'events'";
    let expected = ["id|bigint|false", "level|text|false", "ratio|double precision|false"];
    assert_eq!(lines(&fixture.query(columns).await), expected);
    let partitions = "SELECT \"partition\", log_start_offset, high_watermark FROM strandline.partitions";
    assert_eq!(lines(&fixture.query(partitions).await), ["0|0|10"]);
    let tail = "SELECT segment_count, tail_blocks, tail_bytes = size_bytes FROM strandline.partitions";
    assert_eq!(lines(&fixture.query(tail).await), ["0|1|true"]);
    let running = "SELECT query FROM strandline.queries";
    assert_eq!(fixture.value(running).await.as_deref(), Some(running));
    let setting = "SELECT setting FROM strandline.settings WHERE name = 'TimeZone'";
    assert_eq!(fixture.value(setting).await.as_deref(), Some("UTC"));
}

#[tokio::test]
async fn system_tables_describe_what_was_compacted() {
    let fixture = events().await;
    let bounds = "SELECT min_ts, max_ts FROM strandline.partitions";
    let before = lines(&fixture.query(bounds).await);
    assert_eq!(before, lines(&fixture.query("SELECT min(ts), max(ts) FROM events").await));
    assert_eq!(fixture.value("SELECT count(*) FROM strandline.segments").await.as_deref(), Some("0"));
    fixture.log.compact_now().await.unwrap();
    assert_eq!(lines(&fixture.query(bounds).await), before);
    let partitions =
        "SELECT segment_count, blocks, tail_blocks, tail_bytes, size_bytes > 0 FROM strandline.partitions";
    assert_eq!(lines(&fixture.query(partitions).await), ["1|1|0|0|true"]);
    let segments = "SELECT topic, \"partition\", base_offset, next_offset, records, blocks, lost, \
                    object LIKE 'shards/0/data/%.seg' FROM strandline.segments";
    assert_eq!(lines(&fixture.query(segments).await), ["events|0|0|10|10|1|false|true"]);
    assert_eq!(lines(&fixture.query("SELECT min_ts, max_ts FROM strandline.segments").await), before);
    let wal = "SELECT shard, seq > 0, objects > 0, size_bytes > 0, tail_bytes, segments, segment_bytes > live_bytes, \
               garbage_segments FROM strandline.wal";
    assert_eq!(lines(&fixture.query(wal).await), ["0|true|true|true|0|1|true|0"]);
}

#[tokio::test]
async fn faults_have_kinds_that_say_what_to_do() {
    let fixture = events().await;
    let cases = [
        ("SELECT nope FROM events", ErrorKind::UndefinedColumn),
        ("SELECT 1 FROM nope", ErrorKind::UndefinedTable),
        ("SELECT nope(1)", ErrorKind::UndefinedFunction),
        ("SELECT 1 / 0", ErrorKind::DivisionByZero),
        ("SELECT (_value ->> 'level')::int FROM events", ErrorKind::InvalidText),
        ("SELEC 1", ErrorKind::Syntax),
        ("INSERT INTO events VALUES (1)", ErrorKind::FeatureNotSupported),
        ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'", ErrorKind::FeatureNotSupported),
        ("SELECT level, id FROM events GROUP BY level", ErrorKind::Grouping),
        ("SHOW no_such_setting", ErrorKind::UndefinedObject),
        ("SELECT current_setting('no_such_setting')", ErrorKind::UndefinedObject),
        ("SELECT set_config('is_superuser', 'on', false)", ErrorKind::ReadOnlySetting),
        ("SELECT 12345678.9::numeric(5,2)", ErrorKind::NumericOutOfRange),
        ("SELECT '99999999999'::int", ErrorKind::NumericOutOfRange),
        ("SELECT '99999999999'::text::int", ErrorKind::NumericOutOfRange),
        ("SELECT 1e30::float8::int8", ErrorKind::NumericOutOfRange),
        ("SELECT (id + 40000)::int2 FROM events", ErrorKind::NumericOutOfRange),
        ("SELECT (SELECT id FROM events)", ErrorKind::Cardinality),
        ("SELECT sum(level) FROM events", ErrorKind::UndefinedFunction),
        ("SELECT id + level FROM events", ErrorKind::UndefinedFunction),
        ("SELECT 1 LIMIT -1", ErrorKind::NegativeLimit),
        ("SELECT 1 OFFSET -1", ErrorKind::NegativeSkip),
        ("SELECT 1 FROM events WHERE count(*) > 1", ErrorKind::Grouping),
        ("SELECT sum(count(*)) FROM events", ErrorKind::Grouping),
        ("SELECT 1 FROM events GROUP BY count(*)", ErrorKind::Grouping),
        ("SELECT 1 FROM events WHERE row_number() OVER () = 1", ErrorKind::Windowing),
    ];
    for (sql, expected) in cases {
        let error = fixture.error(sql).await;
        assert_eq!(error.kind, expected, "{sql}: {error:?}");
        assert!(!error.message.contains("DataFusion"), "{sql}: {error:?}");
    }
}

#[tokio::test]
async fn a_subquery_that_cannot_be_planned_is_named_and_not_printed() {
    let fixture = events().await;
    for sql in [
        "SELECT id, exists(SELECT 1 FROM events u WHERE u.id = e.id) FROM events e",
        "SELECT (SELECT count(*) FROM events u WHERE u.id < e.id) FROM events e",
        "SELECT id FROM events e ORDER BY exists(SELECT 1 FROM events u WHERE u.id = e.id)",
    ] {
        let error = fixture.error(sql).await;
        assert_eq!(error.kind, ErrorKind::FeatureNotSupported, "{sql}: {error:?}");
        assert_eq!(error.message, "a subquery of this kind in this place is not supported", "{sql}");
    }
}

#[tokio::test]
async fn json_values_tell_their_type_and_length() {
    let fixture = Fixture::new().await;
    let values = [r#"{"v":[1,2,3]}"#, r#"{"v":{"a":1}}"#, r#"{"v":"x"}"#, r#"{"v":1}"#, r#"{"v":null}"#];
    fixture.topic("t", values).await;
    let sql = "SELECT json_typeof(_value -> 'v'), json_array_length(_value -> 'v'), \
               jsonb_typeof(_value -> 'none') FROM t ORDER BY _offset";
    let expected =
        ["array|3|NULL", "object|NULL|NULL", "string|NULL|NULL", "number|NULL|NULL", "null|NULL|NULL"];
    assert_eq!(lines(&fixture.query(sql).await), expected);
    let constant = "SELECT json_typeof('true'), json_array_length('[]'), jsonb_array_length('[[],[]]')";
    assert_eq!(lines(&fixture.query(constant).await), ["boolean|0|2"]);
}

#[tokio::test]
async fn a_file_is_no_table() {
    let fixture = events().await;
    for sql in ["SELECT * FROM '/etc/passwd'", "SELECT * FROM \"/etc/passwd\"", "COPY events TO '/tmp/x'"] {
        fixture.error(sql).await;
    }
}
