//! bytea and record headers: literals beside bytes are bytes, and headers are the json that clients see.

use datafusion::scalar::ScalarValue;
use strandline_engine::ErrorKind;
use strandline_storage::format::{BatchBuilder, BatchOptions};

use crate::fixture::{Fixture, T, lines, run_with};

/// Records with the keys `k` and `\xff`, the values `a ok b` and `\xfeok`, and two headers and none.
async fn records() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.create_with("b", 1, &[("value.format", "bytes"), ("key.format", "bytes")]).await;
    let mut batch = BatchBuilder::new(BatchOptions::default());
    let headers: [(&[u8], Option<&[u8]>); 2] = [(b"trace", Some(b"a\"b")), (b"none", None)];
    batch.append(Some(T), Some(b"k"), Some(b"a ok b"), &headers).unwrap();
    batch.append(Some(T + 1), Some(b"\xff"), Some(b"\xfeok"), &[]).unwrap();
    fixture.append_batch("b", 0, batch.finish()).await;
    fixture
}

#[tokio::test]
async fn a_literal_beside_bytes_is_read_as_bytes() {
    let fixture = records().await;
    for (condition, expected) in [
        (r"_key_bytes = '\x6b'", "0"),
        (r"_key_bytes = 'k'", "0"),
        (r"'\x6b' = _key_bytes", "0"),
        (r"_key_bytes <> '\x6b'", "1"),
        (r"_key_bytes IN ('\x6b', '\xff')", "0,1"),
        (r"_key_bytes NOT IN ('\x6b')", "1"),
        (r"_key_bytes >= '\x6c'", "1"),
        (r"_key_bytes BETWEEN '\x60' AND '\x70'", "0"),
        (r"_key_bytes IS DISTINCT FROM '\x6b'", "1"),
        (r"nullif(_key_bytes, '\x6b') IS NULL", "0"),
        (r"CASE _key_bytes WHEN '\x6b' THEN true ELSE false END", "0"),
        (r"CASE WHEN _offset = 0 THEN _key_bytes ELSE '\x00' END = '\x6b'", "0"),
        (r"greatest(_key_bytes, '\x70') = '\x70'", "0"),
        (r"coalesce(_key_bytes, '\x70') = '\x6b'", "0"),
        (r"coalesce('\x6b', _key_bytes) = 'k'", "0,1"),
        (r"_key_bytes = ANY('{k}')", "0"),
        (r"_value LIKE '%ok%'", "0,1"),
        (r"_value LIKE '_ok'", "1"),
        (r"_value NOT LIKE 'a%'", "1"),
        (r"_value || 'x' = '\xfe6f6b78'", "1"),
        (r"_value || _key_bytes = 'a ok bk'", "0"),
        (r"length(_value) = 3", "1"),
    ] {
        let sql = format!("SELECT _offset FROM b WHERE {condition} ORDER BY _offset");
        assert_eq!(lines(&fixture.query(&sql).await).join(","), expected, "{condition}");
    }
}

#[tokio::test]
async fn bytes_that_are_none_and_operators_that_bytes_lack_are_refused() {
    let fixture = records().await;
    for (condition, kind, message) in [
        (r"_key_bytes = '\xzz'", ErrorKind::InvalidParameterValue, "invalid hexadecimal digit: \"z\""),
        (r"_key_bytes = '\x1'", ErrorKind::InvalidParameterValue, "odd number of digits"),
        (r"_key_bytes = '\9'", ErrorKind::InvalidText, "invalid input syntax for type bytea"),
        (r"_value ILIKE '%ok%'", ErrorKind::UndefinedFunction, "bytea ~~* unknown"),
        (r"_value ~ 'ok'", ErrorKind::UndefinedFunction, "bytea ~ unknown"),
        (r"_value = 5", ErrorKind::UndefinedFunction, "bytea = bigint"),
    ] {
        let error = fixture.error(&format!("SELECT _offset FROM b WHERE {condition}")).await;
        assert_eq!(error.kind, kind, "{condition}: {error}");
        assert!(error.message.contains(message), "{condition}: {error}");
    }
}

#[tokio::test]
async fn bytes_are_encoded_as_postgres_does() {
    let fixture = records().await;
    for (expression, expected) in [
        ("encode(_value, 'base64')", "/m9r"),
        ("encode(_key_bytes, 'base64')", "/w=="),
        (r"encode('\xabbb', 'hex')", "abbb"),
        ("encode(_key_bytes, 'escape')", r"\377"),
        ("encode(decode('/w==', 'base64'), 'hex')", "ff"),
        ("_value || 'x'::text", r"\xfe6f6bx"),
        ("concat(_key_bytes, 'x')", r"\xffx"),
    ] {
        let sql = format!("SELECT {expression} FROM b WHERE _offset = 1");
        assert_eq!(fixture.value(&sql).await.as_deref(), Some(expected), "{expression}");
    }
}

#[tokio::test]
async fn headers_are_the_json_that_clients_see() {
    let fixture = records().await;
    let shown = r#"[{"key": "trace", "value": "a\"b"}, {"key": "none", "value": null}]"#;
    for (expression, first, second) in [
        ("_headers::text", shown, "[]"),
        ("_headers::jsonb", shown, "[]"),
        ("_headers::json", shown, "[]"),
        ("_headers -> 0 ->> 'value'", "a\"b", "NULL"),
        ("_headers ->> 1", r#"{"key": "none", "value": null}"#, "NULL"),
        ("_headers #>> '{0,key}'", "trace", "NULL"),
        ("json_array_length(_headers)", "2", "0"),
        ("jsonb_array_length(_headers::jsonb)", "2", "0"),
        ("header(_headers, 'trace')", "a\"b", "NULL"),
        ("_headers::text LIKE '%trace%'", "true", "false"),
    ] {
        let rows = fixture.query(&format!("SELECT {expression} FROM b ORDER BY _offset")).await;
        assert_eq!(lines(&rows), [first, second], "{expression}");
    }
    let error = fixture.error("SELECT min(_headers) FROM b").await;
    assert_eq!(error.kind, ErrorKind::UndefinedFunction);
    assert_eq!(error.message, "function min(json) does not exist");
}

#[tokio::test]
async fn arrays_of_times_and_bytes_are_looked_through() {
    let fixture = records().await;
    let session = fixture.session();
    let utc = || Some("UTC".into());
    let list = |values: Vec<ScalarValue>| {
        let element = values[0].data_type();
        ScalarValue::List(ScalarValue::new_list(&values, &element, true))
    };
    let micros = |micros| ScalarValue::TimestampMicrosecond(Some(micros), utc());
    let times = list(vec![micros(T * 1_000), micros((T + 1) * 1_000 + 5)]);
    let bytes = list(vec![ScalarValue::Binary(Some(b"\xff".to_vec())), ScalarValue::Binary(None)]);
    for (condition, value, expected) in
        [("ts = ANY($1)", &times, "0"), ("ts <> ALL($1)", &times, "1"), ("_key_bytes = ANY($1)", &bytes, "1")]
    {
        let sql = format!("SELECT _offset FROM b WHERE {condition} ORDER BY _offset");
        let answer = run_with(&session, &sql, vec![value.clone()]).await;
        let answer = answer.unwrap_or_else(|error| panic!("{condition}: {error:?}"));
        assert_eq!(lines(&answer.rows).join(","), expected, "{condition}");
    }
}
